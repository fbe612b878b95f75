"""An endpoint that is subscribed to the fake's topic, and believes what is signed alone."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

from mailer.feed import Channel, Envelope
from mailer.prove.kit.waiting import until
from providers.sns import SnsVerifier
from providers.sns_certificates import Certificates
from providers.sns_fetch import from_folder

TOPIC = "arn:aws:sns:eu-west-1:111122223333:mail-events"
DELIVERED = ("Send", "Delivery")
"""The types of what is told of most messages."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message that was proven genuine, with the headers it came with."""

    envelope: Envelope
    headers: dict[str, str]

    @property
    def fields(self) -> dict[str, Any]:
        """The envelope's fields."""
        found: dict[str, Any] = json.loads(self.envelope.body)
        return found

    @property
    def event(self) -> dict[str, Any]:
        """The event in it."""
        found: dict[str, Any] = json.loads(self.fields["Message"])
        return found


class Receiver:
    """Keeps what came, and answers with `answers` first, then with 200; None: hangs up."""

    def __init__(self, certificates: Path) -> None:
        self.certificates = certificates
        self.received: list[Received] = []
        self.answers: list[int | None] = []
        self.before_answer: Callable[[], object] = lambda: None
        self.url = ""
        fetch = from_folder(certificates, _nowhere)
        self._verifier = SnsVerifier([TOPIC], Certificates(fetch), versions=frozenset({"2"}))

    def take(self, body: bytes, headers: dict[str, str]) -> int | None:
        """Verify a body and keep it; return what to answer."""
        envelope = asyncio.run(self._verifier.verify(body, Channel.HTTPS))
        self.received.append(Received(envelope, headers))
        answer = self.answers.pop(0) if self.answers else 200
        self.before_answer()
        return answer

    def types(self) -> list[str]:
        """Return the types of all events that came, in order."""
        return [each.event["eventType"] for each in self.received]

    def wait_for(self, *types: str) -> list[dict[str, Any]]:
        """Return the events once as many have come; they are of these types, in order."""
        until(lambda: len(self.received) >= len(types))
        assert self.types() == list(types)
        return [each.event for each in self.received]


def _nowhere(url: str) -> NoReturn:
    raise AssertionError(f"a certificate was fetched: {url}")


@contextmanager
def receiving(certificates: Path, port: int = 0) -> Iterator[Receiver]:
    """Run a receiver that reads certificates from this folder; port 0 is any free one."""
    receiver = Receiver(certificates)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            if (status := receiver.take(body, headers)) is not None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}/events/sns?of=fake"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
