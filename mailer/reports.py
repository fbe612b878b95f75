"""What stands where: read-only, the same for the command line, the page and metrics.

Shown are ids, keys, states, reasons, codes and times; recipients' addresses and the subject in a
timeline alone, a sender's address in the name of its circuit. A body, a header field, an
attachment or a context is never read.
"""

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, TypeVar

from mailer import absence, audit, lookups
from mailer.circuit import Bucket, CircuitState
from mailer.database import connected
from mailer.errors import Refused
from mailer.facts import NOT_SENT
from mailer.next_step import Standing, next_step, span
from mailer.states import AttemptState, OnAmbiguous, RecipientState, RowState
from mailer.tables import Attempt, Outbox, Recipient
from mailer.views import (
    AttemptCount,
    AttemptView,
    AuditView,
    CircuitView,
    Doubt,
    DoubtCount,
    FactView,
    Listed,
    Listing,
    MessageView,
    Providers,
    RecipientView,
    Status,
    StreamCount,
    Timeline,
)

RECENT_SECONDS = 3_600.0
"""How far back `status` counts attempts."""

MAX_LISTED = 10_000

ASSUMED_BY = "policy assume_sent"
"""Who settled a doubt where the application's policy did, as it stands on the attempt."""

View = TypeVar("View")

_ADDRESS = re.compile(r"\S*@\S*")


def status() -> Status:
    """Sum up the outbox. Reads the whole outbox table once, and of the attempts the newest."""
    with connected():
        at = lookups.clock()
        counts = [StreamCount(*each) for each in lookups.counts()]
        waiting = lookups.waiting()
        recent = lookups.recent(RECENT_SECONDS)
        oldest = waiting.oldest_due_at
        return Status(
            at=at,
            states=_by_state(counts),
            due=waiting.due,
            oldest_due_seconds=None if oldest is None else (at - oldest).total_seconds(),
            retry_waiting=waiting.between_attempts,
            scheduled=waiting.scheduled,
            overdue_leases=lookups.overdue_leases(),
            ambiguous=tuple(DoubtCount(*each) for each in lookups.doubts()),
            recent_seconds=RECENT_SECONDS,
            recent_complete=recent.complete,
            recent_attempts=tuple(AttemptCount(*each) for each in recent.counts),
            streams=tuple(counts),
            circuits=tuple(_circuit(each, at) for each in lookups.circuits(shut_only=True)),
        )


def providers() -> Providers:
    """Tell what is known of every provider, and of senders at it, by name."""
    with connected():
        at = lookups.clock()
        return Providers(at, tuple(_circuit(each, at) for each in lookups.circuits()))


def listing(
    state: RowState,
    *,
    stream: str | None = None,
    after_id: int = 0,
    limit: int = 50,
    max_resends: int = 1,
) -> Listing:
    """List the rows of one state by id, at most `limit` (1 to 10,000) of those beyond `after_id`.

    `max_resends` is the setting that bounds the policy `resend`. Raises Refused for another limit.
    """
    if not 1 <= limit <= MAX_LISTED:
        raise Refused(f"limit: must be from 1 to {MAX_LISTED:,}; continue with --after ID")
    with connected():
        at = lookups.clock()
        page = lookups.page(state, stream=stream, after_id=after_id, limit=limit)
        doubts = lookups.doubts_of([each.id for each in page])
        rows = tuple(_listed(each, at, doubts.get(each.id), max_resends) for each in page)
    return Listing(rows, rows[-1].id if len(rows) == limit else None)


def timeline(outbox_id: int, *, max_resends: int, default_sender: str = "") -> Timeline:
    """Tell the whole story of one message.

    `max_resends` is the setting that bounds the policy `resend`, `default_sender` the sender of a
    row without one. Raises Refused when there is no such row.
    """
    with connected():
        at = lookups.clock()
        row = lookups.shown(outbox_id)
        if row is None:
            raise _missing(f"there is no outbox row {outbox_id}")
        recipients = lookups.recipients(outbox_id)
        attempts = lookups.attempts(outbox_id)
        done = audit.history(outbox_id)
        facts = lookups.facts(outbox_id)
        standing = replace(
            _standing(at, row, recipients, attempts, max_resends),
            thrown_away=any(each.kind in NOT_SENT for each in facts),
        )
        held = _held(standing, at, default_sender)
    return Timeline(
        at=at,
        message=_view(MessageView, row),
        recipients=tuple(_view(RecipientView, each) for each in recipients),
        attempts=tuple(_view(AttemptView, each) for each in attempts),
        audit=tuple(_view(AuditView, each) for each in done),
        next_step=held or next_step(standing),
        facts=tuple(_view(FactView, each) for each in facts),
    )


def find(dedup_key: str) -> int:
    """Return the id of the row that stands for a key; raises Refused when there is none."""
    with connected():
        found = lookups.id_of(dedup_key)
    if found is None:
        raise _missing("no outbox row has this dedup key")
    return found


def state(outbox_id: int) -> RowState:
    """Return the state of one row; raises Refused when there is no such row."""
    with connected():
        found = lookups.state_of(outbox_id)
    if found is None:
        raise _missing(f"there is no outbox row {outbox_id}")
    return found


def _missing(what: str) -> Refused:
    return Refused(f"id: {what}; see `mailer list`")


def _by_state(counts: Sequence[StreamCount]) -> dict[str, int]:
    return {
        each.value: sum(count.rows for count in counts if count.state == each) for each in RowState
    }


def _view(kind: type[View], row: Any) -> View:
    """Copy what the view has fields for, and so nothing else."""
    return kind(**{each.name: getattr(row, each.name) for each in fields(kind)})  # type: ignore[arg-type]


def _listed(row: Outbox, at: datetime, doubt: Attempt | None, max_resends: int) -> Listed:
    return Listed(
        id=row.id,
        dedup_key=row.dedup_key,
        state=row.state,
        reason=row.reason,
        stream=row.stream,
        age_seconds=(at - row.created_at).total_seconds(),
        attempts=row.attempts,
        next_attempt_at=row.next_attempt_at,
        doubt=None if doubt is None else _doubt(row, doubt, at, max_resends),
    )


def _doubt(row: Any, attempt: Any, at: datetime, max_resends: int) -> Doubt:
    begun = tuple(each.number for each in lookups.attempts(row.id) if each.started_at is not None)
    standing = Standing(
        outbox_id=row.id,
        state=RowState(row.state),
        due_in_seconds=(row.next_attempt_at - at).total_seconds(),
        on_ambiguous=OnAmbiguous(row.on_ambiguous),
        resends=row.resends,
        max_resends=max_resends,
        begun_attempts=begun,
    )
    return Doubt(
        number=attempt.number,
        provider=attempt.provider,
        stage=attempt.stage,
        rule=attempt.rule,
        code=attempt.code,
        at=attempt.finished_at,
        bytes_sent=attempt.bytes_sent,
        reply=_ADDRESS.sub("[address]", attempt.reason or ""),
        evidence=attempt.evidence or absence.silence_about(row.id).heard,
        next_step=next_step(standing) if standing.state is RowState.AMBIGUOUS else "",
    )


def _circuit(row: Any, at: datetime) -> CircuitView:
    bucket = Bucket(row.rate or 0.0, row.slowed, row.tokens)
    present, _ = bucket.take(0, max(0.0, (at - row.refilled_at).total_seconds()))
    return CircuitView(
        name=row.name,
        about="provider" if row.sender is None else "sender",
        provider=row.provider,
        state=row.state,
        reason=row.reason,
        since=row.since,
        until=row.until,
        probe_due=row.until is not None and row.until <= at,
        rate=row.rate,
        slowed=present.slowed,
        left_today=row.left_today,
        limits_at=row.limits_at,
    )


def _held(standing: Standing, at: datetime, default_sender: str) -> str | None:
    """Say which circuit a message waits for, if it does."""
    if standing.state is not RowState.PENDING:
        return None
    over = lookups.circuits_over(standing.outbox_id, default_sender=default_sender)
    shut = min(_shut(over), key=lambda each: each.until, default=None)
    if shut is None:
        return None
    wait = max(0.0, (shut.until - at).total_seconds())
    expires = standing.expires_in_seconds
    if standing.due_in_seconds > wait or (expires is not None and expires <= 0):
        return None
    since = span((at - shut.since).total_seconds())
    held = f"held: circuit of {shut.name} is open since {since}, {_probe(shut, wait)}"
    if expires is not None and expires < wait:
        return f"{held}; expires in {span(expires)}"
    return held


def _shut(over: Sequence[Any]) -> list[Any]:
    """One circuit of each provider that keeps it from a row; none where some provider takes it."""
    own = {each.provider: each for each in over if each.sender is None}
    of_sender = {each.provider: each for each in over if each.sender is not None}
    shut = []
    for provider, circuit in own.items():
        both = (circuit, of_sender.get(provider, circuit))
        keeping = [each for each in both if each.state != CircuitState.CLOSED]
        if not keeping:
            return []
        shut.append(keeping[0])
    return shut


def _probe(circuit: Any, wait_seconds: float) -> str:
    if wait_seconds <= 0:
        return "probe due"
    if circuit.state == CircuitState.HALF_OPEN:
        return f"its probe is out for at most {span(wait_seconds)} more"
    return f"probe in {span(wait_seconds)}"


def _standing(
    at: datetime,
    row: Outbox,
    recipients: Sequence[Recipient],
    attempts: Sequence[Attempt],
    max_resends: int,
) -> Standing:
    def until(moment: datetime | None) -> float | None:
        return None if moment is None else (moment - at).total_seconds()

    return Standing(
        outbox_id=row.id,
        state=RowState(row.state),
        due_in_seconds=until(row.next_attempt_at) or 0.0,
        on_ambiguous=OnAmbiguous(row.on_ambiguous),
        resends=row.resends,
        max_resends=max_resends,
        tried=bool(row.last_number),
        begun=bool(attempts) and attempts[-1].state == AttemptState.STARTED,
        begun_attempts=tuple(each.number for each in attempts if each.started_at is not None),
        refused=sum(each.state in _NOT_SENT_TO for each in recipients),
        assumed=any(each.resolved_by == ASSUMED_BY for each in attempts),
        expires_in_seconds=until(row.expires_at),
        lease_seconds=until(row.lease_expires_at),
    )


_NOT_SENT_TO = frozenset({RecipientState.REFUSED, RecipientState.SUPPRESSED})
