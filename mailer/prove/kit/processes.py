"""A server process of our own: started, heard out until it is ready, and never left behind."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from typing import IO, Self

import psutil

from mailer.prove.kit.binaries import Account

START_TRIES = 3
READY_SECONDS = 30.0
STOP_SECONDS = 15.0

# Below the range from which the system gives ports to clients: a client that knocks at a server
# which is down could otherwise be given that very port, and connect to itself.
_PORTS = range(20_000, 32_000)

# Runs until our end of its input is closed, which happens however this process ends. The last
# line of its input is the server that runs at that time, or empty.
_KEEPER = """
while read -r pid; do last=$pid; done
[ -n "$last" ] && kill -QUIT "$last" && kill -CONT "$last"
for _ in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf -- "$1" && break
  sleep 0.5
done
[ -z "$last" ] || kill -KILL "$last"
"""


class StartFailed(Exception):
    """The server ended, or fell silent, before it was ready; the text is what it said last."""


def free_port() -> int:
    """Return a loopback port that nobody listens on."""
    for port in random.SystemRandom().sample(_PORTS, k=200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise StartFailed("no free port between 20000 and 32000")


class Home:
    """A server's own folder, removed with whatever still runs in it when this process ends."""

    def __init__(self, account: Account | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="mailer-kit-")).resolve()
        if account is not None:
            os.chown(self.path, account.uid, account.gid)
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "keeper", str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
            bufsize=1,
        )

    def occupied_by(self, pid: int | None) -> None:
        """Tell the keeper which process to end; None: there is none."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(f"{pid or ''}\n")

    def remove(self) -> None:
        """Remove the folder; nothing runs in it any more."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._keeper.communicate(timeout=STOP_SECONDS)


class ServerProcess:
    """One run of a server program."""

    def __init__(
        self, command: list[str], home: Home, *, ready: str, account: Account | None = None
    ) -> None:
        self._home = home
        self._said: deque[str] = deque(maxlen=50)
        self._ready = threading.Event()
        self._over = threading.Event()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=home.path,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            start_new_session=True,
            text=True,
            errors="replace",
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
        assert self._process.stdout is not None
        self._listener = threading.Thread(
            target=self._listen, args=(self._process.stdout, ready), daemon=True
        )
        self._listener.start()
        home.occupied_by(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> None:
        """Return as soon as the server says that it is ready; raises StartFailed."""
        if self._ready.wait(READY_SECONDS) and not self._over.is_set():
            return
        self.kill()
        raise StartFailed("\n".join(self._said))

    def stop(self, signal_number: int) -> None:
        """Ask the server to end, and wait until it has."""
        self._process.send_signal(signal_number)
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def kill(self) -> None:
        """End the server and all its processes at once, as a crash would."""
        family = [self._process.pid, *self._descendants()]
        gone = [psutil.Process(pid) for pid in family if psutil.pid_exists(pid)]
        for each in gone:
            _kill(each)
        self._process.wait(STOP_SECONDS)
        psutil.wait_procs(gone, STOP_SECONDS)
        self._close()

    def _descendants(self) -> list[int]:
        try:
            return [each.pid for each in psutil.Process(self.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _listen(self, output: IO[str], ready: str) -> None:
        for line in output:
            self._said.append(line.rstrip())
            if ready in line:
                self._ready.set()
        self._over.set()
        self._ready.set()

    def _close(self) -> None:
        self._listener.join(STOP_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._home.occupied_by(None)


class OwnServer(ABC):
    """A server of our own, on a loopback port that it keeps from start to stop."""

    stop_signal = signal.SIGTERM

    def __init__(self, home: Home) -> None:
        self._home = home
        self._process: ServerProcess | None = None
        self._settle_on(free_port())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of the server's first process."""
        return self._running().pid

    def start(self) -> None:
        """Start, and return once connections are accepted; raises StartFailed."""
        for _ in range(START_TRIES - 1):
            try:
                return self.restart()
            except StartFailed as failure:
                if "in use" not in str(failure):
                    raise
                self._settle_on(free_port())
        return self.restart()

    def restart(self) -> None:
        """Start again after `kill` or `shut_down`, on the same port."""
        process = self._launch()
        process.wait_ready()
        self._process = process

    def kill(self) -> None:
        """End all of the server's processes at once, as a power cut would."""
        self._running().kill()
        self._process = None

    def shut_off(self) -> None:
        """Be killed, if it runs."""
        if self._process is not None:
            self.kill()

    def come_back(self) -> None:
        """Run again, if it does not."""
        if self._process is None:
            self.restart()

    def shut_down(self) -> None:
        """Stop in good order, to be started again."""
        self._running().stop(self.stop_signal)
        self._process = None

    def stop(self) -> None:
        """Stop for good and remove the server's folder."""
        if self._process is not None:
            self.shut_down()
        self._home.remove()

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise StartFailed("the server does not run: start() or restart() it first")
        return self._process

    @abstractmethod
    def _settle_on(self, port: int) -> None:
        """Use this port from now on."""

    @abstractmethod
    def _launch(self) -> ServerProcess:
        """Start the program."""


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
