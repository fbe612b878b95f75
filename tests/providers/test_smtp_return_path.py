"""Where bounces are to go, and what they are to carry: MAIL FROM, RET and ENVID on the wire."""

from dataclasses import replace
from typing import Any

import pytest

from mailer.outcome import Outcome, Scope
from mailer.prove.kit.smtp_server import EHLO_LINES, Script, SmtpServer, ehlo
from mailer.provider import Call
from mailer.returnpath import ReturnPath
from tests.providers.calls import Run, a_call, relay, send_one, verbs

TAG = "0f" * 16
MARKS = ReturnPath("bounces@mail.example.com", "0123456789abcdef").marks(TAG)
MARKED = replace(a_call(), return_path=MARKS.address, envelope_id=MARKS.envelope_id)


def mail_command(run: Run[Any], call: Call, *offers: str) -> str:
    """What MAIL says to a server that offers this."""
    with SmtpServer.scripted(Script(ehlo=ehlo(EHLO_LINES[0], *offers))) as server:
        result = run(send_one(relay(server.port), call))
        assert result.outcome is Outcome.ACCEPTED
        return server.settle()[0].commands[1].decode().removesuffix("\r\n")


def test_bounces_go_to_the_return_path_and_carry_the_envelope_id(run: Run[Any]) -> None:
    said = mail_command(run, MARKED, "SIZE", "8BITMIME", "DSN")
    size = len(MARKED.content)
    assert said == f"MAIL FROM:<{MARKS.address}> SIZE={size} RET=HDRS ENVID={MARKS.envelope_id}"
    assert len(said) <= 512 - 2, "RFC 5321 4.5.3.1.4"


def test_a_server_without_dsn_is_asked_for_none(run: Run[Any]) -> None:
    assert mail_command(run, MARKED, "DSNX") == f"MAIL FROM:<{MARKS.address}>"


def test_without_marks_bounces_go_to_the_sender(run: Run[Any]) -> None:
    assert mail_command(run, a_call(), "DSN") == "MAIL FROM:<app@our.example>"


def test_a_sender_beyond_ascii_still_needs_its_extension(run: Run[Any]) -> None:
    """It stands in the content, wherever the bounces go."""
    call = replace(MARKED, sender="büro@our.example", envelope_id=None)
    said = mail_command(run, call, "8BITMIME", "SMTPUTF8")
    assert said == f"MAIL FROM:<{MARKS.address}> BODY=8BITMIME SMTPUTF8"


def test_an_envelope_id_is_written_as_xtext(run: Run[Any]) -> None:
    call = replace(MARKED, envelope_id="a+b=c d\r\nRSET é")
    said = mail_command(run, call, "DSN")
    assert said.endswith(" ENVID=a+2Bb+3Dc+20d+0D+0ARSET+20+E9")


@pytest.mark.parametrize("path", ["a@b.example>\r\nRSET", "no address", "<a@b.example>"])
def test_a_return_path_that_cannot_stand_on_the_wire_is_refused(run: Run[Any], path: str) -> None:
    with SmtpServer.scripted() as server:
        result = run(send_one(relay(server.port), replace(MARKED, return_path=path)))
        assert (result.outcome, result.scope) == (Outcome.PERMANENT, Scope.MESSAGE)
        assert verbs(server.settle()) == [["EHLO", "QUIT"]]
