"""Email -> the octets that go over the wire, the same for the same input.

The assembly is ours because the standard library's is slow and in places wrong; the encodings are
in `mailer.mime`. RFC 5322 for the message, RFC 2045, 2046 and 2387 for its parts.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256

from mailer.attachments import Attachment
from mailer.email import Email
from mailer.headers import is_structured
from mailer.mime import (
    address_list,
    base64_lines,
    disposition,
    structured,
    text_body,
    unstructured,
)

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NO_VISIBLE_RECIPIENT = "To: undisclosed-recipients:;"
_BOUNDARY_CHARS = 24


def compose(
    email: Email, *, message_id: str, date: datetime, outbox_id: int, attempt: str
) -> bytes:
    """Return the whole message: CRLF line ends, no line over 998 octets, no Bcc.

    All octets are ASCII, except those of a non-ASCII local part in an address header (RFC 6532).
    `message_id` comes with its angle brackets. `date` is the message's own, not the attempt's.
    `attempt` is its number and tag (see `attempt_mark`).
    Raises ValueError if `date` has no time zone.
    """
    head = [
        f"Date: {_date(date)}",
        *_addresses(email),
        unstructured("Subject", email.subject),
        structured("Message-ID", message_id),
        *[_extra(name, value) for name, value in email.headers],
        f"X-Outbox-Id: {outbox_id}",
        f"X-Outbox-Attempt: {attempt}",
        "MIME-Version: 1.0\r\n",
    ]
    entity = _entity(email, message_id)
    end = b"" if entity.endswith(b"\r\n") else b"\r\n"
    return b"".join(("\r\n".join(head).encode(), entity, end))


def _addresses(email: Email) -> Iterable[str]:
    yield address_list("From", (email.sender,))
    yield address_list("To", email.to) if email.to else _NO_VISIBLE_RECIPIENT
    if email.cc:
        yield address_list("Cc", email.cc)
    if email.reply_to:
        yield address_list("Reply-To", email.reply_to)


def _extra(name: str, value: str) -> str:
    return structured(name, value) if is_structured(name) else unstructured(name, value)


def _date(date: datetime) -> str:
    if date.tzinfo is None:
        raise ValueError("date must have a time zone")
    utc = date.astimezone(UTC)
    return (
        f"{_DAYS[utc.weekday()]}, {utc.day:02d} {_MONTHS[utc.month - 1]} {utc.year:04d} "
        f"{utc.hour:02d}:{utc.minute:02d}:{utc.second:02d} +0000"
    )


def _entity(email: Email, message_id: str) -> bytes:
    if email.html is None:
        inline: list[Attachment] = []
        attached: Sequence[Attachment] = email.attachments
    else:
        inline = [each for each in email.attachments if each.content_id is not None]
        attached = [each for each in email.attachments if each.content_id is None]
    body = _body(email, inline, message_id)
    if not attached:
        return body
    return _multipart("mixed", message_id, [body, *map(_attached, attached)])


def _body(email: Email, inline: list[Attachment], message_id: str) -> bytes:
    alternatives = []
    if email.text is not None:
        alternatives.append(_text_part("plain", email.text))
    if email.html is not None:
        alternatives.append(_html(email.html, inline, message_id))
    if len(alternatives) == 1:
        return alternatives[0]
    return _multipart("alternative", message_id, alternatives)


def _html(html: str, inline: list[Attachment], message_id: str) -> bytes:
    part = _text_part("html", html)
    if not inline:
        return part
    return _multipart(
        "related", message_id, [part, *map(_inline, inline)], ';\r\n type="text/html"'
    )


def _text_part(subtype: str, text: str) -> bytes:
    encoding, octets = text_body(text)
    return (
        f"Content-Type: text/{subtype}; charset=utf-8\r\n"
        f"Content-Transfer-Encoding: {encoding}\r\n\r\n"
    ).encode() + octets


def _attached(attachment: Attachment) -> bytes:
    return _file_part(attachment, "attachment")


def _inline(attachment: Attachment) -> bytes:
    return _file_part(attachment, "inline")


def _file_part(attachment: Attachment, kind: str) -> bytes:
    head = [
        structured("Content-Type", attachment.content_type),
        "Content-Transfer-Encoding: base64",
        disposition(kind, attachment.filename),
    ]
    if attachment.content_id is not None:
        head.append(f"Content-ID: <{attachment.content_id}>")
    head.append("\r\n")
    return "\r\n".join(head).encode() + base64_lines(attachment.content)


def _multipart(subtype: str, message_id: str, parts: list[bytes], parameters: str = "") -> bytes:
    # Why no part can hold the boundary: see `mailer.mime.text_body`. The subtype keeps nested
    # ones apart, the hash keeps a message apart from one that quotes it.
    unique = sha256(message_id.encode()).hexdigest()[:_BOUNDARY_CHARS]
    boundary = f"=_{subtype}_{unique}"
    delimiter = f"\r\n--{boundary}\r\n".encode()
    head = f'Content-Type: multipart/{subtype}{parameters};\r\n boundary="{boundary}"\r\n'.encode()
    return b"".join((head, delimiter, delimiter.join(parts), f"\r\n--{boundary}--".encode()))
