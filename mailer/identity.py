"""What makes a message the same message: its Message-ID and the fingerprint of its payload."""

import hashlib
import hmac
import json
import re
from base64 import b32encode
from collections.abc import Mapping
from typing import Any, NoReturn

from mailer.errors import InvalidEmail

_PURPOSE = b"mailer message-id\x00"
"""The same secret signs links; a Message-ID must never be usable as such a signature."""
_DIGEST_OCTETS = 20

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def message_id(dedup_key: str, *, secret: str | bytes, domain: str) -> str:
    """Return the Message-ID (RFC 5322 3.6.4) of a dedup key, angle brackets included.

    It is a keyed hash: the same for every attempt, worker and restart, and without the secret it
    says nothing about the key. `domain` is the configured Message-ID domain.
    """
    key = secret.encode() if isinstance(secret, str) else secret
    digest = hmac.digest(key, _PURPOSE + dedup_key.encode(), hashlib.sha256)
    return f"<{b32encode(digest[:_DIGEST_OCTETS]).decode().lower()}@{domain}>"


def attempt_mark(number: int, request_tag: str) -> str:
    """Return the value of X-Outbox-Attempt: the number for people, the tag to be found again by."""
    return f"{number}.{request_tag}"


def tag_of_mark(mark: str) -> str:
    """Return the tag in the value of an X-Outbox-Attempt header field; it may be anything."""
    return mark.strip().rpartition(".")[2]


def fingerprint(payload: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of the payload as canonical JSON.

    Keys are sorted, tuples count as lists. Raises InvalidEmail for a value that JSON does not
    have: what cannot be stored cannot be compared with what was stored.
    """
    try:
        text = json.dumps(
            payload,
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=False,
            default=_refuse,
        )
        digest = hashlib.sha256(text.encode()).hexdigest()
    except (TypeError, ValueError, RecursionError):
        raise InvalidEmail(
            "context",
            "is not JSON: give text keys, finite numbers, valid Unicode and no circular reference",
        ) from None
    if _NUL.search(text):
        raise InvalidEmail("context", "must not hold a NUL character, which no column can store")
    return digest


def _refuse(value: object) -> NoReturn:
    raise InvalidEmail(
        "context",
        f"holds a value of type {type(value).__name__}, which JSON does not have; "
        "pass text, numbers, booleans, None, lists and dicts",
    )
