"""Who gets no mail, as operators see it: with addresses, which is the point of asking."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mailer import lookups, suppressions
from mailer.addresses import address_key
from mailer.database import connected
from mailer.errors import Refused
from mailer.facts import SuppressionReason
from mailer.reports import MAX_LISTED
from mailer.tables import Suppression


@dataclass(frozen=True, slots=True)
class SuppressionView:
    """One suppression. `in_force` is False once it was released or has expired.

    `event_id` is the event that brought it about, None for people, imports and lists.
    """

    id: int
    address_key: str
    in_force: bool
    reason: str
    source: str
    event_id: int | None
    occurred_at: datetime
    created_at: datetime
    expires_at: datetime | None
    released_at: datetime | None
    released_by: str | None
    release_reason: str | None


@dataclass(frozen=True, slots=True)
class SuppressionListing:
    """A page of suppressions; `next_after` continues it, None where it ends."""

    rows: tuple[SuppressionView, ...]
    next_after: int | None


def listing(
    *,
    reason: SuppressionReason | None = None,
    after_id: int = 0,
    limit: int = 50,
    ended: bool = False,
) -> SuppressionListing:
    """List suppressions in force by id, at most `limit` (1 to 10,000) of those beyond `after_id`.

    With `ended` also those that were released or have expired. Raises Refused for another limit.
    """
    if not 1 <= limit <= MAX_LISTED:
        raise Refused(f"limit: must be from 1 to {MAX_LISTED:,}; continue with --after ID")
    with connected():
        page = suppressions.page(reason=reason, after_id=after_id, limit=limit, ended=ended)
        rows = _views(page)
    return SuppressionListing(rows, rows[-1].id if len(rows) == limit else None)


def history(address: str) -> SuppressionListing:
    """Tell all that was ever held against an address, oldest first, and who released it and why.

    Raises InvalidEmail for what is no address.
    """
    with connected():
        return SuppressionListing(_views(suppressions.history(address_key(address))), None)


def _views(page: Iterable[Suppression]) -> tuple[SuppressionView, ...]:
    at = lookups.clock()
    return tuple(_view(each, at) for each in page)


def _view(row: Any, at: datetime) -> SuppressionView:
    expired = row.expires_at is not None and row.expires_at <= at
    return SuppressionView(
        id=row.id,
        address_key=row.address_key,
        in_force=row.released_at is None and not expired,
        reason=row.reason,
        source=row.source,
        event_id=row.event_id,
        occurred_at=row.occurred_at,
        created_at=row.created_at,
        expires_at=row.expires_at,
        released_at=row.released_at,
        released_by=row.released_by,
        release_reason=row.release_reason,
    )
