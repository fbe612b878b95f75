"""The pool: bounded, shared, and no slot is ever lost."""

import asyncio
import threading
from typing import Any

import pytest

from mailer.outcome import CallResult, Outcome
from mailer.prove.kit.smtp_server import (
    END,
    RESET,
    Acts,
    Script,
    SmtpServer,
    say,
    tell,
)
from mailer.provider import Provider
from providers.smtp_pool import Pool
from providers.smtp_progress import Fate
from providers.smtp_settings import parse
from tests.providers.calls import (
    MESSAGE,
    Run,
    a_call,
    outcomes,
    relay,
    send_all,
    verbs,
)


def test_the_pool_is_bounded_and_shared(run: Run[Any]) -> None:
    async def send_many(provider: Provider) -> list[CallResult]:
        results = await asyncio.gather(*(provider.send(a_call()) for _ in range(40)))
        await provider.close()
        return results

    with SmtpServer.scripted() as server:
        results = run(send_many(relay(server.port, connections=3)))
        assert set(outcomes(results)) == {Outcome.ACCEPTED}
        records = server.settle()
        assert len(records) == 3
        assert server.peak == 3
        assert sum(record.dots for record in records) == 40


def test_a_waiting_call_can_be_cancelled(run: Run[Any]) -> None:
    reached, answer = threading.Event(), threading.Event()
    held: Acts = (tell(reached.set), tell(answer.wait), say("250 ok"))
    script = Script(dot=[held, say("250 ok")])

    async def crowd(provider: Provider) -> list[CallResult]:
        first = asyncio.ensure_future(provider.send(a_call()))
        await asyncio.to_thread(reached.wait)
        second = asyncio.ensure_future(provider.send(a_call()))
        await asyncio.sleep(0)
        second.cancel()
        third = asyncio.ensure_future(provider.send(a_call()))
        waited = await second
        answer.set()
        results = [await first, waited, await third]
        await provider.close()
        return results

    with SmtpServer.scripted(script) as server:
        results = run(crowd(relay(server.port)))
        assert outcomes(results) == [Outcome.ACCEPTED, Outcome.RETRYABLE, Outcome.ACCEPTED]
        assert verbs(server.settle()) == [["EHLO", *MESSAGE, *MESSAGE, "QUIT"]]


def test_a_failed_connection_gives_its_slot_back(run: Run[Any]) -> None:
    async def crowd(provider: Provider) -> list[CallResult]:
        results = await asyncio.gather(*(provider.send(a_call()) for _ in range(3)))
        await provider.close()
        return results

    with SmtpServer.scripted(Script(greeting=END), Script(mail=RESET), Script()) as server:
        results = run(crowd(relay(server.port)))
        assert sorted(outcomes(results)) == ["accepted", "retryable", "retryable"]
        assert server.peak <= 2


def test_a_connection_is_retired_after_its_messages(run: Run[Any]) -> None:
    with SmtpServer.scripted() as server:
        calls = [a_call() for _ in range(5)]
        results = run(send_all(relay(server.port, "max_messages=2"), *calls))
        assert set(outcomes(results)) == {Outcome.ACCEPTED}
        assert verbs(server.settle()) == [
            ["EHLO", *MESSAGE, *MESSAGE, "QUIT"],
            ["EHLO", *MESSAGE, *MESSAGE, "QUIT"],
            ["EHLO", *MESSAGE, "QUIT"],
        ]


def test_a_connection_that_rested_too_long_is_retired(run: Run[Any]) -> None:
    said = threading.Event()
    script = Script(quit=(tell(said.set), say("221 bye"), END))

    async def rest(provider: Provider) -> CallResult:
        result = await provider.send(a_call())
        await asyncio.to_thread(said.wait)
        await provider.close()
        return result

    with SmtpServer.scripted(script) as server:
        assert run(rest(relay(server.port, "idle_timeout=0.05"))).outcome is Outcome.ACCEPTED
        assert verbs(server.settle()) == [["EHLO", *MESSAGE, "QUIT"]]


def test_a_slot_handed_to_a_cancelled_call_is_passed_on(run: Run[Any]) -> None:
    async def take_and_cancel() -> None:
        pool = Pool(parse("smtp://127.0.0.1", connections=1))
        assert await pool.take() is None
        waiting = asyncio.ensure_future(pool.take())
        await asyncio.sleep(0)
        pool.give_back(None, None, Fate.DROP)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(5):
            assert await pool.take() is None

    run(take_and_cancel())
