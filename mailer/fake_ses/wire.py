"""Answers as they go out, or do not: uvicorn has no word for a connection closed in silence."""

import asyncio
from typing import Any
from uuid import uuid4

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mailer.fake_ses.refusals import Refusal

_EXTENSION = "mailer.fake_ses"


class Connection(H11Protocol):
    """uvicorn's connection, lent to the application as an extension of its scope."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.access_log = False  # paths hold addresses
        self._application: Any = self.app
        self._waits = False
        self._stopping = False
        self.app = self._serve

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        self._waits = False
        scope.setdefault("extensions", {})[_EXTENSION] = self
        await self._application(scope, receive, send)

    def hang_up(self) -> None:
        """Close without another word."""
        self.transport.close()

    def wait(self) -> None:
        """Say that no answer will come soon; a stopping server does not wait for it."""
        self._waits = True
        if self._stopping:
            self.hang_up()

    def shutdown(self) -> None:
        """Stop, as the server asks."""
        self._stopping = True
        if self._waits:
            self.hang_up()
        else:
            super().shutdown()


class HangUp(Response):
    """The connection is closed, and there is no answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Close; return once the server knows, which would report a fault of ours before."""
        scope["extensions"][_EXTENSION].hang_up()
        await _client_gone(receive)


class Late(Response):
    """An answer that goes out after some seconds, or never; not at all if the client leaves."""

    def __init__(self, answer: Response, seconds: float | None) -> None:
        super().__init__()
        self._answer = answer
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait, then answer."""
        scope["extensions"][_EXTENSION].wait()
        try:
            async with asyncio.timeout(self._seconds):
                await _client_gone(receive)
        except TimeoutError:
            await self._answer(scope, receive, send)


async def _client_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def done(content: dict[str, Any]) -> Response:
    """Return a success, as AWS frames it."""
    return JSONResponse(content, headers={"x-amzn-RequestId": str(uuid4())})


def refused(refusal: Refusal) -> Response:
    """Return an error, as AWS frames it."""
    headers = {"x-amzn-RequestId": str(uuid4()), "x-amzn-ErrorType": refusal.code}
    return JSONResponse({"message": refusal.message}, refusal.status, headers)
