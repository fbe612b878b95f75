"""The cheapest endpoint that boto3 takes for SES: it accepts every request without reading it.

Run as `python -m benchmarks.ses_endpoint`; prints its port, and ends with its input.
"""

import asyncio
import re
import sys
from typing import cast

import uvloop

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_END = b"\r\n\r\n"
_BODY = b'{"MessageId":"0100018f-aaaa-bbbb-cccc-000000000001-000000"}'
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    b"x-amzn-RequestId: 0f3c9a52-1111-4222-8333-944444444444\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


class _Talk(asyncio.Protocol):
    """One connection: counts octets, and answers when a request is whole."""

    def __init__(self) -> None:
        self._heard = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is answered on."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer each request that is whole."""
        self._heard += data
        while (whole := self._whole()) is not None and self._transport is not None:
            del self._heard[:whole]
            self._transport.write(_ANSWER)

    def _whole(self) -> int | None:
        head = self._heard.find(_END)
        if head < 0:
            return None
        length = _LENGTH.search(self._heard, 0, head)
        size = head + len(_END) + (int(length[1]) if length else 0)
        return size if len(self._heard) >= size else None


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Talk, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


def main() -> None:
    """Serve until the input ends."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())


if __name__ == "__main__":
    main()
