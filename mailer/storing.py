"""Verified events into the database, many in one commit.

Whatever waits when a statement ends is written by the next one. So one event at a time costs one
commit, and a thousand a second cost a few.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mailer import feedback
from mailer.aside import aside
from mailer.database import AWAY, connected
from mailer.events import Incoming
from mailer.feed import NotNow
from mailer.feedback import UNWRITABLE
from mailer.log import get_logger
from mailer.outage import Outage

MOST_EVENTS = 200
"""Events in one statement."""

MOST_BYTES = 4 * 1024 * 1024
"""Bodies in one statement, unless one alone is larger: the driver writes them out as text."""

STORED = ""
"""The verdict on an event that is on record; any other is the rule under which it is not."""

AWAY_RULE = "database-away"
REFUSED_RULE = "database-refuses"
FAULT_RULE = "fault"

Store = Callable[[Sequence[Incoming]], object]
"""Stores events in one statement, committed when it returns; raises what the database raises."""

_log = get_logger("mailer.events")


@dataclass(frozen=True, slots=True)
class _Waiting:
    event: Incoming
    kept: "asyncio.Future[None]"


class Storage:
    """Writes events down in batches, one statement at a time, for one event loop.

    `stored` is called after each commit.
    """

    def __init__(self, stored: Callable[[], None], store: Store = feedback.store) -> None:
        self._stored = stored
        self._store = store
        self._waiting: deque[_Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._outage = Outage("database", _log)

    async def keep(self, event: Incoming) -> None:
        """Return once the event is committed, now or by an earlier delivery of it.

        Raises NotNow when it is not on record; whoever is cancelled meanwhile may find it stored.
        """
        waiting = _Waiting(event, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        await waiting.kept

    async def _write_all(self) -> None:
        try:
            while batch := self._next_batch():
                await self._write(batch)
        finally:
            self._writer = None

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < MOST_EVENTS:
            size += len(self._waiting[0].event.body)
            if batch and size > MOST_BYTES:
                break
            waiting = self._waiting.popleft()
            if not waiting.kept.done():
                batch.append(waiting)
        return batch

    async def _write(self, batch: Sequence[_Waiting]) -> None:
        verdicts = await self._verdicts([each.event for each in batch])
        if STORED in verdicts:
            self._stored()
        for waiting, verdict in zip(batch, verdicts, strict=True):
            _answer(waiting, verdict)

    async def _verdicts(self, events: Sequence[Incoming]) -> list[str]:
        try:
            verdicts = await aside(partial(store_batch, events, self._store))
        except Exception:  # noqa: BLE001 - a mistake of ours must not leave callers waiting
            _log.exception("events could not be stored")
            return [FAULT_RULE] * len(events)
        if AWAY_RULE in verdicts:
            self._outage.begins(AWAY_RULE)
        else:
            self._outage.ends()
        return verdicts


def store_batch(events: Sequence[Incoming], store: Store = feedback.store) -> list[str]:
    """Store events and return the verdict on each, in order.

    They go in the order of their keys: two processes that write the same events would otherwise
    wait for each other. One that the database does not take is told from the others.
    """
    try:
        store(sorted(events, key=_identity))
    except AWAY:
        return [AWAY_RULE] * len(events)
    except UNWRITABLE as error:
        if len(events) > 1:
            return _store_singly(events, store)
        _log.error("event not storable", topic_arn=events[0].topic_arn, error=type(error).__name__)
        return [REFUSED_RULE]
    return [STORED] * len(events)


def _store_singly(events: Sequence[Incoming], store: Store) -> list[str]:
    verdicts: list[str] = []
    for each in events:
        gone = verdicts[-1:] == [AWAY_RULE]
        verdicts += [AWAY_RULE] if gone else store_batch([each], store)
    return verdicts


def _identity(event: Incoming) -> tuple[str, str]:
    return event.topic_arn, event.sns_message_id


def _answer(waiting: _Waiting, verdict: str) -> None:
    if waiting.kept.done():
        return
    if verdict == STORED:
        waiting.kept.set_result(None)
    else:
        waiting.kept.set_exception(NotNow(verdict))


def database_answers() -> bool:
    """Tell whether the database can be spoken to; blocks."""
    try:
        with connected() as database:
            database.execute_sql("SELECT 1")
    except AWAY:
        return False
    return True
