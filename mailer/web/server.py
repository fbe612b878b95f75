"""uvicorn, as this process runs it: bounded in time and in number, and silent about its clients."""

import contextlib
import socket
import threading
from asyncio import Transport
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from mailer.errors import MailerError

REQUEST_SECONDS = 10.0
"""How long the head of a request may take to come, on a new connection or after the first octet."""

_IDLE_SECONDS = 65
"""Longer than load balancers keep an idle connection, so that the close is theirs."""

_MOST_CONNECTIONS = 1_000
"""A process is often allowed 1024 files."""

_STOP_SECONDS = 18
"""How long requests under way are waited for at the end: longer than any may take with SNS still
listening, and well before a platform's SIGKILL."""


class NotListening(MailerError):
    """The port cannot be listened on."""


class Connection(H11Protocol):
    """uvicorn's connection, which by itself waits for the rest of a request as long as it takes."""

    request_seconds = REQUEST_SECONDS
    _patience: Any = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait on, unless a request is being answered: that has a limit of its own."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._patience is None:
            self._wait()

    def _wait(self) -> None:
        self._patience = self.loop.call_later(self.request_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class Server(uvicorn.Server):
    """A server that stops when it is told so by an event, and handles no signal itself."""

    def __init__(self, app: ASGIApp, stop: threading.Event) -> None:
        super().__init__(_config(app))
        self._stop = stop

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Tell, ten times a second, whether to stop."""
        return self._stop.is_set() or await super().on_tick(counter)


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )


def listen(host: str | None, port: int) -> socket.socket:
    """Listen on a port: of `host`, or of all addresses, IPv6 ones where the system has them.

    Raises NotListening.
    """
    try:
        if host is not None:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server((host, port), family=family, backlog=2048)
        return _everywhere(port)
    except OSError as error:
        raise NotListening(
            f"PORT: {port} cannot be listened on ({error.strerror}); choose another"
        ) from None


def _everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        # A kernel may know IPv6 and have no such address.
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=2048, dualstack_ipv6=True
            )
    return socket.create_server(("", port), backlog=2048)
