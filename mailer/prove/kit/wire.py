"""A wire between two processes, on loopback, that can be watched, held, stalled and cut."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Self

from mailer.prove.kit.processes import free_port
from mailer.prove.kit.talk import Opaque, Point, Talk

_CHUNK_BYTES = 65_536
_HOLD_SECONDS = 40.0
_JOIN_SECONDS = 5.0


class Phase(Enum):
    """Where, around a message on the wire, its sender is met."""

    BEFORE = auto()
    """Nothing of it has been passed on."""
    HALF = auto()
    """Half of it has."""
    AFTER = auto()
    """It was carried out; the answer has not been passed on."""


class Snare:
    """Holds the next message at a point until it is told what to do with it.

    `caught_from` is then the owner of the connection.
    """

    def __init__(self, point: Point, phase: Phase, skip: int) -> None:
        self.point = point
        self.phase = phase
        self.caught_from: str | None = None
        self._skip = skip
        self._reached = threading.Event()
        self._decided = threading.Event()
        self._answer: bytes | None = b""

    def wait(self, seconds: float) -> bool:
        """Tell whether something was caught within that time."""
        return self._reached.wait(seconds)

    def let_go(self) -> None:
        """Pass it on as if nothing had been."""
        self._decided.set()

    def cut(self) -> None:
        """Close the connection instead."""
        self._answer = None
        self._decided.set()

    def refuse(self, answer: bytes) -> None:
        """Answer so instead of passing it on; for what was caught `BEFORE`."""
        self._answer = answer
        self._decided.set()

    def catches(self, points: frozenset[Point], link: "_Link") -> bool:
        """Count a message; True for the one that is meant."""
        if self.point not in points:
            return False
        self._skip -= 1
        if self._skip >= 0:
            return False
        self.caught_from = link.owner()
        return True

    def hold(self) -> bytes | None:
        """Wait for the decision: b"" to pass it on, None to cut, anything else to answer so."""
        self._reached.set()
        self._decided.wait(_HOLD_SECONDS)
        return self._answer


class Cut(Exception):
    """The connection is to be closed."""


class _Link:
    """One connection through the wire: two sockets, a thread for each direction."""

    def __init__(self, client: socket.socket, server: socket.socket, wire: "Wire") -> None:
        self._client, self._server, self._wire = client, server, wire
        self._talk = wire.talk()
        self._owner: str | None = None
        self.flows = threading.Event()
        self.flows.set()
        self._awaited: Snare | None = None
        self._threads = [
            threading.Thread(target=self._pump, args=(work,), daemon=True)
            for work in (self._up, self._down)
        ]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def close(self) -> None:
        """Close both ends; the threads then end."""
        for each in (self._client, self._server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        for each in self._threads:
            each.join(_JOIN_SECONDS)
        self._client.close()
        self._server.close()

    def belongs_to(self, owner: str | None) -> bool:
        """Tell whether this is the connection of `owner`; None is everybody."""
        return owner is None or owner == self.owner()

    def owner(self) -> str | None:
        """Return whose connection it is, while that can be told."""
        if self._owner is None:
            with suppress(OSError):
                self._owner = self._wire.owner_of(self._client.getpeername()[1])
        return self._owner

    def is_over(self) -> bool:
        return not any(each.is_alive() for each in self._threads)

    def _pump(self, work: Callable[[], None]) -> None:
        with suppress(OSError, Cut):
            work()
        self.close()

    def _up(self) -> None:
        while data := self._client.recv(_CHUNK_BYTES):
            for part, points in self._talk.heard(data):
                self.flows.wait(_HOLD_SECONDS)
                snare = self._wire.caught(points, self) if points else None
                self._pass_on(part, snare)

    def _pass_on(self, part: bytes, snare: Snare | None) -> None:
        if snare is None:
            self._server.sendall(part)
        elif snare.phase is Phase.AFTER:
            self._awaited = snare
            self._server.sendall(part)
        else:
            sent = len(part) // 2 if snare.phase is Phase.HALF else 0
            self._server.sendall(part[:sent])
            answer = _decision(snare)
            if answer:
                self._client.sendall(answer)
            else:
                self._server.sendall(part[sent:])

    def _down(self) -> None:
        held = b""
        while data := self._server.recv(_CHUNK_BYTES):
            self.flows.wait(_HOLD_SECONDS)
            if self._awaited is not None:
                held += data
                if not self._talk.is_whole(held):
                    continue
                snare, self._awaited = self._awaited, None
                _decision(snare)
                data, held = held, b""
            self._client.sendall(data)


def _decision(snare: Snare) -> bytes:
    answer = snare.hold()
    if answer is None:
        raise Cut
    return answer


class Wire:
    """Listens on a port of its own and passes everything on to `target`, a loopback port.

    `owner_of` tells by a client's port whose connection it is.
    """

    def __init__(
        self,
        target: int,
        talk: Callable[[], Talk] = Opaque,
        owner_of: Callable[[int], str | None] = lambda _: None,
    ) -> None:
        self._target = target
        self.talk = talk
        self.owner_of = owner_of
        # Below the ports that the system gives to clients: it is ours also while nobody listens.
        self.port = free_port()
        self._links: list[_Link] = []
        self._snares: list[Snare] = []
        self._lock = threading.Lock()
        self._stalled: list[str | None] = []
        self._listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def snare(self, point: Point, phase: Phase, skip: int = 0) -> Snare:
        """Lay a snare; it catches once, after `skip` others have passed."""
        laid = Snare(point, phase, skip)
        with self._lock:
            self._snares.append(laid)
        return laid

    def lift(self, snare: Snare) -> None:
        """Take a snare away again; what it holds is passed on, unless it was decided otherwise."""
        with self._lock:
            if snare in self._snares:
                self._snares.remove(snare)
        snare.let_go()

    def sever(self) -> None:
        """Close all connections, and refuse every new one, until `mend`."""
        self._refuse()
        self.cut()

    def cut(self, whose: str | None = None) -> None:
        """Close these connections; new ones are welcome."""
        for each in tuple(self._links):
            if each.belongs_to(whose):
                each.close()

    def stall(self, whose: str | None = None) -> None:
        """Pass nothing on, and tell nobody, until `mend`."""
        self._stalled.append(whose)
        for each in tuple(self._links):
            if each.belongs_to(whose):
                each.flows.clear()

    def mend(self) -> None:
        """Work as before."""
        self._stalled.clear()
        for each in tuple(self._links):
            each.flows.set()
        if not self._acceptor.is_alive():
            self._listen()

    def stop(self) -> None:
        """End everything."""
        for snare in tuple(self._snares):
            self.lift(snare)
        self.mend()
        self.sever()
        for link in self._links:
            link.join()

    def caught(self, points: frozenset[Point], link: _Link) -> Snare | None:
        """Return the snare that catches a message at these points."""
        with self._lock:
            for each in self._snares:
                if each.catches(points, link):
                    self._snares.remove(each)
                    return each
        return None

    def _listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self._acceptor = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._acceptor.start()

    def _refuse(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(_JOIN_SECONDS)
        self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                self._begin(client)

    def _begin(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._forget_ended()
        link = _Link(client, server, self)
        if any(link.belongs_to(each) for each in tuple(self._stalled)):
            link.flows.clear()
        self._links.append(link)
        link.start()

    def _forget_ended(self) -> None:
        for each in self._links:
            if each.is_over():
                each.join()
        self._links = [each for each in self._links if not each.is_over()]
