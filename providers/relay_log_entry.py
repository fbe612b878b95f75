"""What one line of a relay's log says, in the words that every relay's log is read into."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum

from mailer.addresses import address_key
from mailer.errors import InvalidEmail
from mailer.evidence import Fate

MAX_LINE_CHARS = 16 * 1024
"""Postfix writes at most 2000 (`msg_syslog.c`), Exim 8192 (`LOG_BUFFER_SIZE`), before a prefix."""

MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,996}>")
_SENDER = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,320}")
_LOOPBACK = re.compile(r"\[(?:127\.[\d.]{1,11}|::1)\]")
_PASSED_ON = re.compile(r"(?:queued as|forwarded as|\bid=) ?([0-9A-Za-z-]{5,40})\b")

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WITHOUT_YEAR = re.compile(rf"({'|'.join(_MONTHS)}) +(\d{{1,2}}) (\d\d):(\d\d):(\d\d)", re.ASCII)
_AHEAD = timedelta(days=1)
_YEARS_BACK = 8
"""29 February is at most this far away."""

STAMP = (
    rf"(?:{'|'.join(_MONTHS)}) +\d{{1,2}} \d\d:\d\d:\d\d"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?[+-]\d\d:?\d\d|Z)?"
)
"""Syslog's traditional time (RFC 3164 4.1.2), RFC 3339's, and Exim's own."""


class Step(StrEnum):
    """What happened to a queue id."""

    BEGAN = "began"
    """A client has opened a transaction; the relay has a file for it."""
    NAMED = "named"
    """Its Message-ID was read. No proof: this is written before the end of the message."""
    TAKEN = "taken"
    ARRIVED = "arrived"
    """Taken, told by one line that names the message too."""
    REFUSED = "refused"
    CUT = "cut"
    """The client was gone before the end of the message."""
    FATE = "fate"
    EXPIRED = "expired"
    """What is still deferred is given up."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Entry:
    """What one line says.

    `scope` tells the queue ids of one host and instance from another's, `process` names the
    process that wrote it there. A `message_id` of None means one that cannot be ours.
    """

    source: str
    scope: str
    step: Step
    at: datetime | None
    queue_id: str | None = None
    process: str | None = None
    message_id: str | None = None
    sender: str | None = field(default=None, repr=False)
    address: str | None = field(default=None, repr=False)
    fate: Fate | None = None
    code: str | None = None
    came_from: str | None = None
    passed_to: str | None = None


class Calendar:
    """Reads the times of a log that was written in `zone` and ended not after `before`."""

    def __init__(self, before: datetime, zone: tzinfo) -> None:
        self._latest = before.astimezone(UTC) + _AHEAD
        self._zone = zone
        self._last: tuple[str, datetime | None] = ("", None)

    def read(self, text: str) -> datetime | None:
        """Return a moment in UTC; None for what is none. A year that is not told is the latest
        that leaves the line in the past."""
        if self._last[0] != text:
            self._last = (text, self._moment(text))
        return self._last[1]

    def _moment(self, text: str) -> datetime | None:
        match = _WITHOUT_YEAR.fullmatch(text)
        if match is None:
            return _utc(text, self._zone)
        month = _MONTHS.index(match[1]) + 1
        for year in range(self._latest.year + 1, self._latest.year - _YEARS_BACK - 1, -1):
            told = f"{year:04d}-{month:02d}-{int(match[2]):02d}T{match[3]}:{match[4]}:{match[5]}"
            at = _utc(told, self._zone)
            if at is not None and at <= self._latest:
                return at
        return None


def _utc(text: str, zone: tzinfo) -> datetime | None:
    try:
        at = datetime.fromisoformat(text.replace(" +", "+").replace(" -", "-"))
        return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def key_or_none(address: str) -> str | None:
    """Return the canonical key of a logged address; None for what is none."""
    try:
        return address_key(address)
    except InvalidEmail:
        return None


def sender_or_none(text: str | None) -> str | None:
    """Return an envelope sender; None for the null one, and for what no column can store."""
    return text if text and _SENDER.fullmatch(text) else None


def message_id_or_none(text: str) -> str | None:
    """Return a Message-ID in its angle brackets; None for what cannot be ours."""
    return text if MESSAGE_ID.fullmatch(text) else None


def passed_on(host: str, reply: str) -> str | None:
    """Return the queue id under which this very machine went on with the message.

    A content filter that a relay hands its mail to is no recipient's server.
    """
    is_here = _LOOPBACK.search(host) is not None or host == "local"
    found = _PASSED_ON.findall(reply) if is_here else []
    return found[-1] if found else None
