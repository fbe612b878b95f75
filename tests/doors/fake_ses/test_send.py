"""The fake SES as boto3 meets it, over a socket: what it takes, and every fault of its script."""

import base64
import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from mailer.fake_ses import FakeSes
from mailer.fake_ses.faults import SCRIPT
from mailer.prove.kit.waiting import until
from tests.doors.fake_ses.client import RAW, client_of, outbox_tag, refused, send

TAGS = [
    {"Name": "mailer-outbox", "Value": "17"},
    {"Name": "mailer-attempt", "Value": "tag_17-1"},
]
IMPATIENT_SECONDS = 0.2


@pytest.fixture(scope="module")
def impatient(server: FakeSes) -> Iterator[Any]:
    with client_of(server.url, read_timeout=IMPATIENT_SECONDS) as client:
        yield client


class TestSendEmail:
    def test_what_is_accepted_is_known_by_all_that_can_be_found_again(
        self, fake: FakeSes, ses: Any
    ) -> None:
        before = datetime.now(UTC)
        message_id = send(ses, "Ann <ann@example.com>", EmailTags=TAGS, ConfigurationSetName="tx")
        (entry,) = fake.accepted()
        assert (entry.message_id, entry.sender) == (message_id, "shop@example.com")
        assert entry.recipients == ("ann@example.com",)
        assert entry.tags == {"mailer-outbox": "17", "mailer-attempt": "tag_17-1"}
        assert (entry.outbox_id, entry.attempt) == ("17", "tag_17-1")
        assert (entry.size, entry.sha256) == (len(RAW), hashlib.sha256(RAW).hexdigest())
        assert entry.configuration_set == "tx"
        assert before <= entry.at <= datetime.now(UTC)
        assert "example.com" not in repr(entry)

    def test_ids_are_of_one_form_and_unlike(self, ses: Any) -> None:
        ids = {send(ses) for _ in range(20)}
        assert len(ids) == 20
        assert {len(each) for each in ids} == {len("0100018f-aaaa-bbbb-cccc-") + 36}

    def test_the_header_says_what_the_request_does_not(self, fake: FakeSes, ses: Any) -> None:
        header = b"X-Outbox-Id: 4\r\nX-Outbox-Attempt: t4\r\nCc: B <bob@example.com>\r\n"
        ses.send_email(Content={"Raw": {"Data": header + RAW}})
        (entry,) = fake.accepted()
        assert entry.sender == "shop@example.com"
        assert entry.recipients == ("ann@example.com", "bob@example.com")
        assert (entry.outbox_id, entry.attempt) == ("4", "t4")

    def test_simple_content_is_taken_too(self, fake: FakeSes, ses: Any) -> None:
        body = {"Text": {"Data": "Grüße"}, "Html": {"Data": "<p>Hi"}}
        ses.send_email(
            FromEmailAddress="shop@example.com",
            Destination={"CcAddresses": ["ann@example.com"], "BccAddresses": ["b@example.com"]},
            Content={"Simple": {"Subject": {"Data": "Hi"}, "Body": body}},
        )
        (entry,) = fake.accepted()
        assert entry.recipients == ("ann@example.com", "b@example.com")
        assert entry.size > 0

    @pytest.mark.parametrize(
        "asked",
        [
            {"Content": {}},
            {"Content": {"Raw": {"Data": RAW}, "Template": {"TemplateName": "x"}}},
            {"Content": {"Raw": {"Data": b""}}},
            {"Content": {"Raw": {"Data": b"\r\nno header"}}},
            {"Content": {"Simple": {"Subject": {"Data": "Hi"}, "Body": {}}}},
            {"EmailTags": [{"Name": "mailer.attempt", "Value": "1"}]},
            {"EmailTags": [{"Name": "mailer-attempt", "Value": "1" * 257}]},
            {"Destination": {"ToAddresses": ["ann"]}},
            {"Destination": {"ToAddresses": ["jürgen@example.com"]}},
            {"Destination": {"ToAddresses": ["ann@exam_ple.com"]}},
            {"Destination": {"ToAddresses": [f"a{n}@example.com" for n in range(51)]}},
        ],
    )
    def test_what_ses_does_not_take_is_a_bad_request(
        self, fake: FakeSes, ses: Any, asked: dict[str, Any]
    ) -> None:
        with refused("BadRequestException"):
            ses.send_email(**{"Content": {"Raw": {"Data": RAW}}, **asked})
        assert fake.accepted() == ()

    def test_fifty_recipients_pass(self, fake: FakeSes, ses: Any) -> None:
        send(ses, *[f"a{n}@example.com" for n in range(50)])
        assert len(fake.accepted()[0].recipients) == 50

    def test_a_template_is_not_there(self, ses: Any) -> None:
        with refused("NotFoundException", 404, "welcome-v9"):
            ses.send_email(Content={"Template": {"TemplateName": "welcome-v9"}})

    def test_forty_megabytes_after_base64_pass_and_more_do_not(
        self, fake: FakeSes, ses: Any
    ) -> None:
        most = RAW.ljust(30 * 1024 * 1024, b"x")
        assert len(base64.b64encode(most)) == 40 * 1024 * 1024
        send(ses, raw=most)
        for excess in (3, 2 * 1024 * 1024):
            with refused("RequestEntityTooLargeException", 413):
                send(ses, raw=most + b"x" * excess)
        assert [each.size for each in fake.accepted()] == [len(most)]


def post(fake: FakeSes, body: bytes) -> tuple[int, str]:
    """Post a body that boto3 would not make; return the status and the error's code."""
    request = urllib.request.Request(fake.url + "/v2/email/outbound-emails", body)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    with caught.value as answer:
        return answer.code, answer.headers["x-amzn-ErrorType"]


class TestOtherClients:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"[]",
            b"{",
            b'{"Content": {"Raw": {}}}',
            b'{"Content": {"Raw": {"Data": 1}}}',
            b'{"Content": {"Raw": {"Data": "*%s"}}}' % base64.b64encode(RAW),
            b'{"Content": {"Raw": {"Data": "RnJvb"}}}',
        ],
    )
    def test_what_cannot_be_read_is_a_bad_request(self, fake: FakeSes, body: bytes) -> None:
        assert post(fake, body) == (400, "BadRequestException")
        assert fake.accepted() == ()

    def test_a_body_beyond_any_message_is_not_kept(self, fake: FakeSes) -> None:
        message = {"Content": {"Raw": {"Data": base64.b64encode(RAW).decode()}}}
        body = json.dumps({**message, "TenantName": "x" * 42 * 1024 * 1024}).encode()
        assert post(fake, body) == (413, "RequestEntityTooLargeException")
        assert fake.accepted() == ()


REFUSALS = {
    "throttle": ("TooManyRequestsException", 429, "Maximum sending rate exceeded."),
    "quota": ("LimitExceededException", 400, "Daily message quota exceeded"),
    "reject": ("MessageRejected", 400, ""),
    "unverified": ("MessageRejected", 400, "region EU-WEST-1: unverified-1@example.com"),
    "suspended": ("AccountSuspendedException", 400, ""),
    "paused": ("SendingPausedException", 400, ""),
    "badrequest": ("BadRequestException", 400, ""),
    "expired": ("ExpiredTokenException", 403, ""),
    "servererror": ("InternalFailure", 500, ""),
}
TOLD_OTHERWISE = {"throttleonce", "servererrorlost", "close", "closebefore", "stall", "slow"}


class TestFaults:
    """By recipient: whether the message was taken is in the list, whatever the client hears."""

    def test_every_fault_is_tried_here(self) -> None:
        assert set(SCRIPT) == set(REFUSALS) | TOLD_OTHERWISE

    @pytest.mark.parametrize("word", REFUSALS)
    def test_a_refused_message_is_not_accepted(self, fake: FakeSes, ses: Any, word: str) -> None:
        for _ in range(2):
            with refused(*REFUSALS[word]):
                send(ses, "ann@example.com", f"{word}-1@example.com")
        assert fake.accepted() == ()
        assert fake.calls() == 2

    def test_a_word_counts_whole_and_first(self, fake: FakeSes, ses: Any) -> None:
        for local in ("throttler", "a-throttle", "throttle.d"):
            send(ses, f"{local}@example.com")
        with refused("TooManyRequestsException", 429):
            send(ses, "Throttle@example.com")
        assert len(fake.accepted()) == 3

    def test_throttled_once_is_once_a_message(self, fake: FakeSes, ses: Any) -> None:
        to = "throttleonce-1@example.com"
        for outbox_id in ("1", "2"):
            with refused("TooManyRequestsException", 429):
                send(ses, to, EmailTags=outbox_tag(outbox_id))
            send(ses, to, EmailTags=outbox_tag(outbox_id))
        assert [each.outbox_id for each in fake.accepted()] == ["1", "2"]

    def test_a_lost_server_error_was_accepted(self, fake: FakeSes, ses: Any) -> None:
        with refused("InternalFailure", 500):
            send(ses, "servererrorlost@example.com")
        assert len(fake.accepted()) == 1

    @pytest.mark.parametrize(("word", "taken"), [("close", 1), ("closebefore", 0)])
    def test_closing_is_no_answer(
        self, fake: FakeSes, ses: Any, caplog: pytest.LogCaptureFixture, word: str, taken: int
    ) -> None:
        with pytest.raises(ConnectionClosedError) as caught:
            send(ses, f"{word}@example.com")
        assert "RemoteDisconnected" in repr(caught.value.kwargs["error"])
        assert (len(fake.accepted()), fake.calls()) == (taken, 1)
        send(ses)
        assert [each for each in caplog.records if each.name.startswith("uvicorn")] == []

    @pytest.mark.parametrize("word", ["stall", "slow"])
    def test_waiting_in_vain_is_no_answer(self, fake: FakeSes, impatient: Any, word: str) -> None:
        fake.set_state(slow_seconds=3_600)
        with pytest.raises(ReadTimeoutError):
            send(impatient, f"{word}@example.com")
        until(lambda: len(fake.accepted()) == 1)

    def test_a_slow_answer_comes(self, fake: FakeSes, ses: Any) -> None:
        fake.set_state(slow_seconds=0.01)
        message_id = send(ses, "slow@example.com")
        assert [each.message_id for each in fake.accepted()] == [message_id]
