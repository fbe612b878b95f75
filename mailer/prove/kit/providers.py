"""The two providers of a run and their logs: what stands there was accepted, whoever denies it."""

import json
import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mailer import fake_ses
from mailer.prove.kit.smtp_script import Acts
from mailer.prove.kit.smtp_server import Conversation, SmtpServer
from mailer.prove.kit.smtp_sink import Sink

_SLOW_STEPS = frozenset({"rcpt", "data", "dot"})
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.002, 0.020
_NO_LIMIT = {"max_send_rate": 20_000.0, "max_24_hour_send": -1.0, "slow_seconds": 0.2}
_SES_BUSY_SHARE = 0.1


Run = Callable[[Path, int], AbstractContextManager[int]]
"""Runs a provider that logs to this file, by this seed; gives its port."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """One line of a provider's log: one message that it took."""

    outbox_id: int
    recipients: tuple[str, ...]


def read_log(path: Path) -> list[Accepted]:
    """Return all that a log states, in order; a last line without its end was never written."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    return [Accepted(int(each["outbox_id"]), tuple(each["recipients"])) for each in entries]


class _Dawdling(Sink):
    """Takes a little time at each step, so that faults meet open calls."""

    def __init__(self, log: Path, seed: int) -> None:
        super().__init__(log)
        self._dice = random.Random(seed)
        self._pause = threading.Event()

    def respond(self, step: str, line: bytes, talk: Conversation) -> Acts:
        """Answer as the sink does, later."""
        if step in _SLOW_STEPS:
            self._pause.wait(self._dice.uniform(_SHORTEST_SECONDS, _LONGEST_SECONDS))
        return super().respond(step, line, talk)


@contextmanager
def smtp(log: Path, seed: int) -> Iterator[int]:
    """Run an SMTP server that takes mail by the recipients' tempers, and give its port."""
    sink = _Dawdling(log, seed)
    try:
        with SmtpServer(lambda _: sink) as server:
            yield server.port
    finally:
        sink.close()


@contextmanager
def ses(log: Path, seed: int) -> Iterator[int]:
    """Run a fake SES that throttles now and then, and give its port."""
    # A client that is killed in mid-request is nothing that a terminal has to be told.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
    with fake_ses.running(log=log) as fake:
        fake.set_state(seed=seed, throttle_share=_SES_BUSY_SHARE, **_NO_LIMIT)
        yield int(fake.url.rpartition(":")[2])
