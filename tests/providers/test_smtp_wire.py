"""Connections: reused, replaced, dropped, bounded; and the dot that is never sent."""

import asyncio
import threading
from typing import Any

import pytest

from mailer.outcome import CallResult, Outcome, Scope
from mailer.prove.kit.smtp_server import (
    END,
    FREEZE,
    RESET,
    STALL,
    Script,
    SmtpServer,
    say,
    tell,
)
from mailer.provider import Provider, Refusal
from providers.catalog import build
from tests.certificates import Authority
from tests.providers.calls import (
    LARGE,
    MESSAGE,
    QUICK,
    Run,
    a_call,
    outcomes,
    outcomes_of,
    relay,
    send_all,
    send_one,
    verbs,
)


def test_a_connection_is_reused_after_a_clean_verdict(run: Run[Any]) -> None:
    with SmtpServer.scripted() as server:
        results = run(send_all(relay(server.port), a_call(), a_call()))
        assert outcomes(results) == [Outcome.ACCEPTED, Outcome.ACCEPTED]
        assert verbs(server.settle()) == [["EHLO", *MESSAGE, *MESSAGE, "QUIT"]]


def test_a_refusal_is_followed_by_rset_before_the_next_message(run: Run[Any]) -> None:
    script = Script(dot=[say("554 5.7.1 spam"), say("250 ok")])
    with SmtpServer.scripted(script) as server:
        results = run(send_all(relay(server.port), a_call(), a_call()))
        assert outcomes(results) == [Outcome.PERMANENT, Outcome.ACCEPTED]
        assert verbs(server.settle()) == [["EHLO", *MESSAGE, "RSET", *MESSAGE, "QUIT"]]


@pytest.mark.parametrize("trouble", [END, RESET, STALL, say("451 no"), say("what")])
def test_a_failed_rset_costs_the_connection_only(run: Run[Any], trouble: Any) -> None:
    first = Script(rcpt=say("550 5.1.1 unknown"), rset=trouble)
    with SmtpServer.scripted(first, Script()) as server:
        results = run(send_all(relay(server.port, QUICK), a_call(), a_call()))
        assert outcomes(results) == [Outcome.PERMANENT, Outcome.ACCEPTED]
        assert verbs(server.settle()) == [
            ["EHLO", "MAIL", "RCPT", "RSET"],
            ["EHLO", *MESSAGE, "QUIT"],
        ]


@pytest.mark.parametrize("step", ["mail", "rcpt", "data"])
@pytest.mark.parametrize("trouble", [END, RESET, (say("421 4.4.2 idle too long"), END)])
def test_a_stale_connection_is_replaced_once(run: Run[Any], step: str, trouble: Any) -> None:
    usual = {"mail": "250 ok", "rcpt": "250 ok", "data": "354 go"}[step]
    first = Script(**{step: [say(usual), trouble]})
    with SmtpServer.scripted(first, Script()) as server:
        results = run(send_all(relay(server.port), a_call(), a_call()))
        assert outcomes(results) == [Outcome.ACCEPTED, Outcome.ACCEPTED]
        assert [record.dots for record in server.settle()] == [1, 1]


def test_a_fresh_connection_is_not_replaced(run: Run[Any]) -> None:
    with SmtpServer.scripted(Script(mail=END), Script()) as server:
        result = run(send_one(relay(server.port), a_call()))
        assert (result.outcome, result.scope) == (Outcome.RETRYABLE, Scope.CONNECTION)
        assert len(server.settle()) == 1


def test_only_one_replacement_is_made(run: Run[Any]) -> None:
    stale = Script(mail=[say("250 ok"), END])
    with SmtpServer.scripted(stale, Script(mail=END), Script()) as server:
        results = run(send_all(relay(server.port), a_call(), a_call()))
        assert outcomes(results) == [Outcome.ACCEPTED, Outcome.RETRYABLE]
        assert len(server.settle()) == 2


def test_a_421_about_our_account_is_a_verdict(run: Run[Any]) -> None:
    script = Script(mail=[say("250 ok"), say("421 4.7.0 too many complaints")])
    with SmtpServer.scripted(script) as server:
        results = run(send_all(relay(server.port), a_call(), a_call()))
        assert results[1].scope is Scope.ACCOUNT
        assert len(server.settle()) == 1


def test_a_connection_lost_after_the_354_is_not_replaced(run: Run[Any]) -> None:
    script = Script(dot=[say("250 ok"), END])
    with SmtpServer.scripted(script) as server:
        results = run(send_all(relay(server.port), a_call(), a_call()))
        assert outcomes(results) == [Outcome.ACCEPTED, Outcome.AMBIGUOUS]
        assert len(server.settle()) == 1


def test_an_idle_connection_closed_meanwhile_is_not_used(run: Run[Any]) -> None:
    with SmtpServer.scripted(Script(dot=(say("250 ok"), END)), Script()) as server:
        results = run(send_all(relay(server.port), a_call(), a_call()))
        assert outcomes(results) == [Outcome.ACCEPTED, Outcome.ACCEPTED]
        assert [record.dots for record in server.settle()] == [1, 1]


@pytest.mark.parametrize("step", ["mail", "data", "dot"])
def test_a_cancelled_connection_is_never_reused(run: Run[Any], step: str) -> None:
    reached = threading.Event()
    first = Script(**{step: (tell(reached.set), STALL)})

    async def cancel_then_send(provider: Provider) -> list[CallResult]:
        sending = asyncio.ensure_future(provider.send(a_call()))
        await asyncio.to_thread(reached.wait)
        sending.cancel()
        return [await sending, *await send_all(provider, a_call())]

    with SmtpServer.scripted(first, Script()) as server:
        results = run(cancel_then_send(relay(server.port)))
        in_doubt = Outcome.AMBIGUOUS if step == "dot" else Outcome.RETRYABLE
        assert outcomes(results) == [in_doubt, Outcome.ACCEPTED]
        assert len(server.settle()) == 2


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_no_dot_after_a_timeout_in_the_body(
    run: Run[Any], authority: Authority, scheme: str
) -> None:
    tls = authority.server(implicit=True) if scheme == "smtps" else None
    query = f"{QUICK}&ca={authority.ca}" if tls else QUICK
    with SmtpServer.scripted(Script(body=FREEZE), tls=tls) as server:
        provider = build(f"{scheme}://127.0.0.1:{server.port}?{query}", connections=1)
        result = run(send_one(provider, a_call(content=LARGE)))
        assert (result.outcome, result.stage) == (Outcome.RETRYABLE, "body")
        (record,) = server.settle()
        assert record.dots == 0
        assert len(record.contents[0]) < len(LARGE)


def test_an_early_refusal_is_heard_and_the_dot_withheld(run: Run[Any]) -> None:
    with SmtpServer.scripted(Script(body=say("552 5.3.4 too big"))) as server:
        result = run(send_one(relay(server.port), a_call(content=LARGE)))
        assert (result.outcome, result.scope) == (Outcome.PERMANENT, Scope.MESSAGE)
        assert result.stage == "body"
        assert server.settle()[0].dots == 0


@pytest.mark.parametrize(("passes", "stage"), [(0, "data"), (1, "body")])
def test_the_commit_point_is_asked_twice(run: Run[Any], passes: int, stage: str) -> None:
    answers: list[Refusal | None] = [None] * passes + [Refusal.LEASE_EXPIRED]
    with SmtpServer.scripted() as server:
        result = run(send_one(relay(server.port), a_call(may_commit=lambda: answers.pop(0))))
        assert (result.outcome, result.scope) == (Outcome.RETRYABLE, Scope.CONNECTION)
        assert (result.stage, result.rule) == (stage, "lease-expired")
        (record,) = server.settle()
        assert record.dots == 0
        assert "QUIT" not in record.verbs, "the connection was not aborted"
        assert ("DATA" in record.verbs) is bool(passes)


@pytest.mark.parametrize("step", ["greeting", "ehlo", "mail", "rcpt", "data"])
def test_a_second_reply_before_the_content_ends_the_session(run: Run[Any], step: str) -> None:
    usual = "354 go" if step == "data" else "220 mx" if step == "greeting" else "250 ok"
    with SmtpServer.scripted(Script(**{step: say(usual, "250 one too many")})) as server:
        result = run(send_one(relay(server.port), a_call()))
        assert (result.outcome, result.scope) == (Outcome.RETRYABLE, Scope.CONNECTION)
        (record,) = server.settle()
        assert b"".join(record.contents) == b""
        assert "QUIT" not in record.verbs, "the connection was not aborted"


@pytest.mark.parametrize("verdict", ["250 queued", "451 later", "550 5.7.1 spam"])
def test_a_second_reply_behind_the_verdict_puts_it_in_doubt(run: Run[Any], verdict: str) -> None:
    with SmtpServer.scripted(Script(dot=say(verdict, "250 one too many"))) as server:
        result = run(send_one(relay(server.port), a_call()))
        assert (result.outcome, result.scope) == (Outcome.AMBIGUOUS, Scope.CONNECTION)


def test_a_421_behind_the_verdict_ends_only_the_session(run: Run[Any]) -> None:
    first = Script(dot=say("250 queued", "421 4.3.2 that was the last one"))
    with SmtpServer.scripted(first, Script()) as server:
        results = run(send_all(relay(server.port), a_call(), a_call()))
        assert outcomes(results) == [Outcome.ACCEPTED, Outcome.ACCEPTED]
        assert [record.dots for record in server.settle()] == [1, 1]


def test_recipients_settled_before_keep_their_verdict(run: Run[Any]) -> None:
    script = Script(rcpt=[say("550 5.1.1 unknown"), say("250 ok")], dot=END)
    with SmtpServer.scripted(script) as server:
        call = a_call("gone@there.example", "here@there.example")
        result = run(send_one(relay(server.port), call))
        assert result.outcome is Outcome.AMBIGUOUS
        assert outcomes_of(result) == [Outcome.PERMANENT, Outcome.AMBIGUOUS]


def test_a_delay_hint_is_passed_on(run: Run[Any]) -> None:
    script = Script(rcpt=say("451 4.7.1 greylisted, try again in 90 seconds"))
    with SmtpServer.scripted(script) as server:
        result = run(send_one(relay(server.port), a_call()))
        assert result.retry_after_seconds == 90
