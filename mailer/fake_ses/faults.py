"""The fault script: the first word of a recipient's local part says what becomes of its mail."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from mailer.fake_ses import refusals
from mailer.fake_ses.refusals import Refusal


class Manner(StrEnum):
    """How an answer goes out."""

    AT_ONCE = "at once"
    LATE = "late"
    """After `slow_seconds` of the account."""
    NEVER = "never"
    """The connection stays open, and silent, until the client gives up."""
    HANG_UP = "hang up"
    """The connection is closed, and there is no answer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of a message, whether it was taken, and how the client hears of it.

    `first_only` spares a message (the recipient and outbox id) that comes again.
    """

    meaning: str
    refusal: Refusal | None = None
    accepts: bool = False
    manner: Manner = Manner.AT_ONCE
    first_only: bool = False


WILLING = Fault("accepted", accepts=True)

SCRIPT: Mapping[str, Fault] = MappingProxyType(
    {
        "throttle": Fault("429, too fast", refusals.TOO_FAST),
        "throttleonce": Fault(
            "429 the first time, then accepted", refusals.TOO_FAST, first_only=True
        ),
        "quota": Fault("the day's quota is used up", refusals.QUOTA),
        "reject": Fault("rejected for its content", refusals.REJECTED),
        "unverified": Fault("an identity is not verified", refusals.UNVERIFIED),
        "suspended": Fault("the account is suspended", refusals.SUSPENDED),
        "paused": Fault("sending is paused", refusals.PAUSED),
        "badrequest": Fault("a bad address", refusals.BAD_ADDRESS),
        "expired": Fault("403, the credentials have expired", refusals.EXPIRED),
        "servererror": Fault("500, and not accepted", refusals.INTERNAL),
        "servererrorlost": Fault("500, and accepted", refusals.INTERNAL, accepts=True),
        "close": Fault("accepted, and no answer", accepts=True, manner=Manner.HANG_UP),
        "closebefore": Fault("not accepted, and no answer", manner=Manner.HANG_UP),
        "stall": Fault("accepted, and never answered", accepts=True, manner=Manner.NEVER),
        "slow": Fault("accepted, and answered late", accepts=True, manner=Manner.LATE),
    }
)
"""First word of the local part, before any `-`, to its fault."""


def scripted(recipients: tuple[str, ...]) -> tuple[str, Fault]:
    """Return the first recipient that the script names, with its fault; else a willing one."""
    for each in recipients:
        fault = SCRIPT.get(first_word(each))
        if fault is not None:
            return each, fault
    return recipients[0], WILLING


def first_word(address: str) -> str:
    """Return what a script goes by: the local part up to any `-`, in lower case."""
    return address.partition("@")[0].partition("-")[0].lower()
