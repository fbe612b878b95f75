"""The last place where a request can be stopped, and the count of what of it was written.

CPython raises the audit event `http.client.send`, in the writing thread, right before each write
to a socket; what a hook raises there keeps the octets from being written.
"""

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from mailer.provider import Refusal

_EVENT = "http.client.send"
_GREETING = "mailer.ses.probe"
_TUNNEL = b"CONNECT "


class Withheld(Exception):
    """The request may not go: the commit point says no, or it would be a second one."""


class Flight:
    """One attempt on its way, shared by its worker thread and the event loop.

    `begin` is told when the request is ready and signed, `leaving` right before each write of it.
    Both ask `may_commit`: the first so that no connection is made for nothing, the second because
    making one takes time.
    """

    def __init__(self, may_commit: Callable[[], Refusal | None], write_seconds: float) -> None:
        self.refusal: Refusal | None = None
        self.has_begun = False
        self.has_repeated = False
        self.is_cut_short = False
        self._may_commit = may_commit
        self._write_seconds = write_seconds
        self._is_abandoned = False
        self._count = 0
        self._connection: Any = None

    @property
    def bytes_sent(self) -> int | None:
        """How much of the request was handed to the socket; None if nobody could count."""
        if not self.has_begun:
            return 0
        return self._count if is_counting() else None

    def begin(self) -> None:
        """Let the request begin, once. Raises `Withheld` if it may not."""
        self._ask()
        with _GATE:
            self.has_repeated = self.has_begun
            if self._is_abandoned or self.has_begun:
                raise Withheld
            self.has_begun = True

    def leaving(self, connection: Any, size: int) -> None:
        """Let `size` octets be written on `connection`. Raises `Withheld` if they may not."""
        if not self.has_begun:
            return
        if not self._count:
            self._ask()
        with _GATE:
            if self._is_abandoned:
                raise Withheld
            if not self._count:
                self._hold(connection)
            self._count += size

    def abandon(self) -> None:
        """Keep what has not been written from being written, ever."""
        with _GATE:
            self._is_abandoned = True

    def sever(self) -> None:
        """End the connection, so that a thread that waits for its answer wakes up."""
        with _GATE:
            if self._connection is not None and _HOLDERS.get(self._connection) is self:
                sock = self._connection.sock
                if isinstance(sock, socket.socket):
                    with suppress(OSError):
                        socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _ask(self) -> None:
        if refusal := self._may_commit():
            self.refusal = refusal
            raise Withheld

    def _hold(self, connection: Any) -> None:
        self._connection = connection
        _HOLDERS[connection] = self
        if isinstance(connection.sock, socket.socket):
            # urllib3 leaves the timeout of connecting on a new socket while it writes: a large
            # message on a slow line would fail half written, and so in doubt.
            connection.sock.settimeout(self._write_seconds)


_GATE = threading.Lock()
_HOLDERS: WeakKeyDictionary[Any, Flight] = WeakKeyDictionary()
"""Which attempt wrote last on a connection: in the pool, the next one may have it already."""

_aboard = threading.local()


@contextmanager
def aboard(flight: Flight) -> Iterator[None]:
    """Take what this thread sends meanwhile as the flight's."""
    _aboard.flight = flight
    try:
        yield
    finally:
        _aboard.flight = None


def begin_current(**_: Any) -> None:
    """Tell this thread's flight that its request is ready; raises `Withheld` if it may not go."""
    flight = getattr(_aboard, "flight", None)
    if flight is not None:
        flight.begin()


def note_answer_of_current(response_dict: dict[str, Any], **_: Any) -> None:
    """Tell this thread's flight whether its answer is whole: botocore takes half of one for all."""
    flight = getattr(_aboard, "flight", None)
    stated = response_dict["headers"].get("content-length", "")
    if flight is not None and stated.isdigit():
        flight.is_cut_short = len(response_dict["body"]) < int(stated)


@cache
def is_counting() -> bool:
    """Install the hook, once a process; False where another hook has vetoed it."""
    heard: list[bool] = []
    sys.addaudithook(_watch)
    sys.audit(_GREETING, heard)
    return bool(heard)


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if event == _EVENT:
        flight = getattr(_aboard, "flight", None)
        if flight is not None and not _is_tunnel(args[1]):
            flight.leaving(args[0], _size(args[1]))
    elif event == _GREETING:
        args[0].append(True)


def _is_tunnel(data: Any) -> bool:
    return isinstance(data, bytes) and data.startswith(_TUNNEL)


def _size(data: Any) -> int:
    return len(data) if isinstance(data, bytes | bytearray | memoryview | str) else 1
