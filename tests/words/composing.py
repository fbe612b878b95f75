"""Composing in tests, and looking at what came out."""

import re
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from mailer.compose import compose
from mailer.email import Email

MESSAGE_ID = "<mfzwizltmfzwizltmfzwizltmfzwizlt@mail.example.com>"
DATE = datetime(2026, 3, 1, 9, 5, 7, tzinfo=UTC)


def composed(email: Email) -> bytes:
    return compose(email, message_id=MESSAGE_ID, date=DATE, outbox_id=7, attempt="2.tag")


def parsed(raw: bytes) -> EmailMessage:
    message = message_from_bytes(raw, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def built(**overrides: Any) -> Email:
    arguments: dict[str, Any] = {
        "sender": "Shop <shop@example.com>",
        "to": ["jane@example.org"],
        "subject": "Hello",
        "text": "Hi",
    }
    return Email.build(**(arguments | overrides))


def header_lines(raw: bytes, name: str) -> bytes:
    """Return the raw value of one header, folds included."""
    head = raw.partition(b"\r\n\r\n")[0] + b"\r\n"
    match = re.search(rb"(?im)^" + name.encode() + rb":((?:[^\r\n]|\r\n[ ])*)\r\n", head)
    assert match is not None
    return match[1]


def lf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def leaves(message: EmailMessage) -> list[EmailMessage]:
    return [part for part in message.walk() if not part.is_multipart()]
