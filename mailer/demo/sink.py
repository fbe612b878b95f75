"""The demo's relay: a small SMTP server on loopback whose answers are scripted by recipient."""

import asyncio
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from mailer.loop import LoopThread

HOST = "127.0.0.1"

RETRY_SECONDS = 2
"""What a greylisted client is asked to wait."""

_LINE_OCTETS = 4_096
_CONTENT_OCTETS = 1 << 20
_OPEN_SECONDS = 5.0
_PATH = re.compile(rb"<([^<>\s]*)>")


class Temper(StrEnum):
    """How the relay treats a recipient."""

    WILLING = "willing"
    """Takes the message: 250 after the final dot."""
    GREYLISTING = "greylisting"
    """Refuses the recipient once for now (451 4.7.1), and takes the message when asked again."""
    REFUSING = "refusing"
    """Refuses the recipient for good: 550 5.1.1."""
    VANISHING = "vanishing"
    """Takes the message, and loses the connection before it has said so."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the relay's own log: what became of one recipient.

    `queue_id` is set where the message was taken; `outbox_id` and `attempt` are its X-Outbox-Id and
    X-Outbox-Attempt, known only once the content was seen. `reply` is empty where the connection
    was lost before there was one.
    """

    at: datetime
    recipient: str = field(repr=False)
    reply: str
    queue_id: str | None = None
    outbox_id: str | None = None
    attempt: str | None = None


class Relay:
    """Speaks SMTP (RFC 5321) on a free loopback port, and logs what it took."""

    def __init__(self, tempers: Mapping[str, Temper]) -> None:
        self._tempers = tempers
        self._entries: list[Entry] = []
        self._greylisted: set[str] = set()
        self._numbers = itertools.count(0xA001)
        self._talks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def log(self) -> tuple[Entry, ...]:
        """What has happened so far, in order; may be read from any thread."""
        return tuple(self._entries)

    async def open(self) -> None:
        """Listen, and set `port`."""
        self._server = await asyncio.start_server(self._serve, HOST, 0, limit=_LINE_OCTETS)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and end what is still being said."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        for each in self._talks:
            each.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    def temper(self, recipient: str) -> Temper:
        """How this recipient is treated; nobody else is known here."""
        return self._tempers.get(recipient, Temper.REFUSING)

    def greylists(self, recipient: str) -> bool:
        """Whether the recipient is asked for the first time and has to be asked again."""
        fresh = recipient not in self._greylisted
        self._greylisted.add(recipient)
        return fresh and self.temper(recipient) is Temper.GREYLISTING

    def turn_away(self, recipient: str, reply: str) -> str:
        """Log a refusal and return its reply."""
        self._entries.append(Entry(datetime.now(UTC), recipient, reply))
        return reply

    def take(self, recipients: list[str], content: bytes) -> str | None:
        """Take a message: log it first, then return the reply, or None where there is none."""
        queue_id = f"{next(self._numbers):X}"
        vanishes = any(self.temper(each) is Temper.VANISHING for each in recipients)
        reply = "" if vanishes else f"250 2.0.0 queued as {queue_id}"
        now = datetime.now(UTC)
        row, attempt = _field(content, b"X-Outbox-Id"), _field(content, b"X-Outbox-Attempt")
        self._entries += [Entry(now, each, reply, queue_id, row, attempt) for each in recipients]
        return reply or None

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await _Conversation(self, reader, writer).hold()
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()


class _Conversation:
    """One connection, command by command."""

    def __init__(
        self, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._relay = relay
        self._reader = reader
        self._writer = writer
        self._has_sender = False
        self._recipients: list[str] = []
        self._answers: Mapping[bytes, Callable[[bytes], str]] = {
            b"EHLO": self._ehlo,
            b"HELO": self._helo,
            b"MAIL": self._mail,
            b"RCPT": self._rcpt,
            b"RSET": self._rset,
            b"NOOP": lambda _: "250 2.0.0 ok",
        }

    async def hold(self) -> None:
        """Talk until the client quits, or the script has the connection lost."""
        await self._say("220 relay.example.com ESMTP demo")
        while True:
            line = (await self._reader.readuntil(b"\r\n")).removesuffix(b"\r\n")
            verb = line[:4].upper()
            if verb == b"QUIT":
                await self._say("221 2.0.0 bye")
                return
            if verb == b"DATA":
                if not await self._data():
                    return
                continue
            answer = self._answers.get(verb)
            await self._say(answer(line) if answer else "502 5.5.1 command not known here")

    async def _say(self, reply: str) -> None:
        self._writer.write(reply.encode() + b"\r\n")
        await self._writer.drain()

    def _ehlo(self, _: bytes) -> str:
        self._forget()
        return f"250-relay.example.com\r\n250-SIZE {_CONTENT_OCTETS}\r\n250 ENHANCEDSTATUSCODES"

    def _helo(self, _: bytes) -> str:
        self._forget()
        return "250 relay.example.com"

    def _rset(self, _: bytes) -> str:
        self._forget()
        return "250 2.0.0 ok"

    def _mail(self, line: bytes) -> str:
        if self._has_sender:
            return "503 5.5.1 one sender at a time"
        if _PATH.search(line) is None:
            return "501 5.5.4 MAIL FROM:<address>"
        self._has_sender = True
        return "250 2.1.0 ok"

    def _rcpt(self, line: bytes) -> str:
        path = _PATH.search(line)
        if not self._has_sender:
            return "503 5.5.1 MAIL comes first"
        if path is None:
            return "501 5.5.4 RCPT TO:<address>"
        recipient = path[1].decode("ascii", "replace")
        if self._relay.temper(recipient) is Temper.REFUSING:
            return self._relay.turn_away(recipient, "550 5.1.1 no such user here")
        if self._relay.greylists(recipient):
            reply = f"451 4.7.1 greylisted, try again in {RETRY_SECONDS} seconds"
            return self._relay.turn_away(recipient, reply)
        self._recipients.append(recipient)
        return "250 2.1.5 ok"

    async def _data(self) -> bool:
        """Take a message; False when the connection is to be lost now."""
        if not self._recipients:
            await self._say("503 5.5.1 no valid recipients")
            return True
        await self._say("354 end with a line of one dot")
        reply = self._relay.take(self._recipients, await self._content())
        self._forget()
        if reply is None:
            return False
        await self._say(reply)
        return True

    async def _content(self) -> bytes:
        """Read up to the final dot, and undo the doubling of dots (RFC 5321 4.5.2)."""
        lines, size = [], 0
        while (line := await self._reader.readuntil(b"\r\n")) != b".\r\n":
            size += len(line)
            if size > _CONTENT_OCTETS:
                raise ConnectionAbortedError
            lines.append(line.removeprefix(b"."))
        return b"".join(lines)

    def _forget(self) -> None:
        self._has_sender = False
        self._recipients = []


def _field(content: bytes, name: bytes) -> str | None:
    header, _, _ = content.partition(b"\r\n\r\n")
    found = re.search(rb"(?im)^" + name + rb": *([!-~]{1,64})\r?$", header)
    return found[1].decode("ascii") if found else None


@contextmanager
def running(tempers: Mapping[str, Temper]) -> Iterator[Relay]:
    """Have a relay for the length of the block, on an event loop and a thread of its own."""
    relay, loop = Relay(tempers), LoopThread()
    loop.start()
    try:
        loop.run(relay.open(), timeout_seconds=_OPEN_SECONDS)
        yield relay
    finally:
        loop.run(relay.close(), timeout_seconds=_OPEN_SECONDS)
        loop.stop()
