"""The message of `benchmarks.letter` as the product takes it, and ready for the wire."""

import datetime as dt
import re

from benchmarks.letter import HTML, RECIPIENT, SENDER, SUBJECT, TEXT
from mailer.compose import compose
from mailer.email import Email

_OWN_HEADERS = re.compile(rb"(?m)^(?:Message-ID|X-Outbox-[A-Za-z]+):.*\r\n")


def message() -> Email:
    """The message as an application gives it."""
    return Email.build(sender=SENDER, to=RECIPIENT, subject=SUBJECT, text=TEXT, html=HTML)


def content(number: int) -> bytes:
    """The message ready for the wire."""
    return composed(message(), number)


def composed(email: Email, number: int) -> bytes:
    """Compose one message as the worker does."""
    return compose(
        email,
        message_id=f"<{number}@example.com>",
        date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        outbox_id=number,
        attempt=f"1.{0:032x}",
    )


def ready() -> bytes:
    """The message ready for the wire but for what names one row: the same octets for everybody."""
    head, blank, body = content(1).partition(b"\r\n\r\n")
    return _OWN_HEADERS.sub(b"", head + b"\r\n").removesuffix(b"\r\n") + blank + body
