"""What the protocol rests on: guards in the code, and premises about the world around it.

Each can be taken away from the model, so that the walk shows what it is for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Guard(StrEnum):
    """A condition that some statement or rule of the code asks for."""

    CLAIM_PENDING = "claim-pending"
    BEGIN_FIRST = "begin-first"
    BEGIN_TOKEN = "begin-token"  # noqa: S105
    BEGIN_CLAIMED = "begin-claimed"
    COMMIT_DEADLINE = "commit-deadline"
    DEADLINE_BEFORE = "deadline-before"
    RENEW_TOKEN = "renew-token"  # noqa: S105
    FINISH_TOKEN = "finish-token"  # noqa: S105
    FINISH_EVIDENCE = "finish-evidence"
    FINISH_RESENDS = "finish-resends"
    FINISH_PROVEN = "finish-proven"
    SWEEP = "sweep"
    SWEEP_OVERDUE = "sweep-overdue"
    SWEEP_CLAIMED = "sweep-claimed"
    SWEEP_STARTED = "sweep-started"
    SWEEP_EVIDENCE = "sweep-evidence"
    LATE_RESULT = "late-result"
    LATE_REFUSAL = "late-refusal"
    REFUSAL_IN_DOUBT = "refusal-in-doubt"
    WITHDRAWAL_IN_DOUBT = "withdrawal-in-doubt"
    WITHDRAWN_HELD = "withdrawn-held"
    BEGIN_SUPPRESSED = "begin-suppressed"
    SUPPRESSION_IN_DOUBT = "suppression-in-doubt"
    PROOF_SETTLES = "proof-settles"
    PROOF_NAMES = "proof-names"
    PROOF_TAKES_BACK = "proof-takes-back"
    MARK_DOUBTFUL = "mark-doubtful"
    CANCEL_CLAIMED = "cancel-claimed"
    RESOLVE_AMBIGUOUS = "resolve-ambiguous"
    RESOLVE_NAMES_ATTEMPT = "resolve-names-attempt"
    REQUEUE_ENDED = "requeue-ended"


class Premise(StrEnum):
    """Something that no statement asks for, and that the promise needs all the same."""

    ASKED_AND_HANDED_OVER = "asked-and-handed-over"
    SETTLED_WHEN_LOOKED = "settled-when-looked"
    LOOKED_BEFORE_DECIDING = "looked-before-deciding"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a guard stands: a module of `mailer`, as a path, and words to be found in it."""

    module: str
    words: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a guard says, and where the code says it."""

    says: str
    place: Place


_TURN = "migrations/0004_functions"

GUARDS: Mapping[Guard, Meaning] = {
    Guard.CLAIM_PENDING: Meaning(
        "a claim takes `pending` rows only",
        Place("claims_sql", "WHERE state = 'pending' AND priority = place"),
    ),
    Guard.BEGIN_FIRST: Meaning(
        "`started` is committed before anything can be handed over",
        Place("delivery", "if each.claimed.attempt_id in turned.begun"),
    ),
    Guard.BEGIN_TOKEN: Meaning(
        "an attempt begins only while its token is the row's and the lease has not run out",
        Place(_TURN, "ON o.id = a.outbox_id AND o.lease_token = a.lease_token"),
    ),
    Guard.BEGIN_CLAIMED: Meaning(
        "an attempt begins only from `claimed`",
        Place(_TURN, "a.id = mine.id AND a.state = 'claimed' RETURNING a.id"),
    ),
    Guard.COMMIT_DEADLINE: Meaning(
        "past its own deadline a worker hands nothing over",
        Place("flight", "if now >= self.lease_deadline"),
    ),
    Guard.DEADLINE_BEFORE: Meaning(
        "that deadline is counted from before the lease was asked for",
        Place("delivery", "asked_at, lease_seconds = self._clock(), self._pace.lease_seconds"),
    ),
    Guard.RENEW_TOKEN: Meaning(
        "only the lease that is still held is renewed",
        Place("claims_sql", "JOIN email_outbox o ON o.id = t.id AND o.lease_token = t.token"),
    ),
    Guard.FINISH_TOKEN: Meaning(
        "a result changes the row only under the row's token",
        Place(_TURN, "o.lease_token = r.token"),
    ),
    Guard.FINISH_EVIDENCE: Meaning(
        "a result is written in bulk only if nothing was proven since the claim",
        Place(_TURN, "o.evidence = r.evidence"),
    ),
    Guard.FINISH_RESENDS: Meaning(
        "a message sent again in doubt is settled under its lock",
        Place("results", "not each.claimed.resends"),
    ),
    Guard.FINISH_PROVEN: Meaning(
        "what an attempt's own evidence settled while its call was open is not in doubt at its end",
        Place("results", "one.result.without_doubt(row.accepted_ids())"),
    ),
    Guard.SWEEP: Meaning(
        "leases that ran out are ended by whoever sweeps",
        Place("overdue", "def end_expired_leases"),
    ),
    Guard.SWEEP_OVERDUE: Meaning(
        "only a lease that has run out is ended",
        Place("overdue", "row.state is not RowState.SENDING or not row.overdue"),
    ),
    Guard.SWEEP_CLAIMED: Meaning(
        "`claimed` goes back to `pending`",
        Place("overdue", 'row.release_claim(attempt.id, "lease expired")'),
    ),
    Guard.SWEEP_STARTED: Meaning(
        "`started` becomes ambiguous",
        Place("overdue", "result = _unanswered(row, attempt)"),
    ),
    Guard.SWEEP_EVIDENCE: Meaning(
        "at the end of a lease, what is proven already decides first",
        Place("overdue", "row.due_ids()"),
    ),
    Guard.LATE_RESULT: Meaning(
        "a result read after the lease was lost settles what is in doubt",
        Place("settlement", "changes = after_late_result("),
    ),
    Guard.LATE_REFUSAL: Meaning(
        "a late refusal settles only when no other attempt is in doubt",
        Place("states", "known is RecipientState.AMBIGUOUS and not others_in_doubt"),
    ),
    Guard.REFUSAL_IN_DOUBT: Meaning(
        "a refusal does not end a message that an earlier attempt may have delivered",
        Place("states", "if in_doubt and state is RecipientState.REFUSED"),
    ),
    Guard.WITHDRAWAL_IN_DOUBT: Meaning(
        "what is withdrawn while an earlier attempt is in doubt stays in doubt",
        Place("states", 'f"{state.value}-in-doubt"'),
    ),
    Guard.WITHDRAWN_HELD: Meaning(
        "what is cancelled in doubt is not sent again by its policy",
        Place("outbox", "row.hold()"),
    ),
    Guard.BEGIN_SUPPRESSED: Meaning(
        "no attempt begins for somebody who is suppressed",
        Place(_TURN, "s.released_at IS NULL AND (s.expires_at IS NULL"),
    ),
    Guard.SUPPRESSION_IN_DOUBT: Meaning(
        "who is suppressed while an earlier attempt is in doubt stays in doubt",
        Place("states", "RecipientState.AMBIGUOUS if in_doubt else RecipientState.SUPPRESSED"),
    ),
    Guard.PROOF_SETTLES: Meaning(
        "proof of acceptance settles the row, whatever was thought before",
        Place("proofs", "_settle(row, changes)"),
    ),
    Guard.PROOF_NAMES: Meaning(
        "where a relay may have put somebody off, proof settles only whom it names",
        Place("proofs", "is_theirs = proof.whole or attempt.bytes_sent is not None or is_alone"),
    ),
    Guard.PROOF_TAKES_BACK: Meaning(
        "proof takes back a newer claim that has not begun",
        Place("proofs", "not row.take_back_claim()"),
    ),
    Guard.MARK_DOUBTFUL: Meaning(
        "whom an attempt's own evidence settled before is no second acceptance",
        Place("settlement", "taken & set(attempt.doubtful) if attempt.doubtful else taken"),
    ),
    Guard.CANCEL_CLAIMED: Meaning(
        "cancel reaches claims that have not begun, never a started attempt",
        Place("outbox", 'row.release_claim(attempt.id, "cancelled")'),
    ),
    Guard.RESOLVE_AMBIGUOUS: Meaning(
        "a person settles `ambiguous` rows only",
        Place("operations", "before is not RowState.AMBIGUOUS"),
    ),
    Guard.RESOLVE_NAMES_ATTEMPT: Meaning(
        "who says `not accepted` names the latest attempt that was begun",
        Place("operations", "attempt is not None and attempt != latest"),
    ),
    Guard.REQUEUE_ENDED: Meaning(
        "a person requeues `failed` and `suppressed` rows only",
        Place("outbox", "row.state not in (RowState.FAILED, RowState.SUPPRESSED)"),
    ),
}
"""Every guard that can be taken away."""

PREMISES: Mapping[Premise, str] = {
    Premise.ASKED_AND_HANDED_OVER: (
        "nothing stops a worker between asking its clock and handing over: two adjacent lines, and"
        " no way to make them one"
    ),
    Premise.SETTLED_WHEN_LOOKED: (
        "when a person looks at the provider's log, what was handed over before the lease ended has"
        " arrived or never will"
    ),
    Premise.LOOKED_BEFORE_DECIDING: (
        "who says `not accepted` has looked at the provider's log while the row was ambiguous"
    ),
}
"""Every premise that can be taken away."""

ALL: tuple[Guard | Premise, ...] = (*GUARDS, *PREMISES)
"""Guards and premises, in the order in which they are told."""

Removed = frozenset[Guard | Premise]
"""What a walk goes without."""

NOTHING: Removed = frozenset()
