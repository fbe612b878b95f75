"""`GET /livez` and `GET /readyz`: whether the process runs, and whether it can do its work."""

import asyncio
import time
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from mailer import migrations
from mailer.aside import aside
from mailer.database import AWAY, DatabaseError

READY = "ready"
AWAY_REASON = "the database cannot be reached"
SLOW_REASON = "the database does not answer"
REFUSED_REASON = "the database cannot be used; `mailer migrate` tells why"

_KEPT_SECONDS = 1.0
"""Probes ask often, and anybody may ask: the database is asked this often at most."""

_PATIENCE_SECONDS = 3.0


class Health:
    """Answers probes; `look` returns READY or what is wrong, and may block."""

    def __init__(
        self, look: Callable[[], str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._look = look
        self._clock = clock
        self._looking: asyncio.Task[str] | None = None
        self._asked_at = 0.0

    def routes(self) -> list[Route]:
        """Return the routes of this part."""
        return [Route("/livez", self.livez), Route("/readyz", self.readyz)]

    async def livez(self, _: Request) -> Response:
        """Answer: that it is answered is what is asked for."""
        return PlainTextResponse("alive\n")

    async def readyz(self, _: Request) -> Response:
        """Answer 200, or 503 with the reason."""
        state = await self._state()
        return PlainTextResponse(f"{state}\n", 200 if state == READY else 503)

    async def _state(self) -> str:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await asyncio.shield(self._look_again())
        except TimeoutError:
            return SLOW_REASON

    def _look_again(self) -> "asyncio.Task[str]":
        """Return the look under way, or a recent one; one at a time is enough."""
        found = self._looking
        recent = self._clock() - self._asked_at < _KEPT_SECONDS
        if found is None or (found.done() and not recent):
            found = self._looking = asyncio.create_task(aside(self._look))
            self._asked_at = self._clock()
        return found


def look_at_database() -> str:
    """Return READY, or why events could not be stored; blocks."""
    try:
        missing = migrations.pending()
    except AWAY:
        return AWAY_REASON
    except DatabaseError:
        return REFUSED_REASON
    if missing:
        return f"the database lacks {len(missing)} of mailer's migrations; run `mailer migrate`"
    return READY
