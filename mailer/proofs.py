"""Proof that a provider had taken an attempt, and what it makes of the row.

Acceptance is proof whatever was thought before, and whenever it comes: while the call is open,
after the lease ran out, after a person or a policy decided otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mailer.database import now
from mailer.outcome import CallResult, Outcome, Scope, clean
from mailer.settlement import (
    LockedRow,
    awaken_events,
    came_on_top,
    end_attempt,
    lock_row,
    resolve_attempt,
)
from mailer.states import (
    WITHDRAWN_STATES,
    AttemptState,
    RecipientChange,
    Resolution,
    RowState,
    after_proof,
)
from mailer.tables import Attempt, Outbox, Recipient

_BY_CHARS = 120
_EVIDENCE_CHARS = 600


@dataclass(frozen=True, slots=True)
class Proof:
    """That a provider took an attempt: who says so, in what words, and what id it gave.

    `named` are the canonical keys of recipients that the proof names. It speaks for all whom the
    attempt left in doubt if it is `whole`: if the provider takes a request for all its recipients
    or for none. A relay may have refused some of them beforehand. Neither text may hold an address.
    """

    by: str
    evidence: str
    provider_id: str | None = None
    named: tuple[str, ...] = field(default=(), repr=False)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Proven:
    """What a proof made of a row. `settled` tells that something was in doubt before."""

    outbox_id: int
    attempt_id: int
    before: RowState
    after: RowState
    settled: bool
    duplicate: bool


def apply_proof(outbox_id: int, attempt_id: int, proof: Proof) -> Proven:
    """Write a proof on its attempt and let the row follow from it; runs inside a transaction.

    The same proof any number of times changes nothing more.
    """
    row = lock_row(outbox_id)
    attempt = Attempt.get_by_id(attempt_id)
    before = row.state
    undecided = _is_undecided(attempt)
    targets = _targets(row, attempt, proof)
    duplicate = undecided and came_on_top(row, attempt, targets)
    changes = after_proof(row.recipients, targets, by=clean(proof.by)[:_BY_CHARS])
    if attempt.state == AttemptState.STARTED and row.holds(attempt.lease_token):
        row.tell_call_in_flight(changes)
        _end_call_if_all_proven(row, attempt, proof, duplicate=duplicate)
    else:
        left = sorted(set(attempt.doubtful or ()) - targets - row.accepted_ids())
        _write_on(attempt, proof, duplicate=duplicate, left=left)
        if changes:
            _settle(row, changes)
    return Proven(outbox_id, attempt_id, before, row.state, undecided, attempt.duplicate)


def _is_undecided(attempt: Attempt) -> bool:
    if attempt.state != AttemptState.FINISHED:
        return True
    if attempt.outcome == Outcome.AMBIGUOUS:
        return bool(attempt.resolution != Resolution.ACCEPTED)
    return bool(attempt.outcome != Outcome.ACCEPTED)


def _targets(row: LockedRow, attempt: Attempt, proof: Proof) -> set[int]:
    known = Recipient.select(Recipient.id).where(
        (Recipient.outbox == row.outbox_id) & Recipient.address_key.in_(proof.named)
    )
    named = {each.id for each in known} if proof.named else set()
    return named | _spoken_for(row, attempt, proof)


def _spoken_for(row: LockedRow, attempt: Attempt, proof: Proof) -> set[int]:
    """Whom a proof is for that need not name them.

    Where the driver itself counted what it handed over, it left in doubt only whom the relay had
    agreed to; where the worker was lost, whom it had agreed to is unknown. A last one in doubt is
    no exception: the proof may be about somebody whom an earlier one has settled.
    """
    is_alone = len(row.recipients) == 1
    is_theirs = proof.whole or attempt.bytes_sent is not None or is_alone
    return set(attempt.doubtful or ()) if is_theirs else set()


def _end_call_if_all_proven(
    row: LockedRow, attempt: Attempt, proof: Proof, *, duplicate: bool
) -> None:
    """A call whose every recipient is proven has its result; its worker's own comes late."""
    if row.due_ids():
        _write_on(attempt, proof, duplicate=duplicate, left=row.due_ids())
        return
    result = CallResult.alike(
        (),
        Outcome.ACCEPTED,
        Scope.MESSAGE,
        stage="evidence",
        rule="proven",
        reason=proof.by,
        provider_id=proof.provider_id,
    )
    end_attempt(attempt.id, result, "proven", duplicate=duplicate, evidence=_words(proof))
    attempt.duplicate = duplicate
    row.rederive("proven")


def _write_on(attempt: Attempt, proof: Proof, *, duplicate: bool, left: Sequence[int]) -> None:
    """An attempt that still leaves somebody in doubt keeps the proof, and stays in doubt."""
    provider_id = proof.provider_id if attempt.provider_id is None else None
    attempt.duplicate = attempt.duplicate or duplicate
    in_doubt = attempt.outcome == Outcome.AMBIGUOUS and attempt.resolution != Resolution.ACCEPTED
    if in_doubt and not left:
        resolve_attempt(
            attempt.id,
            Resolution.ACCEPTED,
            by=clean(proof.by)[:_BY_CHARS],
            evidence=_words(proof, attempt),
            provider_id=provider_id,
            duplicate=attempt.duplicate,
        )
        return
    more: dict[str, object] = {} if provider_id is None else {"provider_id": provider_id}
    if in_doubt:
        more["doubtful"] = list(left)
    Attempt.update(
        evidence=attempt.evidence or _words(proof), duplicate=attempt.duplicate, **more
    ).where(Attempt.id == attempt.id).execute()
    awaken_events(provider_id)


def _words(proof: Proof, attempt: Attempt | None = None) -> str:
    text = clean(proof.evidence)
    if attempt is not None and attempt.resolution is not None:
        text += f"; before: {attempt.resolution} by {attempt.resolved_by}"
    return text[:_EVIDENCE_CHARS]


def _settle(row: LockedRow, changes: tuple[RecipientChange, ...]) -> None:
    if row.state is RowState.SENDING and not row.take_back_claim():
        row.tell_call_in_flight(changes)
        return
    row.change_recipients(changes)
    if row.state not in WITHDRAWN_STATES:
        was = row.state
        if row.rederive("proven") is RowState.PENDING and was is RowState.AMBIGUOUS:
            Outbox.update(next_attempt_at=now()).where(Outbox.id == row.outbox_id).execute()
