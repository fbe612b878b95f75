"""An SNS message read strictly: of two ways to read a body, none is left to choose from."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

from mailer.feed import MAX_BODY_BYTES, EnvelopeType, Unacceptable

_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_SIGNED: Mapping[EnvelopeType, tuple[str, ...]] = {
    EnvelopeType.NOTIFICATION: _NOTIFICATION,
    EnvelopeType.SUBSCRIPTION: _CONFIRMATION,
    EnvelopeType.UNSUBSCRIPTION: _CONFIRMATION,
}
"""What is signed, in this order; Subject if there is one ("Verifying the signatures of Amazon SNS
messages")."""
_TYPES: Mapping[str, EnvelopeType] = {str(each): each for each in EnvelopeType}

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_OF_ANY_TEXT = "Message"
_MAY_BE_EMPTY = frozenset({"Message", "Subject"})
_MESSAGE_ID_LIMIT_CHARS = 255
"""A message id is part of a row's unique key; SNS's own, UUIDs, have 36."""


@dataclass(frozen=True, slots=True)
class SnsMessage:
    """What a body says, before anything of it is believed. `signed` are the octets under signature.

    `token` is there on confirmations alone.
    """

    type: EnvelopeType
    topic_arn: str
    message_id: str
    timestamp: str
    token: str | None
    signature_version: str
    signature: str
    certificate_url: str
    signed: bytes


def read_message(body: bytes) -> SnsMessage:
    """Read a body as it came over HTTPS or SQS.

    Raises Unacceptable: 413 for one that is too large, 400 for what is no SNS message.
    """
    if len(body) > MAX_BODY_BYTES:
        raise Unacceptable(413, "sns-body-size")
    fields = _parsed(body)
    kind = _TYPES.get(_value(fields, "Type"))
    if kind is None:
        raise _malformed("Type")
    signed = _signed_values(kind, fields)
    return SnsMessage(
        type=kind,
        topic_arn=signed["TopicArn"],
        message_id=signed["MessageId"],
        timestamp=signed["Timestamp"],
        token=signed.get("Token"),
        signature_version=_text(fields, "SignatureVersion"),
        signature=_text(fields, "Signature"),
        certificate_url=_text(fields, "SigningCertURL"),
        signed=_string_to_sign(signed),
    )


def moment_of(timestamp: str) -> datetime | None:
    """Return a Timestamp as a moment in UTC; None for what is none."""
    try:
        moment = datetime.fromisoformat(timestamp)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _parsed(body: bytes) -> dict[str, Any]:
    # Decoded here, because `json.loads` takes octets for UTF-16 or UTF-32 when they look so.
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise Unacceptable(400, "sns-body-utf8") from exc
    try:
        fields = _DECODER.decode(text)
    except (ValueError, RecursionError) as exc:
        raise Unacceptable(400, "sns-body-json") from exc
    if not isinstance(fields, dict):
        raise Unacceptable(400, "sns-body-json")
    return fields


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice: another reader may take the other one")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def _signed_values(kind: EnvelopeType, fields: Mapping[str, Any]) -> dict[str, str]:
    names = _SIGNED[kind]
    if "Subject" not in fields:
        names = tuple(name for name in names if name != "Subject")
    values = {name: _value(fields, name) for name in names}
    if len(values["MessageId"]) > _MESSAGE_ID_LIMIT_CHARS:
        raise _malformed("MessageId")
    return values


def _string_to_sign(values: Mapping[str, str]) -> bytes:
    try:
        return "".join([f"{name}\n{values[name]}\n" for name in values]).encode("utf-8")
    except UnicodeEncodeError as exc:  # half a surrogate pair
        raise Unacceptable(400, "sns-body-unicode") from exc


def _value(fields: Mapping[str, Any], name: str) -> str:
    """Return a field's text.

    Nothing is escaped in the string to sign. A line break in any field but Message would let the
    same string, and so a genuine signature, be read as another message.
    """
    value = _text(fields, name)
    if name != _OF_ANY_TEXT and _CONTROLS.search(value):
        raise _malformed(name)
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not (value or name in _MAY_BE_EMPTY):
        raise _malformed(name)
    return value


def _malformed(name: str) -> Unacceptable:
    return Unacceptable(400, f"sns-field-{name}")
