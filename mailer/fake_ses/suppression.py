"""The account's suppression list."""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from mailer.fake_ses.refusals import BAD_TOKEN, Denied, Refusal, bad_request, not_found

MAX_PAGE = 1_000

REASONS = frozenset({"BOUNCE", "COMPLAINT"})


@dataclass(frozen=True, slots=True)
class Suppressed:
    """An address that the account does not send to, and since when."""

    address: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Query:
    """Which entries are asked for: all of them by default."""

    reasons: frozenset[str] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    page_size: int = MAX_PAGE
    token: str | None = None

    def matches(self, entry: Suppressed) -> bool:
        """Tell whether an entry is asked for, on whichever page."""
        return (
            (not self.reasons or entry.reason in self.reasons)
            and (self.since is None or entry.at >= self.since)
            and (self.until is None or entry.at <= self.until)
        )


class SuppressionList:
    """Addresses by their key, which knows no upper case."""

    def __init__(self) -> None:
        self._entries: dict[str, Suppressed] = {}

    def __contains__(self, address: str) -> bool:
        return address.lower() in self._entries

    def put(self, address: str, reason: str) -> None:
        """Add an address, or change its reason."""
        check_reasons({reason})
        if "@" not in address:
            raise Denied(bad_request("EmailAddress is not an address"))
        self._entries[address.lower()] = Suppressed(address, reason, datetime.now(UTC))

    def get(self, address: str) -> Suppressed:
        """Return an entry; raises Denied where there is none."""
        try:
            return self._entries[address.lower()]
        except KeyError:
            raise Denied(_absent(address)) from None

    def remove(self, address: str) -> None:
        """Remove an entry; raises Denied where there is none."""
        if self._entries.pop(address.lower(), None) is None:
            raise Denied(_absent(address))

    def page(self, query: Query) -> tuple[list[Suppressed], str | None]:
        """Return one page, and the token of the next where there is one.

        The token is the last key of the page, so that entries which come and go between two pages
        neither hide nor double others.
        """
        found = self._after("" if query.token is None else _key(query.token), query)
        page = list(islice(found, query.page_size))
        more = next(found, None) is not None
        return page, _token(page[-1].address.lower()) if page and more else None

    def _after(self, key: str, query: Query) -> Iterator[Suppressed]:
        for each in sorted(self._entries):
            if each > key and query.matches(self._entries[each]):
                yield self._entries[each]


def check_reasons(reasons: set[str] | frozenset[str]) -> None:
    """Raise Denied for a reason that SES does not know."""
    if not reasons <= REASONS:
        raise Denied(bad_request("Reason must be BOUNCE or COMPLAINT"))


def _absent(address: str) -> Refusal:
    return not_found(f"Email address {address} does not exist on your suppression list.")


def _token(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode("ascii")


def _key(token: str) -> str:
    try:
        return base64.b64decode(token, b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Denied(BAD_TOKEN) from None
