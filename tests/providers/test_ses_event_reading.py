"""What is read out of an SES event: moments, ids, tags, header fields and addresses."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mailer.facts import EventState
from providers.ses_event_json import EPOCH
from providers.ses_events import SesEvents
from tests.providers.ses_payloads import (
    ANA,
    BEN,
    PUBLISHED,
    SES_ID,
    TAG,
    a_mail,
    an_event,
    enveloped,
    only,
    read,
)

TIMES: list[tuple[object, datetime]] = [
    ("2026-03-10T11:59:10Z", datetime(2026, 3, 10, 11, 59, 10, tzinfo=UTC)),
    ("2026-03-10T11:59:10.5Z", datetime(2026, 3, 10, 11, 59, 10, 500000, tzinfo=UTC)),
    ("2026-03-10T11:59:10.1234567Z", datetime(2026, 3, 10, 11, 59, 10, 123456, tzinfo=UTC)),
    ("2026-03-10T06:59:10.000-05:00", datetime(2026, 3, 10, 11, 59, 10, tzinfo=UTC)),
    ("2018-10-08T14:05:45 +0000", datetime(2018, 10, 8, 14, 5, 45, tzinfo=UTC)),
    ("2018-10-08T14:05:45.25 -0100", datetime(2018, 10, 8, 15, 5, 45, 250000, tzinfo=UTC)),
    (" 2026-03-10T11:59:10 ", datetime(2026, 3, 10, 11, 59, 10, tzinfo=UTC)),
    ("2026-03-10T12:00:01Z", PUBLISHED),
    ("2999-01-01T00:00:00Z", PUBLISHED),
    ("1969-12-31T23:59:59Z", PUBLISHED),
    ("0001-01-01T00:00:00+14:00", PUBLISHED),
    ("9999-12-31T23:59:59-14:00", PUBLISHED),
    ("yesterday\x00", PUBLISHED),
    ("2026-03-10T11:59:10Z" + " " * 100, PUBLISHED),
    (1773143950, PUBLISHED),
    (None, PUBLISHED),
]


@pytest.mark.parametrize(("text", "moment"), TIMES)
def test_time(text: object, moment: datetime) -> None:
    notice = read(an_event("Bounce", timestamp=text))
    assert only(notice).occurred_at == notice.occurred_at == moment


def test_what_has_no_time_of_its_own_is_dated_by_the_message() -> None:
    sent = datetime(2026, 3, 10, 11, 59, tzinfo=UTC)
    for name in ("Send", "Reject", "Rendering Failure"):
        assert only(read(an_event(name))).occurred_at == sent


def test_without_a_publication_time_the_sending_stands_in_and_never_the_present() -> None:
    unreadable = an_event("Bounce", timestamp="?")
    assert only(read(unreadable, None)).occurred_at == datetime(2026, 3, 10, 11, 59, tzinfo=UTC)
    assert only(read(unreadable | {"mail": a_mail(timestamp=1)}, None)).occurred_at == EPOCH
    assert read({"eventType": "Novel", "mail": {}}, None).occurred_at == EPOCH


def test_a_publication_time_without_offset_is_utc() -> None:
    naive = PUBLISHED.replace(tzinfo=None)
    late = an_event("Bounce", timestamp="2026-03-10T12:30:00Z")
    assert only(read(late, naive)).occurred_at == PUBLISHED


def test_a_feedback_id_tells_bounces_apart_and_else_their_time() -> None:
    assert only(read(an_event("Bounce"))).occurrence == "0102019cd0000041-feedback-000000"
    for nothing in (None, "", " ", 7, "a\x00b", "x" * 256):
        fact = only(read(an_event("Bounce", feedbackId=nothing)))
        assert fact.occurrence == "2026-03-10T11:59:10.500000+00:00"


def test_one_moment_written_in_two_ways_is_one_occurrence() -> None:
    spellings = ["2026-03-10T11:59:05.25Z", "2026-03-10T12:59:05.2500000+01:00"]
    first, second = (only(read(an_event("Delivery", timestamp=text))) for text in spellings)
    assert first == second


def test_publication_does_not_change_an_occurrence() -> None:
    for text in ("2026-03-10T12:30:00Z", "soon", None):
        event = an_event("Delivery", timestamp=text)
        again = read(event, PUBLISHED + timedelta(minutes=1))
        assert only(read(event)).occurrence == only(again).occurrence


def test_clicks_are_told_apart_by_time_and_link_and_keep_no_link() -> None:
    links = ["https://shop.example/a?token=s3cret", "https://shop.example/b\ud800", None, 5]
    notices = [read(an_event("Click", link=link)) for link in links]
    assert len({only(notice).occurrence for notice in notices}) == 3
    assert not any("s3cret" in repr(notice) or "shop" in repr(notice) for notice in notices)
    opened = [read(an_event("Open", timestamp=f"2026-03-10T11:59:2{n}Z")) for n in range(2)]
    assert len({only(notice).occurrence for notice in opened}) == 2


def identity(**changes: Any) -> tuple[str | None, ...]:
    notice = read(an_event("Send", mail=a_mail(**changes)))
    return notice.provider_id, notice.request_tag, notice.header_tag, notice.message_id


def test_ids() -> None:
    assert identity() == (SES_ID, TAG, TAG, "<one@mail.example.com>")


@pytest.mark.parametrize("value", ["7", "", "a.b", f"2.{TAG} ", "t" * 15, "2." + "é" * 20])
def test_a_header_that_may_be_another_programs_names_no_attempt(value: str) -> None:
    headers = [{"name": "X-Outbox-Attempt", "value": value}]
    expected = TAG if TAG in value else None
    assert identity(headers=headers)[2] == expected


@pytest.mark.parametrize(
    "value", [None, "", "  ", 7, [SES_ID], "a\nb", "a\x00", "\ud800", "x" * 256]
)
def test_a_message_id_that_is_none_proves_nothing(value: object) -> None:
    notice = read(an_event("Send", mail=a_mail(messageId=value)))
    assert (notice.provider_id, notice.request_tag) == (None, TAG)
    assert (notice.state, notice.proves_acceptance) == (EventState.PROCESSED, False)


@pytest.mark.parametrize(
    ("tags", "tag"),
    [
        ({"mailer-attempt": [TAG]}, TAG),
        ({"mailer-attempt": TAG}, TAG),
        ({"mailer-attempt": [None, "no tag", TAG, "other"]}, TAG),
        ({"mailer-attempt": ["x" * 256]}, "x" * 256),
        ({"mailer-attempt": ["x" * 257]}, None),
        ({"mailer-attempt": ["été"]}, None),
        ({"mailer-attempt": [TAG + "\n"]}, None),
        ({"mailer-attempt": []}, None),
        ({"mailer-attempt": {"value": TAG}}, None),
        ({"Mailer-Attempt": [TAG]}, None),
        ([{"name": "mailer-attempt", "value": TAG}], None),
        ("mailer-attempt", None),
        (None, None),
    ],
)
def test_tag(tags: object, tag: str | None) -> None:
    assert identity(tags=tags)[1] == tag


def test_the_tag_has_the_name_it_was_given() -> None:
    event = an_event("Send", mail=a_mail(tags={"outbox_attempt": ["other"]}))
    body = enveloped(json.dumps(event))
    assert SesEvents("outbox_attempt")(body, PUBLISHED).request_tag == "other"


def test_headers_are_found_in_any_case_among_broken_ones() -> None:
    headers = [
        {"name": None},
        3,
        {"value": "x"},
        {"name": "message-id", "value": 5},
        {"name": "MESSAGE-ID", "value": " <first@x.example> "},
        {"name": "Message-ID", "value": "<second@x.example>"},
        {"name": "x-outbox-attempt", "value": "not a tag"},
    ]
    assert identity(headers=headers)[2:] == (None, "<first@x.example>")
    assert identity(headers=None)[2:] == (None, None)


ADDRESSES: list[tuple[object, str | None]] = [
    ("IVY.Case@Example.ORG", "ivy.case@example.org"),
    (" <ana@example.org> ", ANA),
    ('"Case, Ivy" <Ivy@Example.org>', "ivy@example.org"),
    ("=?UTF-8?Q?Ivy?= <ivy@example.org>", "ivy@example.org"),
    ("kai@bücher.example.org", "kai@xn--bcher-kva.example.org"),
    ("kai@XN--BCHER-KVA.example.org", "kai@xn--bcher-kva.example.org"),
    ("lena+Orders@example.com", "lena+orders@example.com"),
    ("jürgen@example.org", "jürgen@example.org"),
    ("ana@example.org, ben@example.net", None),
    ("ana", None),
    ("", None),
    ("ana@", None),
    ("ana\x00@example.org", None),
    ("ana\ud800@example.org", None),
    ("a" * 250 + "@example.org", None),
    ("a" * 2000 + "@é.example", None),
    (5, None),
    (None, None),
]


@pytest.mark.parametrize(("text", "key"), ADDRESSES)
def test_address(text: object, key: str | None) -> None:
    notice = read(
        an_event("Bounce", bouncedRecipients=[{"emailAddress": text}, {"emailAddress": BEN}])
    )
    assert [fact.address for fact in notice.facts] == [*([key] if key else []), BEN]
    listed = read(an_event("Send", mail=a_mail(destination=[text, BEN, BEN])))
    assert listed.destinations == ((key, BEN) if key else (BEN,))
