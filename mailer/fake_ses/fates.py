"""The script of events: the first word of a recipient's local part says what becomes of its mail.

The words are those of SES's mailbox simulator, and some more for what it cannot show.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from mailer.fake_ses.faults import first_word


class EventType(StrEnum):
    """The kinds of events that the script knows, as `eventType` has them."""

    SEND = "Send"
    DELIVERY = "Delivery"
    DELAY = "DeliveryDelay"
    BOUNCE = "Bounce"
    COMPLAINT = "Complaint"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happens to the mail of a recipient.

    `kind` and `subkind` are the types of a bounce or a delay; `status` (RFC 3463) and `said`, with
    the recipient in it, are what the remote server answered.
    """

    type: EventType
    kind: str = ""
    subkind: str = ""
    status: str = ""
    said: str = ""


DELIVERED = Happening(EventType.DELIVERY, said="250 2.0.0 OK {recipient}")
COMPLAINED = Happening(EventType.COMPLAINT)
DELAYED = Happening(
    EventType.DELAY, "TransientCommunicationFailure", status="4.4.1", said="smtp; 421 4.4.1 busy"
)
BOUNCED = Happening(
    EventType.BOUNCE,
    "Permanent",
    "General",
    "5.1.1",
    "smtp; 550 5.1.1 <{recipient}>: no such mailbox",
)
AWAY = Happening(
    EventType.BOUNCE, "Transient", "General", "5.3.0", "smtp; out of office: <{recipient}>"
)
SUPPRESSED = Happening(
    EventType.BOUNCE,
    "Permanent",
    "OnAccountSuppressionList",
    "5.1.1",
    "Amazon SES did not send the message to this address because it is on the suppression list "
    "for your account.",
)


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of the mail of a recipient once it was accepted; `is_told` by events, or not."""

    meaning: str
    happenings: tuple[Happening, ...] = ()
    is_told: bool = True


DELIVERY = Fate("Send, Delivery", (DELIVERED,))
ON_LIST = Fate("Send, Bounce: on the account's suppression list", (SUPPRESSED,))

FATES: Mapping[str, Fate] = MappingProxyType(
    {
        "bounce": Fate("Send, Bounce: permanent", (BOUNCED,)),
        "complaint": Fate("Send, Delivery, Complaint", (DELIVERED, COMPLAINED)),
        "ooto": Fate("Send, Delivery, Bounce: transient, out of office", (DELIVERED, AWAY)),
        "suppressionlist": ON_LIST,
        "bouncelater": Fate("Send, Delivery, Bounce: permanent", (DELIVERED, BOUNCED)),
        "delay": Fate("Send, DeliveryDelay, Delivery", (DELAYED, DELIVERED)),
        "silent": Fate("no event at all", is_told=False),
    }
)
"""First word of the local part, before any `-`, to its fate; anybody else's is DELIVERY."""


def fate_of(recipient: str) -> Fate:
    """Return what the script has for a recipient."""
    return FATES.get(first_word(recipient), DELIVERY)
