"""How attempts end without a provider's word, and what the log says of every end."""

from collections.abc import Sequence

from mailer.flight import Flight
from mailer.log import get_logger
from mailer.outcome import CallResult, Outcome, Scope
from mailer.provider import Refusal
from mailer.results import Ended, Written
from mailer.states import RowState

_log = get_logger("mailer.delivery")


TOGETHER_FROM = 8
"""From so many acceptances alike on, written in one turn, they share a line.

At thousands a second a line each would cost as much as composing the messages.
"""


def report(ended: Sequence[Ended], written: Sequence[Written]) -> None:
    """Log what attempts came to: ids, classified reason and decision, nothing else."""
    alike: dict[tuple[object, ...], list[tuple[Ended, Written]]] = {}
    for one, outcome in zip(ended, written, strict=True):
        alike.setdefault(_likeness(one, outcome), []).append((one, outcome))
    for likeness, members in alike.items():
        if likeness and len(members) >= TOGETHER_FROM:
            _report_together([one for one, _ in members])
        else:
            for one, outcome in members:
                _report_one(one, outcome)


def _likeness(one: Ended, outcome: Written) -> tuple[object, ...]:
    """What an uneventful acceptance has in common with others; empty for all else."""
    result = one.result
    uneventful = (
        result.outcome is Outcome.ACCEPTED
        and outcome.state is RowState.SUBMITTED
        and not outcome.late
        and one.claimed is not None
    )
    if not uneventful or one.claimed is None:
        return ()
    return one.claimed.provider, result.stage, result.rule, result.code


def _report_together(members: Sequence[Ended]) -> None:
    first = members[0]
    _log.info(
        "attempts accepted",
        provider=first.claimed.provider if first.claimed else None,
        stage=first.result.stage,
        rule=first.result.rule,
        code=first.result.code,
        outbox_ids=[each.outbox_id for each in members],
        attempt_ids=[each.attempt_id for each in members],
    )


def _report_one(one: Ended, outcome: Written) -> None:
    result = one.result
    loud = result.outcome is Outcome.AMBIGUOUS or result.scope is Scope.ACCOUNT
    (_log.warning if loud else _log.info)(
        "attempt finished",
        outbox_id=one.outbox_id,
        attempt_id=one.attempt_id,
        provider=one.claimed.provider if one.claimed else None,
        outcome=result.outcome.value,
        scope=result.scope.value,
        stage=result.stage,
        rule=result.rule,
        code=result.code,
        state=outcome.state.value,
        decision=outcome.decision,
        late=outcome.late,
    )


def ended(flight: Flight, result: CallResult) -> Ended:
    """A result under the claim that it was made under."""
    claimed = flight.claimed
    return Ended(claimed.outbox_id, claimed.attempt_id, claimed.lease_token, result, claimed)


def not_recorded(flight: Flight) -> CallResult:
    """The call was not made, because nobody knows whether it was marked as about to start."""
    return flight.never_sent(
        Outcome.RETRYABLE,
        Scope.CONNECTION,
        stage="begin",
        rule="begin-not-recorded",
        reason="the database was lost before the call",
    )


def expired(flight: Flight) -> CallResult:
    """The call was not made: the message's time had passed."""
    return flight.never_sent(
        Outcome.RETRYABLE,
        Scope.MESSAGE,
        stage="begin",
        rule=Refusal.MESSAGE_EXPIRED,
        reason="expired before the call",
    )


def stopped(flight: Flight) -> CallResult:
    """The worker ended first, and what became of the call is unknown."""
    return flight.never_sent(
        Outcome.AMBIGUOUS,
        Scope.CONNECTION,
        stage="unknown",
        rule="stopped-in-flight",
        reason="the worker had to stop before the call ended",
    )
