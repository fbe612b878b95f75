"""SMTP sinks of the system tests: one that dawdles, as a process; one with gates, as a thread.

Run as `python -m tests.system.sink --log FILE --seed N`; the first line it prints is its port.
Both log a message before they answer its final dot.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mailer.prove.kit.smtp_server import STALL, Acts, Conversation, SmtpServer
from mailer.prove.kit.smtp_sink import Sink
from mailer.prove.kit.waiting import eventually

ROOT = Path(__file__).parents[2]
SHORTEST_SECONDS, LONGEST_SECONDS = 0.005, 0.060
_SLOW_STEPS = frozenset({"mail", "data", "dot"})
_GATE_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """One line of a sink's log: one message that it took."""

    outbox_id: int
    attempt: int
    recipients: tuple[str, ...]


class SinkLog:
    """What a sink has accepted, by its own account."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def __len__(self) -> int:
        return self.path.read_bytes().count(b"\n")

    def accepted(self) -> list[Accepted]:
        """Return all messages taken so far, in order."""
        return [_accepted(line) for line in self.path.read_text().splitlines()]

    def times(self) -> Counter[int]:
        """Return how often each message was taken, by outbox id."""
        return Counter(each.outbox_id for each in self.accepted())

    def wait_for(self, count: int) -> None:
        """Return once at least `count` messages have been taken."""
        eventually(lambda: len(self) >= count, f"{count} messages in the sink's log")


def _accepted(line: str) -> Accepted:
    entry = json.loads(line)
    return Accepted(int(entry["outbox_id"]), int(entry["attempt"]), tuple(entry["recipients"]))


class DawdlingSink(Sink):
    """Takes a random time before it logs and before it answers, so that a kill meets open calls."""

    def __init__(self, log: Path, seed: int) -> None:
        super().__init__(log)
        self._dice = random.Random(seed)

    def respond(self, step: str, line: bytes, talk: Conversation) -> Acts:
        """Answer as the sink does, later."""
        self._dawdle(step)
        acts = super().respond(step, line, talk)
        self._dawdle(step)
        return acts

    def _dawdle(self, step: str) -> None:
        if step in _SLOW_STEPS:
            time.sleep(self._dice.uniform(SHORTEST_SECONDS, LONGEST_SECONDS))


class Gate:
    """A step at which conversations wait until the test lets them pass."""

    def __init__(self, *, is_open: bool) -> None:
        self._changed = threading.Condition()
        self._is_open = is_open
        self._arrived = 0

    def pass_through(self) -> None:
        """Wait until the gate is open."""
        with self._changed:
            self._arrived += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_open, _GATE_SECONDS)

    def wait_for(self, count: int) -> None:
        """Return once `count` conversations have come to the gate."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._arrived >= count, _GATE_SECONDS)
        assert came, f"{count} calls never came to the gate; {self._arrived} did"

    def open(self) -> None:
        """Let everybody pass from now on."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()


class GatedSink(Sink):
    """Holds its answers to `DATA` or to the final dot back until the test opens the gate.

    A message is in the log when its call comes to the gate at the dot, and in `contents` as it
    was before.
    """

    def __init__(self, log: SinkLog, *, closed: Sequence[str] = ()) -> None:
        super().__init__(log.path)
        self.log = log
        self.contents: list[bytes] = []
        self.gates = {step: Gate(is_open=step not in closed) for step in ("data", "dot")}
        self.port = 0

    def respond(self, step: str, line: bytes, talk: Conversation) -> Acts:
        """Answer as the sink does, once the step's gate is open."""
        if step == "dot":
            self.contents.append(bytes(talk.record.contents[-1]))
        acts = super().respond(step, line, talk)
        if step in self.gates and acts is not STALL:
            self.gates[step].pass_through()
        return acts


GatedSinkKind = TypeVar("GatedSinkKind", bound=GatedSink)


@contextmanager
def gated_sink(log: SinkLog, *, closed: Sequence[str] = ()) -> Iterator[GatedSink]:
    """Run a gated sink in a thread; the gates named are closed at first."""
    with served(GatedSink(log, closed=closed)) as sink:
        yield sink


@contextmanager
def served(sink: GatedSinkKind) -> Iterator[GatedSinkKind]:
    """Run this sink in a thread, and open its gates at the end."""
    with SmtpServer(lambda _: sink) as server:
        sink.port = server.port
        try:
            yield sink
        finally:
            for gate in sink.gates.values():
                gate.open()
    sink.close()


@contextmanager
def dawdling_sink(log: SinkLog, seed: int) -> Iterator[int]:
    """Run a dawdling sink as a process and give its port."""
    command = [sys.executable, "-m", "tests.system.sink", "--log", str(log.path)]
    with subprocess.Popen(
        [*command, "--seed", str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def main() -> None:
    """Run the dawdling sink until its input is closed, which happens however the tests end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sink = DawdlingSink(given.log, given.seed)
    with SmtpServer(lambda _: sink) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
