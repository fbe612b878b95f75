"""Calls to send and ways to send them, shared by the tests of the providers."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mailer.outcome import CallResult, Outcome
from mailer.prove.kit.smtp_server import Record
from mailer.provider import Addressee, Call, Provider, Refusal
from providers.catalog import build

CONTENT = b"Subject: hello\r\n\r\nA line.\r\n"
LINE = b"x" * 76 + b"\r\n"
LARGE = b"Subject: large\r\n\r\n" + LINE * 220_000
"""More than the kernel's buffers take, so that a sender stands in the middle of it."""

QUICK = "timeout=0.5&data_timeout=0.5"
MESSAGE = ["MAIL", "RCPT", "DATA"]

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]


def a_call(
    *addresses: str,
    content: bytes = CONTENT,
    sender: str = "app@our.example",
    may_commit: Callable[[], Refusal | None] = lambda: None,
) -> Call:
    """One attempt to these addresses, to one if none is named."""
    named = addresses or ("someone@there.example",)
    recipients = tuple(Addressee(100 + n, each) for n, each in enumerate(named))
    return Call(1, 2, "tag-0123", sender, recipients, content, may_commit)


def relay(port: int, query: str = "", *, connections: int = 1) -> Provider:
    """A provider for a server on loopback, without TLS."""
    return build(f"smtp://127.0.0.1:{port}?{query}", connections=connections)


async def send_one(provider: Provider, call: Call) -> CallResult:
    """Send, then close."""
    try:
        return await provider.send(call)
    finally:
        await provider.close()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run on a fresh event loop."""
    return asyncio.run(work)


async def send_all(provider: Provider, *calls: Call) -> list[CallResult]:
    """Send one after the other, then close."""
    try:
        return [await provider.send(each) for each in calls]
    finally:
        await provider.close()


def outcomes(results: list[CallResult]) -> list[Outcome]:
    """What each call came to."""
    return [each.outcome for each in results]


def outcomes_of(result: CallResult) -> list[Outcome]:
    """What each recipient of one call ends with."""
    return [each.outcome for each in result.recipients]


def verbs(records: list[Record]) -> list[list[str]]:
    """The verbs that each connection brought."""
    return [record.verbs for record in records]
