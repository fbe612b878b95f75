"""One row under its lock: everything known is read afresh, and the row follows from it.

Used wherever a batch statement cannot decide: late results, expired leases, policies, operators.
The row's state is always derived from its recipients, so evidence has one place to land.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from peewee import SQL, ModelSelect

from mailer.database import after, is_postgresql, now
from mailer.errors import Refused
from mailer.outcome import CallResult, Outcome
from mailer.retry import RetryPolicy
from mailer.states import (
    FINAL_STATES,
    WITHDRAWN_STATES,
    AttemptState,
    Message,
    OnAmbiguous,
    RecipientChange,
    RecipientState,
    Resolution,
    RowState,
    Settlement,
    after_late_result,
    row_state,
    settle,
)
from mailer.tables import Attempt, Outbox, Recipient


@dataclass(slots=True)
class LockedRow:
    """A row whose lock this transaction holds, with its recipients."""

    outbox_id: int
    state: RowState
    lease_token: str | None
    overdue: bool
    attempts: int
    age_seconds: float
    on_ambiguous: OnAmbiguous
    resends: int
    in_doubt: bool
    recipients: dict[int, RecipientState] = field(default_factory=dict)

    def holds(self, lease_token: str) -> bool:
        """Tell whether `lease_token` is the current lease."""
        return self.state is RowState.SENDING and self.lease_token == lease_token

    def message(self, number: int) -> Message:
        """The row as the rules see it, for attempt `number`."""
        return Message(
            self.recipients, self.attempts, number, self.age_seconds, in_doubt=self.in_doubt
        )

    def due_ids(self) -> tuple[int, ...]:
        """The recipients still to be sent to."""
        return tuple(each for each, state in self.recipients.items() if state is RecipientState.DUE)

    def release_claim(self, attempt_id: int, decision: str) -> bool:
        """Take back a claim that has not begun; False when its call was already about to start.

        The attempt's own row decides between this and `begin`: both ask for `claimed`.
        """
        changed = (
            Attempt.update(state=AttemptState.RELEASED, finished_at=now(), decision=decision)
            .where((Attempt.id == attempt_id) & (Attempt.state == AttemptState.CLAIMED))
            .execute()
        )
        return bool(changed)

    def rederive(self, reason: str) -> RowState:
        """Let the row follow from its recipients, with no lease.

        A row that was never frozen has no recipients yet and simply waits again.
        """
        state = row_state(self.recipients.values()) if self.recipients else RowState.PENDING
        self.move(state, reason)
        return state

    def move(self, state: RowState, reason: str, **more: object) -> None:
        """Write the row's new state; any lease ends with it."""
        Outbox.update(
            state=state,
            reason=reason,
            lease_token=None,
            lease_expires_at=None,
            finished_at=now() if state in FINAL_STATES else None,
            **more,
        ).where(Outbox.id == self.outbox_id).execute()
        self.state = state

    def change_recipients(self, changes: Iterable[RecipientChange]) -> None:
        """Write what became of recipients."""
        for each in changes:
            Recipient.update(
                state=each.state,
                rule=each.rule,
                code=each.code,
                text=each.text,
                updated_at=now(),
            ).where(Recipient.id == each.recipient_id).execute()
            self.recipients[each.recipient_id] = each.state


def lock_row(outbox_id: int) -> LockedRow:
    """Lock one row and read it with its recipients; must run inside a transaction.

    Raises Refused when there is no such row.
    """
    query = Outbox.select(
        Outbox.state,
        Outbox.lease_token,
        (Outbox.lease_expires_at <= now()).alias("overdue"),
        Outbox.attempts,
        _age_seconds(),
        Outbox.on_ambiguous,
        Outbox.resends,
        _in_doubt(),
    ).where(Outbox.id == outbox_id)
    found = (query.for_update() if is_postgresql() else query).tuples().first()
    if found is None:
        raise Refused(f"id: there is no outbox row {outbox_id}; see `mailer list`")
    known = (
        Recipient.select(Recipient.id, Recipient.state)
        .where(Recipient.outbox == outbox_id)
        .order_by(Recipient.id)
    )
    state, token, overdue, attempts, age, on_ambiguous, resends, in_doubt = found
    return LockedRow(
        outbox_id,
        RowState(state),
        token,
        bool(overdue),
        attempts,
        float(age),
        OnAmbiguous(on_ambiguous),
        resends,
        bool(in_doubt),
        {each.id: RecipientState(each.state) for each in known},
    )


def apply_settlement(row: LockedRow, settled: Settlement) -> None:
    """Write a settlement whole: recipients, budget, next attempt, state."""
    row.change_recipients(settled.recipients)
    more: dict[str, object] = {}
    if settled.charge:
        more["attempts"] = row.attempts + settled.charge
    if settled.delay_seconds is not None:
        more["next_attempt_at"] = after(settled.delay_seconds)
    row.move(settled.state, settled.reason, **more)


def end_attempt(attempt_id: int, result: CallResult, decision: str) -> None:
    """Write a call's outcome on its attempt."""
    Attempt.update(
        state=AttemptState.FINISHED,
        outcome=result.outcome,
        scope=result.scope,
        stage=result.stage,
        rule=result.rule,
        code=result.code,
        reason=result.reason,
        provider_id=result.provider_id,
        decision=decision,
        finished_at=now(),
    ).where(Attempt.id == attempt_id).execute()


def resolve_attempt(
    attempt_id: int,
    resolution: Resolution,
    *,
    by: str,
    evidence: str,
    provider_id: str | None = None,
) -> None:
    """Write on an ambiguous attempt how it was settled, by whom and on what evidence."""
    more = {} if provider_id is None else {"provider_id": provider_id}
    Attempt.update(
        resolution=resolution, resolved_at=now(), resolved_by=by, evidence=evidence, **more
    ).where(Attempt.id == attempt_id).execute()


def apply_late(
    row: LockedRow, attempt: Attempt, result: CallResult, policy: RetryPolicy, jitter: float
) -> tuple[RowState, str]:
    """Keep what a worker learned after it had lost the lease, and let it settle what it can.

    Returns the row's state and what was decided.
    """
    others_in_doubt = _others_in_doubt(row.outbox_id, attempt.id)
    _keep_evidence(attempt, result)
    row.in_doubt = others_in_doubt
    changes = after_late_result(row.recipients, result.recipients, others_in_doubt=others_in_doubt)
    if not changes:
        return row.state, "kept as evidence"
    if row.state in WITHDRAWN_STATES:
        row.change_recipients(changes)
        return row.state, "kept as evidence"
    if row.state is RowState.SENDING and not _take_back_newer_claim(row):
        row.change_recipients(changes)
        Outbox.update(evidence=Outbox.evidence + 1).where(Outbox.id == row.outbox_id).execute()
        return row.state, "kept for the call in flight"
    settled = settle(row.message(attempt.number), changes, result, policy, jitter=jitter)
    apply_settlement(row, settled)
    return settled.state, f"settled by a late reply: {settled.decision}"


def _keep_evidence(attempt: Attempt, result: CallResult) -> None:
    evidence = f"late reply at {result.stage}: {result.rule} {result.code or ''}".strip()
    if attempt.state != AttemptState.FINISHED:
        end_attempt(attempt.id, result, evidence)
    elif result.outcome is Outcome.AMBIGUOUS:
        Attempt.update(evidence=evidence).where(Attempt.id == attempt.id).execute()
    elif attempt.resolution != Resolution.ACCEPTED:
        accepted = result.outcome is Outcome.ACCEPTED
        resolve_attempt(
            attempt.id,
            Resolution.ACCEPTED if accepted else Resolution.NOT_ACCEPTED,
            by="late reply",
            evidence=f"{evidence} {result.reason}".strip(),
            provider_id=result.provider_id,
        )


def _take_back_newer_claim(row: LockedRow) -> bool:
    newer = Attempt.get(Attempt.outbox == row.outbox_id, Attempt.lease_token == row.lease_token)
    return row.release_claim(newer.id, "an earlier attempt was settled")


def _others_in_doubt(outbox_id: int, attempt_id: int) -> bool:
    query = in_doubt(outbox_id).where(Attempt.id != attempt_id)
    return bool(query.exists())


def settle_doubt(row: LockedRow, resolution: Resolution, *, by: str, evidence: str) -> RowState:
    """Settle everything that is in doubt about a row, one way; return its new state.

    Accepted recipients stay as they are. Taken for not accepted, the doubtful ones are due again
    at once.
    """
    for attempt in in_doubt(row.outbox_id):
        resolve_attempt(attempt.id, resolution, by=by, evidence=evidence)
    accepted = resolution is Resolution.ACCEPTED
    state = RecipientState.ACCEPTED if accepted else RecipientState.DUE
    row.change_recipients(_doubtful(row, state, by))
    following = row_state(row.recipients.values())
    row.move(following, f"settled by {by}"[:80], next_attempt_at=now())
    return following


def send_again(row: LockedRow) -> None:
    """Make the doubtful recipients due once more, knowing that it may double the message.

    The attempts stay in doubt: a proof that comes later still marks the duplicate.
    """
    row.change_recipients(_doubtful(row, RecipientState.DUE, "policy resend"))
    row.move(
        row_state(row.recipients.values()),
        "policy resend",
        next_attempt_at=now(),
        resends=row.resends + 1,
    )


def _doubtful(row: LockedRow, state: RecipientState, rule: str) -> list[RecipientChange]:
    return [
        RecipientChange(each, state, rule[:80])
        for each, known in row.recipients.items()
        if known is RecipientState.AMBIGUOUS
    ]


def in_doubt(outbox_id: int) -> "ModelSelect[Attempt]":
    """The attempts of a row whose fate is unknown."""
    return Attempt.select().where(
        (Attempt.outbox == outbox_id)
        & (Attempt.outcome == Outcome.AMBIGUOUS)
        & Attempt.resolution.is_null()
    )


def _in_doubt() -> SQL:
    return SQL(
        "EXISTS (SELECT 1 FROM email_attempt WHERE email_attempt.outbox_id = t1.id"
        " AND outcome = 'ambiguous' AND resolution IS NULL)"
    )


def _age_seconds() -> SQL:
    if is_postgresql():
        return SQL("extract(epoch FROM now() - queued_at)")
    return SQL("(julianday('now') - julianday(queued_at)) * 86400.0")
