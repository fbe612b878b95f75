"""The port of witnesses: what somebody beside the provider saw of our handings over."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class SightingKind(StrEnum):
    """What a sighting proves."""

    ACCEPTED = "accepted"
    """The relay took responsibility for the message (RFC 5321 4.2.5)."""
    REFUSED = "refused"
    """This handing over ended in the relay's refusal. Says nothing of any other of the message,
    and nothing at all where the same one is seen as accepted too."""
    NOTHING = "nothing"
    """The relay began to read the message, and what was seen proves neither."""


class Fate(StrEnum):
    """What became of one recipient afterwards."""

    DELIVERED = "delivered"
    """The next host, or the mailbox, took it."""
    BOUNCED = "bounced"
    DEFERRED = "deferred"
    """Not yet; the relay tries again."""


@dataclass(frozen=True, slots=True)
class RecipientFate:
    """One fate of one recipient. `address` is the canonical key, `code` an enhanced status
    (RFC 3463) where one was told, `at` when it was last seen."""

    address: str = field(repr=False)
    fate: Fate
    code: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Carried:
    """What one attempt carries: the Message-ID of its message, with angle brackets, and the
    envelope sender, which only this attempt has where bounces are told apart by it (VERP)."""

    message_id: str | None = None
    sender: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Sighting:
    """One handing over, as a witness saw it.

    It is told by `message_id` (angle brackets included), by `sender` (the envelope sender as it was
    written), or by both; whoever has both compares both, because others may send on a message
    of ours under its Message-ID. All attempts of a message share its Message-ID: two sightings that
    accept it mean that it was taken twice, unless one continues the other. `came_from` names the
    queue id that this one continues (a content filter gave it back, an operator queued it anew),
    `passed_to` those that continue this one. A recipient may have met several fates.
    `note` is one line for the record and holds no address.
    """

    kind: SightingKind
    source: str
    queue_id: str | None = None
    message_id: str | None = None
    sender: str | None = field(default=None, repr=False)
    at: datetime | None = None
    recipients: tuple[RecipientFate, ...] = field(default=(), repr=False)
    came_from: str | None = None
    passed_to: tuple[str, ...] = ()
    note: str = ""


class Evidence(Protocol):
    """A witness that attempts can be looked up with, by what they carry."""

    def look_up(self, carried: Collection[Carried]) -> Iterator[Sighting]:
        """Yield what was seen of these attempts.

        One that is not seen is in doubt as before: absence proves nothing.
        """
