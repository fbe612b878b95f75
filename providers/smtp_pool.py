"""A bounded pool of sessions on one event loop."""

import asyncio
from collections import deque

from providers.smtp_progress import Fate
from providers.smtp_session import Session
from providers.smtp_settings import SmtpSettings
from providers.smtp_wire import Wire

_QUIT_SECONDS = 2.0


class Pool:
    """At most `connections` are open, idle ones and those saying QUIT included.

    A call takes a slot and gives it back exactly once. Waiting for a slot has no deadline of its
    own: whoever holds one is bounded at every step.
    """

    def __init__(self, settings: SmtpSettings) -> None:
        self._settings = settings
        self._open = 0
        self._idle: list[Session] = []
        self._waiting: deque[asyncio.Future[Session | None]] = deque()
        self._leaving: set[asyncio.Task[None]] = set()
        self._going: set[asyncio.Future[None]] = set()
        self._reaper: asyncio.TimerHandle | None = None
        self._closed = False

    async def take(self) -> Session | None:
        """Return an idle session, or None for a slot in which a new one may be opened."""
        while self._idle:
            session = self._idle.pop()
            if session.wire.is_silent():
                return session
            self._drop(session.wire)
        if self._open < self._settings.connections:
            self._open += 1
            return None
        return await self._wait()

    def give_back(self, session: Session | None, wire: Wire | None, fate: Fate) -> None:
        """Return a slot; the connection in it is kept only if its `fate` allows."""
        if session is None or fate is Fate.DROP or session.wire.is_over:
            self._drop(wire)
            return
        session.needs_reset = fate is Fate.RESET
        if self._closed or session.messages >= self._settings.max_messages:
            self._retire(session)
        elif not self._hand_to_waiter(session):
            self._rest(session)

    async def close(self) -> None:
        """Say QUIT on idle connections and wait, shortly, for those that are leaving."""
        self._closed = True
        if self._reaper:
            self._reaper.cancel()
        while self._idle:
            self._retire(self._idle.pop())
        if self._leaving:
            await asyncio.wait(self._leaving)
        if self._going:
            await asyncio.wait(self._going, timeout=_QUIT_SECONDS)

    async def _wait(self) -> Session | None:
        waiter: asyncio.Future[Session | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._pass_on(waiter.result())
            raise

    def _pass_on(self, session: Session | None) -> None:
        fate = Fate.DROP if session is None else Fate.RESET if session.needs_reset else Fate.KEEP
        self.give_back(session, None, fate)

    def _hand_to_waiter(self, session: Session | None) -> bool:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(session)
                return True
        return False

    def _drop(self, wire: Wire | None) -> None:
        if wire is not None:
            self._abort(wire)
        if not self._hand_to_waiter(None):
            self._open -= 1

    def _abort(self, wire: Wire) -> None:
        wire.abort()
        if wire.transport is not None and not wire.gone.done():
            self._going.add(wire.gone)
            wire.gone.add_done_callback(self._going.discard)

    def _rest(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        session.idle_since = loop.time()
        self._idle.append(session)
        if self._reaper is None:
            self._reaper = loop.call_later(self._settings.idle_timeout, self._reap)

    def _reap(self) -> None:
        """Retire what has rested too long; the oldest lie at the front."""
        loop = asyncio.get_running_loop()
        self._reaper = None
        oldest_allowed = loop.time() - self._settings.idle_timeout
        while self._idle and self._idle[0].idle_since <= oldest_allowed:
            self._retire(self._idle.pop(0))
        if self._idle:
            due = self._idle[0].idle_since + self._settings.idle_timeout
            self._reaper = loop.call_at(due, self._reap)

    def _retire(self, session: Session) -> None:
        task = asyncio.get_running_loop().create_task(self._part(session.wire))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _part(self, wire: Wire) -> None:
        try:
            await wire.quit(min(_QUIT_SECONDS, self._settings.timeout))
        finally:
            self._drop(wire)
