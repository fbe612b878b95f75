"""The calls in flight: started on the event loop, their results handed back in groups."""

import asyncio
import threading
from collections.abc import Mapping, Sequence

from mailer.flight import Flight
from mailer.loop import LoopThread
from mailer.outcome import CallResult, Outcome, Scope
from mailer.provider import Provider

Landing = tuple[Flight, CallResult]

LINGER_SECONDS = 0.002
"""How long the first result of a group waits for company before it is written."""


class Airspace:
    """Carries flights through their providers, from the one thread that owns it."""

    def __init__(self, loop: LoopThread, providers: Mapping[str, Provider]) -> None:
        self._loop = loop
        self._providers = providers
        self._landed: list[Landing] = []
        self._arrived = threading.Condition()
        self._woken = False
        self._tasks: dict[int, asyncio.Task[object]] = {}
        self.flying: dict[int, Flight] = {}

    def start(self, flights: Sequence[Flight]) -> None:
        """Make the calls of flights that have begun."""
        if flights:
            self.flying.update((each.claimed.attempt_id, each) for each in flights)
            self._loop.call(self._spawn, flights)

    def wake(self) -> None:
        """End the current or next `landings` early; any thread may call this."""
        with self._arrived:
            self._woken = True
            self._arrived.notify()

    def landings(self, wait_seconds: float, *, group: int) -> list[Landing]:
        """Wait for results, for company up to `group` of them, and take what has come."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._landed or self._woken, wait_seconds)
            if not self._woken and len(self._landed) < group:
                self._arrived.wait_for(lambda: len(self._landed) >= group, LINGER_SECONDS)
            self._woken = False
            landed, self._landed = self._landed, []
        for flight, _ in landed:
            self.flying.pop(flight.claimed.attempt_id, None)
        return landed

    def cancel_all(self) -> None:
        """End every call now; each still comes back with what is known about it."""
        self._loop.call(self._cancel)

    def _spawn(self, flights: Sequence[Flight]) -> None:
        for each in flights:
            self._tasks[each.claimed.attempt_id] = self._loop.spawn(self._fly(each))

    def _cancel(self) -> None:
        for each in self._tasks.values():
            each.cancel()

    async def _fly(self, flight: Flight) -> None:
        try:
            provider = self._providers[flight.claimed.provider]
            result = await provider.send(flight.call)  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001 - a provider that raises breaks its contract
            result = _unexplained(flight, error)
        self._tasks.pop(flight.claimed.attempt_id, None)
        with self._arrived:
            self._landed.append((flight, result))
            self._arrived.notify()


def _unexplained(flight: Flight, error: BaseException) -> CallResult:
    """Whether the commit point was passed is unknown, so the message is in doubt."""
    return flight.never_sent(
        Outcome.AMBIGUOUS,
        Scope.CONNECTION,
        stage="unknown",
        rule="provider-raised",
        reason=type(error).__name__,
    )
