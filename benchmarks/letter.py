"""The message that every contestant sends; needs no package, so that peers can import it."""

from email.message import EmailMessage

SENDER = "Shop <shop@example.com>"
ENVELOPE_SENDER = "shop@example.com"
RECIPIENT = "ann@example.com"
SUBJECT = "Your order has been shipped"

_LINE = "Your order has been shipped and will reach you within three days. "

TEXT = "\n".join(["Hello Ann,", *[_LINE * 2] * 12, "Yours, the shop"])
HTML = "<html><body>" + "".join(f"<p>{_LINE * 2}</p>\n" for _ in range(12)) + "</body></html>"


def built(recipient: str, subject: str, text: str, html: str) -> EmailMessage:
    """Build the message as an application does that has nothing but the standard library."""
    message = EmailMessage()
    message["From"] = SENDER
    message["To"] = recipient
    message["Subject"] = subject
    message.set_content(text)
    message.add_alternative(html, subtype="html")
    return message
