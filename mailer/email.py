"""The validated request to send."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mailer.addresses import Mailbox
from mailer.attachments import Attachment
from mailer.errors import InvalidEmail
from mailer.headers import checked_headers
from mailer.lines import one_line

__all__ = ["MAX_BYTES", "MAX_RECIPIENTS", "Attachment", "Email", "Mailbox", "size_bound"]

MAX_RECIPIENTS = 50
"""Distinct recipients of one message: the SES limit, and a sane one for transactional mail."""
MAX_BYTES = 10 * 1024 * 1024
MAX_SUBJECT_CHARS = 998
"""RFC 5322 2.1.1."""

Mailboxes = str | Sequence[str]
AttachmentLike = Attachment | Mapping[str, Any] | tuple[Any, ...] | list[Any]

_FIXED_OCTETS = 4096
_OCTETS_PER_FIELD = 160
_HEADER_GROWTH = 8
_OCTETS_PER_ATTACHMENT = 4096


@dataclass(frozen=True, slots=True, repr=False)
class Email:
    """One message as the application wants it; made by `build`, so what is here can be sent."""

    sender: Mailbox
    to: tuple[Mailbox, ...]
    cc: tuple[Mailbox, ...]
    bcc: tuple[Mailbox, ...]
    reply_to: tuple[Mailbox, ...]
    subject: str
    text: str | None
    html: str | None
    headers: tuple[tuple[str, str], ...]
    attachments: tuple[Attachment, ...]

    @classmethod
    def build(
        cls,
        *,
        sender: str,
        to: Mailboxes = (),
        cc: Mailboxes = (),
        bcc: Mailboxes = (),
        reply_to: Mailboxes = (),
        subject: str,
        text: str | None = None,
        html: str | None = None,
        headers: Mapping[str, str] | Sequence[Sequence[str]] = (),
        attachments: Sequence[AttachmentLike] = (),
        max_bytes: int = MAX_BYTES,
    ) -> "Email":
        """Check everything that can be known before sending.

        A plain `str` for `to`, `cc`, `bcc` or `reply_to` is one mailbox. `max_bytes` limits
        `size_bound`. Raises InvalidEmail, whose `field` names the argument at fault, such as
        "to[1]", "headers['X-Foo']" or "attachments[0].filename".
        """
        email = cls(
            sender=Mailbox.parse(sender, field="sender"),
            to=_mailboxes(to, "to"),
            cc=_mailboxes(cc, "cc"),
            bcc=_mailboxes(bcc, "bcc"),
            reply_to=_mailboxes(reply_to, "reply_to"),
            subject=checked_subject(subject),
            text=_checked_body(text, "text"),
            html=_checked_body(html, "html"),
            headers=checked_headers(headers),
            attachments=_checked_attachments(attachments),
        )
        _check_whole(email, max_bytes)
        return email

    def envelope(self) -> tuple[tuple[str, Mailbox], ...]:
        """Return (role, mailbox) of each distinct recipient; the first of to, cc, bcc wins."""
        seen: dict[str, tuple[str, Mailbox]] = {}
        for role, mailboxes in (("to", self.to), ("cc", self.cc), ("bcc", self.bcc)):
            for mailbox in mailboxes:
                seen.setdefault(mailbox.key, (role, mailbox))
        return tuple(seen.values())

    def columns(self) -> dict[str, Any]:
        """Return the stored form, which JSON can hold."""
        return {
            "sender": str(self.sender),
            "to": [str(each) for each in self.to],
            "cc": [str(each) for each in self.cc],
            "bcc": [str(each) for each in self.bcc],
            "reply_to": [str(each) for each in self.reply_to],
            "subject": self.subject,
            "text": self.text,
            "html": self.html,
            "headers": [list(pair) for pair in self.headers],
            "attachments": [each.column() for each in self.attachments],
        }

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> "Email":
        """Read back what `columns` wrote, without checking it again."""
        return cls(
            Mailbox.stored(columns["sender"]),
            _stored(columns["to"]),
            _stored(columns["cc"]),
            _stored(columns["bcc"]),
            _stored(columns["reply_to"]),
            columns["subject"],
            columns["text"],
            columns["html"],
            tuple((name, value) for name, value in columns["headers"]),
            tuple(Attachment.from_column(each) for each in columns["attachments"]),
        )

    def __repr__(self) -> str:
        """Show no address and no content: representations end up in logs and tracebacks."""
        return f"<Email to {len(self.to) + len(self.cc) + len(self.bcc)} mailboxes>"


def checked_subject(subject: object) -> str:
    """Return the subject if it is one line of at most 998 characters; else raise InvalidEmail."""
    line = one_line(subject, "subject")
    if len(line) > MAX_SUBJECT_CHARS:
        raise InvalidEmail("subject", f"is longer than {MAX_SUBJECT_CHARS} characters")
    return line


def size_bound(email: Email) -> int:
    """Return a number of octets that the composed message never exceeds.

    Bodies and attachments count as base64 with CRLF every 76 characters, bodies after their line
    ends became CRLF (the composer never takes an encoding that is longer); each header counts
    eight octets for every octet of UTF-8 plus 160, which no chain of encoded words reaches, each
    attachment's own headers 4096, and all that is the same in every message 4096.
    """
    bodies = [_crlf_octets(body) for body in (email.text, email.html) if body is not None]
    contents = [len(each.content) for each in email.attachments]
    headers = [len(text.encode()) for text in _header_texts(email)]
    return (
        _FIXED_OCTETS
        + sum(map(_base64_octets, bodies + contents))
        + sum(_HEADER_GROWTH * octets + _OCTETS_PER_FIELD for octets in headers)
        + _OCTETS_PER_ATTACHMENT * len(contents)
    )


def _header_texts(email: Email) -> Iterable[str]:
    yield email.subject
    for mailbox in (email.sender, *email.to, *email.cc, *email.reply_to):
        yield mailbox.name
        yield mailbox.address
    for name, value in email.headers:
        yield name
        yield value


def _crlf_octets(body: str) -> int:
    return len(body.encode()) + body.count("\n") + body.count("\r")


def _base64_octets(octets: int) -> int:
    characters = (octets + 2) // 3 * 4
    return characters + characters // 76 * 2 + 2


def _stored(texts: list[str]) -> tuple[Mailbox, ...]:
    return tuple([Mailbox.stored(text) for text in texts])


def _mailboxes(given: object, field: str) -> tuple[Mailbox, ...]:
    if isinstance(given, str):
        return (Mailbox.parse(given, field=field),)
    if not isinstance(given, list | tuple):
        raise InvalidEmail(field, "must be one mailbox as text, or a list of them")
    return tuple(Mailbox.parse(text, field=f"{field}[{index}]") for index, text in enumerate(given))


def _checked_body(body: object, field: str) -> str | None:
    if body is None or body == "":
        return None
    if not isinstance(body, str):
        raise InvalidEmail(field, f"must be text, not {type(body).__name__}")
    if "\x00" in body:
        raise InvalidEmail(field, "holds a NUL character; remove it")
    try:
        body.encode()
    except UnicodeEncodeError:
        raise InvalidEmail(field, "holds a lone surrogate, which is no character") from None
    return body


def _checked_attachments(given: object) -> tuple[Attachment, ...]:
    if not isinstance(given, list | tuple):
        raise InvalidEmail("attachments", "must be a list")
    attachments = tuple(
        Attachment.build(each, field=f"attachments[{index}]") for index, each in enumerate(given)
    )
    ids = [each.content_id for each in attachments if each.content_id is not None]
    if len(ids) != len(set(ids)):
        raise InvalidEmail("attachments", "two have the same content_id")
    return attachments


def _check_whole(email: Email, max_bytes: int) -> None:
    recipients = len(email.envelope())
    if not recipients:
        raise InvalidEmail("to", "there is no recipient in to, cc or bcc")
    if recipients > MAX_RECIPIENTS:
        raise InvalidEmail(
            "to", f"{recipients} recipients in to, cc and bcc; {MAX_RECIPIENTS} is the most"
        )
    if email.text is None and email.html is None:
        raise InvalidEmail("text", "text and html are both missing or empty; give one of them")
    bound = size_bound(email)
    if bound > max_bytes:
        raise InvalidEmail(
            "attachments" if email.attachments else "text",
            f"the message may take {bound} octets composed; the most is {max_bytes}",
        )
