"""Payloads in the shape of SES's own, and the SNS messages that carry them."""

import json
from datetime import UTC, datetime
from typing import Any

from mailer.facts import Fact, Notice
from providers.ses_events import SesEvents

Payload = dict[str, Any]

PUBLISHED = datetime(2026, 3, 10, 12, tzinfo=UTC)
SES_ID = "0102019cd0000001-5f0c3a01-7d1e-4b52-9c6a-0a1b2c3d0001-000000"
TAG = "Kq3vZ1n8T0yB5cXw_acc"
ANA, BEN = "ana@example.org", "ben@example.net"

DETAILS: dict[str, tuple[str, Payload]] = {
    "Send": ("send", {}),
    "Reject": ("reject", {"reason": "Bad content"}),
    "Rendering Failure": ("failure", {"templateName": "receipt", "errorMessage": "no 'total'"}),
    "Delivery": (
        "delivery",
        {"timestamp": "2026-03-10T11:59:05.250Z", "recipients": [ANA], "smtpResponse": "250 OK"},
    ),
    "DeliveryDelay": (
        "deliveryDelay",
        {
            "timestamp": "2026-03-10T11:59:15.000Z",
            "delayType": "MailboxFull",
            "delayedRecipients": [
                {"emailAddress": ANA, "status": "4.2.2", "diagnosticCode": "452 4.2.2 full"}
            ],
        },
    ),
    "Bounce": (
        "bounce",
        {
            "bounceType": "Permanent",
            "bounceSubType": "General",
            "bouncedRecipients": [
                {
                    "emailAddress": ANA,
                    "action": "failed",
                    "status": "5.1.1",
                    "diagnosticCode": "smtp; 550 5.1.1 unknown",
                }
            ],
            "timestamp": "2026-03-10T11:59:10.500Z",
            "feedbackId": "0102019cd0000041-feedback-000000",
        },
    ),
    "Complaint": (
        "complaint",
        {
            "complainedRecipients": [{"emailAddress": ANA}],
            "timestamp": "2026-03-10T11:59:20.000Z",
            "feedbackId": "0102019cd0000053-feedback-000000",
            "complaintSubType": None,
            "complaintFeedbackType": "abuse",
        },
    ),
    "Open": ("open", {"timestamp": "2026-03-10T11:59:25.000Z", "ipAddress": "192.0.2.77"}),
    "Click": (
        "click",
        {
            "timestamp": "2026-03-10T11:59:26.000Z",
            "link": "https://shop.example/reset?token=s3cret",
            "linkTags": None,
        },
    ),
    "Subscription": (
        "subscription",
        {"timestamp": "2026-03-10T11:59:27.000Z", "source": "UnsubscribeHeader"},
    ),
}


def a_mail(**changes: object) -> Payload:
    """The `mail` object of an event."""
    mail = {
        "timestamp": "2026-03-10T11:59:00.000Z",
        "source": "Example Shop <shop@example.com>",
        "messageId": SES_ID,
        "destination": [ANA],
        "headersTruncated": False,
        "headers": [
            {"name": "From", "value": "Example Shop <shop@example.com>"},
            {"name": "Message-ID", "value": "<one@mail.example.com>"},
            {"name": "X-Outbox-Attempt", "value": f"2.{TAG}"},
        ],
        "commonHeaders": {"messageId": SES_ID},
        "tags": {"ses:operation": ["SendEmail"], "mailer-attempt": [TAG]},
    }
    return mail | changes


def an_event(name: str, *, mail: Payload | None = None, **changes: object) -> Payload:
    """An event of a type; `changes` are made to the object that belongs to it."""
    key, details = DETAILS[name]
    return {"eventType": name, "mail": mail or a_mail(), key: details | changes}


def a_notification(event: Payload) -> Payload:
    """The same event as an identity notification tells it."""
    mail = {key: value for key, value in event["mail"].items() if key not in {"tags", "headers"}}
    told = {key: value for key, value in event.items() if key != "eventType"}
    return told | {"notificationType": event["eventType"], "mail": mail}


def enveloped(message: object) -> bytes:
    """The SNS message that carries a text."""
    return json.dumps({"Type": "Notification", "Message": message}).encode()


def read(payload: object, published: datetime | None = PUBLISHED) -> Notice:
    """What a payload is taken to say."""
    return SesEvents()(enveloped(json.dumps(payload)), published)


def read_text(message: object) -> Notice:
    """What any `Message` is taken to say."""
    return SesEvents()(enveloped(message), PUBLISHED)


def only(notice: Notice) -> Fact:
    """The one fact of a notice."""
    (fact,) = notice.facts
    return fact
