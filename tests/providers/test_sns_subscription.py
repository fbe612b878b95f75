"""Confirming a subscription: one call of the API in the topic's region, and no visit to a URL."""

from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest
from botocore.config import Config

from mailer.feed import NotNow
from mailer.prove.kit.smtp_script import Acts
from providers import sns_subscription
from providers.sns_subscription import SnsSubscriptions
from tests.providers.calls import run
from tests.ses_endpoint import END, RESET, STALL, SesEndpoint, answer, aws_environment
from tests.sns_kit import TOKEN, TOPIC

MILAN = "arn:aws:sns:eu-south-1:111122223333:mail-events"
CONFIRMED = answer(
    200,
    '<ConfirmSubscriptionResponse xmlns="https://sns.amazonaws.com/doc/2010-03-31/">'
    f"<ConfirmSubscriptionResult><SubscriptionArn>{TOPIC}:2bcf0000</SubscriptionArn>"
    "</ConfirmSubscriptionResult></ConfirmSubscriptionResponse>",
)


def refusal(status: int, code: str) -> Acts:
    """Answer as SNS refuses."""
    return answer(status, f"<ErrorResponse><Error><Code>{code}</Code></Error></ErrorResponse>")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[SesEndpoint]:
    """The API; what it does is set by each test."""
    with SesEndpoint() as found, aws_environment(AWS_ENDPOINT_URL_SNS=found.url):
        yield found


@pytest.fixture(scope="module")
def subscriptions(endpoint: SesEndpoint) -> Iterator[SnsSubscriptions]:
    """One for the module, as making a client takes long."""
    found = SnsSubscriptions()
    yield found
    found.close()


@pytest.fixture
def api(endpoint: SesEndpoint) -> SesEndpoint:
    """The API before anything was asked of it, confirming what it is asked."""
    endpoint.requests.clear()
    endpoint.steps["unknown"] = CONFIRMED
    return endpoint


def confirm(subscriptions: SnsSubscriptions, topic: str = TOPIC) -> None:
    run(subscriptions.confirm(topic, TOKEN))


def test_a_confirmation(subscriptions: SnsSubscriptions, api: SesEndpoint) -> None:
    confirm(subscriptions)
    (request,) = api.requests
    assert request.line == "POST /"
    asked = {name: value for name, (value,) in parse_qs(request.body.decode()).items()}
    del asked["Version"]
    assert asked == {
        "Action": "ConfirmSubscription",
        "TopicArn": TOPIC,
        "Token": TOKEN,
        "AuthenticateOnUnsubscribe": "true",
    }


def test_each_region_has_one_client(subscriptions: SnsSubscriptions, api: SesEndpoint) -> None:
    for topic in (TOPIC, MILAN, TOPIC, MILAN):
        confirm(subscriptions, topic)
    scopes = [each.headers["authorization"] for each in api.requests]
    regions = ["eu-west-1", "eu-south-1"] * 2
    assert all(f"/{region}/sns/" in scope for region, scope in zip(regions, scopes, strict=True))
    connections = [each.connection for each in api.requests]
    assert connections[:2] == connections[2:], "kept between calls"


@pytest.mark.parametrize(
    ("acts", "rule"),
    [
        (refusal(400, "InvalidParameter"), "sns-confirm-InvalidParameter"),
        (refusal(403, "AuthorizationError"), "sns-confirm-AuthorizationError"),
        (refusal(500, "InternalError"), "sns-confirm-InternalError"),
        (refusal(400, "evil\nline"), "sns-confirm-refused"),
        (answer(503), "sns-confirm-503"),
        (answer(200, "no XML"), "sns-confirm"),
        (answer(400, "<ErrorResponse><Error>x</Error></ErrorResponse>"), "sns-confirm"),
        (END, "sns-confirm"),
        (RESET, "sns-confirm"),
    ],
)
def test_a_confirmation_that_fails_is_tried_once_and_put_off(
    subscriptions: SnsSubscriptions, api: SesEndpoint, acts: Acts, rule: str
) -> None:
    api.steps["unknown"] = acts
    with pytest.raises(NotNow) as caught:
        confirm(subscriptions)
    assert caught.value.rule == rule
    assert len(api.requests) == 1
    api.steps["unknown"] = CONFIRMED
    confirm(subscriptions)


def test_an_api_that_does_not_answer(api: SesEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = sns_subscription._CONFIG.merge(Config(read_timeout=0.2))
    monkeypatch.setattr(sns_subscription, "_CONFIG", hasty)
    api.steps["unknown"] = STALL
    hastily = SnsSubscriptions()
    with pytest.raises(NotNow, match="sns-confirm"):
        confirm(hastily)
    hastily.close()
    assert len(api.requests) == 1


def test_no_credentials(api: SesEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(NotNow, match="sns-confirm"):
        confirm(SnsSubscriptions())
    assert api.requests == []


@pytest.mark.parametrize("topic", ["x", "arn:aws:sns:evil.example/:111122223333:x"])
def test_no_topic(subscriptions: SnsSubscriptions, api: SesEndpoint, topic: str) -> None:
    with pytest.raises(NotNow, match="sns-confirm"):
        confirm(subscriptions, topic)
    assert api.requests == []
