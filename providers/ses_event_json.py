"""Reading JSON that others wrote: what is there, or nothing; never an exception. Pure."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NoReturn

from mailer.addresses import MAX_ADDRESS_OCTETS, address_key
from mailer.errors import InvalidEmail
from mailer.outcome import clean

Json = Mapping[str, object]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ID_LIMIT_CHARS = 255

_NOTHING: Json = {}
_TIME_LIMIT_CHARS = 64
_MAILBOX_LIMIT_CHARS = 1000
_SEPARATORS = str.maketrans("", "", " _-")


def document(text: str | bytes) -> Json | None:
    """Return the JSON object that UTF-8 text holds; None for everything else.

    `json` raises RecursionError for deep nesting, and ValueError for integers of more digits than
    Python converts, besides what is no JSON. NaN and Infinity are none either (RFC 8259 6).
    """
    try:
        read: object = _JSON.decode(text if isinstance(text, str) else text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def an_object(value: object) -> Json:
    """Return an object, empty if the value is none."""
    return value if isinstance(value, dict) else _NOTHING


def entries(value: object) -> list[object]:
    """Return the entries of a list; a single entry that stands without its list counts as one."""
    if isinstance(value, list):
        return value
    return [value] if isinstance(value, str | dict) else []


def squeezed(value: object) -> str:
    """Return a type's name as it is compared: without case, spaces, hyphens and underscores."""
    return value.lower().translate(_SEPARATORS) if isinstance(value, str) else ""


def shown(value: object, limit_chars: int) -> str:
    """Return text fit to be stored, no longer than the limit; empty if the value is no text."""
    return clean(value)[:limit_chars].rstrip() if isinstance(value, str) else ""


def identifier(value: object) -> str | None:
    """Return an id exactly as it was given; None for what cannot be one.

    An id is compared and never repaired: cut or cleaned it would be another one.
    """
    if not isinstance(value, str) or not 0 < len(value) <= ID_LIMIT_CHARS:
        return None
    return value if value.isprintable() and not value.isspace() else None


def moment(value: object) -> datetime | None:
    """Return a time in UTC; None if it cannot be read or lies before 1970.

    SES writes `Z`, offsets, up to seven fraction digits, and `2018-10-08T14:05:45 +0000` in one of
    its samples. A time without an offset is taken as UTC.
    """
    if not isinstance(value, str) or len(value) > _TIME_LIMIT_CHARS:
        return None
    try:
        read = datetime.fromisoformat(value.strip().replace(" +", "+").replace(" -", "-"))
        at = read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return at if at >= EPOCH else None


def mailbox_key(value: object) -> str | None:
    """Return the canonical key of an address; None if it is none, or longer than one may be."""
    if not isinstance(value, str) or len(value) > _MAILBOX_LIMIT_CHARS:
        return None
    try:
        key = address_key(_bare(value.strip()))
    except InvalidEmail:
        return None
    return key if len(key.encode()) <= MAX_ADDRESS_OCTETS else None


def _bare(mailbox: str) -> str:
    """Drop the display name, which may hold what no address does (encoded words)."""
    return mailbox[:-1].rpartition("<")[2] if mailbox.endswith(">") else mailbox


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


_JSON = json.JSONDecoder(parse_constant=_refuse)
