"""The demo, run in a folder of its own where the user's settings point at servers that listen."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Every warning is an error, and every use of a socket that names a host is written down. uvloop
# would hide its sockets from the interpreter's audit.
WATCHED = """
import json, sys
sys.modules["uvloop"] = None
EVENTS = {"socket.bind": 1, "socket.connect": 1, "socket.sendto": 1, "socket.getaddrinfo": 0,
          "socket.gethostbyname": 0}
hosts = open(sys.argv[1], "a", buffering=1)
def watch(event, args):
    if event in EVENTS:
        place = args[EVENTS[event]]
        print(json.dumps(place[0] if isinstance(place, tuple) else str(place)), file=hosts)
sys.addaudithook(watch)
from mailer.demo import main
sys.exit(main(provider=sys.argv[2]))
"""

STRICT = [sys.executable, "-X", "dev", "-W", "error"]

TRAPS = 4


@dataclass(frozen=True, slots=True)
class Shown:
    """A demo that ran in a folder of its own, with a hostile environment."""

    status: int
    out: str
    err: str
    cwd: Path
    temp: Path
    hosts: list[str]
    knocks: int

    def database(self) -> sqlite3.Connection:
        """Open what the demo left."""
        (path,) = self.temp.glob("mailer-demo-*/mailer.db")
        return sqlite3.connect(path)

    def rows(self, query: str) -> list[Any]:
        """Read from what the demo left."""
        with closing(self.database()) as database:
            return database.execute(query).fetchall()

    def log(self) -> str:
        """Read what the worker logged."""
        (log,) = self.temp.glob("mailer-demo-*/worker.log")
        return log.read_text()


def environment(temp: Path, **more: str) -> dict[str, str]:
    """Return an environment in which our package is found, and temporary folders are in `temp`."""
    root = Path(__file__).parents[2]
    return {"PATH": os.defpath, "TMPDIR": str(temp), "PYTHONPATH": str(root), **more}


def show(provider: str, base: Path, hostile: Callable[[list[int]], Mapping[str, str]]) -> Shown:
    """Run a demo to its end; `hostile` makes the user's environment of the ports of traps."""
    cwd, temp, hosts = base / "cwd", base / "temp", base / "hosts"
    cwd.mkdir()
    temp.mkdir()
    (cwd / ".env").write_text("MAILER_BATCH=nonsense\n")
    with ExitStack() as stack:
        traps = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(TRAPS)]
        run = subprocess.run(
            [*STRICT, "-c", WATCHED, str(hosts), provider],
            cwd=cwd,
            env=environment(temp, **hostile([each.getsockname()[1] for each in traps])),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        knocks = sum(_was_knocked_at(each) for each in traps)
    places = [json.loads(line) for line in hosts.read_text().splitlines()]
    return Shown(run.returncode, run.stdout, run.stderr, cwd, temp, places, knocks)


def _was_knocked_at(trap: socket.socket) -> bool:
    trap.setblocking(False)
    try:
        connection, _ = trap.accept()
    except BlockingIOError:
        return False
    connection.close()
    return True
