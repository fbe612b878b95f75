"""The lines of log files, read one after the other: plain, gzipped, or from stdin."""

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, cast

import typer

from mailer.errors import Refused

STDIN = "-"
MAX_LINE_BYTES = 64 * 1024
"""No log has longer lines; of one that is longer, this much is read."""

_TELL_EVERY = 50_000
_UNREADABLE = (OSError, EOFError, zlib.error)

Told = Callable[[str, int], None]
"""Hears which file is read, and how many lines were so far."""


class LogFiles:
    """Log files that are open, to be read through once. Raises Refused for one that cannot be."""

    def __init__(self, names: Sequence[str], told: Told) -> None:
        self._told = told
        with ExitStack() as stack:
            self._files = [(name, stack.enter_context(_opened(name))) for name in names]
            self._stack = stack.pop_all()

    def __enter__(self) -> "LogFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[str]:
        count = 0
        for name, file in self._files:
            self._told(name, count)
            try:
                for line in _lines(file):
                    count += 1
                    if count % _TELL_EVERY == 0:
                        self._told(name, count)
                    yield line.decode("utf-8", "replace")
            except _UNREADABLE as error:
                raise _refused(name, error) from None


def _opened(name: str) -> IO[bytes]:
    if name == STDIN:
        return typer.get_binary_stream("stdin")
    try:
        return cast("IO[bytes]", gzip.open(name)) if name.endswith(".gz") else open(name, "rb")
    except _UNREADABLE as error:
        raise _refused(name, error) from None


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield lines, and of each that is too long its beginning."""
    is_continued = False
    while piece := file.readline(MAX_LINE_BYTES):
        if not is_continued:
            yield piece
        is_continued = not piece.endswith(b"\n")


def _refused(name: str, error: BaseException) -> Refused:
    told = error.strerror if isinstance(error, OSError) and error.strerror else "damaged"
    return Refused(f"file: {name} cannot be read: {told.lower()}")
