"""What one provider call came to: values shared by providers and the state machine."""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum

REASON_LIMIT_CHARS = 300
"""A provider's text is kept this long; the rest says nothing that the code does not."""

_UNSTORABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


class Outcome(StrEnum):
    """How a call, or one recipient's part in it, ended."""

    ACCEPTED = "accepted"
    """The provider took responsibility (RFC 5321 4.2.5: any 2yz after the final dot)."""
    RETRYABLE = "retryable"
    """Proven not accepted; a later attempt may succeed."""
    PERMANENT = "permanent"
    """Proven not accepted; repeating it cannot help."""
    AMBIGUOUS = "ambiguous"
    """It may have been accepted; nothing read so far proves either way."""


class Scope(StrEnum):
    """Whose fault it is, and so who pays for it."""

    MESSAGE = "message"
    RECIPIENT = "recipient"
    ACCOUNT = "account"
    """The provider account, or our configuration or identity there. Costs the message nothing."""
    CONNECTION = "connection"
    """Transport or provider health. Costs the message nothing."""


class Blame(StrEnum):
    """What an account-scope outcome is about: a circuit is opened for no more than that."""

    PROVIDER = "provider"
    SENDER = "sender"
    """The sender identity: not verified, not allowed."""


class Pressure(StrEnum):
    """An account-scope outcome that says "too much", and not "no"."""

    THROTTLE = "throttle"
    """Too fast: slow down at once, speed up by and by."""
    QUOTA = "quota"
    """The day's or month's allowance is used up: pause until it frees."""


CHARGED_SCOPES = frozenset({Scope.MESSAGE, Scope.RECIPIENT})
"""Scopes whose retryable outcome spends one attempt of the message's budget."""


def clean(text: str) -> str:
    """Return a provider's text fit to be stored: no control characters, no surrogates, bounded.

    A reply that the database refuses would turn a known result into an unknown one.
    """
    return _UNSTORABLE.sub(" ", text).strip()[:REASON_LIMIT_CHARS]


@dataclass(frozen=True, slots=True)
class RecipientVerdict:
    """What one recipient of a call ends with, with the reply that decided it."""

    recipient_id: int
    outcome: Outcome
    scope: Scope
    rule: str
    code: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a whole call came to.

    `outcome` is the attempt's (a partial acceptance is `accepted`); `recipients` has one verdict
    for each recipient that was in the call. `rule` names the row of the provider's rule table that
    judged. `retry_after_seconds` is the server's own delay hint, where it gave one. `blame` and
    `pressure` say more about an outcome of account scope. `bytes_sent` counts what of the request
    had left, where the provider counts it.
    """

    outcome: Outcome
    scope: Scope
    stage: str
    rule: str
    recipients: tuple[RecipientVerdict, ...]
    code: str | None = None
    reason: str = ""
    provider_id: str | None = None
    retry_after_seconds: float | None = None
    blame: Blame = Blame.PROVIDER
    pressure: Pressure | None = None
    bytes_sent: int | None = None

    @property
    def taken(self) -> tuple[int, ...]:
        """The recipients for whom the provider took responsibility."""
        return tuple(
            each.recipient_id for each in self.recipients if each.outcome is Outcome.ACCEPTED
        )

    @property
    def doubtful(self) -> tuple[int, ...]:
        """The recipients whose acceptance this call leaves unknown."""
        return tuple(
            each.recipient_id for each in self.recipients if each.outcome is Outcome.AMBIGUOUS
        )

    def without_doubt(self, proven: AbstractSet[int]) -> "CallResult":
        """The same result where these recipients, if left in doubt, are known to be accepted."""
        if not proven or proven.isdisjoint(self.doubtful):
            return self
        recipients = tuple(
            replace(each, outcome=Outcome.ACCEPTED)
            if each.outcome is Outcome.AMBIGUOUS and each.recipient_id in proven
            else each
            for each in self.recipients
        )
        settled = replace(self, recipients=recipients)
        return settled if settled.doubtful else replace(settled, outcome=Outcome.ACCEPTED)

    @classmethod
    def alike(
        cls,
        recipient_ids: tuple[int, ...],
        outcome: Outcome,
        scope: Scope,
        *,
        stage: str,
        rule: str,
        code: str | None = None,
        reason: str = "",
        provider_id: str | None = None,
        retry_after_seconds: float | None = None,
        blame: Blame = Blame.PROVIDER,
        pressure: Pressure | None = None,
        bytes_sent: int | None = None,
    ) -> "CallResult":
        """Build the result of a call that came to the same for every recipient."""
        text = clean(reason)
        verdicts = tuple(
            RecipientVerdict(each, outcome, scope, rule, code, text) for each in recipient_ids
        )
        return cls(
            outcome,
            scope,
            stage,
            rule,
            verdicts,
            code,
            text,
            provider_id,
            retry_after_seconds,
            blame,
            pressure,
            bytes_sent,
        )
