"""What SES's events mean: their types, and whom a bounce or a complaint suppresses. Pure.

Sources: the SES developer guide's "Contents of event data that Amazon SES publishes to Amazon SNS"
and "Amazon SNS notification contents", bounce and complaint types there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mailer.facts import FactKind, Suppress, SuppressionReason
from providers.ses_event_json import Json, squeezed

GLOBAL_LIST_SECONDS = 14 * 24 * 3600.0
"""SES keeps an address on its global list for at most 14 days, and lets nobody ask about it."""

SETUP_TEXT = "Successfully validated SNS topic for Amazon SES"
"""How the plain text begins that SES publishes when an event destination is made."""
SETUP_TYPE = "AmazonSnsSubscriptionSucceeded"
"""The type that SES publishes when a topic is set for an identity."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What an event says about those whom it names.

    `softens` tells that a recipient whose own status is temporary is spared: SES puts several
    recipients of one failed message into one bounce, under the type of the worst.
    """

    kind: FactKind
    suppress: Suppress | None = None
    softens: bool = False


class Clock(StrEnum):
    """Where the time of an event stands."""

    OWN = "own"
    """In the event's own object."""
    MAIL = "mail"
    """The event has no time but the message's."""


@dataclass(frozen=True, slots=True)
class EventType:
    """One type of event.

    `name` is what `eventType` says, `details` the key of the object that belongs to it. `named` is
    the key of the list of those whom it is about; an event without one is about the message.
    `rule_keys` are the details that tell its subtype, which `is_titled` by the name where it does
    not speak for itself; `text` is the detail that explains it.
    """

    name: str
    details: str
    judge: Callable[[Json], Ruling]
    named: str = ""
    rule_keys: tuple[str, ...] = ()
    is_titled: bool = True
    text: str = ""
    clock: Clock = Clock.OWN


_BOUNCE = Suppress(SuppressionReason.BOUNCE)
_COMPLAINT = Suppress(SuppressionReason.COMPLAINT)
_LISTED = Suppress(SuppressionReason.PROVIDER)
_LISTED_FOR_A_WHILE = Suppress(SuppressionReason.PROVIDER, GLOBAL_LIST_SECONDS)

# fmt: off
PERMANENT: Mapping[str, Ruling] = {
    "suppressed": Ruling(FactKind.SUPPRESSED_BY_PROVIDER, _LISTED_FOR_A_WHILE),
    "onaccountsuppressionlist": Ruling(FactKind.SUPPRESSED_BY_PROVIDER, _LISTED),
    "ontenantsuppressionlist": Ruling(FactKind.SUPPRESSED_BY_PROVIDER, _LISTED),
    # A prediction of SES's, and no word from the mailbox.
    "emailvalidationsuppressed": Ruling(FactKind.SUPPRESSED_BY_PROVIDER),
    # An opt-out of one list; the mailbox is alive.
    "unsubscribedrecipient": Ruling(FactKind.UNSUBSCRIBED),
}
"""Permanent bounces by subtype; every other subtype, also one not known yet, is `BOUNCED`."""

BOUNCED = Ruling(FactKind.BOUNCED_PERMANENT, _BOUNCE, softens=True)

BOUNCES: Mapping[str, Ruling] = {
    "permanent": BOUNCED,
    # Never by the status: out-of-office replies come as Transient with a 5.x.
    "transient": Ruling(FactKind.BOUNCED_TRANSIENT),
    "undetermined": Ruling(FactKind.BOUNCED_UNDETERMINED),
}
"""Bounces by type."""

BOUNCED_SOMEHOW = Ruling(FactKind.BOUNCED_UNKNOWN)

ECHOES: Mapping[str, Ruling] = {
    "onaccountsuppressionlist": Ruling(FactKind.SUPPRESSED_BY_PROVIDER, _LISTED),
    "ontenantsuppressionlist": Ruling(FactKind.SUPPRESSED_BY_PROVIDER, _LISTED),
}
"""Complaints by subtype: taken and not sent, because of an older complaint."""

NO_COMPLAINTS: Mapping[str, Ruling] = {
    "not-spam": Ruling(FactKind.COMPLAINT_NOT_SPAM),
}
"""Complaints by feedback type (RFC 5965 3.1) that are none. Receivers make up types of their own,
so that whatever is not listed here is a complaint."""

COMPLAINED = Ruling(FactKind.COMPLAINED, _COMPLAINT)
# fmt: on


def judge_bounce(details: Json) -> Ruling:
    """Rule on a bounce by its type, and a permanent one by its subtype."""
    ruling = BOUNCES.get(squeezed(details.get("bounceType")), BOUNCED_SOMEHOW)
    if ruling is BOUNCED:
        return PERMANENT.get(squeezed(details.get("bounceSubType")), BOUNCED)
    return ruling


def judge_complaint(details: Json) -> Ruling:
    """Rule on a complaint: by its subtype, else by its feedback type."""
    echo = ECHOES.get(squeezed(details.get("complaintSubType")))
    if echo is not None:
        return echo
    feedback = details.get("complaintFeedbackType")
    key = feedback.strip().lower() if isinstance(feedback, str) else ""
    return NO_COMPLAINTS.get(key, COMPLAINED)


def _always(kind: FactKind) -> Callable[[Json], Ruling]:
    ruling = Ruling(kind)
    return lambda _: ruling


# fmt: off
TYPES: tuple[EventType, ...] = (
    EventType("Send", "send", _always(FactKind.ACCEPTED), clock=Clock.MAIL),
    EventType("Reject", "reject", _always(FactKind.REJECTED), text="reason", clock=Clock.MAIL),
    EventType("Rendering Failure", "failure", _always(FactKind.RENDERING_FAILED),
              text="errorMessage", clock=Clock.MAIL),
    EventType("Delivery", "delivery", _always(FactKind.DELIVERED), named="recipients",
              text="smtpResponse"),
    EventType("DeliveryDelay", "deliveryDelay", _always(FactKind.DELAYED),
              named="delayedRecipients", rule_keys=("delayType",)),
    EventType("Bounce", "bounce", judge_bounce, named="bouncedRecipients",
              rule_keys=("bounceType", "bounceSubType"), is_titled=False),
    EventType("Complaint", "complaint", judge_complaint, named="complainedRecipients",
              rule_keys=("complaintSubType", "complaintFeedbackType")),
    EventType("Open", "open", _always(FactKind.OPENED)),
    EventType("Click", "click", _always(FactKind.CLICKED)),
    EventType("Subscription", "subscription", _always(FactKind.SUBSCRIPTION_CHANGED),
              text="source"),
)
# fmt: on

TYPE_BY_NAME: Mapping[str, EventType] = {squeezed(each.name): each for each in TYPES}
