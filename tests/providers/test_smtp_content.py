"""What arrives: content octet for octet, and addresses that cannot inject."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailer.outcome import Outcome, Scope
from mailer.prove.kit.smtp_server import (
    SmtpServer,
)
from providers.catalog import build
from providers.smtp_envelope import stuffed
from tests.certificates import Authority
from tests.providers.calls import (
    CONTENT,
    LARGE,
    MESSAGE,
    Run,
    a_call,
    outcomes_of,
    relay,
    send_one,
    verbs,
)


def test_large_content_arrives_whole(run: Run[Any], authority: Authority) -> None:
    with SmtpServer.scripted(tls=authority.server(implicit=True)) as server:
        url = f"smtps://127.0.0.1:{server.port}?ca={authority.ca}"
        result = run(send_one(build(url, connections=1), a_call(content=LARGE)))
        assert result.outcome is Outcome.ACCEPTED
        assert bytes(server.settle()[0].contents[0]) == LARGE


CONTENTS = {
    "plain": CONTENT,
    "dots": b"Subject: dots\r\n\r\n.\r\n..\r\n.QUIT\r\nMAIL FROM:<x@y>\r\n.\r\n",
    "first-dot": b".hidden\r\n",
    "no-final-line-end": b"Subject: x\r\n\r\nlast line",
    "empty": b"",
    "nul-and-tab": b"Subject: x\r\n\r\n\x00\t\x7f\r\n",
    "chunk-edge": b"Subject: x\r\n\r\n" + (b"." * 64 + b"\r\n") * 4000,
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_content_arrives_octet_for_octet(run: Run[Any], content: bytes) -> None:
    with SmtpServer.scripted() as server:
        result = run(send_one(relay(server.port), a_call(content=content)))
        assert result.outcome is Outcome.ACCEPTED
        (record,) = server.settle()
        received = unstuffed(bytes(record.contents[0]))
        assert received == (content if content.endswith(b"\r\n") else content + b"\r\n")
        assert (record.dots, record.verbs) == (1, ["EHLO", *MESSAGE, "QUIT"])


def unstuffed(received: bytes) -> bytes:
    """RFC 5321 4.5.2, as a receiver does it."""
    lines = received.split(b"\r\n")
    return b"\r\n".join(line[1:] if line.startswith(b".") else line for line in lines)


@given(st.lists(st.sampled_from([b".", b"..", b"", b"a", b".a", b"a.", b"\x00"]), max_size=8))
def test_stuffing_can_be_undone_and_holds_no_end(lines: list[bytes]) -> None:
    content = b"".join(line + b"\r\n" for line in lines)
    sent = stuffed(content)
    assert unstuffed(sent) == (content or b"\r\n")
    assert b"\r\n.\r\n" not in b"\r\n" + sent


@pytest.mark.parametrize(
    "content", [b"a\nb\r\n", b"a\rb\r\n", b"a\r\n\n.\n\r\n", b"a\r\n\r.\r\r\n", b"a\r", b"a\n"]
)
def test_content_that_could_smuggle_is_refused(run: Run[Any], content: bytes) -> None:
    with SmtpServer.scripted() as server:
        result = run(send_one(relay(server.port), a_call(content=content)))
        assert (result.outcome, result.scope) == (Outcome.PERMANENT, Scope.MESSAGE)
        assert verbs(server.settle()) == [["EHLO", "QUIT"]]


HOSTILE = [
    "a@there.example>\r\nRCPT TO:<b@there.example",
    "a@there.example\nDATA",
    "a\x00@there.example",
    "a@there.example> SIZE=1",
    "a b@there.example",
    "a\u2028b@there.example",
    "a\x85b@there.example",
    "\ud800@there.example",
    "@there.example",
    "nobody",
    "",
]


@pytest.mark.parametrize("address", HOSTILE)
def test_a_hostile_recipient_never_reaches_the_wire(run: Run[Any], address: str) -> None:
    with SmtpServer.scripted() as server:
        call = a_call(address, "good@there.example")
        result = run(send_one(relay(server.port), call))
        assert result.outcome is Outcome.ACCEPTED
        assert outcomes_of(result) == [Outcome.PERMANENT, Outcome.ACCEPTED]
        commands = b"".join(server.settle()[0].commands)
        assert commands.count(b"RCPT") == 1
        assert b"RCPT TO:<good@there.example>\r\n" in commands


@pytest.mark.parametrize("address", [each for each in HOSTILE if each])
def test_a_hostile_sender_never_reaches_the_wire(run: Run[Any], address: str) -> None:
    with SmtpServer.scripted() as server:
        result = run(send_one(relay(server.port), a_call(sender=address)))
        assert (result.outcome, result.scope) == (Outcome.PERMANENT, Scope.MESSAGE)
        assert verbs(server.settle()) == [["EHLO", "QUIT"]]


@pytest.mark.parametrize(
    ("address", "path", "is_wide"),
    [
        ("jürgen@there.example", "jürgen@there.example", True),
        ("j@bücher.example", "j@xn--bcher-kva.example", False),
        ("j@[192.0.2.1]", "j@[192.0.2.1]", False),
    ],
)
def test_international_addresses(run: Run[Any], address: str, path: str, is_wide: bool) -> None:
    with SmtpServer.scripted() as server:
        result = run(send_one(relay(server.port), a_call(address)))
        assert result.outcome is Outcome.ACCEPTED
        _, mail, rcpt, *_ = server.settle()[0].commands
        assert rcpt == f"RCPT TO:<{path}>\r\n".encode()
        assert mail.endswith(b" BODY=8BITMIME SMTPUTF8\r\n") is is_wide


def test_a_domain_that_the_codec_would_change_is_refused(run: Run[Any]) -> None:
    with SmtpServer.scripted() as server:
        result = run(send_one(relay(server.port), a_call("j@straße.example")))
        assert (result.outcome, result.scope) == (Outcome.PERMANENT, Scope.RECIPIENT)


def test_the_null_reverse_path(run: Run[Any]) -> None:
    with SmtpServer.scripted() as server:
        assert run(send_one(relay(server.port), a_call(sender=""))).outcome is Outcome.ACCEPTED
        assert server.settle()[0].commands[1].startswith(b"MAIL FROM:<> ")
