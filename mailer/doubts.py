"""The attempts whose fate is unknown, and what a witness made of them."""

from dataclasses import dataclass, field
from typing import Any

from peewee import ModelSelect, fn

from mailer.database import after
from mailer.outcome import CallResult, Outcome, Scope, clean
from mailer.proofs import Proof, Proven, apply_proof
from mailer.retry import RetryPolicy
from mailer.settlement import apply_late, lock_row
from mailer.states import AttemptState, Resolution, RowState
from mailer.tables import Attempt, Outbox
from mailer.testimony import Standing, Tried

_EVIDENCE_CHARS = 600


@dataclass(frozen=True, slots=True)
class Doubt:
    """An attempt in doubt, and what its message can be found by elsewhere.

    `sender` is the message's own, with its name. One that a person or a policy took for not
    accepted is in doubt as well.
    """

    outbox_id: int
    attempt_id: int
    request_tag: str
    message_id: str | None
    sender: str = field(repr=False)


def recent(seconds: float) -> list[Doubt]:
    """Return the attempts that ended in doubt in the last `seconds` and were not proven since.

    Reads the index of such attempts alone, whatever the length of the history.
    """
    found: Any = query(seconds).tuples()
    return [Doubt(*each) for each in found]


def query(seconds: float) -> "ModelSelect[Attempt]":
    """The question behind `recent`."""
    return (
        Attempt.select(
            Attempt.outbox,
            Attempt.id,
            Attempt.request_tag,
            Outbox.message_id,
            fn.COALESCE(Outbox.sender, ""),
        )
        .join(Outbox)
        .where(
            Attempt.doubtful.is_null(is_null=False)
            & (Attempt.outcome == Outcome.AMBIGUOUS)
            & (Attempt.resolution.is_null() | (Attempt.resolution != Resolution.ACCEPTED))
            & (Attempt.finished_at >= after(-seconds))
        )
        .order_by(Attempt.id)
    )


def tried(outbox_id: int) -> list[Tried]:
    """Return the attempts of a row that were begun. Must run inside a transaction, under its lock.

    Raises Refused when there is no such row.
    """
    lock_row(outbox_id)
    query = (
        Attempt.select()
        .where((Attempt.outbox == outbox_id) & ~Attempt.started_at.is_null())
        .order_by(Attempt.number)
    )
    return [Tried(each.id, each.request_tag, _standing(each)) for each in query]


def state_of(outbox_id: int) -> RowState:
    """Return the state of a row whose lock this transaction holds."""
    return lock_row(outbox_id).state


def accept(
    outbox_id: int,
    attempt_id: int,
    *,
    by: str,
    grounds: str,
    named: tuple[str, ...] = (),
    twice: bool = False,
) -> Proven:
    """Write a proof of acceptance on its attempt; with `twice`, that it was taken twice.

    `named` are the canonical keys of recipients whom the relay is known to have agreed to.
    """
    proven = apply_proof(outbox_id, attempt_id, Proof(by=by, evidence=grounds, named=named))
    if twice:
        Attempt.update(duplicate=True).where(Attempt.id == attempt_id).execute()
    return proven


def refuse(
    outbox_id: int, attempt_id: int, policy: RetryPolicy, jitter: float, *, by: str, grounds: str
) -> RowState:
    """Take a proven refusal for a reply that was read late, and return the row's state.

    It counts as one that may pass: the next attempt, if there is one, hears the reply itself.
    """
    row = lock_row(outbox_id)
    attempt = Attempt.get_by_id(attempt_id)
    result = CallResult.alike(
        tuple(attempt.doubtful or ()),
        Outcome.RETRYABLE,
        Scope.MESSAGE,
        stage="evidence",
        rule="refused-in-log",
        reason=grounds,
    )
    state, _ = apply_late(row, attempt, result, policy, jitter, by=by)
    return state


def note(attempt_id: int, grounds: str) -> None:
    """Keep on an attempt what is known and settles nothing; the same words once."""
    attempt = Attempt.get_by_id(attempt_id)
    words = clean(grounds)
    if words and words not in (attempt.evidence or ""):
        text = f"{attempt.evidence}; {words}" if attempt.evidence else words
        Attempt.update(evidence=text[:_EVIDENCE_CHARS]).where(Attempt.id == attempt_id).execute()


def _standing(attempt: Attempt) -> Standing:
    if attempt.state != AttemptState.FINISHED:
        return Standing.UNDER_WAY
    if attempt.outcome != Outcome.AMBIGUOUS:
        is_taken = attempt.outcome == Outcome.ACCEPTED
        return Standing.TAKEN if is_taken else Standing.NOT_TAKEN
    if attempt.resolution is None:
        return Standing.IN_DOUBT
    is_taken = attempt.resolution == Resolution.ACCEPTED
    return Standing.TAKEN if is_taken else Standing.DECIDED_AGAINST
