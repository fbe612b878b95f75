"""How a body is read: what an SNS message is, and every way not to be one."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mailer.feed import MAX_BODY_BYTES, Channel, Envelope, EnvelopeType, Unacceptable
from tests.providers.sns_verdicts import dropped, refused, replaced, verified
from tests.sns_kit import (
    TOKEN,
    TOPIC,
    CertificateHost,
    body,
    certificate,
    certificate_url,
    sign,
    signed,
)

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [None, "", "Amazon SES Email Event Notification", "é: ü"])
def test_a_notification(version: str, subject: str | None) -> None:
    sent = signed('{"é":1}\n\x00', version=version, subject=subject)
    octets = body(sent)
    published = datetime.fromisoformat(sent["Timestamp"])
    assert verified(octets) == Envelope(
        EnvelopeType.NOTIFICATION, TOPIC, sent["MessageId"], published, octets
    )


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_confirmation_carries_its_token(version: str) -> None:
    found = verified(body(signed("x", kind="SubscriptionConfirmation", version=version)))
    assert (found.type, found.token) == (EnvelopeType.SUBSCRIPTION, TOKEN)


def test_the_end_of_a_subscription_carries_nothing_that_renews_it() -> None:
    found = verified(body(signed("x", kind="UnsubscribeConfirmation")))
    assert (found.type, found.token) == (EnvelopeType.UNSUBSCRIPTION, None)


def test_what_is_not_signed_is_ignored() -> None:
    more = {"MessageAttributes": {"k": {"Type": "String", "Value": "v"}}, "Later": [1, None, 1.5]}
    assert verified(body(signed() | more)).token is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-10T11:59:30.000Z", datetime(2026, 3, 10, 11, 59, 30, tzinfo=UTC)),
        ("2026-03-10T06:59:30-05:00", datetime(2026, 3, 10, 11, 59, 30, tzinfo=UTC)),
        ("2026-03-10T11:59:30", datetime(2026, 3, 10, 11, 59, 30, tzinfo=UTC)),
        ("yesterday", None),
        ("0001-01-01T00:00:00+23:00", None),
    ],
)
def test_a_timestamp_is_signed_as_it_stands_and_read_if_it_can_be(
    text: str, expected: datetime | None
) -> None:
    for channel in (Channel.HTTPS, Channel.SQS):
        host = CertificateHost({certificate_url(): certificate(start=NOW - DAY, end=NOW + DAY)})
        octets = body(signed(Timestamp=text))
        found = verified(octets, host, channel=channel, clock=lambda: NOW)
        assert found.published_at == expected


NOTIFIED = ("Type", "MessageId", "TopicArn", "Message", "Timestamp")
PROOF = ("SignatureVersion", "Signature", "SigningCertURL")


@pytest.mark.parametrize("name", NOTIFIED + PROOF)
@pytest.mark.parametrize("value", [..., None, 5, True, ["x"], {"x": "y"}])
def test_a_field_that_is_missing_or_no_text(name: str, value: Any) -> None:
    sent = signed()
    dropped(name)(sent) if value is ... else replaced(name, value)(sent)
    assert refused(body(sent)) == (400, f"sns-field-{name}")


@pytest.mark.parametrize("name", [each for each in NOTIFIED + PROOF if each != "Message"])
def test_an_empty_field(name: str) -> None:
    assert refused(body(signed() | {name: ""})) == (400, f"sns-field-{name}")


@pytest.mark.parametrize("name", ["Token", "SubscribeURL"])
@pytest.mark.parametrize("value", [..., None, "", "a\nb"])
def test_a_confirmation_without_what_it_needs(name: str, value: Any) -> None:
    sent = signed("x", kind="SubscriptionConfirmation")
    dropped(name)(sent) if value is ... else replaced(name, value)(sent)
    assert refused(body(sent)) == (400, f"sns-field-{name}")


@pytest.mark.parametrize("control", ["\n", "\r", "\t", "\x00", "\x7f", "\x85"])
@pytest.mark.parametrize("name", ["Subject", "MessageId", "Timestamp", "TopicArn", "Type"])
def test_a_control_character_in_a_genuine_field(name: str, control: str) -> None:
    sent = sign(signed(subject="x") | {name: f"a{control}b"})
    assert refused(body(sent)) == (400, f"sns-field-{name}")


def test_one_signature_over_two_messages() -> None:
    genuine = signed("one\nMessageId\nfirst\nSubject\ntwo")
    shifted = genuine | {
        "Message": "one",
        "MessageId": "first",
        "Subject": f"two\nMessageId\n{genuine['MessageId']}",
    }
    assert verified(body(genuine)).message_id == genuine["MessageId"]
    assert refused(body(shifted)) == (400, "sns-field-Subject")


@pytest.mark.parametrize("subject", [None, 5, ["x"]])
def test_a_subject_that_is_there_is_text(subject: Any) -> None:
    assert refused(body(signed() | {"Subject": subject})) == (400, "sns-field-Subject")


def test_keys_as_lambda_writes_them() -> None:
    sent = signed()
    sent["SigningCertUrl"] = sent.pop("SigningCertURL")
    assert refused(body(sent)) == (400, "sns-field-SigningCertURL")


def test_a_message_id_that_no_row_could_hold() -> None:
    assert refused(body(signed(MessageId="x" * 256))) == (400, "sns-field-MessageId")


@pytest.mark.parametrize("kind", ["notification", "Announcement", "Notification "])
def test_an_unknown_type(kind: str) -> None:
    assert refused(body(signed() | {"Type": kind})) == (400, "sns-field-Type")


def with_more(octets: bytes) -> Callable[[bytes], bytes]:
    """Put another member into the object."""
    return lambda sent: sent[:-1] + b"," + octets + b"}"


def instead(octets: bytes) -> Callable[[bytes], bytes]:
    """Post something else."""
    return lambda _: octets


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (instead(b""), "json"),
        (instead(b"this is not json"), "json"),
        (instead(b"[1,2,3]"), "json"),
        (instead(b'"x"'), "json"),
        (instead(b"null"), "json"),
        (instead(b"NaN"), "json"),
        (lambda sent: sent[:-9], "json"),
        (lambda sent: sent + b"{}", "json"),
        (lambda sent: b"\xef\xbb\xbf" + sent, "json"),
        (with_more(b'"x":NaN'), "json"),
        (with_more(b'"x":-Infinity'), "json"),
        (with_more(b'"x":' + b"9" * 5000), "json"),
        (with_more(b'"x":' + b"[" * 100_000 + b"]" * 100_000), "json"),
        (with_more(b'"x":' + b'{"x":' * 50_000 + b"1" + b"}" * 50_000), "json"),
        (with_more(b'"Message":"another"'), "json"),
        (with_more(b'"x":{"y":1,"y":2}'), "json"),
        (lambda sent: sent.decode().encode("utf-16"), "utf8"),
        (lambda sent: sent.decode().encode("utf-16-le"), "json"),
        (lambda sent: sent.replace(b"eu-west", b"eu-\xffwest"), "utf8"),
        (with_more(b'"Subject":"\\ud800"'), "unicode"),
        (lambda sent: sent.replace(b'"text"', b'"\\udfff"'), "unicode"),
    ],
    ids=range(21),
)
def test_a_body_that_cannot_be_read(spoil: Callable[[bytes], bytes], rule: str) -> None:
    assert refused(spoil(body(signed("text")))) == (400, f"sns-body-{rule}")


def test_a_large_body() -> None:
    fits = body(signed()).ljust(MAX_BODY_BYTES)
    assert verified(fits).body == fits
    assert refused(fits + b" ") == (413, "sns-body-size")


def test_raw_delivery() -> None:
    raw = json.dumps({"eventType": "Delivery", "mail": {"messageId": "x"}}).encode()
    for channel in (Channel.HTTPS, Channel.SQS):
        assert refused(raw, channel=channel) == (400, "sns-field-Type")


def test_a_refusal_tells_nothing_of_the_message() -> None:
    sent = signed("secret-message") | {"Token": "secret-token", "Subject": 5}
    with pytest.raises(Unacceptable) as caught:
        verified(body(sent))
    assert "secret" not in repr(caught.value)
