"""What SES's refusals mean for each recipient and for the account, and what is never sent to it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mailer.outcome import Blame, CallResult, Outcome, Pressure, Scope
from mailer.prove.kit.smtp_script import Acts
from mailer.provider import Call
from tests.providers.calls import a_call, outcomes_of, run, send_one
from tests.ses_endpoint import SECRET, SesEndpoint, aws_environment, refusal

A, R, P = Outcome.ACCEPTED, Outcome.RETRYABLE, Outcome.PERMANENT
FAILED_CHECK = "Email address is not verified. The following identities failed the check in region"
NOT_VERIFIED = f"{FAILED_CHECK} EU-WEST-1: "


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    with aws_environment():
        yield


def refused(acts: Acts, call: Call | None = None) -> CallResult:
    """Send one call that is answered so."""
    with SesEndpoint.scripted(send=acts) as endpoint:
        return run(send_one(endpoint.provider(), call or a_call()))


@pytest.mark.parametrize(
    ("acts", "blame", "pressure"),
    [
        (refusal(429, "TooManyRequestsException"), Blame.PROVIDER, Pressure.THROTTLE),
        (
            refusal(400, "Throttling", "Maximum sending rate exceeded."),
            Blame.PROVIDER,
            Pressure.THROTTLE,
        ),
        (
            refusal(400, "ThrottlingException", "Daily message quota exceeded."),
            Blame.PROVIDER,
            Pressure.QUOTA,
        ),
        (refusal(400, "LimitExceededException"), Blame.PROVIDER, Pressure.QUOTA),
        (refusal(400, "SendingPausedException"), Blame.PROVIDER, None),
        (refusal(403, "ExpiredTokenException"), Blame.PROVIDER, None),
        (refusal(403, "AccessDeniedException", "to ses:SendEmail"), Blame.PROVIDER, None),
        (
            refusal(403, "AccessDeniedException", "on resource: identity/our.example"),
            Blame.SENDER,
            None,
        ),
        (refusal(400, "MailFromDomainNotVerifiedException"), Blame.SENDER, None),
        (refusal(400, "MessageRejected", "Email address is not verified."), Blame.SENDER, None),
        (
            refusal(
                400, "MessageRejected", f"{NOT_VERIFIED}app@our.example, someone@there.example"
            ),
            Blame.SENDER,
            None,
        ),
        (refusal(400, "MessageRejected", f"{NOT_VERIFIED}our.example"), Blame.SENDER, None),
        (
            refusal(400, "MessageRejected", f"{NOT_VERIFIED}Someone@there.example"),
            Blame.PROVIDER,
            None,
        ),
    ],
)
def test_whose_fault_it_is(acts: Acts, blame: Blame, pressure: Pressure | None) -> None:
    result = refused(acts)
    assert (result.outcome, result.scope) == (R, Scope.ACCOUNT)
    assert (result.blame, result.pressure) == (blame, pressure)


@pytest.mark.parametrize(
    ("asked", "told"), [("7", 7.0), ("999999999", 3600.0), ("soon", None), ("-1", None)]
)
def test_a_delay_that_is_asked_for(asked: str, told: float | None) -> None:
    result = refused(refusal(429, "TooManyRequestsException", Retry_After=asked))
    assert result.retry_after_seconds == told


def test_code_and_reason_are_kept_clean() -> None:
    result = refused(refusal(400, "MessageRejected", "a virus\x00\r\n\u2028in it" + "!" * 900))
    assert (result.code, result.rule) == ("MessageRejected", "ses-rejected")
    assert result.reason.startswith("a virus in it!!")
    assert len(result.reason) == 300
    assert {(each.code, each.text) for each in result.recipients} == {(result.code, result.reason)}


@pytest.mark.parametrize(
    ("text", "ends"),
    [("Address blacklisted.", [P, P]), ("Address blacklisted: Two@there.example", [R, P])],
)
def test_a_blacklisted_recipient_does_not_take_the_others_along(
    text: str, ends: list[Outcome]
) -> None:
    call = a_call("one@there.example", "two@there.example")
    result = refused(refusal(400, "MessageRejected", text), call)
    assert outcomes_of(result) == ends
    assert (result.outcome, result.scope) == (ends[0], Scope.RECIPIENT)


UNFIT = [
    "bücher@there.example",
    "someone@bücher.example",
    "one@there.example,two@there.example",
    "two words@there.example",
    "line\r\nbreak@there.example",
    "<one@there.example>",
    "Group:one@there.example;",
    "nobody",
    "",
]


@pytest.mark.parametrize("address", UNFIT)
def test_an_address_that_ses_cannot_be_given(address: str) -> None:
    with SesEndpoint.scripted() as endpoint:
        both = run(send_one(endpoint.provider(), a_call(address, "fit@there.example")))
        alone = run(send_one(endpoint.provider(), a_call(address)))
        (request,) = endpoint.requests
    assert request.json["Destination"] == {"ToAddresses": ["fit@there.example"]}
    assert (both.outcome, outcomes_of(both)) == (A, [P, A])
    assert (alone.outcome, alone.scope, alone.stage) == (P, Scope.RECIPIENT, "preflight")
    assert {both.recipients[0].rule, alone.rule} == {"ses-recipient"}


@pytest.mark.parametrize(
    "call",
    [
        a_call(*(f"n{n}@there.example" for n in range(51))),
        a_call(content=b"x" * (40 * 1024 * 1024 + 1)),
        a_call(sender=""),
        a_call(sender="bücher@our.example"),
        Call(1, 2, "tag", "app@our.example", (), b"", lambda: None),
    ],
    ids=["51 recipients", "over 40 MB", "no sender", "a sender beyond ASCII", "no recipients"],
)
def test_a_message_that_ses_cannot_be_given(call: Call) -> None:
    with SesEndpoint.scripted() as endpoint:
        result = run(send_one(endpoint.provider(), call))
        assert endpoint.connections == 0
    assert (result.outcome, result.scope, result.stage) == (P, Scope.MESSAGE, "preflight")
    assert [each.recipient_id for each in result.recipients] == list(call.recipient_ids)
    assert "@" not in result.reason


def test_the_most_that_ses_takes() -> None:
    with SesEndpoint.scripted() as endpoint:
        call = a_call(*(f"n{n}@there.example" for n in range(50)))
        assert run(send_one(endpoint.provider(), call)).outcome is A


def test_no_secret_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with SesEndpoint.scripted(send=refusal(403, "AccessDenied"), account=refusal(403, "X")) as end:
        provider = end.provider()
        result = run(send_one(provider, a_call()))
        told: list[Any] = [result, run(provider.limits()), run(provider.check()), provider.name]
        run(provider.close())
    text = f"{told}{vars(provider)}{caplog.text}"
    assert SECRET not in text
    assert "someone@there.example" not in json.dumps(caplog.text)
