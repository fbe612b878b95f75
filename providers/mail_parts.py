"""Mail that strangers wrote, taken apart: bounded in size, parts and depth; never an exception.

Written instead of `email.parser`, which gives no way into an encoded report part, merges blocks
that lack their blank line, and takes time that grows with depth times length. RFC 2045, 2046, 5322.
"""

import binascii
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_MAIL_BYTES = 1024 * 1024
"""What is read of a mail. A report stands in front of the message that it returns."""
MAX_DEPTH = 8
MAX_PARTS = 100
MAX_HEADER_BYTES = 64 * 1024
MAX_FIELDS = 5_000
"""A report on a thousand recipients has so many."""
MAX_VALUE_CHARS = 4_000
_DATE_LIMIT_CHARS = 100

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ENCLOSED = frozenset({"message/rfc822", "message/global"})
"""Types whose content is a message of its own (RFC 2046 5.2.1, RFC 6532 3.7)."""

_BLANK_LINE = re.compile(rb"(?:\A|\r?\n)\r?\n")
_FOLD = re.compile(r"\r?\n(?=[ \t])")
_LINE_END = re.compile(r"\r?\n")
_BOUNDARY = re.compile(r';\s*boundary\s*=\s*(?:"([^"]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")

Field = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Fields:
    """Header fields in order; names in lower case, values unfolded and stripped."""

    listed: tuple[Field, ...] = ()

    def first(self, name: str) -> str:
        """Return the value of the first field of this name, empty if there is none."""
        return next(self.all(name), "")

    def all(self, name: str) -> Iterator[str]:
        """Yield the values of all fields of this name."""
        return (value for each, value in self.listed if each == name)


@dataclass(frozen=True, slots=True)
class Part:
    """A mail, or a part of one: its header, and its body with the transfer encoding undone."""

    fields: Fields
    body: bytes

    @property
    def type(self) -> str:
        """The media type in lower case; text/plain where none is given (RFC 2045 5.2)."""
        given = self.fields.first("content-type").partition(";")[0].strip().lower()
        return given if "/" in given else "text/plain"

    @property
    def text(self) -> str:
        """The body as text; octets that are no UTF-8 are replaced."""
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Node:
    """A part in its place: the parts beside it (itself included), and how deep it stands.

    `is_enclosed` tells that it belongs to a message that the mail encloses.
    """

    part: Part
    beside: tuple[Part, ...]
    depth: int = 0
    is_enclosed: bool = False


def read_part(raw: bytes) -> Part:
    """Read a mail or a part from its octets."""
    end = _BLANK_LINE.search(raw)
    head, body = (raw[: end.start()], raw[end.end() :]) if end else (raw, b"")
    fields = read_fields(head[:MAX_HEADER_BYTES].decode("utf-8", "replace"))
    return Part(fields, _decoded(body, fields.first("content-transfer-encoding")))


def read_fields(text: str) -> Fields:
    """Read header fields (RFC 5322 2.2); lines that are none are passed over."""
    lines = _LINE_END.split(_FOLD.sub("", text), MAX_FIELDS)[:MAX_FIELDS]
    listed = []
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and name and not name[0].isspace():
            listed.append((name.rstrip().lower(), value[:MAX_VALUE_CHARS].strip()))
    return Fields(tuple(listed))


def walk(mail: Part) -> Iterator[Node]:
    """Yield every part, the outer ones first, up to the limits of number and depth."""
    waiting = deque([Node(mail, (mail,))])
    for _ in range(MAX_PARTS):
        if not waiting:
            return
        node = waiting.popleft()
        yield node
        if node.depth < MAX_DEPTH:
            waiting.extend(_inside(node))


def moment(text: str) -> datetime | None:
    """Return the time of a date field (RFC 5322 3.3) in UTC; None if there is none after 1970."""
    try:
        read = parsedate_to_datetime(text[:_DATE_LIMIT_CHARS])
        at = read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return at if at >= EPOCH else None


def _inside(node: Node) -> Iterator[Node]:
    is_message = node.part.type in ENCLOSED
    level = (read_part(node.part.body),) if is_message else _children(node.part)
    for part in level:
        yield Node(part, level, node.depth + 1, node.is_enclosed or is_message)


def _children(part: Part) -> tuple[Part, ...]:
    if not part.type.startswith("multipart/"):
        return ()
    found = _BOUNDARY.search(part.fields.first("content-type"))
    return _split(part.body, found[1] or found[2]) if found else ()


def _split(body: bytes, boundary: str) -> tuple[Part, ...]:
    """RFC 2046 5.1.1; the last delimiter may be missing where a mail was cut off."""
    octets = re.escape(boundary.rstrip().encode("utf-8", "replace"))
    delimiter = re.compile(rb"(?:\A|\r?\n)--" + octets + rb"(--)?[ \t]*(?=\r?\n|\Z)")
    parts: list[Part] = []
    begin: int | None = None
    for found in delimiter.finditer(body):
        if begin is not None:
            parts.append(_part_at(body, begin, found.start()))
        begin = found.end()
        if found[1] or len(parts) >= MAX_PARTS:
            return tuple(parts)
    if begin is not None:
        parts.append(_part_at(body, begin, len(body)))
    return tuple(parts)


def _part_at(body: bytes, begin: int, end: int) -> Part:
    """The line end of the delimiter's own line belongs to neither."""
    return read_part(body[begin:end].removeprefix(b"\r").removeprefix(b"\n"))


def _decoded(body: bytes, encoding: str) -> bytes:
    """Undo a transfer encoding (RFC 2045 6.7, 6.8) as far as it can be undone."""
    word = encoding.lower()
    if word.startswith("quoted-printable"):
        return binascii.a2b_qp(body)
    if word.startswith("base64"):
        digits = _NOT_BASE64.sub(b"", body)
        # One digit over carries less than an octet; without it the padding can be told.
        digits = digits[:-1] if len(digits) % 4 == 1 else digits
        return binascii.a2b_base64(digits + b"=" * (-len(digits) % 4))
    return body
