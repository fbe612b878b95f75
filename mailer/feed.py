"""The ports of what comes back from providers: who may speak, and what is said."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mailer.errors import MailerError
from mailer.facts import Notice

MAX_BODY_BYTES = 1024 * 1024
"""SNS publishes at most 256 KiB; escaping it into JSON can make it larger, but not by this much."""


class Channel(StrEnum):
    """The door an event came through (`email_event.channel`)."""

    HTTPS = "https"
    SQS = "sqs"
    MAIL = "mail"


class EnvelopeType(StrEnum):
    """What kind of SNS message it is."""

    NOTIFICATION = "Notification"
    SUBSCRIPTION = "SubscriptionConfirmation"
    UNSUBSCRIPTION = "UnsubscribeConfirmation"


@dataclass(frozen=True, slots=True)
class Envelope:
    """A verified SNS message. `body` is what came, byte for byte; `token` confirms a subscription.

    `published_at` is its Timestamp (None where that cannot be read as a moment).
    """

    type: EnvelopeType
    topic_arn: str
    message_id: str
    published_at: datetime | None
    body: bytes
    token: str | None = None


class Unacceptable(MailerError):
    """What can never become valid. `status` is what HTTP answers; `rule` names why, for the log."""

    def __init__(self, status: int, rule: str) -> None:
        super().__init__(f"event refused: {rule}")
        self.status = status
        self.rule = rule


class NotNow(MailerError):
    """It may be genuine and could not be checked now: whoever sent it shall send it again."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"event put off: {rule}")
        self.rule = rule


class Verifier(Protocol):
    """Tells a genuine SNS message of an allowed topic from everything else."""

    async def verify(self, body: bytes, channel: Channel) -> Envelope:
        """Return the verified message. Raises Unacceptable or NotNow."""


class Subscriptions(Protocol):
    """Confirms subscriptions through the provider's own API."""

    async def confirm(self, topic_arn: str, token: str) -> None:
        """Confirm one; raises NotNow when that did not work."""


@dataclass(frozen=True, slots=True)
class Queued:
    """A message taken from a queue; `receipt` is what deletes it there."""

    receipt: str = field(repr=False)
    body: bytes = field(repr=False)


class Queue(Protocol):
    """A queue that hands messages out for a while, and again unless they are deleted. Blocks."""

    def receive(self) -> list[Queued]:
        """Wait some seconds for messages, and return those that came; raises NotNow."""

    def delete(self, receipts: Sequence[str]) -> int:
        """Delete messages for good, and return how many could not be; raises NotNow."""


Interpret = Callable[[bytes, datetime | None], Notice]
"""Reads a stored body, published at a moment; never raises for what it holds."""
