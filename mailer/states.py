"""The state machine: every state, every transition, and what an outcome leads to. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mailer.outcome import CHARGED_SCOPES, CallResult, Outcome, RecipientVerdict
from mailer.provider import Refusal
from mailer.retry import Retry, RetryPolicy, decide


class RowState(StrEnum):
    """Where a message stands (`email_outbox.state`)."""

    PENDING = "pending"
    """Due at `next_attempt_at`. Entered by enqueue, a retryable outcome, a released claim or an
    operator; left by claim, cancel and expiry."""
    SENDING = "sending"
    """An attempt holds the lease. Entered by claim; left by finish and by the lease's end."""
    AMBIGUOUS = "ambiguous"
    """At least one recipient's acceptance is unknown. Entered by finish and by the end of a started
    attempt's lease; left by evidence, policy or an operator, never by a guess."""
    SUBMITTED = "submitted"
    """The provider took it for every recipient not refused or suppressed. Final."""
    FAILED = "failed"
    """Refused for good, or given up after its budget or age. An operator may requeue it."""
    SUPPRESSED = "suppressed"
    """Every recipient was suppressed. An operator may requeue it after a reactivation."""
    EXPIRED = "expired"
    """`expires_at` passed before acceptance. Final."""
    CANCELLED = "cancelled"
    """Withdrawn before acceptance, by the application or an operator. Final."""


class AttemptState(StrEnum):
    """Where one attempt stands (`email_attempt.state`)."""

    CLAIMED = "claimed"
    """Leased, not begun: nothing was sent, so losing it costs nothing."""
    STARTED = "started"
    """Its call was about to be made: from here on silence means ambiguous."""
    FINISHED = "finished"
    """Has an outcome."""
    RELEASED = "released"
    """Given back without a call."""


class RecipientState(StrEnum):
    """What became of one recipient (`email_recipient.state`)."""

    DUE = "due"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    SUPPRESSED = "suppressed"
    AMBIGUOUS = "ambiguous"


class OnAmbiguous(StrEnum):
    """What the application chose to do with a message whose fate is unknown."""

    HOLD = "hold"
    """Wait for evidence or a person."""
    RESEND = "resend"
    """After a wait, a bounded number of times, send again: a duplicate is acceptable."""
    ASSUME_SENT = "assume_sent"
    """After a wait take it for sent: a miss is acceptable, a duplicate is not."""


class Resolution(StrEnum):
    """How an ambiguous attempt was settled later (`email_attempt.resolution`)."""

    ACCEPTED = "accepted"
    NOT_ACCEPTED = "not_accepted"


TRANSITIONS: Mapping[RowState, frozenset[RowState]] = {
    RowState.PENDING: frozenset(
        {
            RowState.SENDING,
            RowState.AMBIGUOUS,
            RowState.SUBMITTED,
            RowState.FAILED,
            RowState.EXPIRED,
            RowState.CANCELLED,
        }
    ),
    RowState.SENDING: frozenset(set(RowState) - {RowState.SENDING}),
    RowState.AMBIGUOUS: frozenset({RowState.PENDING, RowState.SUBMITTED, RowState.FAILED}),
    RowState.FAILED: frozenset({RowState.PENDING, RowState.SUBMITTED}),
    RowState.SUPPRESSED: frozenset({RowState.PENDING, RowState.SUBMITTED}),
    RowState.SUBMITTED: frozenset(),
    RowState.EXPIRED: frozenset(),
    RowState.CANCELLED: frozenset(),
}
"""What may follow what. `failed` and `suppressed` become `submitted` only by proof that an earlier
attempt had been accepted after all."""

FINAL_STATES = frozenset(
    {
        RowState.SUBMITTED,
        RowState.FAILED,
        RowState.SUPPRESSED,
        RowState.EXPIRED,
        RowState.CANCELLED,
    }
)
"""States that no worker touches; each has `finished_at`."""

WITHDRAWN_STATES = frozenset({RowState.EXPIRED, RowState.CANCELLED})
"""Final states that do not follow from the recipients' states."""

_RECIPIENT_AFTER: Mapping[Outcome, RecipientState] = {
    Outcome.ACCEPTED: RecipientState.ACCEPTED,
    Outcome.RETRYABLE: RecipientState.DUE,
    Outcome.PERMANENT: RecipientState.REFUSED,
    Outcome.AMBIGUOUS: RecipientState.AMBIGUOUS,
}

_DECIDING_ORDER = (
    (RecipientState.AMBIGUOUS, RowState.AMBIGUOUS),
    (RecipientState.DUE, RowState.PENDING),
    (RecipientState.ACCEPTED, RowState.SUBMITTED),
    (RecipientState.REFUSED, RowState.FAILED),
    (RecipientState.SUPPRESSED, RowState.SUPPRESSED),
)


def row_state(recipients: Collection[RecipientState], *, leased: bool = False) -> RowState:
    """Derive a row's state from its recipients' and from whether an attempt holds the lease.

    A message without recipients could never be sent: it has failed.
    """
    if leased:
        return RowState.SENDING
    for theirs, ours in _DECIDING_ORDER:
        if theirs in recipients:
            return ours
    return RowState.FAILED


@dataclass(frozen=True, slots=True)
class Message:
    """What the rules need to know of a row: all its recipients' states, and what it has cost.

    `attempts` is the budget spent so far, `number` this attempt's number, `age_seconds` counts
    from when the message was queued. `in_doubt` says that another attempt of it is ambiguous and
    unsettled, as happens after a `resend`.
    """

    recipients: Mapping[int, RecipientState]
    attempts: int
    number: int
    age_seconds: float
    in_doubt: bool = False


@dataclass(frozen=True, slots=True)
class RecipientChange:
    """A recipient's new state with the reply that brought it about."""

    recipient_id: int
    state: RecipientState
    rule: str
    code: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What one result makes of a row, whole: nobody else assembles a transition.

    `charge` is added to the budget spent; `delay_seconds`, where not None, moves
    `next_attempt_at`; `decision` is the retry decision in words, kept on the attempt.
    """

    state: RowState
    reason: str
    decision: str
    recipients: tuple[RecipientChange, ...]
    charge: int = 0
    delay_seconds: float | None = None


def after_outcome(
    message: Message, result: CallResult, policy: RetryPolicy, *, jitter: float
) -> Settlement:
    """Say what a call's result makes of the message.

    Acceptance already on record is never taken back: evidence of an earlier attempt may have
    settled a recipient while this call was in flight.
    """
    if result.rule == Refusal.MESSAGE_EXPIRED:
        return after_expiry(message.recipients, in_doubt=message.in_doubt)
    changes = tuple(
        _change(each, in_doubt=message.in_doubt)
        for each in result.recipients
        if message.recipients.get(each.recipient_id) is not RecipientState.ACCEPTED
    )
    return settle(message, changes, result, policy, jitter=jitter)


def after_expiry(known: Mapping[int, RecipientState], *, in_doubt: bool) -> Settlement:
    """Say what becomes of a message whose `expires_at` passed while recipients were still due."""
    return _withdrawn(known, RowState.EXPIRED, "expired before the call", in_doubt=in_doubt)


def after_cancel(known: Mapping[int, RecipientState], *, in_doubt: bool) -> Settlement:
    """Say what becomes of a message that is withdrawn while recipients are still due."""
    return _withdrawn(known, RowState.CANCELLED, "cancelled", in_doubt=in_doubt)


def after_suppression(
    known: Mapping[int, RecipientState], barred: Mapping[int, str], *, in_doubt: bool
) -> Settlement:
    """Say what becomes of a message some of whose due recipients are suppressed.

    `barred` gives each one's rule. The rest stays due: the message goes out without them. Whoever
    an earlier attempt in doubt may have reached stays in doubt.
    """
    state = RecipientState.AMBIGUOUS if in_doubt else RecipientState.SUPPRESSED
    changes = tuple(RecipientChange(each, state, rule) for each, rule in barred.items())
    after = dict(known) | {each.recipient_id: each.state for each in changes}
    row = row_state(after.values())
    reason = "suppressed" if row is RowState.SUPPRESSED else "suppressed-for-some"
    return Settlement(row, reason, reason, changes)


def after_proof(
    known: Mapping[int, RecipientState], proven: Collection[int], *, by: str
) -> tuple[RecipientChange, ...]:
    """Say whose state changes when an attempt for these recipients is proven accepted.

    It is proof whatever their state was thought to be.
    """
    return tuple(
        RecipientChange(each, RecipientState.ACCEPTED, "proven", None, by)
        for each, state in known.items()
        if each in proven and state is not RecipientState.ACCEPTED
    )


def _withdrawn(
    known: Mapping[int, RecipientState], state: RowState, decision: str, *, in_doubt: bool
) -> Settlement:
    """Withdraw what is due, as far as it is certain that it did not go out.

    Where another recipient was accepted before, the message did go out: the rest is refused. While
    an earlier attempt is in doubt it may have: it is in doubt again, and not sent another time.
    """
    if in_doubt:
        return _ended(known, RecipientState.AMBIGUOUS, f"{state.value}-in-doubt", decision)
    if RecipientState.ACCEPTED in known.values():
        return _ended(known, RecipientState.REFUSED, f"{state.value}-for-some", decision)
    return Settlement(state, state.value, decision, ())


def _ended(
    known: Mapping[int, RecipientState], rest: RecipientState, reason: str, decision: str
) -> Settlement:
    changes = tuple(
        RecipientChange(each, rest, reason)
        for each, theirs in known.items()
        if theirs is RecipientState.DUE
    )
    after = dict(known) | {each.recipient_id: each.state for each in changes}
    return Settlement(row_state(after.values()), reason, decision, changes)


def settle(
    message: Message,
    changes: tuple[RecipientChange, ...],
    result: CallResult,
    policy: RetryPolicy,
    *,
    jitter: float,
) -> Settlement:
    """Derive the row from its recipients after `changes`, and decide about another try."""
    after = dict(message.recipients) | {each.recipient_id: each.state for each in changes}
    state = row_state(after.values())
    charge = _charge(result)
    if state is RowState.AMBIGUOUS:
        wait = policy.ambiguous_wait_seconds
        return Settlement(state, result.rule, "wait for evidence", changes, charge, wait)
    if state is not RowState.PENDING:
        return Settlement(state, result.rule, "done", changes, charge)
    verdict = decide(
        policy,
        spent=message.attempts + charge,
        tries=message.number,
        age_seconds=message.age_seconds,
        jitter=jitter,
        hint_seconds=result.retry_after_seconds,
    )
    if isinstance(verdict, Retry):
        decision = f"retry in {verdict.delay_seconds:.0f} s"
        return Settlement(state, result.rule, decision, changes, charge, verdict.delay_seconds)
    return _given_up(message, after, changes, verdict.reason, charge)


def _change(verdict: RecipientVerdict, *, in_doubt: bool) -> RecipientChange:
    """A refusal cannot end a message that an earlier attempt may have delivered."""
    state = _RECIPIENT_AFTER[verdict.outcome]
    if in_doubt and state is RecipientState.REFUSED:
        state = RecipientState.AMBIGUOUS
    return RecipientChange(verdict.recipient_id, state, verdict.rule, verdict.code, verdict.text)


def _charge(result: CallResult) -> int:
    return int(
        any(
            each.outcome is Outcome.RETRYABLE and each.scope in CHARGED_SCOPES
            for each in result.recipients
        )
    )


def _given_up(
    message: Message,
    after: Mapping[int, RecipientState],
    changes: tuple[RecipientChange, ...],
    bound: str,
    charge: int,
) -> Settlement:
    reason = f"gave-up-{bound}"
    ended = RecipientState.AMBIGUOUS if message.in_doubt else RecipientState.REFUSED
    replies = {each.recipient_id: each for each in changes}
    for recipient_id, known_state in after.items():
        if known_state is RecipientState.DUE:
            known = replies.get(recipient_id)
            code, text = (known.code, known.text) if known else (None, "")
            replies[recipient_id] = RecipientChange(recipient_id, ended, reason, code, text)
    final = dict(after) | {each.recipient_id: each.state for each in replies.values()}
    state = row_state(final.values())
    return Settlement(state, reason, f"give up: {bound}", tuple(replies.values()), charge)


def after_late_result(
    known: Mapping[int, RecipientState],
    verdicts: Iterable[RecipientVerdict],
    *,
    others_in_doubt: bool,
) -> tuple[RecipientChange, ...]:
    """Say what a reply read after the lease was lost settles, recipient by recipient.

    Acceptance is proof whatever the recipient's state was thought to be. A refusal settles only a
    recipient in doubt, and only when no other attempt of the message is in doubt: it must not hide
    the acceptance of another.
    """
    return tuple(
        _change(each, in_doubt=False)
        for each in verdicts
        if _settles(known.get(each.recipient_id), each.outcome, others_in_doubt=others_in_doubt)
    )


def _settles(known: RecipientState | None, outcome: Outcome, *, others_in_doubt: bool) -> bool:
    if known is None or known is RecipientState.ACCEPTED or outcome is Outcome.AMBIGUOUS:
        return False
    if outcome is Outcome.ACCEPTED:
        return True
    return known is RecipientState.AMBIGUOUS and not others_in_doubt
