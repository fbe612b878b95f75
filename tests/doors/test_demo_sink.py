"""The demo's relay, spoken to by a raw socket."""

import socket
from collections.abc import Iterator

import pytest

from mailer.demo.sink import HOST, Relay, Temper, running

TEMPERS = {
    "will@example.com": Temper.WILLING,
    "grey@example.com": Temper.GREYLISTING,
    "lost@example.com": Temper.VANISHING,
}
CONTENT = b"X-Outbox-Id: 7\r\nX-Outbox-Attempt: 2\r\n\r\nX-Outbox-Id: 8\r\n..\r\n.\r\n"


class Client:
    """Sends lines and reads replies, as they are on the wire."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=10)
        self._file = self._socket.makefile("rb")

    def close(self) -> None:
        """Go away without a word."""
        self._file.close()
        self._socket.close()

    def reply(self) -> bytes:
        """Read one reply, its last line where it has several; nothing where the other end went."""
        try:
            while (line := self._file.readline())[3:4] == b"-":
                pass
        except ConnectionResetError:
            return b""
        return line.removesuffix(b"\r\n")

    def end(self) -> None:
        """Send no more, and still listen."""
        self._socket.shutdown(socket.SHUT_WR)

    def send(self, octets: bytes) -> None:
        """Send octets as they are."""
        self._socket.sendall(octets)

    def ask(self, line: bytes) -> bytes:
        """Send a line and read its reply."""
        self.send(line + b"\r\n")
        return self.reply()

    def mail_to(self, recipient: bytes) -> bytes:
        """Greet, and go as far as the reply to the recipient."""
        self.ask(b"EHLO client.example.com")
        self.ask(b"MAIL FROM:<welcome@example.com> SIZE=10")
        return self.ask(b"RCPT TO:<" + recipient + b">")


@pytest.fixture
def relay() -> Iterator[Relay]:
    with running(TEMPERS) as relay:
        yield relay


@pytest.fixture
def client(relay: Relay) -> Iterator[Client]:
    client = Client(relay.port)
    assert client.reply().startswith(b"220 ")
    yield client
    client.close()


def seen(relay: Relay) -> list[tuple[str, str, str | None, str | None, str | None]]:
    return [
        (each.recipient, each.reply, each.queue_id, each.outbox_id, each.attempt)
        for each in relay.log
    ]


def test_a_willing_recipient_gets_the_message(relay: Relay, client: Client) -> None:
    assert client.mail_to(b"will@example.com") == b"250 2.1.5 ok"
    assert client.ask(b"DATA").startswith(b"354 ")
    client.send(CONTENT)
    assert client.reply() == b"250 2.0.0 queued as A001"
    assert client.ask(b"QUIT").startswith(b"221 ")
    assert client.reply() == b""
    assert seen(relay) == [("will@example.com", "250 2.0.0 queued as A001", "A001", "7", "2")]


def test_a_greylisted_recipient_is_taken_when_asked_again(relay: Relay, client: Client) -> None:
    deferred = b"451 4.7.1 greylisted, try again in 2 seconds"
    assert client.mail_to(b"grey@example.com") == deferred
    assert client.ask(b"DATA").startswith(b"503 ")
    assert client.mail_to(b"grey@example.com") == b"250 2.1.5 ok"
    client.ask(b"DATA")
    client.send(CONTENT)
    assert client.reply() == b"250 2.0.0 queued as A001"
    assert seen(relay) == [
        ("grey@example.com", deferred.decode(), None, None, None),
        ("grey@example.com", "250 2.0.0 queued as A001", "A001", "7", "2"),
    ]


def test_whoever_is_unknown_is_refused_for_good(relay: Relay, client: Client) -> None:
    for _ in range(2):
        assert client.mail_to(b"nobody@example.com") == b"550 5.1.1 no such user here"
    assert [(each.reply, each.queue_id) for each in relay.log] == [
        ("550 5.1.1 no such user here", None)
    ] * 2


def test_the_connection_is_lost_after_the_message_was_taken(relay: Relay, client: Client) -> None:
    assert client.mail_to(b"lost@example.com") == b"250 2.1.5 ok"
    client.ask(b"DATA")
    client.send(CONTENT)
    assert client.reply() == b""
    assert seen(relay) == [("lost@example.com", "", "A001", "7", "2")]


def test_nothing_is_taken_without_the_final_dot(relay: Relay, client: Client) -> None:
    client.mail_to(b"will@example.com")
    client.ask(b"DATA")
    client.send(CONTENT.removesuffix(b"\r\n.\r\n") + b"\n.\n")
    client.end()
    assert client.reply() == b""
    assert relay.log == ()


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"HELO client.example.com", b"250 "),
        (b"NOOP", b"250 2.0.0"),
        (b"RSET", b"250 2.0.0"),
        (b"RCPT TO:<will@example.com>", b"503 5.5.1"),
        (b"MAIL FROM:nobody", b"501 5.5.4"),
        (b"STARTTLS", b"502 5.5.1"),
        (b"", b"502 5.5.1"),
    ],
)
def test_commands_out_of_the_ordinary(client: Client, line: bytes, reply: bytes) -> None:
    assert client.ask(line).startswith(reply)


def test_a_reset_forgets_sender_and_recipients(client: Client) -> None:
    client.mail_to(b"will@example.com")
    assert client.ask(b"MAIL FROM:<again@example.com>").startswith(b"503 5.5.1")
    client.ask(b"RSET")
    assert client.ask(b"RCPT TO:<will@example.com>").startswith(b"503 5.5.1")
    assert client.ask(b"MAIL FROM:<>").startswith(b"250 ")
    assert client.ask(b"RCPT TO:nobody").startswith(b"501 5.5.4")


def test_a_line_without_end_costs_the_connection(client: Client) -> None:
    client.send(b"x" * 10_000)
    assert client.reply() == b""


def test_it_stops_while_a_client_is_still_connected() -> None:
    with running(TEMPERS) as relay:
        client = Client(relay.port)
        assert client.reply().startswith(b"220 ")
    assert client.reply() == b""
    client.close()
