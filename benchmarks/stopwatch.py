"""An SMTP server in this process that notes when each message was whole, by this clock."""

import asyncio
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

_END_OF_DATA = b"\r\n.\r\n"
_REPLIES = {
    b"EHLO": b"250-stopwatch\r\n250-PIPELINING\r\n250 8BITMIME\r\n",
    b"DATA": b"354 go on\r\n",
    b"QUIT": b"221 bye\r\n",
}
_DEFAULT_REPLY = b"250 ok\r\n"


class Arrivals:
    """The moments at which messages arrived, in order."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._moments: queue.SimpleQueue[float] = queue.SimpleQueue()

    def note(self) -> None:
        """Put down that one is here now."""
        self._moments.put(time.perf_counter())

    def next(self, timeout_seconds: float = 60.0) -> float:
        """Wait for the next one; seconds of `time.perf_counter`."""
        return self._moments.get(timeout=timeout_seconds)


class _Talk(asyncio.Protocol):
    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._heard = bytearray()
        self._in_data = False
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.write(b"220 stopwatch\r\n")

    def data_received(self, data: bytes) -> None:
        self._heard += data
        while self._step():
            pass

    def _step(self) -> bool:
        """Answer the next command, or the end of the message, if it is whole."""
        end = _END_OF_DATA if self._in_data else b"\r\n"
        place = self._heard.find(end)
        if place < 0 or self._transport is None:
            return False
        word = b"." if self._in_data else bytes(self._heard[:4]).upper()
        del self._heard[: place + len(end)]
        if self._in_data:
            self._arrivals.note()
        self._in_data = word == b"DATA"
        self._transport.write(_REPLIES.get(word, _DEFAULT_REPLY))
        if word == b"QUIT":
            self._transport.close()
        return True


@contextmanager
def stopwatch() -> Iterator[Arrivals]:
    """Serve for the block, on a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="stopwatch", daemon=True)
    thread.start()

    async def serve() -> tuple[asyncio.Server, Arrivals]:
        arrivals = Arrivals(0)
        server = await loop.create_server(lambda: _Talk(arrivals), "127.0.0.1", 0)
        arrivals.port = server.sockets[0].getsockname()[1]
        return server, arrivals

    server, arrivals = asyncio.run_coroutine_threadsafe(serve(), loop).result()
    try:
        yield arrivals
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
