"""What people and monitors look up: counts, lists, one message's history. Locks and writes nothing.

Bodies, header fields, attachments and contexts are never selected, so that no caller can show them.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from peewee import JOIN, fn

from mailer.circuit import CircuitState
from mailer.database import SQLITE_NOW, after, is_postgresql, now, rows
from mailer.facts import EventState
from mailer.outcome import Outcome
from mailer.states import AttemptState, RowState
from mailer.tables import Attempt, Event, Fact, Outbox, ProviderHealth, Recipient, Suppression

RECENT_ATTEMPTS = 100_000
"""How far back from the newest attempt a count of recent ones looks: its cost has a bound."""

RECENT_EVENTS = 100
"""Of how many of the latest events the transit is told."""

IN_USE_SECONDS = 900.0
"""A provider that no worker has asked for its limits for so long is no longer in the settings of
any that runs: each asks every few minutes."""

_SHOWN = (
    Outbox.id, Outbox.dedup_key, Outbox.message_id, Outbox.state, Outbox.reason, Outbox.stream,
    Outbox.priority, Outbox.subject, Outbox.template, Outbox.template_version, Outbox.on_ambiguous,
    Outbox.attempts, Outbox.last_number, Outbox.resends, Outbox.created_at, Outbox.queued_at,
    Outbox.next_attempt_at, Outbox.expires_at, Outbox.lease_expires_at, Outbox.finished_at,
)  # fmt: skip

_LISTED = (
    Outbox.id, Outbox.dedup_key, Outbox.state, Outbox.reason, Outbox.stream, Outbox.attempts,
    Outbox.created_at, Outbox.next_attempt_at, Outbox.on_ambiguous, Outbox.resends,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pending rows: due ones, the oldest due moment, those between attempts, those for later."""

    due: int
    oldest_due_at: datetime | None
    between_attempts: int
    scheduled: int


@dataclass(frozen=True, slots=True)
class Recent:
    """What attempts came to since a moment: (outcome, rule, how many).

    `complete` is False when there were more than the bound lets be counted.
    """

    counts: tuple[tuple[str, str, int], ...]
    complete: bool


def clock() -> datetime:
    """The database's present."""
    sql = "SELECT now()" if is_postgresql() else f"SELECT {SQLITE_NOW}"
    moment: Any = Outbox.created_at.python_value(rows(sql, {})[0][0])
    return cast("datetime", moment)


def id_of(dedup_key: str) -> int | None:
    """Return the id of the row that stands for a key."""
    found: int | None = Outbox.select(Outbox.id).where(Outbox.dedup_key == dedup_key).scalar()
    return found


def state_of(outbox_id: int) -> RowState | None:
    """Return a row's state."""
    found = Outbox.select(Outbox.state).where(Outbox.id == outbox_id).scalar()
    return None if found is None else RowState(found)


def shown(outbox_id: int) -> Outbox | None:
    """Return a row, as far as it may be shown."""
    found: Outbox | None = Outbox.select(*_SHOWN).where(Outbox.id == outbox_id).first()
    return found


def recipients(outbox_id: int) -> list[Recipient]:
    """Return a row's recipients in envelope order."""
    return list(
        Recipient.select().where(Recipient.outbox == outbox_id).order_by(Recipient.id).execute()
    )


def attempts(outbox_id: int) -> list[Attempt]:
    """Return the attempts made for a row, first to last."""
    return list(
        Attempt.select().where(Attempt.outbox == outbox_id).order_by(Attempt.number).execute()
    )


def facts(outbox_id: int) -> list[Fact]:
    """Return what became known of a row and its recipients later, by time."""
    return list(
        Fact.select().where(Fact.outbox == outbox_id).order_by(Fact.occurred_at, Fact.id).execute()
    )


def page(state: RowState, *, stream: str | None, after_id: int, limit: int) -> list[Outbox]:
    """Return up to `limit` rows of one state with ids beyond `after_id`, oldest first."""
    query = Outbox.select(*_LISTED).where((Outbox.state == state) & (Outbox.id > after_id))
    if stream is not None:
        query = query.where(Outbox.stream == stream)
    return list(query.order_by(Outbox.id).limit(limit))


def doubts_of(outbox_ids: list[int]) -> dict[int, Attempt]:
    """Return the latest attempt in doubt of each of these rows that has one."""
    query = _latest_doubts().where(Attempt.outbox.in_(outbox_ids))
    return {each.outbox_id: each for each in query}


def doubts() -> list[tuple[str, str, int]]:
    """Count ambiguous rows by the stage and rule of their latest attempt in doubt."""
    query = (
        _latest_doubts(Attempt.stage, Attempt.rule, fn.COUNT(Attempt.id))
        .join(Outbox)
        .where(Outbox.state == RowState.AMBIGUOUS)
        .group_by(Attempt.stage, Attempt.rule)
        .order_by(Attempt.stage, Attempt.rule)
    )
    return _tuples(query)


def _latest_doubts(*columns: Any) -> Any:
    newer = Attempt.alias()
    later = newer.select(newer.id).where(
        (newer.outbox == Attempt.outbox) & (newer.number > Attempt.number) & _unsettled(newer)
    )
    return Attempt.select(*columns).where(_unsettled(Attempt) & ~fn.EXISTS(later))


def _unsettled(attempt: Any) -> Any:
    return (attempt.outcome == Outcome.AMBIGUOUS) & attempt.resolution.is_null()


def _tuples(query: Any) -> list[Any]:
    return list(query.tuples())


def counts() -> list[tuple[str, str, int]]:
    """Count all rows by stream and state: the one query here that reads the whole table."""
    query = (
        Outbox.select(Outbox.stream, Outbox.state, fn.COUNT(Outbox.id))
        .group_by(Outbox.stream, Outbox.state)
        .order_by(Outbox.stream, Outbox.state)
    )
    return _tuples(query)


def waiting() -> Waiting:
    """Sum up the pending rows."""
    due = Outbox.next_attempt_at <= now()
    tried = Outbox.last_number > 0
    query = Outbox.select(
        fn.COUNT(Outbox.id).filter(due),
        fn.MIN(Outbox.next_attempt_at).filter(due),
        fn.COUNT(Outbox.id).filter(~due & tried),
        fn.COUNT(Outbox.id).filter(~due & ~tried),
    ).where(Outbox.state == RowState.PENDING)
    return Waiting(*query.tuples().first())


def unsettled_counts() -> dict[str, int]:
    """Count the rows of each state but `submitted`, each from its partial index."""
    states = [each for each in RowState if each is not RowState.SUBMITTED]
    return {each.value: Outbox.select().where(Outbox.state == each).count() for each in states}


def oldest_doubt() -> datetime | None:
    """Return when the oldest attempt ended that still leaves an ambiguous row in doubt."""
    query = (
        Attempt.select(fn.MIN(Attempt.finished_at))
        .join(Outbox)
        .where((Outbox.state == RowState.AMBIGUOUS) & _unsettled(Attempt))
    )
    return _moment(query.scalar())


def duplicates() -> int:
    """Count the attempts whose acceptance came on top of another's."""
    return int(Attempt.select().where(Attempt.duplicate).count())


def event_named(topic_arn: str, sns_message_id: str) -> Event | None:
    """Return what is known of a stored event, without its body, and with its attempt."""
    found: Event | None = (
        Event.select(Event.id, Event.kind, Event.state, Event.matched_by, Attempt)
        .join(Attempt, JOIN.LEFT_OUTER)
        .where((Event.topic_arn == topic_arn) & (Event.sns_message_id == sns_message_id))
        .first()
    )
    return found


def event_states(event_ids: list[int]) -> dict[str, int]:
    """Count these events by state."""
    query = (
        Event.select(Event.state, fn.COUNT(Event.id))
        .where(Event.id.in_(event_ids))
        .group_by(Event.state)
    )
    return dict(_tuples(query))


def event_counts() -> dict[str, int]:
    """Count the events that still need something, by state."""
    states = (EventState.RECEIVED, EventState.UNMATCHED, EventState.UNPARSED)
    return {each.value: Event.select().where(Event.state == each).count() for each in states}


def event_lags() -> tuple[datetime | None, float]:
    """Return since when the oldest event waits to be interpreted, and the latest ones' transit.

    The transit is the longest of the latest `RECENT_EVENTS`, in seconds.
    """
    oldest = (
        Event.select(Event.received_at)
        .where(Event.state == EventState.RECEIVED)
        .order_by(Event.id)
        .limit(1)
        .scalar()
    )
    latest = (
        Event.select(Event.received_at, Event.published_at)
        .order_by(Event.id.desc())
        .limit(RECENT_EVENTS)
    )
    transits = (
        (each.received_at - each.published_at).total_seconds()
        for each in latest
        if each.published_at is not None
    )
    return _moment(oldest), max(transits, default=0.0)


def suppression_counts() -> dict[str, int]:
    """Count the suppressions that were not released, by reason."""
    query = (
        Suppression.select(Suppression.reason, fn.COUNT(Suppression.id))
        .where(Suppression.released_at.is_null())
        .group_by(Suppression.reason)
    )
    return dict(_tuples(query))


def _moment(value: Any) -> datetime | None:
    moment: Any = Outbox.created_at.python_value(value)
    return cast("datetime | None", moment)


def overdue_leases() -> int:
    """Count the leases that have run out and that no sweep has ended yet."""
    query = Outbox.select(fn.COUNT(Outbox.id)).where(
        (Outbox.state == RowState.SENDING) & (Outbox.lease_expires_at <= now())
    )
    return int(query.scalar())


def recent(seconds: float, *, at_most: int = RECENT_ATTEMPTS) -> Recent:
    """Count the attempts that ended in the last `seconds`, among the newest `at_most`.

    Ids grow with time, so the primary key bounds the search whatever the length of the history.
    """
    newest = Attempt.select(fn.MAX(Attempt.id)).scalar() or 0
    within = Attempt.id > newest - at_most
    query = (
        Attempt.select(Attempt.outcome, Attempt.rule, fn.COUNT(Attempt.id))
        .where(
            within
            & (Attempt.finished_at >= after(-seconds))
            & (Attempt.state == AttemptState.FINISHED)
        )
        .group_by(Attempt.outcome, Attempt.rule)
        .order_by(Attempt.outcome, Attempt.rule)
    )
    left_out = (
        Attempt.select((Attempt.claimed_at < after(-seconds)).alias("earlier"))
        .where(~within)
        .order_by(Attempt.id.desc())
        .limit(1)
        .scalar()
    )
    return Recent(tuple(_tuples(query)), complete=left_out is None or bool(left_out))


def circuits(*, shut_only: bool = False) -> list[ProviderHealth]:
    """Return the health of providers and of senders at them by name, or what is not closed."""
    query = ProviderHealth.select().order_by(ProviderHealth.name)
    if shut_only:
        query = query.where(ProviderHealth.state != CircuitState.CLOSED)
    return list(query)


def circuits_over(outbox_id: int, *, default_sender: str) -> list[ProviderHealth]:
    """Return the health of the providers in use, and that of a row's sender at any provider.

    A row without a sender has `default_sender`. The sender itself is not read.
    """
    sender = Outbox.select(fn.COALESCE(Outbox.sender, default_sender)).where(Outbox.id == outbox_id)
    asked_at = ProviderHealth.limits_at
    in_use = asked_at.is_null() | (asked_at > after(-IN_USE_SECONDS))
    query = ProviderHealth.select().where(
        (ProviderHealth.sender.is_null() & in_use) | (ProviderHealth.sender == sender)
    )
    return list(query.order_by(ProviderHealth.name))
