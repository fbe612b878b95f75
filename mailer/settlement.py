"""One row under its lock: everything known is read afresh, and the row follows from it.

Used wherever a batch statement cannot decide: late results, expired leases, policies, operators.
The row's state is always derived from its recipients, so evidence has one place to land.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from peewee import SQL, ModelSelect

from mailer.database import after, is_postgresql, now
from mailer.errors import Refused
from mailer.facts import EventState
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
from mailer.tables import Attempt, Event, Outbox, Recipient

LATE_REPLY = "late reply"


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

    def accepted_ids(self) -> frozenset[int]:
        """The recipients for whom acceptance is on record."""
        return frozenset(
            each for each, state in self.recipients.items() if state is RecipientState.ACCEPTED
        )

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

    def take_back_claim(self) -> bool:
        """Take back the claim that holds the lease, because an earlier attempt was settled."""
        newer = Attempt.get(
            Attempt.outbox == self.outbox_id, Attempt.lease_token == self.lease_token
        )
        return self.release_claim(newer.id, "an earlier attempt was settled")

    def tell_call_in_flight(self, changes: Iterable[RecipientChange]) -> None:
        """Write what is proven while a call is open: its result will be settled one by one."""
        self.change_recipients(changes)
        Outbox.update(evidence=Outbox.evidence + 1).where(Outbox.id == self.outbox_id).execute()

    def hold(self) -> None:
        """Leave what is in doubt to evidence and people, and send it no more whatever they find.

        Its time is over: should it turn out that nothing was sent, the row expires.
        """
        if self.state is RowState.AMBIGUOUS:
            Outbox.update(on_ambiguous=OnAmbiguous.HOLD, expires_at=now()).where(
                Outbox.id == self.outbox_id
            ).execute()

    def wait(self, seconds: float) -> None:
        """Leave the row as it is, to be looked at again in `seconds`."""
        Outbox.update(next_attempt_at=after(seconds)).where(Outbox.id == self.outbox_id).execute()

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


def end_attempt(
    attempt_id: int,
    result: CallResult,
    decision: str,
    *,
    duplicate: bool = False,
    evidence: str | None = None,
) -> None:
    """Write a call's outcome on its attempt; evidence that is there stays unless some is given."""
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
        bytes_sent=result.bytes_sent,
        doubtful=list(result.doubtful) or None,
        **_mark(duplicate=duplicate),
        **({} if evidence is None else {"evidence": evidence}),
    ).where(Attempt.id == attempt_id).execute()
    awaken_events(result.provider_id)


def resolve_attempt(
    attempt_id: int,
    resolution: Resolution,
    *,
    by: str,
    evidence: str,
    provider_id: str | None = None,
    duplicate: bool = False,
) -> None:
    """Write on an ambiguous attempt how it was settled, by whom and on what evidence."""
    more: dict[str, object] = {} if provider_id is None else {"provider_id": provider_id}
    Attempt.update(
        resolution=resolution,
        resolved_at=now(),
        resolved_by=by,
        evidence=evidence,
        **_mark(duplicate=duplicate),
        **more,
    ).where(Attempt.id == attempt_id).execute()
    awaken_events(provider_id)


def _mark(*, duplicate: bool) -> dict[str, object]:
    """Once an attempt is marked it stays so."""
    return {"duplicate": True} if duplicate else {}


def awaken_events(provider_id: str | None) -> None:
    """Have events interpreted again that came before this id was known.

    One that is being looked at just now is left to the next sweep: to wait for it here, with the
    row's lock held, could wait for ever.
    """
    if provider_id is None:
        return
    asleep = Event.select(Event.id).where(
        (Event.provider_id == provider_id) & (Event.state == EventState.UNMATCHED)
    )
    if is_postgresql():
        asleep = asleep.for_update(skip_locked=True)
    Event.update(state=EventState.RECEIVED).where(Event.id.in_(asleep)).execute()


def came_on_top(row: LockedRow, attempt: Attempt, accepted: Iterable[int]) -> bool:
    """Tell whether an attempt is accepted for somebody who was accepted through another one.

    What an attempt's own evidence has settled before is no second acceptance.
    """
    if attempt.outcome != Outcome.AMBIGUOUS and attempt.evidence is not None:
        return False
    return not row.accepted_ids().isdisjoint(_newly_taken(attempt, set(accepted)))


def _newly_taken(attempt: Attempt, taken: set[int]) -> set[int]:
    """An attempt in doubt says itself for whom: others that are told of were settled before."""
    return taken & set(attempt.doubtful) if attempt.doubtful else taken


def apply_late(
    row: LockedRow,
    attempt: Attempt,
    result: CallResult,
    policy: RetryPolicy,
    jitter: float,
    *,
    by: str = LATE_REPLY,
) -> tuple[RowState, str]:
    """Keep what was learned of an attempt after its lease was lost, and settle what it can.

    `by` is who tells it. Returns the row's state and what was decided.
    """
    others_in_doubt = _others_in_doubt(row.outbox_id, attempt.id)
    _keep_evidence(attempt, result, by, duplicate=came_on_top(row, attempt, result.taken))
    # Silence that is told once more settles nothing: the attempt itself stays in doubt.
    row.in_doubt = others_in_doubt or bool(result.doubtful)
    changes = after_late_result(row.recipients, result.recipients, others_in_doubt=others_in_doubt)
    if not changes:
        return row.state, "kept as evidence"
    if row.state in WITHDRAWN_STATES:
        row.change_recipients(changes)
        return row.state, "kept as evidence"
    if row.state is RowState.SENDING and not row.take_back_claim():
        row.tell_call_in_flight(changes)
        return row.state, "kept for the call in flight"
    settled = settle(row.message(attempt.number), changes, result, policy, jitter=jitter)
    apply_settlement(row, settled)
    return settled.state, f"settled by a {by}: {settled.decision}"


def _keep_evidence(attempt: Attempt, result: CallResult, by: str, *, duplicate: bool) -> None:
    evidence = f"{by} at {result.stage}: {result.rule} {result.code or ''}".strip()
    if attempt.state != AttemptState.FINISHED:
        end_attempt(attempt.id, result, evidence, duplicate=duplicate)
    elif result.outcome is Outcome.AMBIGUOUS:
        Attempt.update(evidence=evidence).where(Attempt.id == attempt.id).execute()
    elif attempt.resolution != Resolution.ACCEPTED:
        accepted = result.outcome is Outcome.ACCEPTED
        resolve_attempt(
            attempt.id,
            Resolution.ACCEPTED if accepted else Resolution.NOT_ACCEPTED,
            by=by,
            evidence=f"{evidence} {result.reason}".strip(),
            provider_id=result.provider_id,
            duplicate=duplicate,
        )


def _others_in_doubt(outbox_id: int, attempt_id: int) -> bool:
    query = in_doubt(outbox_id).where(Attempt.id != attempt_id)
    return bool(query.exists())


def settle_doubt(row: LockedRow, resolution: Resolution, *, by: str, evidence: str) -> RowState:
    """Settle everything that is in doubt about a row, one way; return its new state.

    Accepted recipients stay as they are. Taken for not accepted, the doubtful ones are due again
    at once. Taken for accepted, so is whoever a later attempt was put off for.
    """
    attempts = list(in_doubt(row.outbox_id))
    for attempt in attempts:
        resolve_attempt(attempt.id, resolution, by=by, evidence=evidence)
    if resolution is Resolution.ACCEPTED:
        theirs = {each for attempt in attempts for each in attempt.doubtful or ()}
        changes = _doubtful(row, RecipientState.ACCEPTED, by, due=theirs)
    else:
        changes = _doubtful(row, RecipientState.DUE, by)
    row.change_recipients(changes)
    following = row_state(row.recipients.values())
    row.move(following, f"settled by {by}"[:80], next_attempt_at=now())
    return following


def send_again(row: LockedRow, silence: str) -> None:
    """Make the doubtful recipients due once more, knowing that it may double the message.

    The attempts stay in doubt: a proof that comes later still marks the duplicate. `silence` says
    what the absence of evidence was worth; it is kept on them.
    """
    for attempt in in_doubt(row.outbox_id):
        words = f"{attempt.evidence}; {silence}" if attempt.evidence else silence
        Attempt.update(evidence=words).where(Attempt.id == attempt.id).execute()
    row.change_recipients(_doubtful(row, RecipientState.DUE, "policy resend"))
    row.move(
        row_state(row.recipients.values()),
        "policy resend",
        next_attempt_at=now(),
        resends=row.resends + 1,
    )


def _doubtful(
    row: LockedRow, state: RecipientState, rule: str, *, due: Collection[int] = ()
) -> list[RecipientChange]:
    """Settle recipients in doubt, and with them those of `due` who wait to be sent to again."""
    return [
        RecipientChange(each, state, rule[:80])
        for each, known in row.recipients.items()
        if known is RecipientState.AMBIGUOUS or (known is RecipientState.DUE and each in due)
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
