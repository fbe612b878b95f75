"""Events as they were stored: taken in, interpreted by one worker each, and kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from peewee import fn

from mailer.database import after, is_postgresql, transaction
from mailer.facts import EventState, Notice
from mailer.feed import Channel
from mailer.matching import Match
from mailer.outcome import clean
from mailer.tables import Attempt, Event

_KIND_CHARS = 64


@dataclass(frozen=True, slots=True)
class Incoming:
    """A verified event to be stored; both names together are its identity."""

    topic_arn: str
    sns_message_id: str
    channel: Channel
    body: bytes = field(repr=False)
    published_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored event that is still to be interpreted."""

    event_id: int
    channel: Channel
    body: bytes = field(repr=False)
    published_at: datetime | None


@dataclass(frozen=True, slots=True)
class Reading:
    """A stored event with what it says and what it is about."""

    stored: Stored
    notice: Notice
    match: Match | None

    @property
    def state(self) -> EventState:
        """What the event ends in: what is about no known attempt waits for one."""
        about_mail = self.notice.state in (EventState.PROCESSED, EventState.UNKNOWN_TYPE)
        return EventState.UNMATCHED if about_mail and self.match is None else self.notice.state


def insert(batch: Sequence[Incoming]) -> int:
    """Store events that are not stored yet, in one statement; return how many were new."""
    written = (
        Event.insert_many(
            [
                {
                    "topic_arn": each.topic_arn,
                    "sns_message_id": each.sns_message_id,
                    "channel": each.channel.value,
                    "body": each.body,
                    "published_at": each.published_at,
                }
                for each in batch
            ]
        )
        .on_conflict_ignore()
        .returning(Event.id)
        .execute()
    )
    return len(list(written))


def take(limit: int, *, event_id: int | None = None) -> list[Stored]:
    """Lock up to `limit` events that are to be interpreted, oldest first; or one, if it is.

    Those that somebody else is interpreting are passed over. Must run inside a transaction.
    """
    query = (
        Event.select(Event.id, Event.channel, Event.body, Event.published_at)
        .where(Event.state == EventState.RECEIVED)
        .order_by(Event.id)
        .limit(limit)
    )
    if event_id is not None:
        query = query.where(Event.id == event_id)
    if is_postgresql():
        query = query.for_update(skip_locked=True)
    return [_stored(each) for each in query]


def take_one(event_id: int) -> bool:
    """Lock one event that is still to be interpreted; False when somebody else did or does that."""
    query = Event.select(Event.id).where(
        (Event.id == event_id) & (Event.state == EventState.RECEIVED)
    )
    if is_postgresql():
        query = query.for_update(skip_locked=True)
    return query.first() is not None


def _stored(row: Any) -> Stored:
    return Stored(row.id, Channel(row.channel), bytes(row.body), row.published_at)


def mark(readings: Iterable[Reading]) -> None:
    """Write what events turned out to be. Must run inside a transaction."""
    for each in readings:
        notice, match = each.notice, each.match
        Event.update(
            state=each.state,
            kind=clean(notice.kind)[:_KIND_CHARS],
            occurred_at=notice.occurred_at,
            provider_id=notice.provider_id,
            request_tag=notice.request_tag or notice.header_tag,
            attempt=None if match is None else match.attempt_id,
            matched_by=None if match is None else match.matched_by,
            conflict=match is not None and match.conflict,
        ).where(Event.id == each.stored.event_id).execute()


def mark_double(attempt_id: int) -> None:
    """Note that the provider took one request of this attempt twice."""
    Attempt.update(duplicate=True).where(Attempt.id == attempt_id).execute()


def reawaken(*, seconds: float | None = None, limit: int = 10_000) -> int:
    """Have unmatched events interpreted again whose attempt is known by now; return how many.

    With `seconds`, only those received within them.
    """
    known = Attempt.select(Attempt.id).where(
        (Attempt.provider_id == Event.provider_id) | (Attempt.request_tag == Event.request_tag)
    )
    chosen = Event.select(Event.id).where((Event.state == EventState.UNMATCHED) & fn.EXISTS(known))
    if seconds is not None:
        chosen = chosen.where(Event.received_at >= after(-seconds))
    chosen = chosen.order_by(Event.id).limit(limit)
    if is_postgresql():
        chosen = chosen.for_update(skip_locked=True)
    with transaction():
        changed = Event.update(state=EventState.RECEIVED).where(Event.id.in_(chosen)).execute()
    return int(changed)


def reread(states: Sequence[EventState], *, after_id: int, limit: int) -> list[int]:
    """Have stored events of these states read again from their bodies; return their ids.

    For a person, after an upgrade that reads more than the version that stored them.
    """
    chosen = (
        Event.select(Event.id)
        .where(Event.state.in_(states) & (Event.id > after_id))
        .order_by(Event.id)
        .limit(limit)
    )
    if is_postgresql():
        chosen = chosen.for_update(skip_locked=True)
    with transaction():
        ids = [each.id for each in chosen]
        if ids:
            Event.update(state=EventState.RECEIVED).where(Event.id.in_(ids)).execute()
    return ids
