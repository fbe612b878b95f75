"""CPU time by process tree, and the sink that all contestants send to."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.processes import free_port

_CACHE = Path(tempfile.gettempdir()) / "mailer-benchmarks"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its descendants, ended ones included."""
    root = psutil.Process(pid)
    total = 0.0
    for each in [root, *root.children(recursive=True)]:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def rss_megabytes(pid: int) -> float:
    """The largest resident memory among a process's descendants."""
    children = psutil.Process(pid).children(recursive=True)
    return max((each.memory_info().rss for each in children), default=0) / 1e6


@contextmanager
def smtp_sink(connections: int = 512) -> Iterator[tuple[int, int]]:
    """Run Postfix's smtp-sink; yields its port and its process id."""
    program, libraries = _find_sink()
    port = free_port()
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    sink = subprocess.Popen(
        [program, *user, f"127.0.0.1:{port}", str(connections)],
        env={**os.environ, "LD_LIBRARY_PATH": libraries},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield port, sink.pid
    finally:
        sink.terminate()
        sink.wait()


def _wait_for(port: int) -> None:
    import socket
    import time

    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise SystemExit("smtp-sink did not come up")


def _find_sink() -> tuple[str, str]:
    for given in (os.environ.get("SMTP_SINK"), shutil.which("smtp-sink"), "/usr/sbin/smtp-sink"):
        if given and Path(given).exists():
            return given, os.environ.get("LD_LIBRARY_PATH", "")
    unpacked = _CACHE / "usr/sbin/smtp-sink"
    if not unpacked.exists():
        _unpack_debian_package()
    return str(unpacked), str(_CACHE / "usr/lib/postfix")


def _unpack_debian_package() -> None:
    """Fetch Debian's postfix and unpack it without installing: nothing is configured or started."""
    _CACHE.mkdir(mode=0o755, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", "postfix"], cwd=_CACHE, check=True)
        (package,) = _CACHE.glob("postfix_*.deb")
        subprocess.run(["dpkg", "-x", package, _CACHE], check=True)
    except (OSError, subprocess.CalledProcessError, ValueError):
        raise SystemExit(
            "no smtp-sink: install Debian's postfix, or name it by SMTP_SINK"
        ) from None
