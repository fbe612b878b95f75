"""The message that every contestant sends: text and HTML, about 4 KB on the wire."""

import datetime as dt

from mailer.compose import compose
from mailer.email import Email

_LINE = "Your order has been shipped and will reach you within three days. "

TEXT = "\n".join(["Hello Ann,", *[_LINE * 2] * 12, "Yours, the shop"])
HTML = "<html><body>" + "".join(f"<p>{_LINE * 2}</p>\n" for _ in range(12)) + "</body></html>"


def message() -> Email:
    """The message as an application gives it."""
    return Email.build(
        sender="Shop <shop@example.com>",
        to="ann@example.com",
        subject="Your order has been shipped",
        text=TEXT,
        html=HTML,
    )


def content(number: int) -> bytes:
    """The message ready for the wire."""
    return compose(
        message(),
        message_id=f"<{number}@example.com>",
        date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        outbox_id=number,
        attempt_number=1,
    )
