"""The subscribed endpoint: where messages are posted to."""

import socket
from collections.abc import Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

ANSWER_SECONDS = 15.0
"""SNS takes no answer for a failure after this long."""


class Endpoint:
    """Posts over HTTP, one message at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection_type = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port = parts.hostname or "", parts.port
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._socket: socket.socket | None = None
        self._is_over = False

    def post(self, body: bytes, headers: Mapping[str, str]) -> int | None:
        """Return the status of the answer; None when there was none."""
        try:
            with closing(
                self._connection_type(self._host, self._port, timeout=ANSWER_SECONDS)
            ) as connection:
                return self._ask(connection, body, headers)
        except (OSError, HTTPException):
            return None
        finally:
            self._socket = None

    def _ask(
        self, connection: HTTPConnection, body: bytes, headers: Mapping[str, str]
    ) -> int | None:
        connection.connect()
        self._socket = connection.sock
        if self._is_over:
            return None
        connection.request("POST", self._path, body, dict(headers))
        return connection.getresponse().status

    def hang_up(self) -> None:
        """Wait for no answer any more; from any thread, and for good."""
        self._is_over = True
        if (sock := self._socket) is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
