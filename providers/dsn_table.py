"""What a delivery report says about a recipient: Action and Status, looked up in a table. Pure.

RFC 3464 2.3.3 for the actions, RFC 3463 and the IANA registry of enhanced status codes for what
the codes mean.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mailer.facts import FactKind, Suppress, SuppressionReason


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a report says about one recipient; `suppress` where its mailbox is the cause."""

    kind: FactKind
    suppress: Suppress | None = None


PERMANENT = Ruling(FactKind.BOUNCED_PERMANENT)
"""Refused for good, and the cause lies in the message, its sender or a policy."""
NO_MAILBOX = Ruling(FactKind.BOUNCED_PERMANENT, Suppress(SuppressionReason.BOUNCE))
TRANSIENT = Ruling(FactKind.BOUNCED_TRANSIENT)
UNDETERMINED = Ruling(FactKind.BOUNCED_UNDETERMINED)
UNKNOWN = Ruling(FactKind.BOUNCED_UNKNOWN)
DELAYED = Ruling(FactKind.DELAYED)
DELIVERED = Ruling(FactKind.DELIVERED)

FAILED = "failed"

# fmt: off
RULINGS: Mapping[tuple[str, str], Ruling] = {
    (FAILED, "5"): PERMANENT,
    # The relay has given up on a cause that may pass: a full queue, a host that was away.
    (FAILED, "4"): TRANSIENT,
    (FAILED, ""): UNDETERMINED,
    ("delayed", ""): DELAYED,
    ("delivered", ""): DELIVERED,
    # Handed on to where no reports come from: nobody will ever say more.
    ("relayed", ""): DELIVERED,
    # The mailbox took it and sent it on to others.
    ("expanded", ""): DELIVERED,
    # Reports without an Action.
    ("", "5"): PERMANENT,
    ("", "4"): TRANSIENT,
    ("", "2"): DELIVERED,
}
"""Rulings by action and class of the status; an empty class stands for every other one."""

SPELLINGS: Mapping[str, str] = {
    "failure": FAILED,
    "fail": FAILED,
    "error": FAILED,  # OpenSMTPD
    "delay": "delayed",
    "deliverable": "delivered",
}
"""Actions as some servers write them."""

MAILBOX_STATUSES = re.compile(
    r"5\.1\.(?!5$|7$|8$)\d{1,3}"  # a bad address; but .5 is a valid one, .7 and .8 the sender's
    r"|5\.2\.1"  # mailbox disabled
    r"|5\.4\.4"  # unable to route: the domain does not exist, or takes no mail
)
"""Statuses of a failure after which the mailbox gets no more mail."""
# fmt: on

_STATUS = re.compile(r"(?<![\d.])([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)")
_IN_REPLY = re.compile(r"\b([45]\d\d)[ -]#?([45]\.\d{1,3}\.\d{1,3})(?!\.?\d)")
_WORD = re.compile(r"[a-z-]+")
_SAYS_NOTHING = re.compile(r"[245]\.0\.0")


def action_of(text: str) -> str:
    """Return the action that a field names, without comments and in its usual spelling."""
    found = _WORD.match(text.strip().lower())
    word = found[0] if found else ""
    return SPELLINGS.get(word, word)


def status_of(status: str, diagnostic: str) -> str:
    """Return the status of a recipient; empty if none is told.

    Exim says 5.0.0 whatever happened, others say nothing: there the remote server's reply decides,
    unless it is of another class.
    """
    found = _STATUS.search(status)
    told = found[1] if found else ""
    if told and not _SAYS_NOTHING.fullmatch(told):
        return told
    reply = _IN_REPLY.search(diagnostic)
    return reply[2] if reply and reply[2][0] in (told[:1] or reply[2][0]) else told


def judge(action: str, status: str) -> Ruling:
    """Return what action and status say together; `UNKNOWN` for an action that is not known."""
    ruling = RULINGS.get((action, status[:1])) or RULINGS.get((action, ""), UNKNOWN)
    return NO_MAILBOX if ruling is PERMANENT and MAILBOX_STATUSES.fullmatch(status) else ruling
