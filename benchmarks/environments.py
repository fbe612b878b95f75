"""An environment of its own for each peer, made once with pip from pinned and hashed packages."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.crew import Failed
from benchmarks.sink import CACHE

_PEERS = Path(__file__).parent / "peers"
_LAST_LINES = 3


def python_for(requirements: str | None) -> Path:
    """The interpreter that has these packages; made now if it is not there. Raises Failed."""
    if requirements is None:
        return Path(sys.executable)
    pins = _PEERS / requirements
    folder = CACHE / f"{pins.stem}-{hashlib.sha256(pins.read_bytes()).hexdigest()[:12]}"
    complete, python = folder / ".complete", folder / "bin/python"
    if not complete.exists():
        CACHE.mkdir(mode=0o755, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        print(f"making an environment for {pins.stem}", file=sys.stderr)
        _run([sys.executable, "-m", "venv", str(folder)])
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*install, "--require-hashes", "--only-binary", ":all:", "-r", str(pins)])
        complete.touch()
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [each for each in (done.stdout + done.stderr).splitlines() if each.strip()]
        raise Failed("does not install: " + " / ".join(said[-_LAST_LINES:]))
