"""Who gets no mail, since when and why: at most one suppression in force an address.

A suppression is put together so that the order in which its reasons came means nothing. Only a
release takes it back, and what happened before a release cannot undo it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from peewee import fn

from mailer.claims import Claimed
from mailer.database import now, rows, transaction
from mailer.facts import SuppressionReason
from mailer.settlement import apply_settlement, lock_row
from mailer.states import RecipientState, RowState, after_suppression
from mailer.suppressions_sql import ADD, spelled
from mailer.tables import Recipient, Suppression

BY_PEOPLE = "operator "
"""What the source of a suppression begins with that a person made; the name follows."""


@dataclass(frozen=True, slots=True)
class Barred:
    """That an address shall get no mail from `occurred_at` on, until `expires_at` (None: for good).

    `source` names who says so: an event's kind, `ses:REGION`, an operator.
    """

    address_key: str
    reason: SuppressionReason
    source: str
    occurred_at: datetime
    expires_at: datetime | None = None
    event_id: int | None = None


def bar(wanted: Iterable[Barred]) -> int:
    """Suppress addresses; return for how many that holds now.

    What happened before an address was released leaves it released. An address that is suppressed
    already keeps the graver reason and the later end.
    """
    in_order = sorted(wanted, key=lambda each: (each.address_key, each.occurred_at))
    with transaction():
        return sum(_bar(each) for each in in_order)


def _bar(each: Barred) -> bool:
    moment = Suppression.occurred_at.db_value
    params = {
        "address_key": each.address_key,
        "reason": each.reason.value,
        "source": each.source,
        "occurred_at": moment(each.occurred_at),
        "expires_at": None if each.expires_at is None else moment(each.expires_at),
        "event_id": each.event_id,
    }
    return bool(rows(spelled(ADD), params))


def _in_force() -> Any:
    return Suppression.released_at.is_null() & (
        Suppression.expires_at.is_null() | (Suppression.expires_at > now())
    )


def in_force(address_keys: Sequence[str]) -> dict[str, Suppression]:
    """Return the suppressions in force among these addresses, by address."""
    query = Suppression.select().where(Suppression.address_key.in_(address_keys) & _in_force())
    return {each.address_key: each for each in query}


def page(
    *,
    reason: SuppressionReason | None = None,
    after_id: int = 0,
    limit: int = 50,
    ended: bool = False,
) -> list[Suppression]:
    """Return up to `limit` suppressions in force with ids beyond `after_id`, oldest first.

    With `ended` also those that were released or have expired.
    """
    query = Suppression.select().where(Suppression.id > after_id)
    if not ended:
        query = query.where(_in_force())
    if reason is not None:
        query = query.where(Suppression.reason == reason)
    return list(query.order_by(Suppression.id).limit(limit))


def history(address_key: str) -> list[Suppression]:
    """Return all that was ever held against an address, oldest first."""
    query = Suppression.select().where(Suppression.address_key == address_key)
    return list(query.order_by(Suppression.id))


def from_source(source: str) -> set[str]:
    """Return the addresses that are suppressed because this source says so."""
    query = Suppression.select(Suppression.address_key).where(
        (Suppression.source == source) & _in_force()
    )
    return {each for (each,) in _tuples(query)}


def by_people() -> dict[str, SuppressionReason]:
    """Return whom people suppressed for good, and why, by address."""
    query = Suppression.select(Suppression.address_key, Suppression.reason).where(
        (fn.SUBSTR(Suppression.source, 1, len(BY_PEOPLE)) == BY_PEOPLE)
        & Suppression.released_at.is_null()
        & Suppression.expires_at.is_null()
    )
    return {each: SuppressionReason(reason) for each, reason in _tuples(query)}


def release(address_key: str, *, by: str, why: str) -> Suppression | None:
    """Let an address have mail again; return what was released, None where nothing was in force.

    Events of what happened before now cannot suppress it again.
    """
    with transaction():
        found: Suppression | None = Suppression.get_or_none(
            (Suppression.address_key == address_key) & Suppression.released_at.is_null()
        )
        if found is None:
            return None
        changed = (
            Suppression.update(released_at=now(), released_by=by, release_reason=why)
            .where((Suppression.id == found.id) & Suppression.released_at.is_null())
            .execute()
        )
        return found if changed else None


def withhold(claims: Sequence[Claimed]) -> list[tuple[int, RowState]]:
    """Leave suppressed recipients out of claimed messages; return those rows and their new states.

    The claim is given back. With others still due the row is claimed again, for them alone.
    Claims that have begun, that are lost, or that nothing bars are left as they are.
    """
    done = ((each.outbox_id, _withhold(each)) for each in claims)
    return [(outbox_id, state) for outbox_id, state in done if state is not None]


def _withhold(claimed: Claimed) -> RowState | None:
    with transaction():
        row = lock_row(claimed.outbox_id)
        if not row.holds(claimed.lease_token):
            return None
        barred = _barred_recipients(claimed.outbox_id)
        if not barred or not row.release_claim(claimed.attempt_id, "suppressed"):
            return None
        apply_settlement(row, after_suppression(row.recipients, barred, in_doubt=row.in_doubt))
        return row.state


def _barred_recipients(outbox_id: int) -> dict[int, str]:
    query = (
        Recipient.select(Recipient.id, Suppression.reason)
        .join(Suppression, on=(Suppression.address_key == Recipient.address_key))
        .where(
            (Recipient.outbox == outbox_id) & (Recipient.state == RecipientState.DUE) & _in_force()
        )
    )
    return {each: f"suppressed-{reason}" for each, reason in _tuples(query)}


def _tuples(query: Any) -> list[Any]:
    return list(query.tuples())
