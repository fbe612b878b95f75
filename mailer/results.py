"""Writing down what calls came to.

The usual case is one bulk statement guarded by each row's lease token. Whatever that statement
does not move is settled row by row under the row's lock, where everything known about the message
is read afresh: late results, results that meet newer evidence, second sends of a message in doubt.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mailer.claims import Claimed
from mailer.database import is_postgresql, rows, transaction
from mailer.outcome import CallResult, Outcome
from mailer.retry import Jitter, RetryPolicy
from mailer.settlement import (
    LockedRow,
    apply_late,
    apply_settlement,
    came_on_top,
    end_attempt,
    lock_row,
)
from mailer.states import (
    FINAL_STATES,
    AttemptState,
    Message,
    RecipientChange,
    RowState,
    Settlement,
    after_outcome,
)
from mailer.tables import Attempt


@dataclass(frozen=True, slots=True)
class Ended:
    """A call's result together with the claim it was made under."""

    outbox_id: int
    attempt_id: int
    lease_token: str
    result: CallResult
    claimed: Claimed | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What a result made of its row. `late` means that the lease was gone."""

    outbox_id: int
    attempt_id: int
    state: RowState
    decision: str
    late: bool = False


def finish(ended: Sequence[Ended], policy: RetryPolicy, jitter: Jitter) -> list[Written]:
    """Write results down and say what each made of its row.

    Only the holder of the lease changes a row; what anybody else learned is kept on its attempt as
    evidence and may settle it there. Writing the same result twice changes nothing.
    """
    if not ended:
        return []
    written: dict[int, Written] = {}
    if is_postgresql():
        bulk = Bulk.of(ended, policy, jitter)
        written = bulk.written({each[0] for each in rows(f"SELECT {FINISH}", bulk.params)})
    left = [each for each in ended if each.attempt_id not in written]
    if left:
        with transaction():
            written |= {each.attempt_id: _finish_one(each, policy, jitter) for each in left}
    return [written[each.attempt_id] for each in ended]


FINISH = "email_finish_1(%(rows)s::json)"


@dataclass(frozen=True, slots=True)
class Bulk:
    """Results that one statement may write, and what each would make of its row."""

    settlements: Mapping[int, tuple[Ended, Settlement]]

    @classmethod
    def of(cls, ended: Sequence[Ended], policy: RetryPolicy, jitter: Jitter) -> "Bulk":
        """Settle those that can be without looking: none whose message was sent again in doubt."""
        return cls(
            {
                each.attempt_id: (each, _settled(each.claimed, each.result, policy, jitter))
                for each in ended
                if each.claimed is not None and not each.claimed.resends
            }
        )

    @property
    def params(self) -> dict[str, Any]:
        """The statement's parameters."""
        return {"rows": json.dumps([_row(*each) for each in self.settlements.values()])}

    def written(self, moved: Collection[int]) -> dict[int, Written]:
        """What became of those that the statement moved."""
        return {
            attempt_id: Written(one.outbox_id, attempt_id, settled.state, settled.decision)
            for attempt_id, (one, settled) in self.settlements.items()
            if attempt_id in moved
        }


def _settled(
    claimed: Claimed, result: CallResult, policy: RetryPolicy, jitter: Jitter
) -> Settlement:
    message = Message(claimed.known_states(), claimed.attempts, claimed.number, claimed.age_seconds)
    return after_outcome(message, result, policy, jitter=jitter())


def _row(one: Ended, settled: Settlement) -> dict[str, Any]:
    result = one.result
    return {
        "outbox_id": one.outbox_id,
        "attempt_id": one.attempt_id,
        "token": one.lease_token,
        "evidence": one.claimed.evidence if one.claimed else 0,
        "state": settled.state,
        "state_reason": settled.reason,
        "charge": settled.charge,
        "delay": settled.delay_seconds,
        "final": settled.state in FINAL_STATES,
        "outcome": result.outcome,
        "scope": result.scope,
        "stage": result.stage,
        "rule": result.rule,
        "code": result.code,
        "reason": result.reason,
        "provider_id": result.provider_id,
        "decision": settled.decision,
        "bytes_sent": result.bytes_sent,
        "doubtful": list(result.doubtful) or None,
        "recipients": [_change(each) for each in settled.recipients],
    }


def _change(change: RecipientChange) -> dict[str, Any]:
    return {
        "id": change.recipient_id,
        "state": change.state,
        "rule": change.rule,
        "code": change.code,
        "text": change.text,
    }


def _finish_one(one: Ended, policy: RetryPolicy, jitter: Jitter) -> Written:
    row = lock_row(one.outbox_id)
    attempt = Attempt.get_by_id(one.attempt_id)
    if attempt.state == AttemptState.FINISHED and attempt.outcome != Outcome.AMBIGUOUS:
        return _already_written(one, row, attempt)
    if row.holds(one.lease_token) and attempt.state != AttemptState.FINISHED:
        result = _known_result(one, row, attempt)
        settled = after_outcome(row.message(attempt.number), result, policy, jitter=jitter())
        end_attempt(
            attempt.id,
            result,
            settled.decision,
            duplicate=came_on_top(row, attempt, result.taken),
        )
        apply_settlement(row, settled)
        return Written(one.outbox_id, one.attempt_id, settled.state, settled.decision)
    state, decision = apply_late(row, attempt, one.result, policy, jitter())
    return Written(one.outbox_id, one.attempt_id, state, decision, late=True)


def _known_result(one: Ended, row: LockedRow, attempt: Attempt) -> CallResult:
    """What the attempt's own evidence settled while its call was open is not in doubt."""
    if attempt.evidence is None:
        return one.result
    return one.result.without_doubt(row.accepted_ids())


def _already_written(one: Ended, row: LockedRow, attempt: Attempt) -> Written:
    return Written(one.outbox_id, one.attempt_id, row.state, attempt.decision or "", late=True)
