"""The poll: finds due rows, overdue ones and new events with or without a broker."""

import threading
import time
from collections.abc import Callable

from actors.declare import Actors
from mailer.log import get_logger

_log = get_logger("mailer.worker")

LEAST_SWEEP_SECONDS = 1.0
MOST_SWEEP_SECONDS = 15.0


class Poller:
    """Runs the actors' functions on a thread of its own, at fixed intervals."""

    def __init__(self, actors: Actors, *, poll_seconds: float, lease_seconds: float) -> None:
        self._actors = actors
        self._poll_seconds = poll_seconds
        self._sweep_seconds = sweep_seconds(lease_seconds)
        self._stopped = threading.Event()
        self._threads = (
            threading.Thread(target=self._poll, name="mailer-poll", daemon=True),
            threading.Thread(target=self._sweep, name="mailer-sweep", daemon=True),
            threading.Thread(target=self._interpret, name="mailer-events", daemon=True),
        )

    def start(self) -> None:
        """Start polling."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Ask for the end; a delivery under way ends by its own deadline."""
        self._stopped.set()

    def join(self, timeout_seconds: float) -> None:
        """Wait for the threads to end."""
        deadline = time.monotonic() + timeout_seconds
        for each in self._threads:
            each.join(max(0.0, deadline - time.monotonic()))

    def _poll(self) -> None:
        while not self._stopped.is_set():
            _outlive(self._actors.deliver)
            self._stopped.wait(self._poll_seconds)

    def _interpret(self) -> None:
        while not self._stopped.wait(self._poll_seconds):
            _outlive(self._actors.interpret)

    def _sweep(self) -> None:
        while not self._stopped.wait(self._sweep_seconds):
            _outlive(self._actors.sweep)


def _outlive(work: Callable[[], None]) -> None:
    """Do one round; nothing would start a poll again that had ended."""
    try:
        work()
    except Exception:  # noqa: BLE001 - the outermost loop
        _log.exception("poll failed")


def sweep_seconds(lease_seconds: float) -> float:
    """How often to sweep: a fraction of the lease, so that a lost one shows soon."""
    return min(MOST_SWEEP_SECONDS, max(LEAST_SWEEP_SECONDS, lease_seconds / 4))
