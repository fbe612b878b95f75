"""Whose fault a refusal of the account is, and whether it means "too much"."""

import pytest

from mailer.outcome import Blame, Outcome, Pressure, Scope
from mailer.prove.kit.smtp_server import Script, SmtpServer, say
from providers.smtp_rules import Kind, Observation, Stage, blame_of, pressure_of
from tests.providers.calls import a_call, relay, run, send_one

PROVIDER, SENDER = Blame.PROVIDER, Blame.SENDER
THROTTLE, QUOTA = Pressure.THROTTLE, Pressure.QUOTA
MAIL, RCPT, DATA, DOT = Stage.MAIL, Stage.RCPT, Stage.DATA, Stage.AFTER_DOT


@pytest.mark.parametrize(
    ("stage", "line", "blame", "pressure"),
    [
        (MAIL, "450 4.7.1 sending rate exceeded", PROVIDER, THROTTLE),
        (MAIL, "421 4.7.28 unusual flood", PROVIDER, THROTTLE),
        (MAIL, "454 4.7.0 Throttling failure: Daily message quota exceeded", PROVIDER, QUOTA),
        (MAIL, "454 4.7.0 temporary authentication failure", PROVIDER, None),
        (MAIL, "450 4.7.1 policy", PROVIDER, None),
        (MAIL, "550 5.7.1 not yours", SENDER, None),
        (MAIL, "553 5.1.8 no such domain", SENDER, None),
        (MAIL, "530 5.7.0 log in first", PROVIDER, None),
        (RCPT, "550 5.7.26 DMARC", SENDER, None),
        (RCPT, "550 5.7.25 no reverse DNS", PROVIDER, None),
        (RCPT, "554 5.7.1 relay access denied", PROVIDER, None),
        (RCPT, "550 5.4.5 sending limit", PROVIDER, QUOTA),
        (DATA, "554 5.7.1 address is not verified", SENDER, None),
        (DOT, "454 Throttling failure: Maximum sending rate exceeded", PROVIDER, THROTTLE),
        (DOT, "454 later", PROVIDER, THROTTLE),
        (DOT, "451 4.3.0 quota of this hour", PROVIDER, QUOTA),
        (DOT, "452 4.2.2 mailbox over quota", PROVIDER, None),
        (DOT, "554 Message rejected: Email address is not verified.", SENDER, None),
        (DOT, "550 5.7.1 accurate, separate and moderate", PROVIDER, None),
    ],
)
def test_reply(stage: Stage, line: str, blame: Blame, pressure: Pressure | None) -> None:
    seen = Observation(stage, Kind.REPLY, stage is DOT, int(line[:3]), line[4:])
    assert (blame_of(seen), pressure_of(seen)) == (blame, pressure)


@pytest.mark.parametrize("kind", [each for each in Kind if each is not Kind.REPLY])
def test_what_is_no_reply_blames_nobody_else(kind: Kind) -> None:
    seen = Observation(Stage.MAIL, kind, text="quota: not verified")
    assert (blame_of(seen), pressure_of(seen)) == (PROVIDER, None)


@pytest.mark.parametrize(
    ("script", "scope", "blame", "pressure"),
    [
        (Script(mail=say("550 5.7.1 not yours")), Scope.ACCOUNT, SENDER, None),
        (Script(dot=say("454 later")), Scope.ACCOUNT, PROVIDER, THROTTLE),
        (Script(rcpt=say("550 5.4.5 daily limit")), Scope.ACCOUNT, PROVIDER, QUOTA),
        (Script(rcpt=say("451 4.7.1 rate of greylisting")), Scope.RECIPIENT, PROVIDER, None),
        (Script(dot=say("421 4.7.0 rate, bye")), Scope.CONNECTION, PROVIDER, None),
    ],
)
def test_on_the_wire(script: Script, scope: Scope, blame: Blame, pressure: Pressure | None) -> None:
    with SmtpServer.scripted(script) as server:
        result = run(send_one(relay(server.port), a_call()))
    assert (result.outcome, result.scope) == (Outcome.RETRYABLE, scope)
    assert (result.blame, result.pressure) == (blame, pressure)
