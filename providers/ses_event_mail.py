"""Which message an SES event is about: the ids in its `mail` object. Pure."""

import re
from dataclasses import dataclass

from mailer.identity import tag_of_mark
from providers.ses_event_json import Json, an_object, entries, identifier, mailbox_key

_TAG = re.compile(r"[A-Za-z0-9_-]{1,256}")
"""What SES takes as the value of a message tag (API reference, `MessageTag`)."""
_SHORTEST_HEADER_TAG = 16
_ATTEMPT_HEADER = "x-outbox-attempt"
_MESSAGE_ID_HEADER = "message-id"
_HEADERS = frozenset({_ATTEMPT_HEADER, _MESSAGE_ID_HEADER})


@dataclass(frozen=True, slots=True)
class Identity:
    """The ids that an event carries, each None where it is missing or malformed.

    `destinations` are the canonical keys of those whom the message was for.
    """

    provider_id: str | None
    request_tag: str | None
    header_tag: str | None
    message_id: str | None
    destinations: tuple[str, ...]

    @classmethod
    def read(cls, mail: Json, tag_name: str) -> "Identity":
        """Read them; of header fields only those of the original message.

        `commonHeaders.messageId` is SES's own id in some texts and ours in others.
        """
        headers = _headers(mail.get("headers"))
        return cls(
            identifier(mail.get("messageId")),
            _first_tag(an_object(mail.get("tags")).get(tag_name)),
            _header_tag(headers.get(_ATTEMPT_HEADER, "")),
            identifier(headers.get(_MESSAGE_ID_HEADER)),
            _keys(mail.get("destination")),
        )


def _headers(listed: object) -> dict[str, str]:
    """Return the header fields that matter by lower-case name; of a repeated one, the first."""
    found: dict[str, str] = {}
    for entry in entries(listed):
        name, value = an_object(entry).get("name"), an_object(entry).get("value")
        if isinstance(name, str) and isinstance(value, str) and name.lower() in _HEADERS:
            found.setdefault(name.lower(), value.strip())
    return found


def _first_tag(values: object) -> str | None:
    return next((tag for tag in map(_tag, entries(values)) if tag), None)


def _tag(value: object) -> str | None:
    return value if isinstance(value, str) and _TAG.fullmatch(value) else None


def _header_tag(value: str) -> str | None:
    """A number alone, or another program's short mark, would name a foreign attempt."""
    tag = _tag(tag_of_mark(value))
    return tag if tag is not None and len(tag) >= _SHORTEST_HEADER_TAG else None


def _keys(listed: object) -> tuple[str, ...]:
    keys = map(mailbox_key, entries(listed))
    return tuple(dict.fromkeys(key for key in keys if key is not None))
