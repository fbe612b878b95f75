"""How attempts end without a provider's word, and the log line of every end."""

from mailer.flight import Flight
from mailer.log import get_logger
from mailer.outcome import CallResult, Outcome, Scope
from mailer.provider import Refusal
from mailer.results import Ended, Written

_log = get_logger("mailer.delivery")


def report(one: Ended, outcome: Written) -> None:
    """Log what one attempt came to: ids, classified reason and decision, nothing else."""
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
