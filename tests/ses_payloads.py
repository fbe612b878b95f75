"""SES events in the shape that event publishing gives them, inside an SNS envelope."""

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from mailer.events import Incoming
from mailer.feed import Channel

TOPIC = "arn:aws:sns:eu-west-1:111122223333:mail-events"
TAG = "mailer-attempt"

_numbers = count(1)


def payload(
    kind: str,
    to: Sequence[str] = ("ann@example.com",),
    *,
    provider_id: str = "ses-1",
    tag: str | None = None,
    at: str = "2026-03-10T11:59:10.500Z",
    named: Sequence[str] | None = None,
    bounce: tuple[str, str] = ("Permanent", "General"),
    **more: Any,
) -> dict[str, Any]:
    """One event about a message `to` some; `named` are those it speaks of (default: all)."""
    about = list(to if named is None else named)
    mail = {
        "timestamp": "2026-03-10T11:59:00.000Z",
        "messageId": provider_id,
        "source": "shop@example.com",
        "destination": list(to),
        "headers": [],
        "tags": {} if tag is None else {TAG: [tag]},
    }
    return {"eventType": kind, "mail": mail, **_detail(kind, about, at, bounce, more)}


def _detail(
    kind: str, about: list[str], at: str, bounce: tuple[str, str], more: dict[str, Any]
) -> dict[str, Any]:
    entries = [{"emailAddress": each} for each in about]
    match kind:
        case "Bounce":
            type_, subtype = bounce
            listed = [{**each, "action": "failed", "status": "5.1.1"} for each in entries]
            return {
                "bounce": {
                    "bounceType": type_,
                    "bounceSubType": subtype,
                    "bouncedRecipients": listed,
                    "timestamp": at,
                    "feedbackId": f"feedback-{at}",
                    **more,
                }
            }
        case "Complaint":
            detail = {
                "complainedRecipients": entries,
                "timestamp": at,
                "feedbackId": f"feedback-{at}",
            }
            return {"complaint": {**detail, **more}}
        case "Delivery":
            return {"delivery": {"recipients": about, "timestamp": at, **more}}
        case "DeliveryDelay":
            return {"deliveryDelay": {"delayedRecipients": entries, "timestamp": at, **more}}
        case _:
            return {kind.lower(): {"timestamp": at, **more}}


def envelope(message: Any, *, message_id: str | None = None, topic: str = TOPIC) -> dict[str, Any]:
    """Wrap a payload as SNS does, unsigned."""
    text = message if isinstance(message, str) else json.dumps(message)
    return {
        "Type": "Notification",
        "MessageId": message_id or f"00000000-0000-4000-8000-{next(_numbers):012d}",
        "TopicArn": topic,
        "Message": text,
        "Timestamp": "2026-03-10T11:59:30.123Z",
    }


def incoming(message: Any, *, message_id: str | None = None, topic: str = TOPIC) -> Incoming:
    """An event as it is handed over for storing once its signature was checked."""
    wrapped = envelope(message, message_id=message_id, topic=topic)
    return Incoming(topic, wrapped["MessageId"], Channel.HTTPS, json.dumps(wrapped).encode())
