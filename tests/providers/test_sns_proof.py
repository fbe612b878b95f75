"""What proves a message genuine: its topic, its certificate, its signature and its age."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from mailer.errors import SettingsError
from mailer.feed import Channel, NotNow, Unacceptable
from providers.sns import SnsVerifier
from providers.sns_certificates import Certificates
from tests.providers.calls import run
from tests.providers.sns_verdicts import (
    MILAN,
    Change,
    altered,
    dropped,
    refused,
    replaced,
    swapped,
    verified,
)
from tests.sns_kit import (
    TOPIC,
    CertificateHost,
    body,
    certificate,
    certificate_url,
    signed,
    signing_key,
    timestamp,
)

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize(
    "change",
    [
        altered("Message"),
        altered("MessageId"),
        altered("Subject"),
        altered("Timestamp"),
        dropped("Subject"),
        replaced("Subject", ""),
        replaced("Message", ""),
        replaced("Signature", "AAAA"),
        replaced("TopicArn", MILAN.replace("eu-south-1", "eu-west-1") + "-2"),
        swapped("SignatureVersion", "1", "2"),
    ],
)
def test_a_tampered_notification(version: str, change: Change) -> None:
    sent = signed("a message", subject="a subject", version=version)
    change(sent)
    topics = (TOPIC, f"{TOPIC}-2")
    assert refused(body(sent), fetches=1, topics=topics) == (403, "sns-signature")


@pytest.mark.parametrize("kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation"])
@pytest.mark.parametrize(
    "change",
    [
        altered("Message"),
        altered("Token"),
        replaced("SubscribeURL", "http://169.254.169.254/latest/meta-data/"),
        replaced("Type", "Notification"),
        swapped("Type", "SubscriptionConfirmation", "UnsubscribeConfirmation"),
    ],
)
def test_a_tampered_confirmation(kind: str, change: Change) -> None:
    sent = signed("x", kind=kind)
    change(sent)
    assert refused(body(sent), fetches=1) == (403, "sns-signature")


@pytest.mark.parametrize("kind", ["Notification", "SubscriptionConfirmation"])
@pytest.mark.parametrize(
    "topic",
    [TOPIC.replace("1111", "9999"), f"{TOPIC}2", f" {TOPIC}", TOPIC.upper(), TOPIC[:-1], "*"],
)
def test_a_genuine_message_of_somebody_else_s_topic(kind: str, topic: str) -> None:
    sent = signed(kind=kind, TopicArn=topic)
    assert refused(body(sent)) == (403, "sns-topic")


@pytest.mark.parametrize("version", ["0", "3", "02", "2 ", "2\n", "٢", "v2"])
def test_an_unknown_signature_version(version: str) -> None:
    sent = signed() | {"SignatureVersion": version}
    assert refused(body(sent)) == (403, "sns-signature-version")


def test_version_2_only() -> None:
    only = frozenset({"2"})
    assert refused(body(signed(version="1")), versions=only) == (403, "sns-signature-version")
    assert verified(body(signed()), versions=only).topic_arn == TOPIC


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:20] + "*" + text[20:],
        lambda text: text[:20] + "\n" + text[20:],
        lambda text: text + "=",
        lambda text: text + "\n",
        lambda text: "=" + text,
        lambda text: text[:-3],
        lambda text: text.replace(text[5], "é"),
        lambda text: "-_-_",
    ],
)
def test_a_signature_that_is_not_base64(spoil: Callable[[str], str]) -> None:
    sent = signed()
    sent["Signature"] = spoil(sent["Signature"])
    assert refused(body(sent)) == (403, "sns-signature-base64")


@pytest.mark.parametrize(
    "url",
    [
        certificate_url().replace("eu-west-1", "us-east-1"),
        certificate_url().replace("https", "http"),
        certificate_url().replace("sns.eu-west-1", "sns.s3-eu-west-1"),
        certificate_url().replace(".com", ".com.evil.example"),
        certificate_url() + "\n",
        certificate_url() + "\ud800",
        "file:///etc/passwd",
    ],
)
def test_a_certificate_that_lies_elsewhere(url: str) -> None:
    attacker = signing_key(1)
    host = CertificateHost({url: certificate(attacker)})
    sent = signed(SigningCertURL=url, key=attacker)
    assert refused(body(sent), host=host) == (403, "sns-certificate-url")


def test_a_message_published_long_ago() -> None:
    sent = body(signed(Timestamp=timestamp(datetime.now(UTC) - 70 * DAY)))
    assert verified(sent).published_at
    assert refused(sent, fetches=1, max_age_seconds=4500) == (403, "sns-age")
    assert verified(body(signed()), max_age_seconds=4500)
    undated = body(signed(Timestamp="yesterday"))
    assert refused(undated, fetches=1, max_age_seconds=4500) == (403, "sns-age")


@pytest.mark.parametrize(
    ("published", "now", "https", "sqs"),
    [
        (NOW, NOW, True, True),
        (NOW, NOW + 10 * DAY, False, True),
        (NOW - 10 * DAY, NOW, True, False),
        (NOW + 10 * DAY, NOW + 10 * DAY, False, False),
        (NOW - 10 * DAY, NOW - 10 * DAY, False, False),
    ],
)
def test_when_a_certificate_has_to_be_valid(
    published: datetime, now: datetime, https: bool, sqs: bool
) -> None:
    """Over HTTPS when it is received, in a queue when it was signed."""
    pem = certificate(start=NOW - DAY, end=NOW + DAY)
    octets = body(signed(Timestamp=timestamp(published)))
    for channel, passes in ((Channel.HTTPS, https), (Channel.SQS, sqs)):
        host = CertificateHost({certificate_url(): pem})
        if passes:
            assert verified(octets, host, channel=channel, clock=lambda: now)
            continue
        found = refused(octets, fetches=1, host=host, channel=channel, clock=lambda: now)
        assert found == (403, "sns-certificate-validity")


def test_a_remembered_certificate_still_ends() -> None:
    moments = [NOW, NOW + 2 * DAY]
    pem = certificate(start=NOW - DAY, end=NOW + DAY)
    certificates = Certificates(CertificateHost({certificate_url(): pem}))
    verifier = SnsVerifier([TOPIC], certificates, clock=lambda: moments.pop(0))
    octets = body(signed())
    assert run(verifier.verify(octets, Channel.HTTPS))
    with pytest.raises(Unacceptable, match="sns-certificate-validity"):
        run(verifier.verify(octets, Channel.HTTPS))


def test_a_certificate_of_the_topic_s_region() -> None:
    url, signer = certificate_url(MILAN), "sns-signing.eu-south-1.amazonaws.com"
    octets = body(signed(topic_arn=MILAN))
    assert verified(octets, CertificateHost({url: certificate(names=[signer])}))
    other = CertificateHost({url: certificate()})
    assert refused(octets, fetches=1, host=other) == (403, "sns-certificate-name")


def test_a_certificate_that_cannot_be_had_now() -> None:
    host = CertificateHost({})
    with pytest.raises(NotNow, match="sns-certificate-fetch"):
        verified(body(signed()), host)


@pytest.mark.parametrize("topic", ["mail-events", f"{TOPIC}.fifo"])
def test_a_topic_that_is_none(topic: str) -> None:
    with pytest.raises(SettingsError, match=r"^topic: "):
        SnsVerifier([topic], Certificates(CertificateHost()))


def test_a_version_that_is_none() -> None:
    with pytest.raises(SettingsError, match="SNS knows 1 and 2"):
        SnsVerifier([TOPIC], Certificates(CertificateHost()), versions=frozenset({"3"}))
