"""Events from a queue: received, taken, and deleted there once they are committed here."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial

from mailer.aside import aside
from mailer.feed import Channel, NotNow, Queue, Queued
from mailer.ingest import Ingest
from mailer.log import get_logger
from mailer.outage import Outage
from mailer.storing import database_answers

PAUSE_SECONDS = 5.0
"""How long to wait before the queue, or the database, is asked again."""

AT_ONCE_SECONDS = 1.0
"""SQS waits for messages before it says that there are none: who says so sooner is something else,
and must not be asked in a loop."""

DELETE_SECONDS = 6.0
"""How long to wait for a deletion: what was not deleted comes back."""

_log = get_logger("mailer.events")


class Consumer:
    """Reads one queue until it is told to stop.

    What can never become valid is left in the queue, whose redrive policy moves it aside for a
    person. What could not be taken now is left too, and comes back after its visibility timeout.
    While the database is away nothing is received: each time that a message is handed out counts
    against it there.
    """

    def __init__(
        self,
        queue: Queue,
        ingest: Ingest,
        *,
        pause_seconds: float = PAUSE_SECONDS,
        database_answers: Callable[[], bool] = database_answers,
    ) -> None:
        self._queue = queue
        self._ingest = ingest
        self._pause_seconds = pause_seconds
        self._database_answers = database_answers
        self._outage = Outage("queue", _log)

    async def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; messages in hand are finished first."""
        stopped = asyncio.create_task(aside(stop.wait))
        while not stopped.done():
            batch = await self._receive(stopped)
            if batch and not await self._take(batch):
                await self._recover(stopped)

    async def _receive(self, stopped: "asyncio.Task[bool]") -> list[Queued]:
        # What a call brings that is left behind here is handed out again by the queue.
        loop = asyncio.get_running_loop()
        began = loop.time()
        receiving = asyncio.create_task(aside(self._queue.receive))
        await asyncio.wait({stopped, receiving}, return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            receiving.cancel()
            return []
        try:
            batch = receiving.result()
        except NotNow as late:
            self._outage.begins(late.rule)
            await self._pause(stopped)
            return []
        self._outage.ends()
        if not batch and loop.time() - began < AT_ONCE_SECONDS:
            await self._pause(stopped)
        return batch

    async def _take(self, batch: Sequence[Queued]) -> bool:
        """Return False when something had to be put off."""
        answers = await asyncio.gather(
            *(self._ingest.take(each.body, Channel.SQS) for each in batch)
        )
        pairs = list(zip(batch, answers, strict=True))
        await self._delete([each.receipt for each, answer in pairs if answer.is_stored])
        return not any(answer.is_put_off for _, answer in pairs)

    async def _delete(self, receipts: Sequence[str]) -> None:
        """Delete what is committed; what stays comes back, is known, and is deleted then."""
        if not receipts:
            return
        try:
            async with asyncio.timeout(DELETE_SECONDS):
                left = await aside(partial(self._queue.delete, receipts))
        except (NotNow, TimeoutError) as late:
            self._outage.begins(late.rule if isinstance(late, NotNow) else "slow")
            return
        if left:
            _log.warning("events not deleted from the queue", count=left)

    async def _recover(self, stopped: "asyncio.Task[bool]") -> None:
        await self._pause(stopped)
        while not stopped.done() and not await aside(self._database_answers):
            await self._pause(stopped)

    async def _pause(self, stopped: "asyncio.Task[bool]") -> None:
        await asyncio.wait({stopped}, timeout=self._pause_seconds)
