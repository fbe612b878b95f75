"""A request's body, as far as it is read: never more of it is held than is allowed."""

import asyncio

from starlette.requests import Request

from mailer.feed import MAX_BODY_BYTES, NotNow, Unacceptable
from mailer.web.room import Place

SIZE_RULE = "sns-body-size"
SLOW_RULE = "body-slow"

READ_SECONDS = 10.0
"""SNS takes no answer within 15 seconds for a failure."""

_PASSED_OVER_BYTES = 4 * MAX_BODY_BYTES
"""How much of a body that is too large is read on and thrown away: a client that is still writing
when its connection is closed may never see the answer."""


async def read_body(request: Request, place: Place, *, seconds: float = READ_SECONDS) -> bytes:
    """Return the body. Raises Unacceptable for one too large, NotNow for one too slow in coming or
    for which there is no room now, and ClientDisconnect for one that ends before its end."""
    if _declared(request) > _PASSED_OVER_BYTES:
        raise Unacceptable(413, SIZE_RULE)
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, place)
    except TimeoutError as exc:
        raise NotNow(SLOW_RULE) from exc


async def _read(request: Request, place: Place) -> bytes:
    body = bytearray()
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > _PASSED_OVER_BYTES:
            break
        if size <= MAX_BODY_BYTES:
            place.hold(len(chunk))
            body += chunk
    if size > MAX_BODY_BYTES:
        raise Unacceptable(413, SIZE_RULE)
    return bytes(body)


def _declared(request: Request) -> int:
    """Return the size that the client announced; the server has checked that it is a number."""
    return int(request.headers.get("content-length", "0"))
