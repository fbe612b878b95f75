"""A scripted SMTP server on a socket: it replies, closes, resets, stalls or lies at any step."""

import fcntl
import os
import socket
import struct
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from mailer.prove.kit.smtp_script import (
    DEFAULTS,
    EHLO_LINES,
    END,
    FREEZE,
    GARBLE,
    RESET,
    STALL,
    Act,
    Acts,
    Record,
    Responder,
    Script,
    Tls,
    ehlo,
    say,
    tell,
)

__all__ = [
    "DEFAULTS",
    "EHLO_LINES",
    "END",
    "FREEZE",
    "GARBLE",
    "RESET",
    "STALL",
    "Act",
    "Acts",
    "Conversation",
    "Record",
    "Responder",
    "Script",
    "SmtpServer",
    "Tls",
    "ehlo",
    "say",
    "tell",
]

JOIN_SECONDS = 20.0
RECEIVE_BUFFER_BYTES = 128 * 1024
"""Small, so that a client with much content is stopped in the middle of it."""
END_OF_DATA = b"\r\n.\r\n"


class Over(Exception):
    """The conversation has ended as scripted."""


class Conversation:
    """One connection, in a thread of its own."""

    def __init__(self, sock: socket.socket, responder: Responder, tls: Tls | None) -> None:
        self.record = Record()
        self.recipients: list[str] = []
        self._sock = sock
        self._responder = responder
        self._tls = tls
        self._buffer = b""
        self._thaw = threading.Event()

    def run(self) -> None:
        """Talk until someone ends it."""
        try:
            with suppress(Over, OSError):
                self._talk()
        finally:
            self._sock.close()

    def thaw(self) -> None:
        """Let a frozen conversation read on."""
        self._thaw.set()

    def interrupt(self) -> None:
        """Make every blocking call of the thread return."""
        with suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def _talk(self) -> None:
        if self._tls and self._tls.implicit:
            self._handshake()
        self._do("greeting")
        while line := self._line():
            self.record.commands.append(line)
            self._command(line)

    def _command(self, line: bytes) -> None:
        verb = line.split(b" ")[0].strip().lower().decode("latin-1")
        if verb == "auth":
            self._challenge(line)
        if verb == "rcpt":
            self.recipients.append(line[len(b"RCPT TO:<") :].partition(b">")[0].decode())
        if verb in {"mail", "rset"}:
            self.recipients.clear()
        self._do(verb if verb in DEFAULTS else "unknown", line)
        if verb == "starttls":
            self._handshake()
        if verb == "data":
            self._content()

    def _challenge(self, line: bytes) -> None:
        mechanism = line.split()[1].upper() if len(line.split()) > 1 else b""
        prompts = {b"LOGIN": ("VXNlcm5hbWU6", "UGFzc3dvcmQ6"), b"CRAM-MD5": ("PDFAbXg+",)}
        for prompt in prompts.get(mechanism, ()):
            self._sock.sendall(f"334 {prompt}\r\n".encode())
            self.record.commands.append(self._line())

    def _content(self) -> None:
        self.record.contents.append(bytearray())
        if self._responder.does("body"):
            self._keep(self._buffer or self._more())
            self._do("body")
            self._drain()
        received, self._buffer = bytearray(b"\r\n" + self._buffer), b""
        seen = 0
        while (end := received.find(END_OF_DATA, seen)) < 0:
            seen = max(0, len(received) - len(END_OF_DATA))
            received += self._more()
        self._buffer = bytes(received[end + len(END_OF_DATA) :])
        self.record.contents[-1] += received[2 : end + 2]
        self.record.dots += 1
        self._do("dot")

    def _do(self, step: str, line: bytes = b"") -> None:
        acts = self._responder.respond(step, line, self)
        for act in (acts,) if isinstance(acts, Act) else acts:
            if act.hook:
                act.hook()
            else:
                getattr(self, f"_{act.name}")(act.octets)

    def _say(self, octets: bytes) -> None:
        self._sock.sendall(octets)

    def _garble(self, octets: bytes) -> None:
        os.write(self._sock.fileno(), octets)
        self._drain()

    def _end(self, _: bytes) -> None:
        """Close our side only, so that what the client still sends is seen."""
        socket.socket.shutdown(self._sock, socket.SHUT_WR)
        self._drain()

    def _reset(self, _: bytes) -> None:
        while struct.unpack("i", fcntl.ioctl(self._sock.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]:
            os.sched_yield()
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()
        raise Over

    def _stall(self, _: bytes) -> None:
        self._drain()

    def _freeze(self, _: bytes) -> None:
        self._thaw.wait()
        self._drain()

    def _drain(self) -> None:
        while data := self._sock.recv(65536):
            self._keep(data)
        raise Over

    def _keep(self, data: bytes) -> None:
        if not self.record.contents:
            return
        if self.record.dots >= len(self.record.contents):
            self.record.after += data
            return
        content = self.record.contents[-1]
        start = max(0, len(content) - len(END_OF_DATA))
        content += data
        before = b"" if start else b"\r\n"
        self.record.dots += END_OF_DATA in before + content[start:]

    def _handshake(self) -> None:
        if self._responder.does("handshake"):
            self._sock.recv(1, socket.MSG_PEEK)
            self._do("handshake")
        if self._tls is None:
            return
        self._sock = self._tls.context.wrap_socket(self._sock, server_side=True)
        self.record.secured = True

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            data = self._sock.recv(65536)
            if not data:
                return b""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line + b"\n"

    def _more(self) -> bytes:
        data = self._sock.recv(65536)
        if not data:
            raise Over
        return data


class SmtpServer:
    """Listens on 127.0.0.1; connection number n gets `responder(n)`."""

    def __init__(
        self, responder: Callable[[int], Responder], *, tls: Tls | None = None, port: int = 0
    ) -> None:
        self.conversations: list[Conversation] = []
        self.peak = 0
        self._responder = responder
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._threads: list[threading.Thread] = []
        self._open = 0
        self._lock = threading.Lock()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    @classmethod
    def scripted(cls, *scripts: Script, tls: Tls | None = None) -> Self:
        """Serve one script a connection, the last one for all that follow."""
        return cls(lambda n: scripts[min(n, len(scripts) - 1)] if scripts else Script(), tls=tls)

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    @property
    def records(self) -> list[Record]:
        """What each connection brought, in order of arrival; final once the server has stopped."""
        return [each.record for each in self.conversations]

    def settle(self) -> list[Record]:
        """Wait until every conversation so far has ended, then return the records."""
        for talk in tuple(self.conversations):
            talk.thaw()
        for thread in tuple(self._threads):
            thread.join(JOIN_SECONDS)
            if thread.is_alive():
                raise AssertionError("a connection was left open")
        return self.records

    def stop(self) -> None:
        """Close the door and end every conversation."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join(JOIN_SECONDS)
        for each in self.conversations:
            each.interrupt()
        self.settle()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._begin(sock)

    def _begin(self, sock: socket.socket) -> None:
        with self._lock:
            self._open += 1
            self.peak = max(self.peak, self._open)
        talk = Conversation(sock, self._responder(len(self.conversations)), self._tls)
        self.conversations.append(talk)
        thread = threading.Thread(target=self._serve, args=(talk,), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _serve(self, talk: Conversation) -> None:
        try:
            talk.run()
        finally:
            with self._lock:
                self._open -= 1
