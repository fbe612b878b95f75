"""SES's events from anybody: nothing raises, what is kept can be stored, order means nothing."""

import copy
import json
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailer.facts import (
    ABOUT_MESSAGES,
    REASON_RANK,
    EventState,
    FactKind,
    Notice,
    SuppressionReason,
)
from providers.ses_events import SesEvents
from tests.providers.ses_payloads import (
    ANA,
    BEN,
    DETAILS,
    PUBLISHED,
    Payload,
    a_mail,
    a_notification,
    an_event,
    enveloped,
    only,
    read,
    read_text,
)

NUL, SURROGATE = "\x00", "\ud800"

UNREADABLE: dict[str, object] = {
    "plain text": "hello operator",
    "nothing": "",
    "null": "null",
    "number": "42",
    "list": "[]",
    "list of events": json.dumps([an_event("Bounce")]),
    "text of an event": json.dumps(json.dumps(an_event("Bounce"))),
    "deep": "[" * 20_000 + "]" * 20_000,
    "deep inside": '{"eventType":"Send","mail":' + '{"a":' * 20_000 + "1" + "}" * 20_001,
    "long integer": '{"eventType":"Send","mail":{"n":' + "9" * 5_000 + "}}",
    "not a number": '{"eventType":"Send","mail":{"n":NaN}}',
    "infinite": '{"eventType":"Send","mail":{"n":-Infinity}}',
    "cut short": json.dumps(an_event("Bounce"))[:-1],
    "two": json.dumps(an_event("Bounce")) * 2,
    "byte order mark": "\ufeff" + json.dumps(an_event("Bounce")),
    "no mail": '{"eventType":"Send","send":{}}',
    "mail as list": '{"eventType":"Send","mail":[]}',
    "mail as text": '{"eventType":"Send","mail":"x"}',
    "no text": None,
    "an object": an_event("Bounce"),
}


@pytest.mark.parametrize("message", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_unreadable(message: object) -> None:
    notice = read_text(message)
    assert (notice.state, notice.occurred_at) == (EventState.UNPARSED, PUBLISHED)
    assert (notice.facts, notice.proves_acceptance) == ((), False)


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", "{}".encode("utf-16"), b"{", b"[" * 100_000, b'{"Type":["x"]}', b"7"]
)
def test_a_body_that_is_no_envelope(body: bytes) -> None:
    assert SesEvents()(body, None).state is EventState.UNPARSED


@pytest.mark.parametrize("name", sorted(DETAILS))
@pytest.mark.parametrize("details", [None, [], "x", 5, {}])
def test_a_known_type_without_its_object(name: str, details: object) -> None:
    event = an_event(name) | {DETAILS[name][0]: details}
    notice = read(event)
    assert (notice.state, notice.proves_acceptance) == (EventState.PROCESSED, True)
    assert {fact.kind for fact in notice.facts} <= ABOUT_MESSAGES
    assert all(fact.suppress is None for fact in notice.facts)


@pytest.mark.parametrize("listed", [None, {}, 5, [], [None, [], {}, {"emailAddress": None}, "x"]])
def test_a_list_without_an_address(listed: object) -> None:
    notice = read(an_event("Bounce", bouncedRecipients=listed))
    assert (notice.state, notice.facts) == (EventState.PROCESSED, ())


def test_broken_entries_cost_the_good_ones_nothing() -> None:
    entries = [{"status": "5.1.1"}, {"emailAddress": 5}, 7, ANA, {"emailAddress": ANA}, BEN]
    notice = read(an_event("Bounce", bouncedRecipients=entries))
    assert [fact.address for fact in notice.facts] == [ANA, BEN]


def test_a_text_where_a_list_belongs_is_its_one_entry() -> None:
    notice = read(an_event("Delivery", mail=a_mail(destination=ANA), recipients=ANA))
    assert (only(notice).address, notice.destinations) == (ANA, (ANA,))


def test_texts_are_cleaned_and_bounded() -> None:
    entry = {
        "emailAddress": ANA,
        "status": f"5.1.1{NUL}" + "x" * 500,
        "diagnosticCode": f"550{NUL}{SURROGATE}\r\nbad name " + "x" * 20_000,
    }
    fact = only(read(an_event("Bounce", bouncedRecipients=[entry], bounceSubType="é" * 500)))
    assert fact.text.startswith("550 bad name x")
    assert_storable(read(an_event("Bounce", bouncedRecipients=[entry], bounceSubType="é" * 500)))
    assert_storable(read({"eventType": f"{NUL}{SURROGATE}" + "x" * 500, "mail": a_mail()}))


def assert_storable(notice: Notice) -> None:
    """No column refuses what a notice holds."""
    assert len(notice.kind) <= 64
    kept = [notice.kind, *notice.destinations, notice.provider_id, notice.request_tag]
    kept += [notice.header_tag, notice.message_id]
    for fact in notice.facts:
        assert len(fact.rule) <= 80
        assert len(fact.code or "") <= 64
        assert len(fact.text) <= 300
        assert len(fact.occurrence) <= 300
        assert (fact.address is None) == (fact.kind in ABOUT_MESSAGES)
        assert fact.occurred_at.utcoffset() is not None
        kept += [fact.rule, fact.code, fact.text, fact.occurrence, fact.address]
    assert all(NUL not in text and text.encode() is not None for text in kept if text)
    assert all(len(text.encode()) <= 1024 for text in kept if text)


leaves: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=12)
    | st.sampled_from([ANA, "<a@b>", "not-spam", "4.0.0", "Permanent", "2026-03-10T11:59:10Z"])
)
keys = st.text(max_size=4) | st.sampled_from(
    ["mail", "eventType", "notificationType", "bounce", "messageId", "headers", "name", "value"]
)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)
)


@settings(max_examples=60)
@given(payload=anything, published=st.none() | st.datetimes())
def test_any_json_is_read(payload: object, published: Any) -> None:
    assert_storable(read(payload, published))


@given(body=st.binary(max_size=60), message=st.binary(max_size=60))
def test_any_bytes_are_read(body: bytes, message: bytes) -> None:
    assert_storable(SesEvents()(body, PUBLISHED))
    assert_storable(read_text(message.decode("latin-1")))


@settings(max_examples=200)
@given(name=st.sampled_from(sorted(DETAILS)), seed=st.integers(0, 2**32), value=anything)
def test_any_change_to_a_real_payload_is_read(name: str, seed: int, value: object) -> None:
    chosen = random.Random(seed)
    event = copy.deepcopy(an_event(name))
    for _ in range(chosen.randint(1, 3)):
        change(event, value, chosen)
    assert_storable(read(event))


def change(event: Payload, value: object, chosen: random.Random) -> None:
    """Put a value where another one was, at any depth, or take that one out."""
    places: list[tuple[Any, Any]] = []
    gather(event, places)
    if places:
        holder, key = chosen.choice(places)
        if chosen.random() < 0.2:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(value)


def gather(value: object, places: list[tuple[Any, Any]]) -> None:
    """List every place in a value."""
    if isinstance(value, dict):
        inner: Iterable[tuple[Any, Any]] = value.items()
    else:
        inner = enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        places.append((value, key))
        gather(below, places)


STORY = [
    an_event("Send"),
    an_event("Delivery"),
    an_event("Delivery", recipients=[BEN], timestamp="2026-03-10T11:59:06Z"),
    an_event("DeliveryDelay"),
    an_event("DeliveryDelay", timestamp="2026-03-10T11:59:45.000Z"),
    an_event("Bounce"),
    a_notification(an_event("Bounce")),
    an_event("Bounce", feedbackId="another", bounceType="Transient"),
    an_event("Bounce", feedbackId="third", bounceSubType="Suppressed"),
    an_event("Complaint", complainedRecipients=[{"emailAddress": ANA}, {"emailAddress": BEN}]),
    a_notification(an_event("Complaint")),
    an_event("Complaint", feedbackId="fourth", complaintFeedbackType="not-spam"),
    an_event("Open"),
    an_event("Click"),
    an_event("Click", link="https://shop.example/other"),
]

Identity = tuple[str, FactKind, str | None, str]


def ending(events: Iterable[Payload]) -> tuple[set[Identity], dict[str, SuppressionReason]]:
    """The facts after a sequence of events, and the reason shown for each suppressed address."""
    facts: set[Identity] = set()
    suppressed: dict[str, SuppressionReason] = {}
    for event in events:
        notice = read(event)
        for fact in notice.facts:
            facts.add((notice.reference, fact.kind, fact.address, fact.occurrence))
            if fact.suppress and fact.address:
                shown = suppressed.get(fact.address, SuppressionReason.PROVIDER)
                higher = max(shown, fact.suppress.reason, key=REASON_RANK.__getitem__)
                suppressed[fact.address] = higher
    return facts, suppressed


@given(order=st.permutations(STORY), again=st.lists(st.sampled_from(STORY), max_size=6))
def test_order_and_repetition_change_nothing(order: list[Payload], again: list[Payload]) -> None:
    assert ending([*again, *order, *again]) == ending(STORY)


def test_the_same_bounce_in_both_dialects_is_one_fact() -> None:
    facts, suppressed = ending(STORY)
    bounced = [kind for _, kind, _, _ in facts if kind is FactKind.BOUNCED_PERMANENT]
    assert len(bounced) == 1
    assert len(facts) == 14
    assert suppressed == {ANA: SuppressionReason.COMPLAINT, BEN: SuppressionReason.COMPLAINT}


def test_a_notice_keeps_no_text_of_the_envelope() -> None:
    """Headers and sources of a message hold more than an event has to tell."""
    body = enveloped(json.dumps(an_event("Send")))
    assert "Example Shop" not in repr(SesEvents()(body, PUBLISHED))
