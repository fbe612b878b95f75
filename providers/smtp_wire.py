"""aiosmtplib's protocol, holding the server to RFC 5321 and every wait to a deadline."""

import asyncio
import re
import select
import ssl
from contextlib import suppress
from typing import cast

from aiosmtplib import SMTPException, SMTPResponse, SMTPServerDisconnected
from aiosmtplib.protocol import SMTPProtocol

from providers.smtp_rules import Kind

CHUNK_BYTES = 64 * 1024
_HEARD_LIMIT_BYTES = 64 * 1024
_PASSES_TO_READ = 3
"""Turns of the event loop within which octets that are in the socket reach `data_received`."""

_REPLY = re.compile(rb"([0-9]{3})((?:-[^\n]*\n\1)*)(?: ([^\n]*))?\r?\n")
_BUFFERED_BYTES = 64 * 1024
"""Content is let into user space this far; a write beyond it waits until the kernel has all."""


class MalformedReply(Exception):
    """The server's octets are no reply, or a reply to nothing that was asked."""


def parse_reply(octets: bytes) -> SMTPResponse:
    """Read the reply that `octets` are; raise `MalformedReply` unless they are exactly one.

    RFC 5321 4.2.1: three digits, the same on every line, then "-", a space or the line's end.
    aiosmtplib's own parser also takes "+25", "2500" and lines whose codes differ.
    """
    found = _REPLY.fullmatch(octets)
    if found is None:
        raise MalformedReply("not a reply")
    return _response(found)


def _response(found: re.Match[bytes]) -> SMTPResponse:
    text = found[3] or b""
    if found[2]:
        lines = found[0].split(b"\n")[:-1]
        text = b"\n".join(line[4:].strip() for line in lines)
    return SMTPResponse(int(found[1]), text.strip().decode("utf-8", "replace"))


def _is_whole(octets: bytes) -> bool:
    """Whether no further octets could make this a reply, or one of bearable length."""
    if len(octets) >= _HEARD_LIMIT_BYTES:
        return True
    last = octets[octets.rfind(b"\n", 0, -1) + 1 :]
    return octets.endswith(b"\n") and last[3:4] != b"-"


class Wire(SMTPProtocol):
    """One connection in lock-step: a reply counts only as the answer to what was asked last.

    Reading is our own, because aiosmtplib drops what comes unasked and takes for a reply what is
    none: `heard` holds every octet from the server that no step has accounted for. `ending` says
    how the connection ended. One lazy timer a connection keeps the deadlines.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.heard = b""
        self.ending: Kind | None = None
        self.gone: asyncio.Future[None] = loop.create_future()
        self._event_loop = loop
        self._clogged = False
        self._news: asyncio.Future[None] | None = None
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._poll = select.poll()

    @property
    def is_over(self) -> bool:
        """Whether nothing can be written any more."""
        return self.ending is not None or not self.is_connected

    def is_silent(self) -> bool:
        """Whether the server is still there and has said nothing unasked."""
        return not (self.heard or self.is_over or self._poll.poll(0))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to watch the socket."""
        super().connection_made(transport)
        _bound(cast("asyncio.WriteTransport", transport))
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Keep the octets until a step accounts for them."""
        if len(self.heard) < _HEARD_LIMIT_BYTES:
            self.heard += data
        self._tell()

    def eof_received(self) -> bool:
        """Note the end; the transport closes by itself."""
        self.ending = self.ending or Kind.EOF
        self._tell()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note how it ended and wake whoever waits."""
        self.ending = self.ending or _ending_of(exc)
        super().connection_lost(exc)
        self._drop_timer()
        self._tell()
        if not self.gone.done():
            self.gone.set_result(None)

    def pause_writing(self) -> None:
        """Note that the kernel's buffer is full."""
        super().pause_writing()
        self._clogged = True

    def resume_writing(self) -> None:
        """Note that the kernel has taken everything."""
        super().resume_writing()
        self._clogged = False
        self._tell()

    async def ask(self, command: bytes, seconds: float) -> SMTPResponse:
        """Send one command and return its reply.

        A 421 that came unasked (RFC 5321 3.8) is the answer to whatever is asked next.
        """
        if self.heard:
            reply = await self.read_response(seconds)
            if reply.code != 421:  # noqa: PLR2004
                raise MalformedReply("a reply to nothing that was asked")
            return reply
        return await self.execute_command(command, timeout=seconds)

    async def read_response(self, timeout: float | None = None) -> SMTPResponse:
        """Return the next reply.

        Raises `MalformedReply`, or `SMTPServerDisconnected` once the connection is over and, with
        `ending` saying so, once `timeout` seconds have passed.
        """
        self._expect(timeout or 0.0)
        while (found := self._next_reply()) is None:
            if self.is_over:
                raise SMTPServerDisconnected("the connection ended")
            self._news = self._event_loop.create_future()
            await self._news
        self._deadline = None
        self.heard = self.heard[found.end() :]
        return _response(found)

    async def upload(self, content: bytes, size: int, seconds: float) -> None:
        """Hand over the first `size` octets in chunks; stop early when the server speaks or goes.

        `seconds` bounds the wait for each chunk (RFC 5321 4.5.3.2.5), not the whole.
        """
        for start in range(0, size, CHUNK_BYTES):
            if self.heard or self.is_over:
                return
            self.write(content[start : start + CHUNK_BYTES])
            await (self._until_flowing(seconds) if self._clogged else asyncio.sleep(0))

    async def listen(self) -> bool:
        """Take in what has arrived; say whether the server is silent and still there."""
        for _ in range(_PASSES_TO_READ):
            if self.heard or self.is_over or not self._poll.poll(0):
                break
            await asyncio.sleep(0)
        return not (self.heard or self.is_over)

    async def secure(self, context: ssl.SSLContext, host: str, seconds: float) -> None:
        """Put TLS over the connection; raise what the handshake raises."""
        plain = cast("asyncio.WriteTransport", self.transport)
        try:
            secured = await self._event_loop.start_tls(
                plain, self, context, server_hostname=host, ssl_handshake_timeout=seconds
            )
        except BaseException:
            # A failed handshake ends the transport without telling the protocol below it.
            plain.abort()
            self.connection_lost(None)
            raise
        if secured is None:
            raise ConnectionResetError("the connection ended as TLS began")
        _bound(secured)
        self.transport = secured

    async def quit(self, seconds: float) -> None:
        """Say goodbye as RFC 5321 4.1.1.10 wants it; whatever comes back is of no interest."""
        with suppress(MalformedReply, SMTPException):
            await self.execute_command(b"QUIT", timeout=seconds)

    def abort(self) -> None:
        """End the connection at once; nothing still buffered is sent.

        `close` would flush: a server could then receive the end of a message given up here.
        """
        self._drop_timer()
        if self.transport is not None:
            cast("asyncio.WriteTransport", self.transport).abort()

    def _next_reply(self) -> re.Match[bytes] | None:
        if not self.heard:
            return None
        found = _REPLY.match(self.heard)
        if found is None and _is_whole(self.heard):
            raise MalformedReply("not a reply")
        return found

    async def _until_flowing(self, seconds: float) -> None:
        self._expect(seconds)
        while self._clogged and not self.heard and not self.is_over:
            self._news = self._event_loop.create_future()
            await self._news
        self._deadline = None

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _expect(self, seconds: float) -> None:
        self._deadline = deadline = self._event_loop.time() + seconds
        if self._timer is None or deadline < self._timer.when():
            self._drop_timer()
            self._timer = self._event_loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._event_loop.time() < self._deadline:
            self._timer = self._event_loop.call_at(self._deadline, self._expire)
            return
        self.ending = self.ending or Kind.TIMEOUT
        self.abort()
        self._tell()

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _bound(transport: asyncio.WriteTransport) -> None:
    transport.set_write_buffer_limits(high=_BUFFERED_BYTES, low=0)


def _ending_of(exc: Exception | None) -> Kind:
    if isinstance(exc, ssl.SSLError):
        return Kind.TLS_FAILURE
    return Kind.EOF if exc is None else Kind.RESET
