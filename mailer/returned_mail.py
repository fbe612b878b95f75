"""Mails that come back to the return path, taken in as events: stored first, then read."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mailer import lookups
from mailer.database import connected
from mailer.events import Incoming
from mailer.feed import MAX_BODY_BYTES, Channel, NotNow
from mailer.feedback import Feedback
from mailer.storing import STORED, store_batch
from mailer.tables import Event

TOPIC = "mail"
"""Stands where an SNS event has the topic that it came by."""

_MAX_RECIPIENT_CHARS = 320
"""RFC 5321 4.5.3.1: a local part of 64 octets, a domain of 255, and what joins them."""


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What became of a mail. It holds no address.

    `kind` and `state` are the event's; the others tell the attempt that it is about, if known.
    """

    event_id: int
    kind: str | None
    state: str
    outbox_id: int | None
    attempt_id: int | None
    matched_by: str | None


def take_in(
    mail: bytes, feedback: Feedback, *, recipients: Sequence[str] = (), came_at: datetime
) -> TakenIn:
    """Store a mail (RFC 5322) as an event and interpret it; the same mail again is the same event.

    Of a larger mail the first `MAX_BODY_BYTES` are kept: a report stands in front of the message
    that it gives back. `recipients` are those that the envelope named: they are kept as header
    fields before the mail's own, where an MTA would write them. Raises NotNow when it is not on
    record, so that whoever has it tries again.
    """
    event = _incoming(mail, recipients, came_at)
    verdict = store_batch([event])[0]
    if verdict != STORED:
        raise NotNow(verdict)
    with connected():
        feedback.interpret_only(_stored(event).id)
        return _told(_stored(event))


def _incoming(mail: bytes, recipients: Sequence[str], came_at: datetime) -> Incoming:
    body = (b"".join(_field(each) for each in recipients) + mail)[:MAX_BODY_BYTES]
    identity = hashlib.sha256(body).hexdigest()
    return Incoming(TOPIC, identity, Channel.MAIL, body, came_at.astimezone(UTC))


def _field(recipient: str) -> bytes:
    """An address that would not be one line is nobody's mark, and begins no field."""
    if not recipient.isprintable() or len(recipient) > _MAX_RECIPIENT_CHARS:
        return b""
    return f"X-Original-To: {recipient}\r\n".encode()


def _stored(event: Incoming) -> Event:
    found = lookups.event_named(event.topic_arn, event.sns_message_id)
    if found is None:
        raise NotNow("purged")
    return found


def _told(event: Event) -> TakenIn:
    attempt: Any = event.attempt
    return TakenIn(
        event.id,
        event.kind,
        event.state,
        None if attempt is None else attempt.outbox_id,
        None if attempt is None else attempt.id,
        event.matched_by,
    )
