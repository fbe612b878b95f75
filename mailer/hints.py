"""The hint after a commit: "there may be something due". Losing it costs latency and nothing else.

It carries no mail and no address. A thread of its own sends it, so that an application never waits
for a broker that is down or slow, and many commits in a row become one hint.
"""

import contextlib
import importlib
import os
import threading
from collections.abc import Callable

Nudge = Callable[[], None]
"""Says that something may be due; never raises and never waits."""

DELIVER = "deliver"
"""The actor that sends what is due."""

INTERPRET = "interpret"
"""The actor that reads stored events."""

_LAST_WORD_SECONDS = 2.0


def silent() -> None:
    """The nudge where no broker is configured: the poll finds everything."""


class Hinter:
    """Sends hints to `actor` through the broker at `redis_url`, from one daemon thread."""

    _thread: threading.Thread | None

    def __init__(self, redis_url: str, actor: str = DELIVER) -> None:
        self._redis_url = redis_url
        self._actor = actor
        # What the broker's client needs of it cannot be imported any more once the main thread has
        # ended, and a script may end right after its commit.
        importlib.import_module("concurrent.futures.thread")
        self._forget()
        # Threads and locks do not survive a fork, and preforking servers fork after the import.
        os.register_at_fork(after_in_child=self._forget)

    def nudge(self) -> None:
        """Ask for a hint; returns at once."""
        with self._changed:
            self._asked += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mailer-hints", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def last_word(self) -> None:
        """Give a hint asked for just before the process ends a moment to get out."""
        with self._changed:
            self._changed.wait_for(lambda: self._served == self._asked, _LAST_WORD_SECONDS)

    def _forget(self) -> None:
        self._changed = threading.Condition()
        self._asked = self._served = 0
        self._thread = None

    def _run(self) -> None:
        send = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked > self._served)
                serving = self._asked
            # A hint that fails is lost on purpose: whatever the broker raises, the poll is there.
            with contextlib.suppress(Exception):
                send = send or _sender(self._redis_url, self._actor)
                send()
            with self._changed:
                self._served = serving
                self._changed.notify_all()


def _sender(redis_url: str, actor: str) -> Callable[[], None]:
    # The only road from here to dramatiq: an application pays for it with its first hint.
    connections = importlib.import_module("actors.connections")
    sender: Callable[[], None] = connections.hint_sender(redis_url, actor)
    return sender
