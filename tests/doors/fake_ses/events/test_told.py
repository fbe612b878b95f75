"""What the fake SES tells of each message: in the shape of SES's events, and by the script."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from mailer.fake_ses import FakeSes
from mailer.fake_ses.fates import FATES
from mailer.prove.kit.waiting import until
from tests.doors.fake_ses.client import RAW, send
from tests.doors.fake_ses.events.receiver import DELIVERED, TOPIC, Receiver


class TestEvents:
    def test_an_event_repeats_what_was_handed_over(
        self, fake: FakeSes, ses: Any, receiver: Receiver
    ) -> None:
        raw = b"X-Outbox-Attempt: t4\r\nX-Long: a\r\n b\r\n" + RAW
        tags = [{"Name": "mailer-attempt", "Value": "t4"}]
        message_id = send(ses, raw=raw, EmailTags=tags, ConfigurationSetName="tx")
        sent, delivery = receiver.wait_for(*DELIVERED)
        mail = sent["mail"]
        assert sent["send"] == {}
        assert (mail["messageId"], mail["source"]) == (message_id, "shop@example.com")
        assert mail["destination"] == delivery["delivery"]["recipients"] == ["ann@example.com"]
        assert mail["tags"]["mailer-attempt"] == ["t4"]
        assert mail["tags"]["ses:configuration-set"] == ["tx"]
        headers = {each["name"]: each["value"] for each in mail["headers"]}
        assert headers["X-Outbox-Attempt"] == "t4"
        assert headers["X-Long"] == "a b"
        assert mail["headersTruncated"] is False
        assert mail["commonHeaders"]["subject"] == headers["Subject"] == "Hi"
        assert mail["timestamp"] < delivery["delivery"]["timestamp"]

    def test_a_message_without_a_configuration_set_or_tags_is_told_of_too(
        self, ses: Any, receiver: Receiver
    ) -> None:
        send(ses)
        sent, _ = receiver.wait_for(*DELIVERED)
        assert "ses:configuration-set" not in sent["mail"]["tags"]

    def test_a_long_header_is_cut(self, ses: Any, receiver: Receiver) -> None:
        send(ses, raw=b"".join(b"X-%d: %s\r\n" % (n, b"x" * 900) for n in range(20)) + RAW)
        mail = receiver.wait_for(*DELIVERED)[0]["mail"]
        assert mail["headersTruncated"] is True
        assert [each["name"] for each in mail["headers"]] == [f"X-{n}" for n in range(11)]

    def test_octets_that_are_no_text_are_told_as_text(self, ses: Any, receiver: Receiver) -> None:
        send(ses, raw=b"X-Odd: \xff\xfe\x00\r\n" + RAW)
        mail = receiver.wait_for(*DELIVERED)[0]["mail"]
        assert mail["headers"][0]["name"] == "X-Odd"

    def test_it_comes_as_sns_sends_it(self, ses: Any, receiver: Receiver) -> None:
        """That the signature holds is what the receiver sees to."""
        send(ses)
        receiver.wait_for(*DELIVERED)
        first, second = receiver.received
        headers = first.headers
        assert headers["x-amz-sns-message-type"] == first.fields["Type"] == "Notification"
        assert headers["x-amz-sns-message-id"] == first.envelope.message_id
        assert headers["x-amz-sns-topic-arn"] == first.fields["TopicArn"] == TOPIC
        assert headers["content-type"] == "text/plain; charset=UTF-8"
        assert first.fields["SignatureVersion"] == "2"
        assert first.envelope.message_id != second.envelope.message_id

    def test_what_is_refused_is_not_told_of(
        self, fake: FakeSes, ses: Any, receiver: Receiver
    ) -> None:
        with pytest.raises(ClientError):
            send(ses, "reject@example.com")
        send(ses)
        receiver.wait_for(*DELIVERED)

    def test_what_is_accepted_is_told_of_though_the_answer_is_lost(
        self, ses: Any, receiver: Receiver
    ) -> None:
        with pytest.raises(ConnectionClosedError):
            send(ses, "close@example.com")
        receiver.wait_for(*DELIVERED)


SCRIPTED: dict[str, list[tuple[str, ...]]] = {
    "bounce": [("Bounce", "Permanent", "General")],
    "complaint": [("Delivery",), ("Complaint",)],
    "ooto": [("Delivery",), ("Bounce", "Transient", "General")],
    "suppressionlist": [("Bounce", "Permanent", "OnAccountSuppressionList")],
    "bouncelater": [("Delivery",), ("Bounce", "Permanent", "General")],
    "delay": [("DeliveryDelay",), ("Delivery",)],
}
DETAILS = {
    "Delivery": ("delivery", "recipients"),
    "DeliveryDelay": ("deliveryDelay", "delayedRecipients"),
    "Bounce": ("bounce", "bouncedRecipients"),
    "Complaint": ("complaint", "complainedRecipients"),
}


def told(event: dict[str, Any]) -> tuple[str, ...]:
    """What an event comes to: its type, and a bounce's two."""
    kind = event["eventType"]
    bounce = event.get("bounce", {})
    return tuple(
        each for each in (kind, bounce.get("bounceType"), bounce.get("bounceSubType")) if each
    )


def named(event: dict[str, Any]) -> list[str]:
    """The recipients an event speaks of."""
    detail, entries = DETAILS[event["eventType"]]
    found = event[detail][entries]
    return [each if isinstance(each, str) else each["emailAddress"] for each in found]


class TestScript:
    def test_every_fate_is_tried_here(self) -> None:
        assert set(FATES) == {*SCRIPTED, "silent"}

    @pytest.mark.parametrize("word", SCRIPTED)
    def test_the_recipient_decides(self, ses: Any, receiver: Receiver, word: str) -> None:
        to = f"{word}-1@example.com"
        send(ses, to)
        until(lambda: len(receiver.received) >= len(SCRIPTED[word]) + 1)
        sent, *events = [each.event for each in receiver.received]
        assert told(sent) == ("Send",)
        assert [told(each) for each in events] == SCRIPTED[word]
        assert [named(each) for each in events] == [[to]] * len(events)

    def test_of_some_nothing_is_told(self, ses: Any, receiver: Receiver) -> None:
        for to in ("silent@example.com", "ann@example.com"):
            send(ses, to)
        assert receiver.wait_for(*DELIVERED)[0]["mail"]["destination"] == ["ann@example.com"]

    def test_each_recipient_has_its_own_fate(self, ses: Any, receiver: Receiver) -> None:
        send(ses, "bounce@example.com", "ann@example.com", "bob@example.com", "silent@example.com")
        sent, bounce, delivery = receiver.wait_for("Send", "Bounce", "Delivery")
        assert len(sent["mail"]["destination"]) == 4
        assert named(bounce) == ["bounce@example.com"]
        assert "<bounce@example.com>" in bounce["bounce"]["bouncedRecipients"][0]["diagnosticCode"]
        assert named(delivery) == ["ann@example.com", "bob@example.com"]

    def test_a_listed_address_bounces_for_that(self, ses: Any, receiver: Receiver) -> None:
        ses.put_suppressed_destination(EmailAddress="Ann@example.com", Reason="BOUNCE")
        send(ses, "ann@example.com")
        _, bounce = receiver.wait_for("Send", "Bounce")
        assert bounce["bounce"]["bounceSubType"] == "OnAccountSuppressionList"
