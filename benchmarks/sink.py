"""Postfix's smtp-sink, which all contestants send to, and how many messages it has taken."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mailer.prove.kit.processes import free_port

CACHE = Path(tempfile.gettempdir()) / "mailer-benchmarks"
"""Where what is fetched for a measurement is kept for the next one."""

_UP_SECONDS = 5.0
_COUNTER = re.compile(rb"mesg=(\d+)\r")
_COUNTER_OCTETS = 200


@dataclass(frozen=True)
class Sink:
    """A running smtp-sink; it writes its counters to the file after every message."""

    port: int
    pid: int
    counters: Path

    def count(self) -> int:
        """How many messages it has accepted since it started."""
        with self.counters.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _COUNTER_OCTETS))
            found = _COUNTER.findall(file.read())
        return int(found[-1]) if found else 0


@contextmanager
def smtp_sink(connections: int = 512) -> Iterator[Sink]:
    """Run smtp-sink for the block."""
    program, libraries = _find()
    port = free_port()
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    with tempfile.NamedTemporaryFile(prefix="smtp-sink-") as counters:
        process = subprocess.Popen(
            [program, "-c", *user, f"127.0.0.1:{port}", str(connections)],
            env={**os.environ, "LD_LIBRARY_PATH": libraries},
            stdout=counters,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(port)
            yield Sink(port, process.pid, Path(counters.name))
        finally:
            process.terminate()
            process.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _UP_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise SystemExit("smtp-sink did not come up")


def _find() -> tuple[str, str]:
    for given in (os.environ.get("SMTP_SINK"), shutil.which("smtp-sink"), "/usr/sbin/smtp-sink"):
        if given and Path(given).exists():
            return given, os.environ.get("LD_LIBRARY_PATH", "")
    unpacked = CACHE / "usr/sbin/smtp-sink"
    if not unpacked.exists():
        _unpack_debian_package()
    return str(unpacked), str(CACHE / "usr/lib/postfix")


def _unpack_debian_package() -> None:
    """Fetch Debian's postfix and unpack it without installing: nothing is configured or started."""
    CACHE.mkdir(mode=0o755, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", "postfix"], cwd=CACHE, check=True)
        (package,) = CACHE.glob("postfix_*.deb")
        subprocess.run(["dpkg", "-x", package, CACHE], check=True)
    except (OSError, subprocess.CalledProcessError, ValueError):
        raise SystemExit(
            "no smtp-sink: install Debian's postfix, or name it by SMTP_SINK"
        ) from None
