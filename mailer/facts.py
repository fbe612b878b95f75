"""What a provider tells later: facts about recipients and messages, whom they suppress. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class FactKind(StrEnum):
    """One thing that happened after the provider took a message.

    Facts are a set with times: a later one never replaces an earlier one, and their order of
    arrival means nothing.
    """

    ACCEPTED = "accepted"
    """The provider says itself that it took the message."""
    REJECTED = "rejected"
    """Taken, then thrown away by the provider (SES: a virus). Nothing was delivered."""
    RENDERING_FAILED = "rendering_failed"
    """Taken, and never sent, because the provider could not fill its template."""
    OPENED = "opened"
    CLICKED = "clicked"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    """Somebody changed their preferences on one of the provider's contact lists."""

    DELIVERED = "delivered"
    """The recipient's server took it."""
    DELAYED = "delayed"
    BOUNCED_PERMANENT = "bounced_permanent"
    BOUNCED_TRANSIENT = "bounced_transient"
    BOUNCED_UNDETERMINED = "bounced_undetermined"
    BOUNCED_UNKNOWN = "bounced_unknown"
    """A bounce of a type that this version does not know."""
    SUPPRESSED_BY_PROVIDER = "suppressed_by_provider"
    """Taken and not sent: the provider has this address on a list of its own."""
    UNSUBSCRIBED = "unsubscribed"
    """The recipient had opted out of a contact list; the mailbox is alive."""
    COMPLAINED = "complained"
    COMPLAINT_NOT_SPAM = "complaint_not_spam"
    """The recipient says that it is no spam. Lifts nothing."""


ABOUT_MESSAGES = frozenset(
    {
        FactKind.ACCEPTED,
        FactKind.REJECTED,
        FactKind.RENDERING_FAILED,
        FactKind.OPENED,
        FactKind.CLICKED,
        FactKind.SUBSCRIPTION_CHANGED,
    }
)
"""Facts that name no recipient."""

NOT_SENT = frozenset({FactKind.REJECTED, FactKind.RENDERING_FAILED})
"""The provider took the message, and says that it sent nothing."""


class SuppressionReason(StrEnum):
    """Why an address gets no mail (`email_suppression.reason`)."""

    BOUNCE = "bounce"
    COMPLAINT = "complaint"
    MANUAL = "manual"
    PROVIDER = "provider"
    """It is on a list of the provider's."""
    UNSUBSCRIBE = "unsubscribe"


REASON_RANK: Mapping[SuppressionReason, int] = {
    SuppressionReason.PROVIDER: 0,
    SuppressionReason.UNSUBSCRIBE: 1,
    SuppressionReason.BOUNCE: 2,
    SuppressionReason.COMPLAINT: 3,
    SuppressionReason.MANUAL: 4,
}
"""Where several hold, the highest is shown: so the order in which they came means nothing."""


@dataclass(frozen=True, slots=True)
class Suppress:
    """That a fact stops further mail to its address; for `seconds`, or for good (None)."""

    reason: SuppressionReason
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of an event.

    `address` is the canonical key, None for a fact about the whole message. `occurrence` tells two
    facts of one kind apart (SES: the feedback id, else the time as it was written), so that the
    same bounce told twice is one fact. `rule` is the provider's own type, such as
    `Permanent/General`; `code` an enhanced status (RFC 3463), `text` the cleaned diagnostic.
    """

    kind: FactKind
    address: str | None
    occurred_at: datetime
    occurrence: str
    rule: str = ""
    code: str | None = None
    text: str = ""
    suppress: Suppress | None = None


class EventState(StrEnum):
    """Where a stored event stands (`email_event.state`)."""

    RECEIVED = "received"
    """Verified and stored, still to be interpreted."""
    PROCESSED = "processed"
    """Its attempt is known, and its facts are written."""
    UNMATCHED = "unmatched"
    """Its attempt is not known yet. It is looked for again, and never dropped."""
    UNPARSED = "unparsed"
    """Its text could not be read. It stays for a person."""
    UNKNOWN_TYPE = "unknown_type"
    """A type that this version does not know."""
    CONTROL = "control"
    """About the subscription or the set-up, not about a message."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What one event says, whoever told it.

    `state` is what the event ends in once its attempt is known. `provider_id` is the provider's id
    of the message; `request_tag` what the call carried as a tag, `header_tag` and `message_id`
    what the returned header fields carried. `destinations` are the canonical keys of those whom
    the message was for. `proves_acceptance` tells that the provider had taken the attempt.
    `trusted` is False for what a stranger may have written: it is kept and shown, and neither
    settles nor suppresses. `reference` names the message in the identity of its facts.
    """

    kind: str
    state: EventState
    occurred_at: datetime | None = None
    provider_id: str | None = None
    request_tag: str | None = None
    header_tag: str | None = None
    message_id: str | None = None
    destinations: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    proves_acceptance: bool = False
    trusted: bool = True

    @property
    def reference(self) -> str:
        """What tells this message's facts from another's."""
        return self.provider_id or self.request_tag or self.message_id or self.header_tag or ""
