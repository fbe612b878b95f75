"""Every SES vector, through the real SDK: answers over a real socket, exceptions where they arise.

`VECTORS_SES` names another file of the same form. A case is built from its fields, not from its
id, so that any combination of them can be tried.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailer.outcome import CallResult
from providers import ses_probe
from providers.ses import SesProvider
from providers.ses_table import ROW_BY_RULE
from tests.providers.calls import a_call, run, send_one
from tests.ses_endpoint import SesEndpoint, answer, aws_environment
from tests.vectors.ses_faults import Case, exception_of, write

FILE = Path(os.environ.get("VECTORS_SES") or Path(__file__).with_name("ses.json"))
CASES: list[Case] = json.loads(FILE.read_text("utf-8"))


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    with aws_environment():
        yield


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    play = answered if case["kind"] == "http_response" else failed
    result = play(case, monkeypatch)
    assert (result.outcome, result.scope) == (case["outcome"], case["scope"])
    assert result.rule in ROW_BY_RULE
    assert {each.outcome for each in result.recipients} == {case["outcome"]}


def answered(case: Case, monkeypatch: pytest.MonkeyPatch) -> CallResult:
    """Send to an endpoint that gives the case's answer; one request is all that it gets."""
    del monkeypatch
    said = answer(case["status"], case.get("body") or "", case.get("headers") or {})
    with SesEndpoint.scripted(send=said) as endpoint:
        result = run(send_one(endpoint.provider("timeout=5"), a_call()))
        assert len(endpoint.requests) == endpoint.connections == 1
    return result


def failed(case: Case, monkeypatch: pytest.MonkeyPatch) -> CallResult:
    """Let the SDK raise the case's exception, with the probe told how much had been sent.

    What no request can have come before is raised while it is signed, all else after the commit
    point; where the case does not say what was sent, nobody has counted.
    """
    if "bytes_sent" not in case:
        monkeypatch.setattr(ses_probe, "is_counting", lambda: False)
    with SesEndpoint.scripted() as endpoint:
        provider = endpoint.provider()
        assert isinstance(provider, SesProvider)
        exc = exception_of(case, f"{endpoint.url}/v2/email/outbound-emails")

        def explode(**_: Any) -> None:
            if case.get("bytes_sent"):
                write(case["bytes_sent"])
            raise exc

        provider._clients.mail.meta.events.register_last("before-send.sesv2.SendEmail", explode)
        result = run(send_one(provider, a_call()))
        assert endpoint.requests == []
    return result


@pytest.mark.parametrize(
    "name", ["ReadTimeoutError", "ConnectionClosedError", "SSLError", "HTTPClientError"]
)
@pytest.mark.parametrize(
    ("octets", "outcome"), [(0, "retryable"), (1, "ambiguous"), (None, "ambiguous")]
)
def test_the_count_decides(
    name: str, octets: int | None, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case: Case = {"kind": "client_exception", "exception": name, "endpoint": "ses"}
    if octets is not None:
        case["bytes_sent"] = octets
    result = failed(case, monkeypatch)
    assert (result.outcome, result.scope) == (outcome, "connection")


def test_the_harness_can_tell_a_wrong_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Case = {"kind": "http_response", "status": 502, "body": "", "headers": {}}
    with pytest.raises(AssertionError):
        test_case(right | {"outcome": "retryable", "scope": "connection"}, monkeypatch)
    unknown: Case = {"kind": "client_exception", "exception": "NoSuchError"}
    with pytest.raises(LookupError):
        failed(unknown, monkeypatch)
