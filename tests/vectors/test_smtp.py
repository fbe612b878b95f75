"""Every SMTP vector, on the wire: a scripted server, and the real provider's `send`.

`VECTORS_SMTP` names another file of the same form. A case is built from its phase and event, not
from its id, so that any combination of the two can be tried.
"""

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from mailer.outcome import CallResult, Outcome
from mailer.prove.kit.smtp_server import (
    STALL,
    Act,
    Script,
    SmtpServer,
)
from providers.catalog import build
from providers.smtp_table import ROW_BY_RULE
from providers.smtp_wire import Wire
from tests.certificates import Authority
from tests.providers.calls import LARGE, LINE, a_call
from tests.vectors.smtp_scenes import (
    Case,
    FaultyLoop,
    Scene,
    exception_named,
    set_the_scene,
)

FILE = Path(os.environ.get("VECTORS_SMTP") or Path(__file__).with_name("smtp.json"))
CASES: list[Case] = json.loads(FILE.read_text("utf-8"))


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(
    case: Case,
    authority: Authority,
    stranger: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if case["phase"] == "opaque_send":
        pytest.skip("the high-level call of aiosmtplib is never used: the stage is always known")
    scene = set_the_scene(case, authority, stranger)
    result, records = play(scene, case, monkeypatch)

    assert (result.outcome, result.scope) == (case["outcome"], case["scope"])
    assert result.rule in ROW_BY_RULE
    assert [each.recipient_id for each in result.recipients] == list(scene.call.recipient_ids)
    expected = case.get("recipient_outcomes", [case["outcome"]] * len(result.recipients))
    assert [each.outcome for each in result.recipients] == expected
    assert sum(each.dots for each in records) == dots_due(case)
    assert not any(each.after for each in records), "something followed the final dot"


def dots_due(case: Case) -> int:
    """How many end-of-data lines the server may see."""
    if case["phase"] == "post":
        return 2 if "RSET" in case["event"] else 1
    is_past = case["phase"] == "after_dot" or case.get("terminator_sent")
    return int(bool(is_past) or case["outcome"] == Outcome.ACCEPTED)


def play(scene: Scene, case: Case, monkeypatch: pytest.MonkeyPatch) -> tuple[CallResult, list[Any]]:
    """Send over a real socket and return the result with what the server saw."""
    receive = Wire.data_received

    def receive_or_explode(wire: Wire, data: bytes) -> None:
        if scene.explode and wire._news:
            wire._news.set_exception(exception_named(scene.explode))
        else:
            receive(wire, data)

    monkeypatch.setattr(Wire, "data_received", receive_or_explode)
    with SmtpServer.scripted(Script(**scene.steps), tls=scene.tls) as server:
        port = closed_port() if scene.fault == "refused" else server.port
        with asyncio.Runner(loop_factory=lambda: FaultyLoop(scene.fault, scene.cancel)) as runner:
            result = runner.run(converse(scene.url(port), scene, case))
        return result, server.settle()


async def converse(url: str, scene: Scene, case: Case) -> CallResult:
    """Send; after a verdict that RSET or QUIT is to follow, let it follow."""
    loop = asyncio.get_running_loop()
    provider = build(url, connections=1)
    scene.task = loop.create_task(provider.send(scene.call))
    result = await scene.task
    if case["phase"] == "post" and "RSET" in case["event"]:
        assert (await provider.send(a_call())).outcome is Outcome.ACCEPTED
    await provider.close()
    return result


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_the_harness_can_tell_a_wrong_outcome(
    authority: Authority, stranger: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {
        "id": "wrong",
        "phase": "after_dot",
        "event": "eof",
        "outcome": "retryable",
        "scope": "connection",
    }
    with pytest.raises(AssertionError):
        test_case(wrong, authority, stranger, monkeypatch)


def test_large_content_outgrows_the_buffers() -> None:
    assert len(LARGE) > 16_000_000
    assert LARGE.endswith(LINE)
    assert isinstance(STALL, Act)
