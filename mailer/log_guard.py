"""What may stand in a log line: the last check before it leaves, for any library's line too."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import PurePath
from traceback import walk_tb
from types import TracebackType
from typing import Any
from uuid import UUID

from structlog.typing import EventDict, WrappedLogger

from mailer.errors import MailerError

REDACTED = "[redacted]"

SEAL = "guarded_by_mailer"


class _Seal(str):
    """A text, because an application's own formatter may write it out; known by its identity."""

    __slots__ = ()


_SEALED = _Seal("yes")

FRAMES_LIMIT = 20
"""The innermost frames that are kept of each exception."""

CHAIN_LIMIT = 5
"""Exceptions that are told of one chain or group."""

DEPTH_LIMIT = 6
"""Nested deeper than this, a value is left out."""

TOKEN_CHARS = 32
"""Lease tokens and request tags are so many hexadecimal digits."""

_TOKEN = re.compile(rf"\b[0-9a-f]{{{TOKEN_CHARS}}}\b")
_AT = re.compile(r"\S(?:@|\uff20|%40)\S")
"""An address (RFC 5321 4.1.2, in any script) or the user part of a URL (RFC 3986 3.2.1)."""

_PLAIN = (bool, int, float, type(None))
_WRITTEN_AS_TEXT = (UUID, date, PurePath)


def guard(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Leave out every text that could be an address or a credential, at any depth.

    A line that has been through here, and bears its seal, is not looked at twice.
    """
    if event.pop(SEAL, None) is _SEALED:
        return event
    return {
        key if key.isidentifier() else _text(key): _value(event[key], DEPTH_LIMIT) for key in event
    }


def seal(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Mark a line that `guard` has just looked at."""
    event[SEAL] = _SEALED
    return event


def describe_exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace `exc_info` by the exception's type and frames.

    A message is kept only if it is one of our own errors', which hold no address and no content:
    a library's may quote the reply, the URL or the mail.
    """
    error = _exception(event.pop("exc_info", None))
    event.pop("stack_info", None)
    if error is not None:
        event["exception"] = "\n".join(_lines(error))
    return event


def _value(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, _PLAIN):
        return value
    if depth == 0:
        return REDACTED
    if isinstance(value, Mapping):
        return {_text(str(key)): _value(value[key], depth - 1) for key in value}
    if isinstance(value, list | tuple | set | frozenset):
        return [_value(each, depth - 1) for each in value]
    return _text(_told(value))


def _text(text: str) -> str:
    # Looked for one by one first: a search by pattern, or a loop, costs several times as much.
    if ("@" in text or "\uff20" in text or "%40" in text) and _AT.search(text):
        return REDACTED
    return _TOKEN.sub(REDACTED, text) if len(text) >= TOKEN_CHARS else str(text)


def _told(value: object) -> str:
    """An unknown object's own text could hold anything, so that its type has to do."""
    return str(value) if isinstance(value, _WRITTEN_AS_TEXT) else f"<{type(value).__qualname__}>"


def _exception(exc_info: object) -> BaseException | None:
    if isinstance(exc_info, tuple):
        exc_info = exc_info[1]
    elif exc_info is not None and not isinstance(exc_info, BaseException):
        exc_info = sys.exc_info()[1] if exc_info else None
    return exc_info if isinstance(exc_info, BaseException) else None


def _lines(error: BaseException) -> Iterator[str]:
    for number, (link, each) in enumerate(_chain(error)):
        if number == CHAIN_LIMIT:
            yield "and more"
            return
        yield f"{link}{_headline(each)}"
        yield from (f"  {frame}" for frame in _frames(each.__traceback__))


def _headline(error: BaseException) -> str:
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}" + (
        f": {_text(str(error))}" if isinstance(error, MailerError) else ""
    )


def _chain(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """Yield the exception, the members of a group, and what caused each, every one once."""
    waiting, seen = [("", error)], {id(error)}
    while waiting:
        link, each = waiting.pop(0)
        yield link, each
        for follow_link, follow in _behind(each):
            if id(follow) not in seen:
                seen.add(id(follow))
                waiting.append((follow_link, follow))


def _behind(error: BaseException) -> Iterable[tuple[str, BaseException]]:
    if isinstance(error, BaseExceptionGroup):
        yield from (("with ", member) for member in error.exceptions)
    if error.__cause__ is not None:
        yield "caused by ", error.__cause__
    elif error.__context__ is not None and not error.__suppress_context__:
        yield "while handling ", error.__context__


def _frames(trace: TracebackType | None) -> list[str]:
    frames = [
        f"{'/'.join(PurePath(frame.f_code.co_filename).parts[-2:])}:{line} {frame.f_code.co_name}"
        for frame, line in walk_tb(trace)
    ]
    return frames[-FRAMES_LIMIT:]
