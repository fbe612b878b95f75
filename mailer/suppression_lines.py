"""The file of an import, line by line: an address, or `address[,reason[,occurred_at]]` as CSV."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from mailer.addresses import Mailbox
from mailer.errors import InvalidEmail
from mailer.facts import SuppressionReason

COLUMNS = ("address", "reason", "occurred_at")

MAX_LINE_OCTETS = 2_000
"""No address with a name, a reason and a time is longer."""

OLDEST = datetime(1970, 1, 1, tzinfo=UTC)

_BOM = b"\xef\xbb\xbf"
_REASONS = ", ".join(SuppressionReason)


@dataclass(frozen=True, slots=True)
class Line:
    """One line that can be imported; `occurred_at` is None where the file does not say."""

    key: str = field(repr=False)
    reason: SuppressionReason
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BadLine:
    """One that cannot; `problem` names the column and the mend, and repeats nothing of the line."""

    number: int
    problem: str


class _Bad(ValueError):
    """The text is the problem."""


def read(
    lines: Iterable[bytes], *, reason: SuppressionReason, now: datetime
) -> tuple[list[Line], list[BadLine]]:
    """Read a file, UTF-8 with or without a BOM; return its good and its bad lines.

    Empty lines count and say nothing; the first one with text may name the columns. `reason`
    stands in where a line gives none. Nothing may have happened after `now`.
    """
    good: list[Line] = []
    bad: list[BadLine] = []
    heading_may_come = True
    for number, octets in enumerate(lines, start=1):
        try:
            columns = _columns(octets.removeprefix(_BOM) if number == 1 else octets)
            if any(columns) and not (heading_may_come and _is_heading(columns)):
                good.append(_line(columns, reason, now))
            heading_may_come = heading_may_come and not any(columns)
        except (_Bad, InvalidEmail) as problem:
            bad.append(BadLine(number, str(problem)))
            heading_may_come = False
    return good, bad


def _columns(octets: bytes) -> list[str]:
    """Split a line into columns, without their outer spaces."""
    if len(octets) > MAX_LINE_OCTETS:
        raise _Bad(f"is longer than {MAX_LINE_OCTETS} octets; write one address a line")
    try:
        text = octets.decode().strip()
        columns = next(csv.reader([text], strict=True, skipinitialspace=True), [])
    except UnicodeDecodeError:
        raise _Bad("is not UTF-8 text; convert the file") from None
    except csv.Error:
        raise _Bad("is not one line of CSV; look at its quotes") from None
    if len(columns) > len(COLUMNS):
        raise _Bad(f"has more columns than {','.join(COLUMNS)}; remove the others")
    return [each.strip() for each in columns]


def _is_heading(columns: list[str]) -> bool:
    return [each.lower() for each in columns] == list(COLUMNS[: len(columns)])


def _line(columns: list[str], reason: SuppressionReason, now: datetime) -> Line:
    address, given_reason, moment = [*columns, "", ""][: len(COLUMNS)]
    return Line(
        Mailbox.parse(address, field="address").key,
        _reason(given_reason) if given_reason else reason,
        _moment(moment, now) if moment else None,
    )


def _reason(text: str) -> SuppressionReason:
    try:
        return SuppressionReason(text.lower())
    except ValueError:
        raise _Bad(f"reason: is unknown; write one of {_REASONS}, or none") from None


def _moment(text: str, now: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        at = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _Bad("occurred_at: is no time; write 2026-03-01T12:00:00Z, or none") from None
    if moment.tzinfo is None:
        raise _Bad("occurred_at: has no time zone; add Z for UTC")
    if not OLDEST <= at <= now:
        raise _Bad("occurred_at: lies before 1970 or in the future; correct it, or write none")
    return at
