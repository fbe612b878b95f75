"""What passes over a wire, read closely enough to know the points at which a worker may be met."""

import struct
from collections.abc import Iterator
from enum import StrEnum
from typing import Protocol


class Point(StrEnum):
    """A moment in the life of a message, as it shows on a wire."""

    CLAIM = "claim"
    BEGIN = "begin"
    FINISH = "finish"
    BEGIN_COMMIT = "commit of begin"
    """The transaction that marked a call as begun, and with it perhaps results of others."""
    FINISH_COMMIT = "commit of finish"
    BODY = "body"
    DOT = "dot"
    """The last octet of a message: the final dot of SMTP, the request of SES."""


Marked = tuple[bytes, frozenset[Point]]
NOTHING: frozenset[Point] = frozenset()


class Talk(Protocol):
    """One connection's worth of reading along."""

    def heard(self, data: bytes) -> Iterator[Marked]:
        """Cut what the client said into parts to be passed on, each with the points it is at."""

    def is_whole(self, answer: bytes) -> bool:
        """Tell whether the server has answered to the end."""


class Opaque:
    """A connection that is not understood: Redis."""

    def heard(self, data: bytes) -> Iterator[Marked]:
        """Pass everything on."""
        yield data, NOTHING

    def is_whole(self, answer: bytes) -> bool:
        """Whatever came is an answer."""
        return bool(answer)


_STATEMENTS = {
    b"INSERT INTO email_attempt (id, outbox_id": Point.CLAIM,
    b"email_begin_": Point.BEGIN,
    b"email_finish_": Point.FINISH,
}
_COMMITS = {Point.BEGIN: Point.BEGIN_COMMIT, Point.FINISH: Point.FINISH_COMMIT}
_LENGTH_BYTES, _READY_BYTES = 4, 6


class PostgresTalk:
    """PostgreSQL's protocol 3 as psycopg2 speaks it: simple queries, one message a statement."""

    def __init__(self) -> None:
        self._rest = b""
        self._started = False
        self._in_transaction = False
        self._open: set[Point] = set()

    def heard(self, data: bytes) -> Iterator[Marked]:
        """Give whole messages only, so that one can be withheld."""
        self._rest += data
        while message := self._next():
            yield message, frozenset(self._points(message))

    def is_whole(self, answer: bytes) -> bool:
        """An answer ends with ReadyForQuery."""
        return answer[-_READY_BYTES:-1] == b"Z\x00\x00\x00\x05"

    def _next(self) -> bytes:
        # The first messages, a wish for TLS among them, have no type octet.
        at = 1 if self._started else 0
        if len(self._rest) < at + _LENGTH_BYTES:
            return b""
        end = at + struct.unpack_from("!I", self._rest, at)[0]
        if len(self._rest) < end:
            return b""
        message, self._rest = self._rest[:end], self._rest[end:]
        if not self._started:
            self._started = message[_LENGTH_BYTES : _LENGTH_BYTES + 2] == b"\x00\x03"
        return message

    def _points(self, message: bytes) -> Iterator[Point]:
        if message[:1] != b"Q":
            return
        statement = message[5:-1].strip()
        if statement in {b"COMMIT", b"ROLLBACK", b"BEGIN"}:
            if statement == b"COMMIT":
                yield from self._open
            self._in_transaction = statement == b"BEGIN"
            self._open.clear()
            return
        for part, point in _STATEMENTS.items():
            if part in statement:
                yield point
                yield from self._committed(point)

    def _committed(self, point: Point) -> Iterator[Point]:
        """A statement outside a transaction is its own commit."""
        if point not in _COMMITS:
            return
        if self._in_transaction:
            self._open.add(_COMMITS[point])
        else:
            yield _COMMITS[point]


_END_OF_DATA = b"\r\n.\r\n"


class SmtpTalk:
    """SMTP without TLS: the content between `DATA` and the final dot."""

    def __init__(self) -> None:
        self._in_content = False
        self._tail = b""

    def heard(self, data: bytes) -> Iterator[Marked]:
        """Mark what is part of a message."""
        if not self._in_content:
            self._in_content = data.upper().endswith(b"DATA\r\n")
            self._tail = b"\r\n"
            yield data, NOTHING
            return
        self._tail = (self._tail + data)[-len(_END_OF_DATA) :]
        ends = self._tail == _END_OF_DATA
        self._in_content = not ends
        yield data, frozenset({Point.BODY, Point.DOT} if ends else {Point.BODY})

    def is_whole(self, answer: bytes) -> bool:
        """A reply ends with its line."""
        return answer.endswith(b"\n")


class SesTalk:
    """SES over plain HTTP: one request sends one message."""

    def heard(self, data: bytes) -> Iterator[Marked]:
        """Mark the requests that send."""
        sends = data.startswith(b"POST /v2/email/outbound-emails")
        yield data, frozenset({Point.BODY, Point.DOT}) if sends else NOTHING

    def is_whole(self, answer: bytes) -> bool:
        """The fake answers at once and whole."""
        return bool(answer)


def refusal(sqlstate: str, text: str) -> bytes:
    """Build what PostgreSQL answers to a statement that it did not carry out."""
    fields = f"SERROR\0VERROR\0C{sqlstate}\0M{text}\0\0".encode()
    error = b"E" + struct.pack("!I", len(fields) + _LENGTH_BYTES) + fields
    return error + b"Z\x00\x00\x00\x05I"
