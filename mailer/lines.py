"""What one line of a header may hold."""

import re

from mailer.errors import InvalidEmail

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def one_line(text: object, field: str) -> str:
    """Return `text` without outer spaces, if it can stand on a header line as it is.

    Raises InvalidEmail for control characters (C0, DEL, C1), U+2028 and U+2029, lone surrogates,
    and for anything that reads as an encoded word (RFC 2047 section 2): some readers decode
    twice, and what was text for one of them is a new header for the next.
    """
    if not isinstance(text, str):
        raise InvalidEmail(field, f"must be text, not {type(text).__name__}")
    if _UNSAFE.search(text):
        raise InvalidEmail(
            field, "holds a line break, a control character or a lone surrogate; remove it"
        )
    start = text.find("=?")
    if start >= 0 and text.find("?=", start + 2) >= 0:
        raise InvalidEmail(
            field, 'holds an encoded word ("=?...?="); give plain Unicode, it is encoded for you'
        )
    return text.strip(" ")
