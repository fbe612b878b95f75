"""Getting a signing certificate: from its host with every bound kept, or from a folder."""

import functools
import io
import re
import socket
import ssl
import time
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from providers.sns_certificates import Fetch

CERTIFICATE_LIMIT_BYTES = 16 * 1024
FETCH_SECONDS = 5.0
_HEAD_LIMIT_BYTES = 16 * 1024
_ADDRESS_SECONDS = 2.0
"""What one address of a host may take of the whole, so that a dead one leaves time for the next."""
_LEAST_SECONDS = 0.001
"""A timeout of 0 would mean to a socket not to wait at all."""
_FILE_NAME = re.compile(r"SimpleNotificationService-[0-9a-f]{32}\.pem")


class NotFetched(Exception):
    """The host did not answer with a certificate's octets."""


def fetch_certificate(
    url: str, *, context: ssl.SSLContext | None = None, seconds: float = FETCH_SECONDS
) -> bytes:
    """Return what an `https` URL answers with 200, at most 16 KiB.

    No redirect is followed, no proxy asked and nothing repeated; whatever the server does, it
    ends within `seconds` (but for the resolver's own time). The server is checked against
    `context`, the system's authorities if None. Raises NotFetched or OSError, which is what TLS
    raises too.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.hostname is None:
        raise NotFetched("not an https URL")
    end = time.monotonic() + seconds
    context = context or _system_authorities()
    with (
        _connected(parts.hostname, parts.port or 443, end) as plain,
        # A connection that just ends is an error, so that half an answer does not pass for one.
        context.wrap_socket(
            plain, server_hostname=parts.hostname, suppress_ragged_eofs=False
        ) as secured,
    ):
        secured.settimeout(_left(end))
        secured.sendall(f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{_HEADERS}".encode())
        return _content(_Answer(secured, end))


def from_folder(folder: Path, otherwise: Fetch) -> Fetch:
    """Take a certificate from `<folder>/<last segment of its URL>`, if it is not there `otherwise`.

    For machines without a way out, and for tests. Only where a certificate comes from is changed:
    all that is checked of it is checked. A file that cannot be read raises OSError.
    """

    def fetch(url: str) -> bytes:
        name = url.rpartition("/")[2]
        if not _FILE_NAME.fullmatch(name):
            return otherwise(url)
        try:
            return (folder / name).read_bytes()
        except FileNotFoundError:
            return otherwise(url)

    return fetch


_HEADERS = "Accept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n"


class _Answer(io.RawIOBase):
    """What the server sends, to a point in time and to an amount.

    A timeout of the socket bounds each read; a server that sends an octet now and then keeps one
    waiting for ever.
    """

    def __init__(self, sock: ssl.SSLSocket, end: float) -> None:
        super().__init__()
        self._sock = sock
        self._end = end
        self._allowed = _HEAD_LIMIT_BYTES + CERTIFICATE_LIMIT_BYTES

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return a reader, as `http.client` asks a socket for one."""
        del mode
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has come."""
        self._sock.settimeout(_left(self._end))
        size = self._sock.recv_into(buffer)
        self._allowed -= size
        if self._allowed < 0:
            raise NotFetched("a long answer")
        return size


def _content(answer: _Answer) -> bytes:
    response = HTTPResponse(cast("socket.socket", answer))
    try:
        response.begin()
        if response.status != HTTPStatus.OK:
            raise NotFetched("another status than 200")
        content = response.read(CERTIFICATE_LIMIT_BYTES + 1)
    except (HTTPException, ValueError) as exc:
        raise NotFetched("not an HTTP answer") from exc
    if response.length or len(content) > CERTIFICATE_LIMIT_BYTES:
        raise NotFetched("a long or an unfinished answer")
    return content


def _connected(host: str, port: int, end: float) -> socket.socket:
    """Return a connection, its timeout being what is left for the handshake."""
    for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with suppress(OSError):
            timeout = min(_left(end), _ADDRESS_SECONDS)
            sock = socket.create_connection((str(address[0]), port), timeout=timeout)
            sock.settimeout(max(end - time.monotonic(), _LEAST_SECONDS))
            return sock
    raise NotFetched("no connection")


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("a slow answer")
    return left


@functools.cache
def _system_authorities() -> ssl.SSLContext:
    return ssl.create_default_context()
