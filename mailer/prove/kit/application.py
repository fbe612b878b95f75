"""An application: each line of its input is one transaction, committed or rolled back.

Run as `python -m mailer.prove.kit.application` with the settings of an application. For each line
that is done it writes one of its own. A transaction that the database did not take is tried again,
as a web framework's caller would: the dedup keys see to it that nothing is doubled.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import mailer
from mailer.database import AWAY, Database, DatabaseError
from mailer.prove.kit.fleet import process_environment
from mailer.prove.kit.intents import INSERT_PLAIN
from mailer.prove.kit.waiting import InVain, eventually

Message = Mapping[str, Any]

PATIENCE_SECONDS = 30.0
_AGAIN_SECONDS = 0.1
_END_SECONDS = 5.0


class SecondThoughts(Exception):
    """The business change is not made after all."""


class Application:
    """An application that runs elsewhere."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._asked = 0
        self._done = 0
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def ask(self, messages: Sequence[Message], *, commits: bool = True) -> None:
        """Have one transaction carried out, and do not wait for it."""
        stdin = self._process.stdin
        if stdin is None:
            raise InVain("the application has no input")
        stdin.write(json.dumps({"commits": commits, "messages": messages}) + "\n")
        stdin.flush()
        self._asked += 1

    def wait(self) -> None:
        """Return once all that was asked for is done."""
        eventually(
            lambda: self._done >= self._asked or self._process.poll() is not None,
            "the application commits",
            patience_seconds=PATIENCE_SECONDS + 10,
        )
        if self._done < self._asked:
            raise InVain("the application ended before it had committed")

    def close(self) -> None:
        """End its input, and it; what it has not begun is not begun any more."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        # Its output may only be closed when nobody reads it any more.
        self._listener.join()

    def _listen(self) -> None:
        for _ in self._process.stdout or ():
            self._done += 1


@contextmanager
def application(variables: Mapping[str, str], folder: Path) -> Iterator[Application]:
    """Run an application for the length of the block."""
    with (
        (folder / "application.log").open("ab") as log,
        subprocess.Popen(
            [sys.executable, "-m", "mailer.prove.kit.application"],
            env=process_environment(variables),
            cwd=folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as process,
    ):
        running = Application(process)
        try:
            yield running
        finally:
            running.close()


def main() -> None:
    """Carry out the transactions of the input."""
    database = mailer.connect(os.environ["DATABASE_URL"])
    for line in sys.stdin:
        wanted = json.loads(line)
        _insist(database, wanted["messages"], commits=wanted["commits"])
        sys.stdout.write("done\n")
        sys.stdout.flush()
    database.close()


def _insist(database: Database, messages: Sequence[Message], *, commits: bool) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / _AGAIN_SECONDS)):
        try:
            _carry_out(database, messages, commits=commits)
        except (*AWAY, DatabaseError):
            with suppress(*AWAY):
                database.close()
            pause.wait(_AGAIN_SECONDS)
        else:
            return
    sys.exit("the database never took a transaction")


def _carry_out(database: Database, messages: Sequence[Message], *, commits: bool) -> None:
    with suppress(SecondThoughts), database.atomic():
        for message in messages:
            if "plain" in message:
                database.execute_sql(INSERT_PLAIN, message["plain"])
            else:
                mailer.enqueue(**message)
        if not commits:
            raise SecondThoughts


if __name__ == "__main__":
    main()
