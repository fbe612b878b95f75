"""Files that travel with a message."""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from mimetypes import MimeTypes
from typing import Any

from mailer.errors import InvalidEmail

MAX_FILENAME_CHARS = 200
_MAX_TYPE_CHARS = 200
_MAX_EXTENSION_CHARS = 20
_UNKNOWN_TYPE = "application/octet-stream"

_ATOM = r"[A-Za-z0-9!#$%&'*+.^_`{|}~-]+"
_CONTENT_TYPE = re.compile(rf'{_ATOM}/{_ATOM}(?:; ?{_ATOM}=(?:{_ATOM}|"[ !#-\[\]-~]*"))*')
"""RFC 2045 5.1."""
_COMPOSITE = ("multipart/", "message/")
_CONTENT_ID = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+(?:@[A-Za-z0-9.-]+)?")
_MAX_CONTENT_ID_CHARS = 200
_NOT_IN_FILENAME = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_OUTER = re.compile(r"\A[\s.]+|[\s.]+\Z")
"""Control characters, and the invisible ones that turn `gpj.exe` into `exe.jpg` for the eye."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """One attached file; with a `content_id`, an inline part that the HTML names as `cid:`."""

    filename: str = field(repr=False)
    content_type: str
    content: bytes = field(repr=False)
    content_id: str | None = None

    @classmethod
    def build(
        cls, given: "Attachment | Mapping[str, Any] | tuple[Any, ...] | list[Any]", *, field: str
    ) -> "Attachment":
        """Check and clean an attachment in any of the forms that `Email.build` takes.

        Raises InvalidEmail, naming `field` and the part of it at fault.
        """
        filename, content_type, content, content_id = _taken_apart(given, field)
        octets = _checked_content(content, f"{field}.content")
        known_type = _checked_type(content_type, filename, f"{field}.content_type")
        return cls(
            _clean_filename(filename, known_type, f"{field}.filename"),
            known_type,
            octets,
            _checked_content_id(content_id, f"{field}.content_id"),
        )

    def column(self) -> dict[str, str | None]:
        """Return the stored form: JSON, the content in base64."""
        return {
            "filename": self.filename,
            "content_type": self.content_type,
            "content": b64encode(self.content).decode(),
            "content_id": self.content_id,
        }

    @classmethod
    def from_column(cls, column: Mapping[str, Any]) -> "Attachment":
        """Read back what `column` wrote, without checking it again."""
        return cls(
            column["filename"],
            column["content_type"],
            b64decode(column["content"]),
            column["content_id"],
        )


def _taken_apart(given: object, field: str) -> tuple[object, object, object, object]:
    match given:
        case Attachment():
            return given.filename, given.content_type, given.content, given.content_id
        case Mapping():
            unknown = set(given) - {"filename", "content_type", "content", "content_id"}
            if not unknown:
                get = given.get
                return get("filename"), get("content_type"), get("content"), get("content_id")
        case (filename, content):
            return filename, None, content, None
        case (filename, content, content_type):
            return filename, content_type, content, None
    raise InvalidEmail(
        field,
        "must be an Attachment, (filename, bytes), (filename, bytes, content_type), or a mapping "
        "with filename, content_type, content and content_id",
    )


def _checked_content(content: object, field: str) -> bytes:
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    if not isinstance(content, str):
        raise InvalidEmail(field, "must be bytes, or base64 text in a mapping")
    try:
        return b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidEmail(field, "is not base64 (RFC 4648 section 4); or pass bytes") from None


def _checked_type(given: object, filename: object, field: str) -> str:
    if given is None:
        return _guessed_type(filename)
    if (
        not isinstance(given, str)
        or len(given) > _MAX_TYPE_CHARS
        or not _CONTENT_TYPE.fullmatch(given)
    ):
        raise InvalidEmail(field, 'must be like "image/png" or "text/csv; charset=utf-8"')
    if given.lower().startswith(_COMPOSITE):
        # RFC 2046 5.1 and 5.2.1: these may not be base64, and their inside is not ours to check.
        raise InvalidEmail(field, f"must not be composite; attach it as {_UNKNOWN_TYPE}")
    return given


def _guessed_type(filename: object) -> str:
    if not isinstance(filename, str):
        return _UNKNOWN_TYPE
    guess, encoding = _types().guess_type(f"/{filename}")
    if encoding is not None:
        return "application/gzip" if encoding == "gzip" else _UNKNOWN_TYPE
    if guess is None or guess.startswith(_COMPOSITE):
        return _UNKNOWN_TYPE
    return guess


def _clean_filename(given: object, content_type: str, field: str) -> str:
    if not isinstance(given, str):
        raise InvalidEmail(field, "must be text")
    last = re.split(r"[/\\]", given)[-1]
    name = _OUTER.sub("", _NOT_IN_FILENAME.sub("", last).replace('"', "'"))
    if not name:
        extension = _types().guess_extension(content_type.partition(";")[0].lower()) or ""
        return f"attachment{extension}"
    return _shortened(name)


def _shortened(name: str) -> str:
    if len(name) <= MAX_FILENAME_CHARS:
        return name
    stem, dot, extension = name.rpartition(".")
    if not dot or len(extension) > _MAX_EXTENSION_CHARS:
        return _OUTER.sub("", name[:MAX_FILENAME_CHARS])
    return f"{stem[: MAX_FILENAME_CHARS - len(extension) - 1]}.{extension}"


def _checked_content_id(given: object, field: str) -> str | None:
    if given is None:
        return None
    if isinstance(given, str):
        bare = given.removeprefix("<").removesuffix(">")
        if len(bare) <= _MAX_CONTENT_ID_CHARS and _CONTENT_ID.fullmatch(bare):
            return bare
    raise InvalidEmail(field, 'must be like "logo" or "logo@shop" (RFC 2392)')


@cache
def _types() -> MimeTypes:
    # A fresh object knows Python's own table alone; the module's functions read the machine's
    # files, and the same attachment would differ from host to host.
    return MimeTypes()
