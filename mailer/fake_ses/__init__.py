"""A fake SES on a socket, for tests, the demo and staging: boto3 talks to it as to the real one.

It delivers nothing, checks no signature and keeps all in memory. It tells nothing later, unless it
is given a topic: then a script says what becomes of each message, in events signed as SNS signs.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import uvicorn

from mailer.errors import MailerError
from mailer.fake_ses.account import Account, InvalidState
from mailer.fake_ses.app import application
from mailer.fake_ses.events import Events, InvalidEvents
from mailer.fake_ses.ledger import Accepted, Ledger
from mailer.fake_ses.service import Service
from mailer.fake_ses.topic import Posted, Topic
from mailer.fake_ses.wire import Connection

__all__ = [
    "Accepted",
    "Account",
    "Events",
    "FakeSes",
    "InvalidEvents",
    "InvalidState",
    "NotListening",
    "Posted",
    "running",
]

HOST = "127.0.0.1"

_STOP_SECONDS = 5
# Longer than any client keeps an idle connection: the race between its next request and our close
# is scripted here, and must not come by itself.
_KEEP_ALIVE_SECONDS = 120


class NotListening(MailerError):
    """The fake could not be started where it was asked to."""


class FakeSes:
    """A fake SES that runs in this process, as a test looks at it and switches it."""

    def __init__(self, service: Service, url: str) -> None:
        self._service = service
        self.url = url

    @property
    def provider_url(self) -> str:
        """What MAILER_PROVIDERS has to say to send through this fake."""
        return f"ses://eu-west-1?endpoint_url={self.url}"

    @property
    def state(self) -> Account:
        """How the account is switched."""
        return self._service.account

    def calls(self, operation: str = "SendEmail") -> int:
        """Return how many requests came for an operation of the API, whatever became of them."""
        return self._service.calls[operation]

    def accepted(self) -> tuple[Accepted, ...]:
        """Return all that was accepted, in order."""
        return self._service.ledger.entries

    def posted(self) -> tuple[Posted, ...]:
        """Return all tries to hand an event over, in order."""
        return () if self._service.topic is None else self._service.topic.posted

    def waiting(self) -> int:
        """Return how many events are to be posted yet, or again."""
        return 0 if self._service.topic is None else self._service.topic.waiting

    def set_state(self, **changes: object) -> None:
        """Switch the account (see Account); raises InvalidState for a bad name or value."""
        self._service.change(changes)

    def reset(self) -> None:
        """Forget all that was accepted, listed and set; the log file keeps its lines."""
        self._service.reset()


@contextmanager
def running(
    *, log: Path | None = None, host: str = HOST, port: int = 0, events: Events | None = None
) -> Iterator[FakeSes]:
    """Run a fake for the length of the block, on a thread of its own; port 0 is any free one.

    `log` is appended to, one JSON line a message, before its answer goes out. Raises NotListening.
    """
    with (
        closing(_open(log)) as ledger,
        closing(_listen(host, port)) as listener,
        _posting(events) as topic,
    ):
        service = Service(ledger, topic)
        server = uvicorn.Server(_config(service))
        thread = threading.Thread(target=server.run, args=([listener],), name="fake-ses")
        thread.start()
        try:
            yield FakeSes(service, _url(listener))
        finally:
            if topic is not None:
                topic.close()  # answers may wait for its events
            server.should_exit = True
            thread.join()


@contextmanager
def _posting(events: Events | None) -> Iterator[Topic | None]:
    if events is None:
        yield None
        return
    try:
        topic = Topic(events)
    except OSError as error:
        raise NotListening(
            f"certificates: cannot be written ({error.strerror}); name another folder"
        ) from None
    with closing(topic):
        topic.start()
        yield topic


def _config(service: Service) -> uvicorn.Config:
    return uvicorn.Config(
        application(service),
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )


def _open(log: Path | None) -> Ledger:
    try:
        return Ledger(log)
    except OSError as error:
        raise NotListening(
            f"log: cannot be written ({error.strerror}); name another file"
        ) from None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise NotListening(
            f"port: {port} cannot be listened on ({error.strerror}); choose another"
        ) from None


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
