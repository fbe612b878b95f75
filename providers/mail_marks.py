"""Which attempt a mail is about: what proves it, and what anybody could have written. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from mailer.identity import tag_of_mark
from mailer.returnpath import ReturnPath
from providers.mail_parts import ENCLOSED, Fields, Node, Part, read_fields, read_part

HEADERS_ONLY = frozenset(
    {"text/rfc822-headers", "message/rfc822-headers", "message/global-headers"}
)
"""Types of the header alone of a returned message (RFC 6522 4, RFC 6533 6)."""

_ADDRESS_FIELDS = (
    "delivered-to",
    "x-original-to",
    "envelope-to",
    "x-envelope-to",
    "to",
    "original-mail-from",
    "x-postfix-sender",
    "return-path",
)
_ENVELOPE_ID = "original-envelope-id"
_SEPARATORS = re.compile(r'[\s<>,;:"()\[\]]+')
_MESSAGE_ID = re.compile(r"<[^<>\s]{1,253}>")
_TAG = re.compile(r"[A-Za-z0-9_-]{16,64}")
"""Shorter ones would be no tag of ours, and a number alone would name many messages."""
_MAX_CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class Identity:
    """The marks of an attempt, each None where it is missing.

    `request_tag` is proven by its MAC. The others stood in the header of a returned message, which
    a stranger may have made up.
    """

    request_tag: str | None
    header_tag: str | None
    message_id: str | None


def identify(
    nodes: Sequence[Node],
    returned: Fields,
    return_path: ReturnPath | None,
    recipients: Sequence[str],
) -> Identity:
    """Look for the marks; `recipients` are those to whom the mail itself was delivered."""
    found = _MESSAGE_ID.search(returned.first("message-id"))
    tag = tag_of_mark(returned.first("x-outbox-attempt"))
    return Identity(
        _proven(nodes, return_path, recipients) if return_path else None,
        tag if _TAG.fullmatch(tag) else None,
        found[0] if found and found[0].isprintable() else None,
    )


def returned_fields(beside: Sequence[Part], mail: Part) -> Fields:
    """Return the header of the message that a mail gives back, empty if there is none.

    It stands in a part beside the report; in a mail without parts it is copied into the text,
    among lines that mostly are no fields.
    """
    for part in beside:
        if part.type in ENCLOSED:
            return read_part(part.body).fields
        if part.type in HEADERS_ONLY:
            return read_fields(part.text)
    is_single = not mail.type.startswith(("multipart/", "message/"))
    return read_fields(mail.text) if is_single else Fields()


def _proven(
    nodes: Sequence[Node], return_path: ReturnPath, recipients: Sequence[str]
) -> str | None:
    """Return the first tag with a right MAC. Where it stands proves no more: it is the MAC."""
    candidates = islice(_candidates(nodes, return_path, recipients), _MAX_CANDIDATES)
    return next((tag for tag in candidates if tag is not None), None)


def _candidates(
    nodes: Sequence[Node], return_path: ReturnPath, recipients: Sequence[str]
) -> Iterator[str | None]:
    yield from (return_path.tag_of(each) for each in recipients)
    for fields in _fields_everywhere(nodes):
        for name in _ADDRESS_FIELDS:
            for value in fields.all(name):
                yield from (return_path.tag_of(each) for each in _tagged(value))
        yield from (return_path.tag_of_envelope_id(each) for each in fields.all(_ENVELOPE_ID))


def _fields_everywhere(nodes: Sequence[Node]) -> Iterator[Fields]:
    """Yield the header of each part, and what reads like fields in its content."""
    for node in nodes:
        yield node.part.fields
        if node.part.type.startswith(("text/", "message/")):
            yield read_fields(node.part.text)


def _tagged(value: str) -> Iterator[str]:
    return (each for each in _SEPARATORS.split(value) if "+" in each and "@" in each)
