"""SendEmail's request, read as SES reads it."""

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import getaddresses, parseaddr
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_pascal

from mailer.fake_ses import refusals
from mailer.fake_ses.refusals import Denied, bad_request, not_found

MAX_RECIPIENTS = 50
MAX_CONTENT_OCTETS = 40 * 1024 * 1024
"""Of a message through the v2 API, after base64 (AWS SES quotas)."""

_ADDRESS = re.compile(r"[!-?A-~]{1,64}@([!-?A-~]+)")
_DOMAIN = re.compile(r"\[[!-Z^-~]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_HEADER_END = re.compile(rb"\r?\n\r?\n")

_TagWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,256}$")]


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal, frozen=True)


class _Destination(_Shape):
    to_addresses: tuple[str, ...] = ()
    cc_addresses: tuple[str, ...] = ()
    bcc_addresses: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return self.to_addresses + self.cc_addresses + self.bcc_addresses


class _Text(_Shape):
    data: str


class _Body(_Shape):
    text: _Text | None = None
    html: _Text | None = None


class _Simple(_Shape):
    subject: _Text
    body: _Body


class _Raw(_Shape):
    data: str


class _Template(_Shape):
    template_name: str = ""


class _Content(_Shape):
    simple: _Simple | None = None
    raw: _Raw | None = None
    template: _Template | None = None


class _Tag(_Shape):
    name: _TagWord
    value: _TagWord


class _SendEmail(_Shape):
    from_email_address: str = ""
    destination: _Destination = _Destination()
    content: _Content
    email_tags: tuple[_Tag, ...] = ()
    configuration_set_name: str | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """A message as handed over: its envelope, its content, and what it can be found by.

    `headers` are the name and value of each field of a raw message's header.
    """

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    tags: dict[str, str]
    outbox_id: str | None
    attempt: str | None
    configuration_set: str | None
    headers: tuple[tuple[str, str], ...] = field(repr=False)


def read(body: bytes) -> Submission:
    """Read the body of a SendEmail request; raises Denied for what SES does not take.

    Without a Destination, the recipients are those of the content's header fields, as is the
    sender without FromEmailAddress.
    """
    asked = _parse(body)
    content, header = _content(asked.content)
    tags = {each.name: each.value for each in asked.email_tags}
    recipients = asked.destination.all or _named(header, "to", "cc", "bcc")
    if not 0 < len(recipients) <= MAX_RECIPIENTS:
        raise Denied(refusals.TOO_MANY_RECIPIENTS if recipients else bad_request("No recipients"))
    senders = (asked.from_email_address,) if asked.from_email_address else _named(header, "from")
    if not senders:
        raise Denied(bad_request("Missing required header 'From'."))
    return Submission(
        sender=_address(senders[0]),
        recipients=tuple(_address(each) for each in recipients),
        content=content,
        tags=tags,
        outbox_id=tags.get("mailer-outbox") or _field(header, "x-outbox-id"),
        attempt=tags.get("mailer-attempt") or _field(header, "x-outbox-attempt"),
        configuration_set=asked.configuration_set_name,
        headers=tuple((name, str(value)) for name, value in header.items()),
    )


def _parse(body: bytes) -> _SendEmail:
    try:
        return _SendEmail.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(each) for each in first["loc"]) or "body"
        raise Denied(bad_request(f"{where}: {first['msg']}")) from None


def _content(content: _Content) -> tuple[bytes, Message]:
    """Return the octets, and the header of a raw message."""
    given = [each for each in (content.raw, content.simple, content.template) if each is not None]
    if len(given) != 1:
        raise Denied(bad_request("Content must have one of Raw, Simple and Template"))
    if isinstance(given[0], _Template):
        raise Denied(not_found(f"Template {given[0].template_name} does not exist"))
    if isinstance(given[0], _Simple):
        return _simple(given[0]), Message()
    raw = _decode(given[0].data)
    return raw, BytesHeaderParser().parsebytes(_HEADER_END.split(raw, 1)[0])


def _simple(simple: _Simple) -> bytes:
    if simple.body.text is None and simple.body.html is None:
        raise Denied(bad_request("Content.Simple.Body must have one of Text and Html"))
    return json.dumps(simple.model_dump(by_alias=True, exclude_none=True)).encode("ascii")


def _decode(data: str) -> bytes:
    if len(data) > MAX_CONTENT_OCTETS:
        raise Denied(refusals.TOO_LARGE)
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise Denied(bad_request("Content.Raw.Data is not base64")) from None
    if not raw:
        raise Denied(bad_request("Content.Raw.Data is empty"))
    return raw


def _field(header: Message, name: str) -> str | None:
    value = header[name]
    return None if value is None else str(value)


def _named(header: Message, *fields: str) -> tuple[str, ...]:
    values = [str(value) for field in fields for value in header.get_all(field, [])]
    return tuple(address for _, address in getaddresses(values) if address)


def _address(given: str) -> str:
    """Return the bare address of a mailbox (RFC 5322 3.4) that SES takes: ASCII alone."""
    address = parseaddr(given)[1] if "<" in given else given
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise Denied(refusals.BAD_ADDRESS)
    if not _DOMAIN.fullmatch(parts[1]):
        raise Denied(refusals.BAD_DOMAIN)
    return address
