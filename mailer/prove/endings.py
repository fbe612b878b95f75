"""How calls end in the model, and what the code's own rules make of it."""

from functools import cache
from typing import NamedTuple

from mailer.outcome import CallResult, Outcome, RecipientVerdict, Scope
from mailer.prove.world import Reply, Wire
from mailer.provider import Refusal
from mailer.retry import RetryPolicy
from mailer.states import (
    Message,
    RecipientChange,
    RecipientState,
    Settlement,
    after_late_result,
    after_outcome,
)

Recipients = tuple[RecipientState, ...]

POLICY = RetryPolicy(max_attempts=2)
"""Two attempts are enough to spend a budget; beyond it, more makes no difference."""

_VERDICTS = {
    Wire.TAKEN: (Outcome.ACCEPTED, Scope.MESSAGE),
    Wire.REFUSED: (Outcome.PERMANENT, Scope.MESSAGE),
    Wire.DEFERRED: (Outcome.RETRYABLE, Scope.MESSAGE),
}

_UNANSWERED = {
    Reply.SILENCE: (Outcome.AMBIGUOUS, Scope.CONNECTION, "lost"),
    Reply.NOT_SENT: (Outcome.RETRYABLE, Scope.CONNECTION, "not-sent"),
    Reply.TOO_LATE: (Outcome.RETRYABLE, Scope.MESSAGE, Refusal.MESSAGE_EXPIRED.value),
    Reply.PROVEN: (Outcome.ACCEPTED, Scope.CONNECTION, "lease-expired-started"),
    Reply.NEVER: (Outcome.AMBIGUOUS, Scope.CONNECTION, "lease-expired-started"),
}


class Ending(NamedTuple):
    """How a call ended: what its worker knows, and what that says for whom.

    Whom the provider had not agreed to was deferred before anything was handed over. `proven` are
    those whose acceptance was put on record while the call was open.
    """

    reply: Reply
    to: tuple[int, ...]
    agreed: tuple[int, ...]
    wire: Wire = Wire.NOTHING
    proven: tuple[int, ...] = ()


@cache
def result_of(ending: Ending) -> CallResult:
    """Build what a worker writes down about its call."""
    if ending.reply is Reply.ANSWERED:
        (outcome, scope), rule = _VERDICTS[ending.wire], ending.wire.value
    else:
        outcome, scope, rule = _UNANSWERED[ending.reply]
    verdicts = tuple(
        RecipientVerdict(i, outcome, scope, rule)
        if i in ending.agreed
        else RecipientVerdict(i, Outcome.RETRYABLE, Scope.RECIPIENT, "deferred")
        for i in ending.to
    )
    return CallResult(outcome, scope, "", rule, verdicts).without_doubt({*ending.proven})


def message_of(recipients: Recipients, spent: int, number: int, *, in_doubt: bool) -> Message:
    """The row as the rules see it."""
    return Message(dict(enumerate(recipients)), spent, number, 0.0, in_doubt=in_doubt)


@cache
def outcome_of(
    recipients: Recipients, spent: int, number: int, ending: Ending, *, in_doubt: bool
) -> Settlement:
    """`states.after_outcome`, remembered."""
    message = message_of(recipients, spent, number, in_doubt=in_doubt)
    return after_outcome(message, result_of(ending), POLICY, jitter=0.5)


@cache
def late_changes(
    recipients: Recipients, ending: Ending, *, others_in_doubt: bool
) -> tuple[RecipientChange, ...]:
    """`states.after_late_result`, remembered."""
    known, verdicts = dict(enumerate(recipients)), result_of(ending).recipients
    return after_late_result(known, verdicts, others_in_doubt=others_in_doubt)
