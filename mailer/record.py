"""Results that the database would not take when they came: carried elsewhere, written later.

What is carried names rows by id and holds classified outcomes and the provider's id. Texts in
which a provider may have repeated an address are left out.
"""

from collections.abc import Sequence
from typing import Any

from mailer import results
from mailer.database import connected
from mailer.endings import report
from mailer.outcome import CallResult, Outcome, RecipientVerdict, Scope
from mailer.results import Ended
from mailer.retry import Jitter, RetryPolicy

__all__ = ["Carried", "Ended", "Recorder", "pack", "unpack"]

Carried = dict[str, Any]


class Recorder:
    """Writes carried results down."""

    def __init__(self, policy: RetryPolicy, jitter: Jitter) -> None:
        self._policy = policy
        self._jitter = jitter

    def record(self, carried: Sequence[Carried]) -> None:
        """Write results; whatever the database raises is the caller's to try again.

        Writing one twice changes nothing, and one whose lease is gone becomes evidence.
        """
        ended = [unpack(each) for each in carried]
        with connected():
            written = results.finish(ended, self._policy, self._jitter)
        report(ended, written)


def pack(ended: Ended) -> Carried:
    """Turn a result into plain values without addresses or bodies."""
    result = ended.result
    return {
        "outbox_id": ended.outbox_id,
        "attempt_id": ended.attempt_id,
        "lease_token": ended.lease_token,
        "outcome": result.outcome.value,
        "scope": result.scope.value,
        "stage": result.stage,
        "rule": result.rule,
        "code": result.code,
        "provider_id": None if "@" in (result.provider_id or "") else result.provider_id,
        "retry_after_seconds": result.retry_after_seconds,
        "bytes_sent": result.bytes_sent,
        "recipients": [
            [each.recipient_id, each.outcome.value, each.scope.value, each.rule, each.code]
            for each in result.recipients
        ],
    }


def unpack(carried: Carried) -> Ended:
    """The inverse of `pack`."""
    verdicts = tuple(
        RecipientVerdict(each, Outcome(outcome), Scope(scope), rule, code)
        for each, outcome, scope, rule, code in carried["recipients"]
    )
    result = CallResult(
        outcome=Outcome(carried["outcome"]),
        scope=Scope(carried["scope"]),
        stage=carried["stage"],
        rule=carried["rule"],
        recipients=verdicts,
        code=carried["code"],
        provider_id=carried["provider_id"],
        retry_after_seconds=carried["retry_after_seconds"],
        # Absent from what an older version handed over.
        bytes_sent=carried.get("bytes_sent"),
    )
    return Ended(carried["outbox_id"], carried["attempt_id"], carried["lease_token"], result)
