"""What the account says of itself: limits that are never an error, and a check with its mends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailer.errors import SettingsError
from mailer.prove.kit.smtp_script import Acts
from mailer.provider import Finding, Limits, Provider
from providers import ses_client
from providers.catalog import build
from tests.providers.calls import run
from tests.ses_endpoint import (
    END,
    SECRET,
    STALL,
    SesEndpoint,
    account,
    answer,
    aws_environment,
    refusal,
)


@pytest.fixture(autouse=True)
def environment() -> Iterator[pytest.MonkeyPatch]:
    with aws_environment() as patch:
        yield patch


async def limits_of(provider: Provider) -> Limits:
    try:
        return await provider.limits()
    finally:
        await provider.close()


async def findings_of(provider: Provider) -> list[Finding]:
    try:
        return await provider.check()
    finally:
        await provider.close()


def quota(most: Any, rate: Any, sent: Any) -> Acts:
    """Answer GetAccount with this quota."""
    return account(SendQuota={"Max24HourSend": most, "MaxSendRate": rate, "SentLast24Hours": sent})


@pytest.mark.parametrize(
    ("acts", "expected"),
    [
        (quota(200.0, 1.0, 20.0), Limits(1.0, 180.0)),
        (quota(200, 1, 500), Limits(1.0, 0.0)),
        (quota(-1.0, 80.0, 5.0), Limits(80.0, None)),
        (quota(200.0, 0.0, 0.0), Limits(None, 200.0)),
        (quota(float("nan"), float("inf"), None), Limits()),
        (account(SendQuota=None), Limits()),
        (answer(200, b""), Limits()),
        (answer(200, [1]), Limits()),
        (refusal(403, "AccessDeniedException"), Limits()),
        (answer(503), Limits()),
        (END, Limits()),
    ],
)
def test_limits(acts: Acts, expected: Limits) -> None:
    with SesEndpoint.scripted(account=acts) as endpoint:
        assert run(limits_of(endpoint.provider())) == expected
        assert [each.line for each in endpoint.requests] == ["GET /v2/email/account"]


def test_an_account_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ses_client, "_ASKING_READ_SECONDS", 0.3)
    with SesEndpoint.scripted(account=STALL) as endpoint:
        assert run(limits_of(endpoint.provider())) == Limits()


def test_a_rate_of_ours_goes_before_the_account_s() -> None:
    with SesEndpoint.scripted() as endpoint:
        assert run(limits_of(endpoint.provider("rate=3"))) == Limits(3.0, 49990.0)


def test_all_is_well() -> None:
    with SesEndpoint.scripted() as endpoint:
        provider = endpoint.provider("configuration_set=main", sender="App <app@our.example>")
        findings = run(findings_of(provider))
        assert endpoint.sent == []
    assert [each.subject for each in findings] == [
        "credentials",
        "region",
        "sending",
        "sandbox",
        "enforcement",
        "quota",
        "sender",
        "configuration set",
    ]
    assert all(each.ok for each in findings)
    assert "14 recipients a second, 49990 left" in findings[5].detail
    assert not any("app@our.example" in each.detail for each in findings)


@pytest.mark.parametrize(
    ("steps", "subject", "named"),
    [
        ({"account": account(SendingEnabled=False)}, "sending", "enable it"),
        ({"account": account(ProductionAccessEnabled=False)}, "sandbox", "production access"),
        ({"account": account(EnforcementStatus="PROBATION")}, "enforcement", "probation"),
        ({"account": quota(200.0, 1.0, 200.0)}, "quota", "request more"),
        ({"account": answer(200, {})}, "sending", "enable it"),
        ({"account": refusal(403, "AccessDeniedException")}, "account", "ses:GetAccount"),
        ({"account": refusal(403, "ExpiredToken")}, "credentials", "AWS_ACCESS_KEY_ID"),
        ({"account": END}, "region", "MAILER_PROVIDERS"),
        ({"account": answer(200, [1])}, "region", "MAILER_PROVIDERS"),
        ({"identity": refusal(404, "NotFoundException")}, "sender", "MAILER_FROM"),
        ({"identity": answer(200, {})}, "sender", "MAILER_FROM"),
        (
            {"configuration_set": refusal(404, "NotFoundException")},
            "configuration set",
            "MAILER_PROVIDERS",
        ),
        (
            {"configuration_set": answer(200, {"SendingOptions": {"SendingEnabled": False}})},
            "configuration set",
            "enable it",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_mend(
    steps: dict[str, Acts | list[Acts]], subject: str, named: str
) -> None:
    with SesEndpoint(steps) as endpoint:
        provider = endpoint.provider("configuration_set=main", sender="app@our.example")
        bad = [each for each in run(findings_of(provider)) if not each.ok]
    assert subject in [each.subject for each in bad]
    assert any(named in each.detail for each in bad)
    assert not any(SECRET in each.detail for each in bad)


def test_what_may_not_be_asked_is_no_fault() -> None:
    denied = refusal(403, "AccessDeniedException")
    with SesEndpoint.scripted(identity=denied, configuration_set=denied) as endpoint:
        provider = endpoint.provider("configuration_set=main", sender="app@our.example")
        *_, sender, configuration_set = run(findings_of(provider))
    assert (sender.ok, configuration_set.ok) == (True, True)
    assert "ses:GetEmailIdentity" in sender.detail
    assert "ses:GetConfigurationSet" in configuration_set.detail


def test_a_verified_domain_above_is_enough() -> None:
    missing = refusal(404, "NotFoundException")
    verified = answer(200, {"VerifiedForSendingStatus": True})
    with SesEndpoint.scripted(identity=[missing, missing, verified]) as endpoint:
        findings = run(findings_of(endpoint.provider(sender="app@news.our.example")))
        asked = [each.line.rpartition("/")[2] for each in endpoint.requests[1:]]
    assert findings[-1].ok
    assert asked == ["app%40news.our.example", "news.our.example", "our.example"]


def test_no_credentials(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("AWS_ACCESS_KEY_ID")
    environment.delenv("AWS_SECRET_ACCESS_KEY")
    with SesEndpoint.scripted() as endpoint:
        (finding,) = run(findings_of(endpoint.provider()))
        assert endpoint.connections == 0
    assert (finding.subject, finding.ok) == ("credentials", False)
    assert "AWS_ACCESS_KEY_ID" in finding.detail


@pytest.mark.parametrize(
    ("name", "value"), [("AWS_PROFILE", "nowhere"), ("AWS_SECRET_ACCESS_KEY", "")]
)
def test_settings_of_aws_that_cannot_work(
    environment: pytest.MonkeyPatch, name: str, value: str
) -> None:
    environment.setenv(name, value)
    with pytest.raises(SettingsError, match=name):
        build("ses://eu-west-1", connections=1)


def test_a_configuration_file_that_cannot_be_read(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("[default\n")
    environment.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with pytest.raises(SettingsError, match="AWS_CONFIG_FILE"):
        build("ses://eu-west-1", connections=1)


def test_an_sdk_that_would_repeat_requests_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ses_client, "_ONE_REQUEST", {"max_attempts": 1, "mode": "standard"})
    with pytest.raises(SettingsError, match="boto3"):
        build("ses://eu-west-1", connections=1)
