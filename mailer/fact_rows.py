"""The facts that events hold, written once each, and whom they are rightly about."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from peewee import EXCLUDED, fn

from mailer.database import is_postgresql
from mailer.events import Reading
from mailer.facts import Fact
from mailer.outcome import clean
from mailer.tables import Fact as FactRow
from mailer.tables import Recipient

_RULE_CHARS = 80
_CODE_CHARS = 64
_KEY_CHARS = 255


def write(readings: Sequence[Reading]) -> list[tuple[Reading, Fact]]:
    """Write the facts that events hold; those that are on record already are linked, not doubled.

    Returns those about somebody whom the message was for: a recipient, or a destination. Whom else
    an event names comes from a report that a stranger can write. Must run inside a transaction.
    """
    known = _recipients(readings)
    facts: dict[tuple[str, ...], dict[str, Any]] = {}
    listed: list[tuple[Reading, Fact]] = []
    for reading in readings:
        for fact in reading.notice.facts:
            row = _fact_row(reading, fact, known)
            if fact.address is not None and not row["unlisted"]:
                listed.append((reading, fact))
            key = (row["reference"], row["address_key"], row["kind"], row["occurrence"])
            earlier = facts.get(key)
            if earlier is None or (earlier["outbox"] is None and row["outbox"] is not None):
                facts[key] = row
    _insert([facts[key] for key in sorted(facts)])
    return listed


def _insert(in_order: list[dict[str, Any]]) -> None:
    if in_order:
        FactRow.insert_many(in_order).on_conflict(
            conflict_target=(
                FactRow.reference,
                FactRow.address_key,
                FactRow.kind,
                FactRow.occurrence,
            ),
            update={
                FactRow.outbox: fn.COALESCE(FactRow.outbox, EXCLUDED.outbox_id),
                FactRow.recipient: fn.COALESCE(FactRow.recipient, EXCLUDED.recipient_id),
                FactRow.attempt: fn.COALESCE(FactRow.attempt, EXCLUDED.attempt_id),
                FactRow.unlisted: FactRow.unlisted & EXCLUDED.unlisted,
                FactRow.occurred_at: _earlier(FactRow.occurred_at, EXCLUDED.occurred_at),
            },
            where=FactRow.outbox.is_null() | (FactRow.occurred_at > EXCLUDED.occurred_at),
        ).execute()


def _earlier(one: Any, other: Any) -> Any:
    """Two tellings of one fact may give it two times; whichever came first must not matter."""
    return fn.LEAST(one, other) if is_postgresql() else fn.MIN(one, other)


def _recipients(readings: Iterable[Reading]) -> dict[tuple[int, str], int]:
    outbox_ids = {
        each.match.outbox_id for each in readings if each.match is not None and each.notice.facts
    }
    if not outbox_ids:
        return {}
    query = Recipient.select(Recipient.id, Recipient.outbox, Recipient.address_key).where(
        Recipient.outbox.in_(outbox_ids)
    )
    return {(each.outbox_id, each.address_key): each.id for each in _each(query)}


def _each(query: Any) -> Iterable[Any]:
    return query  # type: ignore[no-any-return]


def _fact_row(reading: Reading, fact: Fact, known: Mapping[tuple[int, str], int]) -> dict[str, Any]:
    match, notice = reading.match, reading.notice
    outbox_id = None if match is None else match.outbox_id
    recipient_id = known.get((outbox_id or 0, fact.address or ""))
    return {
        "event": reading.stored.event_id,
        "outbox": outbox_id,
        "recipient": recipient_id,
        "attempt": None if match is None else match.attempt_id,
        "reference": _bounded(notice.reference),
        "address_key": fact.address or "",
        "kind": fact.kind.value,
        "occurrence": _bounded(fact.occurrence),
        "occurred_at": fact.occurred_at,
        "rule": clean(fact.rule)[:_RULE_CHARS],
        "code": fact.code and clean(fact.code)[:_CODE_CHARS],
        "text": fact.text,
        "trusted": notice.trusted,
        "unlisted": fact.address is not None
        and recipient_id is None
        and fact.address not in notice.destinations,
    }


def _bounded(text: str) -> str:
    """What identifies a fact is indexed, and a key of an index has a largest size."""
    return text if len(text) <= _KEY_CHARS else hashlib.sha256(text.encode()).hexdigest()
