"""SES on a real wire: one request an attempt, and the truth about it whatever the wire does."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mailer.outcome import CallResult, Outcome, Scope
from mailer.prove.kit.smtp_script import Acts
from mailer.prove.kit.waiting import until
from mailer.provider import Provider, Refusal
from providers.catalog import build
from providers.ses import SesProvider
from providers.ses_probe import Flight
from tests.certificates import Authority
from tests.providers.calls import LARGE, Run, a_call, outcomes, run, send_all, send_one
from tests.ses_endpoint import (
    END,
    GARBLE,
    RESET,
    STALL,
    SesEndpoint,
    answer,
    aws_environment,
    raw,
    tell,
)

A, R, X = Outcome.ACCEPTED, Outcome.RETRYABLE, Outcome.AMBIGUOUS
ACCEPTED = answer(200, {"MessageId": "id-1"})
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
QUICK = "timeout=0.4"
QUICK_TO_CONNECT = "timeout=0.4&connect_timeout=0.4"


@pytest.fixture(autouse=True)
def environment() -> Iterator[pytest.MonkeyPatch]:
    with aws_environment() as patch:
        yield patch


@pytest.fixture
def either_loop(run: Run[Any]) -> Run[Any]:
    """Run on asyncio's loop and on uvloop, where cancelling is what matters."""
    return run


@pytest.fixture
def secure(authority: Authority, environment: pytest.MonkeyPatch) -> Authority:
    """An authority that the SDK trusts."""
    environment.setenv("AWS_CA_BUNDLE", str(authority.ca))
    return authority


AFTER_THE_REQUEST = {
    "closed": END,
    "reset": RESET,
    "stalled": STALL,
    "not HTTP": (raw(b"220 mx.example.test ESMTP\r\n\r\n"), END),
    "reset in the answer": (raw(b'HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"Mess'), RESET),
    "stalled in the answer": (raw(b'HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"Mess'), STALL),
    "cut short": (raw(b'HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"MessageId":"x'), END),
    "cut between chunks": (raw(CHUNKED + b'5\r\n{"Mes\r\n'), END),
    "cut in a chunk": (raw(CHUNKED + b'16\r\n{"MessageId":"id-1"}'), END),
    "a refusal cut short": (
        raw(b"HTTP/1.1 400 Bad Request\r\nx-amzn-RequestId: 1\r\nContent-Length: 90\r\n"),
        raw(b'x-amzn-ErrorType: MessageRejected\r\n\r\n{"message":"Email address is not ver'),
        END,
    ),
    "an odd body": answer(200, [1, 2]),
    "not UTF-8": answer(200, b"\xff\xfe"),
}


@pytest.mark.parametrize("acts", AFTER_THE_REQUEST.values(), ids=list(AFTER_THE_REQUEST))
def test_after_the_request_it_is_in_doubt(acts: Acts) -> None:
    with SesEndpoint.scripted(send=acts) as endpoint:
        result = run(send_one(endpoint.provider(QUICK), a_call()))
        assert (result.outcome, result.scope) == (X, Scope.CONNECTION)
        assert result.stage == "answer"
        assert len(endpoint.requests) == 1


@pytest.mark.parametrize("acts", [answer(503), END, RESET, STALL])
def test_one_request_whatever_the_environment_says(
    tmp_path: Path, environment: pytest.MonkeyPatch, acts: Acts
) -> None:
    config = tmp_path / "config"
    config.write_text("[default]\nretry_mode = adaptive\nmax_attempts = 7\n")
    environment.setenv("AWS_CONFIG_FILE", str(config))
    environment.setenv("AWS_MAX_ATTEMPTS", "5")
    environment.setenv("AWS_RETRY_MODE", "legacy")
    with SesEndpoint.scripted(send=acts) as endpoint:
        assert run(send_one(endpoint.provider(QUICK), a_call())).outcome is X
        (request,) = endpoint.requests
    assert request.headers["amz-sdk-request"] == "attempt=1; max=1"


def test_a_second_request_is_stopped_even_if_the_sdk_makes_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with SesEndpoint.scripted(send=answer(503)) as endpoint:
        provider = endpoint.provider()
        assert isinstance(provider, SesProvider)
        provider._clients.mail.meta.events.register(
            "needs-retry.sesv2.SendEmail", lambda attempts, **_: 0 if attempts == 1 else None
        )
        assert run(send_one(provider, a_call())).outcome is X
        assert len(endpoint.requests) == 1
    assert "the SDK repeated a request" in caplog.text


def test_exactly_what_was_composed() -> None:
    content = b"Subject: =?utf-8?q?=C3=BC?=\r\nX-Outbox-Id: 1\r\n\r\n.\r\n..\r\n\xfe\x00 end"
    people = ("to@there.example", "cc@there.example", '"o, b\\"c"@there.example')
    with SesEndpoint.scripted() as endpoint:
        provider = endpoint.provider("configuration_set=main")
        result = run(send_one(provider, a_call(*people, content=content)))
        assert (result.outcome, result.scope, result.code) == (A, Scope.MESSAGE, "200")
        assert result.provider_id == "0100018f-aaaa-bbbb-cccc-000000000001-000000"
        (request,) = endpoint.requests
    assert request.content == content
    sent = request.json
    assert sent.pop("Content").keys() == {"Raw"}
    assert sent == {
        "FromEmailAddress": "app@our.example",
        "Destination": {"ToAddresses": list(people)},
        "EmailTags": [
            {"Name": "mailer-outbox", "Value": "1"},
            {"Name": "mailer-attempt", "Value": "tag-0123"},
        ],
        "ConfigurationSetName": "main",
    }


def test_no_configuration_set_is_named_unless_one_is_set() -> None:
    with SesEndpoint.scripted() as endpoint:
        run(send_one(endpoint.provider(), a_call()))
        assert "ConfigurationSetName" not in endpoint.requests[0].json


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    provider = build(f"ses://eu-west-1?endpoint_url=http://127.0.0.1:{port}", connections=1)
    result = run(send_one(provider, a_call()))
    assert (result.outcome, result.scope) == (R, Scope.CONNECTION)
    assert (result.rule, result.stage) == ("ses-unreachable", "request")


@pytest.mark.parametrize("acts", [STALL, RESET, END, (raw(b"220 plain text\r\n"), STALL)])
def test_a_handshake_that_fails_sent_nothing(secure: Authority, acts: Acts) -> None:
    with SesEndpoint.scripted(secure.server(), handshake=acts) as endpoint:
        result = run(send_one(endpoint.provider(QUICK_TO_CONNECT), a_call()))
        assert (result.outcome, result.scope) == (R, Scope.CONNECTION)
        assert (result.stage, endpoint.requests) == ("request", [])


@pytest.mark.parametrize("host", ["other.example.test", "127.0.0.1"])
def test_an_unverified_certificate(tmp_path: Path, secure: Authority, host: str) -> None:
    signer = secure if host == "other.example.test" else Authority(tmp_path)
    with SesEndpoint.scripted(signer.server(host)) as endpoint:
        result = run(send_one(endpoint.provider(), a_call()))
        assert (result.outcome, result.scope) == (R, Scope.ACCOUNT)
        assert (result.rule, endpoint.requests) == ("ses-certificate", [])


def test_over_tls(secure: Authority) -> None:
    with SesEndpoint.scripted(secure.server()) as endpoint:
        assert run(send_one(endpoint.provider(), a_call())).outcome is A


@pytest.mark.parametrize("acts", [GARBLE, RESET, END])
def test_tls_that_breaks_after_the_request(secure: Authority, acts: Acts) -> None:
    with SesEndpoint.scripted(secure.server(), send=acts) as endpoint:
        result = run(send_one(endpoint.provider(QUICK), a_call()))
        assert (result.outcome, result.scope, result.stage) == (X, Scope.CONNECTION, "answer")
        assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("acts", "scope"),
    [
        (answer(407, headers={}), Scope.ACCOUNT),
        (answer(502, headers={}), Scope.CONNECTION),
        (END, Scope.CONNECTION),
        (STALL, Scope.CONNECTION),
    ],
)
def test_a_proxy_that_lets_nothing_through(
    environment: pytest.MonkeyPatch, acts: Acts, scope: Scope
) -> None:
    with SesEndpoint.scripted(connect=acts) as proxy:
        environment.setenv("HTTPS_PROXY", proxy.url)
        url = f"ses://eu-west-1?endpoint_url=https://ses.example.test&{QUICK_TO_CONNECT}"
        result = run(send_one(build(url, connections=1), a_call()))
        assert (result.outcome, result.scope) == (R, scope)
        assert [each.line for each in proxy.requests] == ["CONNECT ses.example.test:443"]


@pytest.mark.parametrize(("asked_before", "connections"), [(0, 0), (1, 1)])
@pytest.mark.parametrize("refusal", list(Refusal))
def test_the_commit_point_is_asked_before_the_first_byte(
    refusal: Refusal, asked_before: int, connections: int
) -> None:
    asked = count()
    with SesEndpoint.scripted() as endpoint:
        call = a_call(may_commit=lambda: refusal if next(asked) >= asked_before else None)
        result = run(send_one(endpoint.provider(), call))
        assert (result.outcome, result.scope) == (R, Scope.CONNECTION)
        assert (result.rule, result.stage) == (refusal.value, "request")
        until(lambda: endpoint.connections == connections)
        endpoint.settle()
        assert endpoint.requests == []
    assert endpoint.connections == connections


def test_cancelled_while_it_waits_for_the_answer(either_loop: Run[Any]) -> None:
    reached = threading.Event()
    with SesEndpoint.scripted(send=(tell(reached.set), STALL)) as endpoint:
        result = either_loop(cancel_when(reached, endpoint.provider(), endpoint))
        assert (result.outcome, result.stage) == (X, "answer")
        assert result.rule == "ses-unknown-after-send"


def test_cancelled_before_the_first_byte_never_goes_out(
    either_loop: Run[Any], secure: Authority
) -> None:
    reached, go_on = threading.Event(), threading.Event()
    script: Acts = (tell(reached.set), tell(go_on.wait))
    with SesEndpoint.scripted(secure.server(), handshake=script) as endpoint:
        result = either_loop(cancel_when(reached, endpoint.provider(), endpoint, go_on))
        assert (result.outcome, result.stage) == (R, "request")
        assert endpoint.requests == []


def test_cancelled_while_no_thread_is_free(either_loop: Run[Any]) -> None:
    reached, go_on = threading.Event(), threading.Event()
    script: Acts = (tell(reached.set), tell(go_on.wait), ACCEPTED)
    with SesEndpoint.scripted(send=script) as endpoint:

        async def cancel_the_second() -> tuple[CallResult, CallResult]:
            provider = endpoint.provider()
            first = asyncio.ensure_future(provider.send(a_call()))
            await asyncio.to_thread(reached.wait)
            second = asyncio.ensure_future(provider.send(a_call()))
            await asyncio.sleep(0)
            second.cancel()
            stopped = await second
            go_on.set()
            done = await first
            await provider.close()
            return done, stopped

        done, stopped = either_loop(cancel_the_second())
        assert (done.outcome, stopped.outcome, stopped.stage) == (A, R, "prepare")
        assert len(endpoint.requests) == 1


async def cancel_when(
    reached: threading.Event,
    provider: Provider,
    endpoint: SesEndpoint,
    go_on: threading.Event | None = None,
) -> CallResult:
    """Cancel once the endpoint has reached a point, then let it go on and end."""
    sending = asyncio.ensure_future(provider.send(a_call()))
    await asyncio.to_thread(reached.wait)
    sending.cancel()
    result = await sending
    if go_on:
        go_on.set()
    await provider.close()
    await asyncio.to_thread(endpoint.settle)
    return result


def test_an_answer_that_trickles_ends_at_the_deadline(either_loop: Run[Any]) -> None:
    pause = tell(lambda: threading.Event().wait(0.1))
    trickle: Acts = (raw(b"HTTP/1.1 200 OK\r\n"), *[pause, raw(b"x")] * 600)
    with SesEndpoint.scripted(send=trickle) as endpoint:
        result = either_loop(send_one(endpoint.provider(QUICK_TO_CONNECT), a_call()))
        assert (result.outcome, result.reason) == (X, "the whole call took too long")
        endpoint.settle()


def test_close_wakes_a_thread_that_waits_for_an_answer(either_loop: Run[Any]) -> None:
    reached = threading.Event()
    with SesEndpoint.scripted(send=(tell(reached.set), STALL)) as endpoint:

        async def close_in_the_middle() -> CallResult:
            provider = endpoint.provider()
            sending = asyncio.ensure_future(provider.send(a_call()))
            await asyncio.to_thread(reached.wait)
            await provider.close()
            return await sending

        assert either_loop(close_in_the_middle()).outcome is X
        until(lambda: not any(each.name.startswith("mailer-ses") for each in threading.enumerate()))


def test_a_large_message_may_take_longer_than_connecting() -> None:
    slow = tell(lambda: threading.Event().wait(0.8))
    with SesEndpoint.scripted(handshake=slow) as endpoint:
        provider = endpoint.provider("connect_timeout=0.3&timeout=20")
        assert run(send_one(provider, a_call(content=LARGE))).outcome is A
        assert endpoint.requests[0].content == LARGE


def test_a_connection_closed_meanwhile_is_not_used() -> None:
    script: list[Acts] = [(ACCEPTED, END), ACCEPTED]
    with SesEndpoint.scripted(send=script) as endpoint:

        async def send_twice() -> list[CallResult]:
            provider = endpoint.provider()
            first = await provider.send(a_call())
            await asyncio.to_thread(endpoint.settle)
            second = await provider.send(a_call())
            await provider.close()
            return [first, second]

        assert outcomes(run(send_twice())) == [A, A]
        assert (endpoint.connections, len(endpoint.requests)) == (2, 2)


def test_a_kept_connection_that_closes_as_it_is_used() -> None:
    with SesEndpoint.scripted(send=[ACCEPTED, END]) as endpoint:
        results = run(send_all(endpoint.provider(), a_call(), a_call()))
        assert outcomes(results) == [A, X]
        assert (endpoint.connections, len(endpoint.requests)) == (1, 2)


def test_many_at_once(either_loop: Run[Any]) -> None:
    everyone = [f"n{n}@there.example" for n in range(60)]
    with SesEndpoint.scripted() as endpoint:

        async def send_at_once() -> list[CallResult]:
            provider = endpoint.provider(connections=8)
            found = await asyncio.gather(*(provider.send(a_call(each)) for each in everyone))
            await provider.close()
            return found

        assert set(outcomes(either_loop(send_at_once()))) == {A}
        reached = [each.json["Destination"]["ToAddresses"] for each in endpoint.requests]
    assert sorted(reached) == sorted([each] for each in everyone)
    assert 1 <= endpoint.connections <= 8


def test_without_credentials_nothing_is_sent_until_there_are_some(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.delenv("AWS_ACCESS_KEY_ID")
    environment.delenv("AWS_SECRET_ACCESS_KEY")
    with SesEndpoint.scripted() as endpoint:

        async def send_before_and_after() -> list[CallResult]:
            provider = endpoint.provider()
            before = [await provider.send(a_call())]
            with aws_environment():
                after = [await provider.send(a_call()) for _ in range(2)]
            await provider.close()
            return before + after

        results = run(send_before_and_after())
        assert outcomes(results)[0::2] == [R, A]
        assert (results[0].rule, results[0].scope) == ("ses-set-up", Scope.ACCOUNT)
        assert results[0].stage == "prepare"
        assert json.loads(endpoint.requests[0].body)


def test_severing_an_ended_attempt_leaves_the_next_one_alone() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours)
        ended, flying = Flight(lambda: None, 5.0), Flight(lambda: None, 5.0)
        for each in (ended, flying):
            each.begin()
            each.leaving(connection, 1)
        ended.sever()
        ours.sendall(b"x")
        assert theirs.recv(9) == b"x"
        flying.sever()
        assert theirs.recv(9) == b""


@dataclass(eq=False)
class Connection:
    """What the pool hands to one attempt after the other."""

    sock: socket.socket
