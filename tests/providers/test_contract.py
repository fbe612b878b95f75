"""What every provider owes, whatever it speaks to: one suite, run for each adapter."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mailer.outcome import CallResult, Outcome, Scope
from mailer.prove.kit.smtp_server import STALL, Script, SmtpServer, tell
from mailer.provider import Call, Limits, Provider, Refusal
from providers.catalog import build
from tests.providers.calls import CONTENT, a_call, relay, run, send_one
from tests.ses_endpoint import SesEndpoint, aws_environment


@dataclass
class Adapter:
    """One provider under test, and what its other side holds once all is over."""

    provider: Provider
    handed_over: Callable[[], list[bytes]]


@contextmanager
def smtp(tmp_path: Path) -> Iterator[Adapter]:
    del tmp_path
    with SmtpServer.scripted() as server:

        def handed_over() -> list[bytes]:
            return [bytes(each) for record in server.settle() for each in record.contents]

        yield Adapter(relay(server.port), handed_over)


@contextmanager
def capture(tmp_path: Path) -> Iterator[Adapter]:
    def handed_over() -> list[bytes]:
        left = {each.suffix for each in tmp_path.iterdir()}
        assert left <= {".eml", ".json"}, "a draft was left behind"
        return [each.read_bytes() for each in tmp_path.glob("*.eml")]

    yield Adapter(build(tmp_path.as_uri(), connections=1), handed_over)


@contextmanager
def ses(tmp_path: Path) -> Iterator[Adapter]:
    del tmp_path
    with aws_environment(), SesEndpoint.scripted() as endpoint:
        yield Adapter(endpoint.provider(), lambda: [request.content for request in endpoint.sent])


@pytest.fixture(params=[smtp, capture, ses], ids=lambda each: each.__name__)
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Adapter]:
    with request.param(tmp_path) as made:
        yield made


def assert_whole(result: CallResult, call: Call) -> None:
    """Each recipient has a verdict, and each verdict a rule."""
    assert [each.recipient_id for each in result.recipients] == list(call.recipient_ids)
    assert result.rule
    assert result.stage
    assert all(each.rule for each in result.recipients)


def test_accepted(adapter: Adapter) -> None:
    call = a_call("one@there.example", "two@there.example")
    result = run(send_one(adapter.provider, call))
    assert (result.outcome, result.scope) == (Outcome.ACCEPTED, Scope.MESSAGE)
    assert {each.outcome for each in result.recipients} == {Outcome.ACCEPTED}
    assert result.provider_id
    assert_whole(result, call)
    assert adapter.handed_over() == [CONTENT]


@pytest.mark.parametrize("refusal", list(Refusal))
def test_the_commit_point_says_no(adapter: Adapter, refusal: Refusal) -> None:
    call = a_call(may_commit=lambda: refusal)
    result = run(send_one(adapter.provider, call))
    assert (result.outcome, result.scope) == (Outcome.RETRYABLE, Scope.CONNECTION)
    assert result.rule == refusal.value
    assert_whole(result, call)
    assert adapter.handed_over() == []


def test_the_commit_point_fails(adapter: Adapter) -> None:
    def broken() -> Refusal | None:
        raise ZeroDivisionError

    call = a_call(may_commit=broken)
    result = run(send_one(adapter.provider, call))
    assert (result.outcome, result.scope) == (Outcome.RETRYABLE, Scope.CONNECTION)
    assert_whole(result, call)
    assert adapter.handed_over() == []


def test_cancelled_before_it_began_to_talk(adapter: Adapter) -> None:
    cancelled = threading.Event()

    def only_then() -> Refusal | None:
        cancelled.wait()
        return None

    call = a_call(may_commit=only_then)

    async def cancel_at_once() -> CallResult:
        sending = asyncio.ensure_future(adapter.provider.send(call))
        await asyncio.sleep(0)
        sending.cancel()
        try:
            return await sending
        finally:
            cancelled.set()
            await adapter.provider.close()

    result = run(cancel_at_once())
    assert result.outcome is Outcome.RETRYABLE
    assert_whole(result, call)
    assert adapter.handed_over() == []


def test_no_recipients(adapter: Adapter) -> None:
    call = Call(1, 2, "tag", "app@our.example", (), CONTENT, lambda: None)
    result = run(send_one(adapter.provider, call))
    assert (result.outcome, result.scope) == (Outcome.PERMANENT, Scope.MESSAGE)
    assert adapter.handed_over() == []


def test_closed_twice_and_before_use(adapter: Adapter) -> None:
    async def close_often() -> None:
        await adapter.provider.close()
        await adapter.provider.send(a_call())
        await adapter.provider.close()
        await adapter.provider.close()

    run(close_often())
    assert adapter.handed_over() == [CONTENT]


def test_check_finds_it_well(adapter: Adapter) -> None:
    findings = run(adapter.provider.check())
    assert findings
    assert all(each.ok for each in findings)
    assert adapter.handed_over() == []


@pytest.mark.parametrize(("query", "rate"), [("", None), ("rate=2.5", 2.5)])
def test_a_rate_is_given_in_the_url(tmp_path: Path, query: str, rate: float | None) -> None:
    with aws_environment(), SesEndpoint.scripted() as endpoint:
        mute = f"&endpoint_url={endpoint.url}/nowhere"
        for url in (
            f"smtp://127.0.0.1?{query}",
            f"{tmp_path.as_uri()}?{query}",
            f"ses://eu-west-1?{query}{mute}",
        ):
            found = run(ask_once(build(url, connections=1)))
            assert found == Limits(rate_per_second=rate)


async def ask_once(provider: Provider) -> Limits:
    try:
        return await provider.limits()
    finally:
        await provider.close()


def test_names_hold_no_credential() -> None:
    provider = build("smtps://user:s3cret@[::1]:4650", connections=1)
    assert provider.name == "smtps:[::1]:4650"


def test_captured_message_and_envelope(tmp_path: Path) -> None:
    provider = build(tmp_path.as_uri(), connections=1)
    run(provider.send(a_call("one@there.example")))
    assert (tmp_path / "tag-0123.eml").read_bytes() == CONTENT
    envelope = json.loads((tmp_path / "tag-0123.json").read_text())
    assert envelope["sender"] == "app@our.example"
    assert envelope["recipients"] == ["one@there.example"]


def test_capture_without_its_folder(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    provider = build(missing.as_uri(), connections=1)
    result = run(provider.send(a_call()))
    assert (result.outcome, result.scope) == (Outcome.RETRYABLE, Scope.ACCOUNT)
    assert str(missing) in result.reason
    (finding,) = run(provider.check())
    assert not finding.ok
    assert str(missing) in finding.detail


def test_cancelled_capture_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from providers import capture as module

    writing, go_on = threading.Event(), threading.Event()
    write = module._write_beside

    def slow(message: Path, call: Call) -> tuple[Path, Path]:
        drafts = write(message, call)
        writing.set()
        go_on.wait()
        return drafts

    monkeypatch.setattr(module, "_write_beside", slow)

    async def cancel_in_the_middle() -> CallResult:
        sending = asyncio.ensure_future(build(tmp_path.as_uri(), connections=1).send(a_call()))
        await asyncio.to_thread(writing.wait)
        sending.cancel()
        result = await sending
        go_on.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        return result

    assert run(cancel_in_the_middle()).outcome is Outcome.RETRYABLE
    assert list(tmp_path.iterdir()) == []


def test_cancelled_after_the_dot_is_in_doubt() -> None:
    reached = threading.Event()
    with SmtpServer.scripted(Script(dot=(tell(reached.set), STALL))) as server:

        async def cancel_after_the_dot() -> CallResult:
            provider = relay(server.port)
            sending = asyncio.ensure_future(provider.send(a_call()))
            await asyncio.to_thread(reached.wait)
            sending.cancel()
            try:
                return await sending
            finally:
                await provider.close()

        result = run(cancel_after_the_dot())
    assert (result.outcome, result.stage) == (Outcome.AMBIGUOUS, "after_dot")
