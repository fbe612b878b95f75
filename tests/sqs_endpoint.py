"""An SQS on a socket: one queue, that boto3 talks to as to the real one (AWS_ENDPOINT_URL_SQS).

A message that was handed out is invisible until the test says that time has passed.
"""

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

ACCOUNT = "111122223333"


@dataclass
class Message:
    """A message in the queue; `received` counts how often it was handed out."""

    body: str
    received: int = 0
    visible: bool = True

    @property
    def receipt(self) -> str:
        """What deletes it: another one each time that it is handed out."""
        return f"receipt-{id(self)}-{self.received}"


@dataclass
class SqsEndpoint:
    """Listens on 127.0.0.1.

    While `failing` is an HTTP status, every request is answered with it; `answer` replaces the
    answers to an operation. `undeletable` bodies are refused one by one. `before_delete` is called
    with the bodies that are about to go.
    """

    failing: int | None = None
    answers: dict[str, bytes] = field(default_factory=dict)
    undeletable: set[str] = field(default_factory=set)
    before_delete: Callable[[list[str]], None] = lambda _: None

    def __post_init__(self) -> None:
        self.messages: list[Message] = []
        self.calls: list[str] = []
        self.polling = 0
        self._over = False
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def queue_url(self) -> str:
        """The queue, as AWS names it."""
        return f"https://sqs.eu-west-1.amazonaws.com/{ACCOUNT}/events"

    def put(self, *bodies: bytes | str) -> None:
        """Put messages into the queue."""
        with self._changed:
            texts = [each if isinstance(each, str) else each.decode() for each in bodies]
            self.messages += [Message(each) for each in texts]
            self._changed.notify_all()

    def time_passes(self) -> None:
        """Let the visibility timeouts of all messages end."""
        with self._changed:
            for each in self.messages:
                each.visible = True
            self._changed.notify_all()

    def count(self, operation: str) -> int:
        """How often an operation was asked for."""
        return self.calls.count(operation)

    def respond(self, operation: str, request: dict[str, Any]) -> tuple[int, bytes]:
        """Answer one request."""
        self.calls.append(operation)
        if self.failing is not None:
            return self.failing, b'{"__type": "com.amazonaws.sqs#Broken", "message": "as scripted"}'
        if operation in self.answers:
            return 200, self.answers[operation]
        assert request.pop("QueueUrl") == self.queue_url
        operations: dict[str, Callable[..., dict[str, Any]]] = {
            "ReceiveMessage": self._receive,
            "DeleteMessageBatch": self._delete,
        }
        return 200, json.dumps(operations[operation](**request)).encode()

    def _receive(self, MaxNumberOfMessages: int, WaitTimeSeconds: int) -> dict[str, Any]:  # noqa: N803
        with self._changed:
            self.polling += 1
            self._changed.wait_for(lambda: self._visible() or self._over, WaitTimeSeconds)
            self.polling -= 1
            batch = self._visible()[:MaxNumberOfMessages]
            for each in batch:
                each.visible = False
                each.received += 1
            return {"Messages": [_told(each) for each in batch]} if batch else {}

    def _visible(self) -> list[Message]:
        return [each for each in self.messages if each.visible]

    def _delete(self, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803
        assert len(Entries) <= 10
        by_receipt = {each.receipt: each for each in self.messages}
        found = {each["Id"]: by_receipt[each["ReceiptHandle"]] for each in Entries}
        gone = {name: found[name] for name in found if found[name].body not in self.undeletable}
        self.before_delete([each.body for each in gone.values()])
        with self._changed:
            for each in gone.values():
                self.messages.remove(each)
        failed = [
            {"Id": name, "Code": "InternalError", "SenderFault": False}
            for name in found.keys() - gone.keys()
        ]
        return {"Successful": [{"Id": name} for name in gone], "Failed": failed}


def _told(message: Message) -> dict[str, str]:
    octets = message.body.encode()
    return {
        "MessageId": str(id(message)),
        "ReceiptHandle": message.receipt,
        "MD5OfBody": hashlib.md5(octets, usedforsecurity=False).hexdigest(),
        "Body": message.body,
    }


def _handler(endpoint: SqsEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            operation = self.headers["X-Amz-Target"].removeprefix("AmazonSQS.")
            status, body = endpoint.respond(operation, request)
            head = {"Content-Type": "application/x-amz-json-1.0", "Content-Length": str(len(body))}
            try:
                self.send_response(status)
                for name, text in head.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # who asked has left

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
