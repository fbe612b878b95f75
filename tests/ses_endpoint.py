"""A scripted HTTP endpoint on a socket: it answers, closes, resets, stalls or lies at any step.

It speaks as much of SES v2 as the provider asks for, and keeps every octet that it was sent.
"""

import base64
import json
import os
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self

import pytest

from mailer.prove.kit.smtp_script import END, GARBLE, RESET, STALL, Act, Acts, Tls, tell
from mailer.prove.kit.waiting import until
from mailer.provider import Provider
from providers.catalog import build

__all__ = [
    "END",
    "GARBLE",
    "RESET",
    "STALL",
    "Request",
    "SesEndpoint",
    "account",
    "answer",
    "aws_environment",
    "raw",
    "refusal",
    "tell",
]

JOIN_SECONDS = 20.0
REQUEST_ID = "0f3c9a52-1111-4222-8333-944444444444"
MESSAGE_ID = "0100018f-aaaa-bbbb-cccc-000000000001-000000"
SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"

_AMBIENT = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def raw(octets: bytes) -> Act:
    """Write these octets as they stand."""
    return Act("say", octets)


def answer(status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> Act:
    """Answer with a status, a body (text or octets as they stand, all else as JSON) and headers."""
    octets = body if isinstance(body, bytes) else _text(body).encode("utf-8")
    fields = dict(headers if headers is not None else {"x-amzn-RequestId": REQUEST_ID})
    if not {"content-length", "transfer-encoding"} & {name.lower() for name in fields}:
        fields["Content-Length"] = str(len(octets))
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {fields[name]}" for name in fields)]
    return raw("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + octets)


def refusal(status: int, code: str, message: str = "", **headers: str) -> Act:
    """Answer as SES refuses: the code in a header, the text in the body."""
    named = {"x-amzn-RequestId": REQUEST_ID, "x-amzn-ErrorType": code}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    return answer(status, {"message": message}, named)


def account(**changes: Any) -> Act:
    """Answer GetAccount for an account in good standing, but for these changes."""
    quota = {"Max24HourSend": 50000.0, "MaxSendRate": 14.0, "SentLast24Hours": 10.0}
    good = {
        "SendingEnabled": True,
        "ProductionAccessEnabled": True,
        "EnforcementStatus": "HEALTHY",
        "SendQuota": quota,
    }
    return answer(200, good | changes)


def _text(body: Any) -> str:
    if body is None:
        return ""
    return body if isinstance(body, str) else json.dumps(body)


@dataclass
class Request:
    """One request as it came, and the number of its connection."""

    head: bytes
    body: bytes = b""
    connection: int = 0

    @property
    def line(self) -> str:
        """Method and target."""
        return self.head.split(b"\r\n")[0].decode("latin-1").rpartition(" ")[0]

    @property
    def headers(self) -> dict[str, str]:
        """Headers by their names in lower case."""
        lines = self.head.decode("latin-1").strip().split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (e.partition(":") for e in lines)}

    @property
    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)

    @property
    def content(self) -> bytes:
        """The raw message within a SendEmail."""
        return base64.b64decode(self.json["Content"]["Raw"]["Data"], validate=True)


_DEFAULTS: Mapping[str, Acts] = {
    "send": answer(200, {"MessageId": MESSAGE_ID}),
    "account": account(),
    "identity": answer(200, {"VerifiedForSendingStatus": True}),
    "configuration_set": answer(200, {"SendingOptions": {"SendingEnabled": True}}),
    "connect": answer(502, headers={}),
}
_STEPS = {
    "POST /v2/email/outbound-emails": "send",
    "GET /v2/email/account": "account",
    "GET /v2/email/identities/": "identity",
    "GET /v2/email/configuration-sets/": "configuration_set",
    "CONNECT ": "connect",
}


class Over(Exception):
    """The conversation has ended as scripted."""


@dataclass
class SesEndpoint:
    """Listens on 127.0.0.1 and does at each step as `steps` says.

    Steps: handshake (the first octet has come; neither TLS nor reading has begun), send, account,
    identity, configuration_set, and connect for a client that takes it for a proxy. A list is used
    up request by request, its last entry repeats.
    """

    steps: dict[str, Acts | list[Acts]] = field(default_factory=dict)
    tls: Tls | None = None

    def __post_init__(self) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @classmethod
    def scripted(cls, tls: Tls | None = None, **steps: Acts | list[Acts]) -> Self:
        """Make one from its steps."""
        return cls(dict(steps), tls)

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(JOIN_SECONDS)
        for each in self._sockets:
            with suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)
        self.settle()

    def settle(self) -> None:
        """Wait until every connection so far has ended."""
        until(lambda: len(self._threads) > self.connections)
        for thread in self._threads[1:]:
            thread.join(JOIN_SECONDS)
            assert not thread.is_alive(), "a connection was left open"

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        """What `endpoint_url` names."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def sent(self) -> list[Request]:
        """The requests that would send mail."""
        return [each for each in self.requests if each.line == "POST /v2/email/outbound-emails"]

    def provider(self, query: str = "", *, connections: int = 1, **others: Any) -> Provider:
        """Make a provider that speaks to this endpoint."""
        url = f"ses://eu-west-1?endpoint_url={self.url}&{query}"
        return build(url.rstrip("&"), connections=connections, **others)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self._sockets.append(sock)
                self.connections += 1
                thread = threading.Thread(
                    target=self._serve, args=(sock, self.connections), daemon=True
                )
                thread.start()
                self._threads.append(thread)

    def _serve(self, sock: socket.socket, number: int) -> None:
        with suppress(Over, OSError, ssl.SSLError):
            try:
                sock = self._secure(sock)
                while request := self._read(sock, number):
                    self._do(self._acts(_step(request)), sock)
            finally:
                sock.close()

    def _secure(self, sock: socket.socket) -> socket.socket:
        if "handshake" in self.steps:
            sock.recv(1, socket.MSG_PEEK)
            self._do(self._acts("handshake"), sock)
        if self.tls is None:
            return sock
        secured = self.tls.context.wrap_socket(sock, server_side=True)
        self._sockets.append(secured)
        return secured

    def _read(self, sock: socket.socket, number: int) -> Request | None:
        received = b""
        while b"\r\n\r\n" not in received:
            data = sock.recv(65536)
            if not data:
                return None
            received += data
        head, _, body = received.partition(b"\r\n\r\n")
        request = Request(head, body, number)
        size = int(request.headers.get("content-length", 0))
        while len(request.body) < size:
            data = sock.recv(65536)
            if not data:
                raise Over
            request.body += data
        self.requests.append(request)
        return request

    def _acts(self, step: str) -> Acts:
        with self._lock:
            scripted = self.steps.get(step, _DEFAULTS.get(step, END))
            if isinstance(scripted, list):
                return scripted.pop(0) if len(scripted) > 1 else scripted[0]
            return scripted

    def _do(self, acts: Acts, sock: socket.socket) -> None:
        for act in (acts,) if isinstance(acts, Act) else acts:
            if act.hook:
                act.hook()
            else:
                getattr(self, f"_{act.name}")(sock, act.octets)

    def _say(self, sock: socket.socket, octets: bytes) -> None:
        sock.sendall(octets)

    def _garble(self, sock: socket.socket, octets: bytes) -> None:
        """Write below TLS."""
        os.write(sock.fileno(), octets)
        self._stall(sock, b"")

    def _end(self, sock: socket.socket, _: bytes) -> None:
        del sock
        raise Over

    def _reset(self, sock: socket.socket, _: bytes) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Over

    def _stall(self, sock: socket.socket, _: bytes) -> None:
        while sock.recv(65536):
            pass
        raise Over


def _step(request: Request) -> str:
    return next((step for line, step in _STEPS.items() if request.line.startswith(line)), "unknown")


def _nowhere(path: str) -> str:
    return f"/nonexistent/{path}"


@contextmanager
def aws_environment(**more: str) -> Iterator[pytest.MonkeyPatch]:
    """Set credentials that are none, no files, no metadata service, and no proxy."""
    names = {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": _nowhere("config"),
        "AWS_SHARED_CREDENTIALS_FILE": _nowhere("credentials"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in _AMBIENT:
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        for name, value in {**names, **more}.items():
            patch.setenv(name, value)
        yield patch
