"""TLS and AUTH: what is never fallen back from, and how a client presents itself."""

from pathlib import Path
from typing import Any

import pytest

from mailer.outcome import Outcome, Scope
from mailer.prove.kit.smtp_server import (
    Script,
    SmtpServer,
    ehlo,
    say,
)
from providers.catalog import build
from tests.certificates import Authority
from tests.providers.calls import (
    Run,
    a_call,
    relay,
    send_one,
    verbs,
)


@pytest.mark.parametrize("host", ["other.example.test", "127.0.0.1"])
def test_an_unverified_certificate_never_falls_back_to_clear_text(
    run: Run[Any], tmp_path: Path, authority: Authority, host: str
) -> None:
    signer = authority if host == "other.example.test" else Authority(tmp_path)
    script = Script(ehlo=ehlo("mx", "STARTTLS", "AUTH PLAIN"))
    with SmtpServer.scripted(script, tls=signer.server(host)) as server:
        url = f"smtp://user:pass@127.0.0.1:{server.port}?tls=starttls&ca={authority.ca}"
        result = run(send_one(build(url, connections=1), a_call()))
        assert (result.outcome, result.scope) == (Outcome.RETRYABLE, Scope.ACCOUNT)
        assert result.rule == "smtp-certificate"
        assert verbs(server.settle()) == [["EHLO", "STARTTLS"]]


def test_octets_injected_behind_starttls_end_the_session(
    run: Run[Any], authority: Authority
) -> None:
    script = Script(ehlo=ehlo("mx", "STARTTLS"), starttls=say("220 go", "250 injected"))
    with SmtpServer.scripted(script, tls=authority.server()) as server:
        url = f"smtp://127.0.0.1:{server.port}?tls=starttls&ca={authority.ca}"
        result = run(send_one(build(url, connections=1), a_call()))
        assert (result.outcome, result.stage) == (Outcome.RETRYABLE, "starttls")
        (record,) = server.settle()
        assert not record.secured
        assert record.verbs == ["EHLO", "STARTTLS"]


def test_starttls_and_auth_on_one_relay(run: Run[Any], authority: Authority) -> None:
    script = Script(ehlo=[ehlo("mx", "STARTTLS"), ehlo("mx", "AUTH LOGIN PLAIN")])
    with SmtpServer.scripted(script, tls=authority.server()) as server:
        url = f"smtp://user:p%40ss@127.0.0.1:{server.port}?tls=starttls&ca={authority.ca}"
        assert run(send_one(build(url, connections=1), a_call())).outcome is Outcome.ACCEPTED
        (record,) = server.settle()
        assert record.secured
        assert record.commands[3] == b"AUTH PLAIN AHVzZXIAcEBzcw==\r\n"


@pytest.mark.parametrize(
    ("offered", "query", "lines"),
    [
        ("CRAM-MD5 LOGIN", "", [b"AUTH LOGIN\r\n", b"dXNlcg==\r\n", b"cGFzcw==\r\n"]),
        ("CRAM-MD5", "", [b"AUTH CRAM-MD5\r\n"]),
        ("PLAIN LOGIN", "auth=login", [b"AUTH LOGIN\r\n"]),
    ],
)
def test_one_mechanism_is_tried(
    run: Run[Any], offered: str, query: str, lines: list[bytes]
) -> None:
    script = Script(ehlo=ehlo("mx", f"AUTH {offered}"), auth=say("535 5.7.8 no"))
    with SmtpServer.scripted(script) as server:
        url = f"smtp://user:pass@127.0.0.1:{server.port}?{query}"
        result = run(send_one(build(url, connections=1), a_call()))
        assert result.scope is Scope.ACCOUNT
        commands = server.settle()[0].commands
        assert commands[1 : 1 + len(lines)] == lines
        assert sum(line.startswith(b"AUTH") for line in commands) == 1


def test_check_explains_what_fails(run: Run[Any], tmp_path: Path, authority: Authority) -> None:
    with SmtpServer.scripted(tls=Authority(tmp_path).server(implicit=True)) as server:
        url = f"smtps://user:s3cret@127.0.0.1:{server.port}?ca={authority.ca}"
        connect, tls = run(build(url, connections=1).check())
        assert (connect.ok, tls.ok, tls.subject) == (True, False, "TLS")
        assert "ca=" in tls.detail
        assert "s3cret" not in tls.detail


@pytest.mark.parametrize("name", [None, "app.our.example"])
def test_the_client_names_itself(run: Run[Any], name: str | None) -> None:
    with SmtpServer.scripted() as server:
        url = f"smtp://127.0.0.1:{server.port}"
        run(send_one(build(url, connections=1, local_hostname=name), a_call()))
        said = name or "[127.0.0.1]"
        assert server.settle()[0].commands[0] == f"EHLO {said}\r\n".encode()


def test_helo_after_a_final_refusal_of_ehlo_alone(run: Run[Any]) -> None:
    with SmtpServer.scripted(Script(ehlo=say("502 5.5.1 what?"))) as server:
        assert run(send_one(relay(server.port), a_call())).outcome is Outcome.ACCEPTED
        (record,) = server.settle()
        assert record.verbs[:2] == ["EHLO", "HELO"]
        assert record.commands[2] == b"MAIL FROM:<app@our.example>\r\n"


@pytest.mark.parametrize(
    ("reply", "userinfo"), [("451 4.3.0 later", ""), ("502 5.5.1 what?", "user:pass@")]
)
def test_no_helo_where_it_would_hide_something(run: Run[Any], reply: str, userinfo: str) -> None:
    with SmtpServer.scripted(Script(ehlo=say(reply))) as server:
        url = f"smtp://{userinfo}127.0.0.1:{server.port}"
        result = run(send_one(build(url, connections=1), a_call()))
        assert result.outcome is Outcome.RETRYABLE
        assert verbs(server.settle()) == [["EHLO"]]
