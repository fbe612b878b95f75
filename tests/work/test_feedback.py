"""Stored events become facts, suppressions and settled doubts, in any order and any number."""

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mailer import claims, database, feedback, suppressions
from mailer.claims import Claimed
from mailer.facts import EventState, Fact, FactKind, Notice
from mailer.feed import Channel
from mailer.feedback import Feedback
from mailer.outcome import Outcome
from mailer.states import RecipientState, Resolution, RowState
from mailer.tables import Attempt, Event, Outbox, Recipient, Suppression
from mailer.tables import Fact as FactRow
from mailer.wiring import readers
from tests import builders
from tests.ses_payloads import incoming, payload

pytestmark = pytest.mark.usefixtures("outbox")

TWO = ["ann@example.com", "ben@example.com"]


def hear(*messages: Any) -> None:
    """Store events and interpret them."""
    feedback.store([incoming(each) for each in messages])
    Feedback(readers()).interpret()


def facts(outbox_id: int | None) -> set[tuple[str, str]]:
    """The facts of a row, by address and kind."""
    query = FactRow.select().where(
        FactRow.outbox.is_null() if outbox_id is None else FactRow.outbox == outbox_id
    )
    return {(each.address_key, each.kind) for each in query}


def suppressed() -> set[str]:
    """The addresses that get no mail."""
    return {each.address_key for each in suppressions.page(limit=1000)}


def row(claimed: Claimed) -> Outbox:
    """The row as it stands."""
    return builders.row_of(claimed.outbox_id)


attempt = builders.attempt_of


def event_states() -> list[str]:
    """The states of all events, in order."""
    return [each.state for each in Event.select().order_by(Event.id)]


def sent(**changes: Any) -> Claimed:
    """A message that was accepted under the provider id `id-1`."""
    claimed = builders.started(**changes)
    builders.finish(claimed, Outcome.ACCEPTED)
    return claimed


def in_doubt(**changes: Any) -> Claimed:
    """A message whose answer was lost."""
    claimed = builders.started(**changes)
    builders.finish(claimed, Outcome.AMBIGUOUS)
    return claimed


def test_a_delivery_is_a_fact_of_its_recipient() -> None:
    claimed = sent()
    hear(payload("Delivery", provider_id="id-1"))
    assert facts(claimed.outbox_id) == {("ann@example.com", "delivered")}
    assert event_states() == ["processed"]
    assert FactRow.select().join(Recipient).count() == 1


def test_a_bounce_for_one_of_two_touches_and_suppresses_that_one_alone() -> None:
    claimed = sent(to=TWO)
    hear(payload("Bounce", TWO, provider_id="id-1", named=["ben@example.com"]))
    assert facts(claimed.outbox_id) == {("ben@example.com", "bounced_permanent")}
    assert suppressed() == {"ben@example.com"}
    assert row(claimed).state == RowState.SUBMITTED


@pytest.mark.parametrize("kind", ["Send", "Delivery", "Bounce", "DeliveryDelay", "Open", "Reject"])
def test_any_event_with_the_tag_proves_an_attempt_in_doubt(kind: str) -> None:
    claimed = in_doubt()
    hear(payload(kind, provider_id="ses-7", tag=claimed.request_tag))
    settled = attempt(claimed)
    assert (settled.outcome, settled.resolution) == (Outcome.AMBIGUOUS, Resolution.ACCEPTED)
    assert settled.provider_id == "ses-7"
    assert settled.resolved_by == f"event {kind}"
    assert row(claimed).state == RowState.SUBMITTED


def test_a_delay_of_one_proves_the_attempt_for_all_whom_it_left_in_doubt() -> None:
    claimed = in_doubt(to=TWO)
    late = payload("DeliveryDelay", [], tag=claimed.request_tag, named=["ben@example.com"])
    hear(late)
    states = {each.state for each in Recipient.select()}
    assert states == {RecipientState.ACCEPTED}


def test_an_unknown_type_proves_nothing() -> None:
    claimed = in_doubt()
    hear(payload("Teleported", tag=claimed.request_tag))
    assert row(claimed).state == RowState.AMBIGUOUS
    assert event_states() == ["unknown_type"]


def test_an_event_overtakes_the_worker() -> None:
    claimed = builders.started()
    hear(payload("Delivery", provider_id="ses-7", tag=claimed.request_tag))
    assert row(claimed).state == RowState.SUBMITTED
    written = builders.finish(claimed, Outcome.ACCEPTED)
    assert written.late
    done = attempt(claimed)
    assert (done.outcome, done.provider_id, done.duplicate) == ("accepted", "ses-7", False)


def test_a_lost_answer_after_the_event_changes_nothing() -> None:
    claimed = builders.started()
    hear(payload("Delivery", tag=claimed.request_tag))
    builders.finish(claimed, Outcome.AMBIGUOUS)
    assert row(claimed).state == RowState.SUBMITTED
    assert attempt(claimed).outcome == Outcome.ACCEPTED


def test_an_event_of_one_recipient_waits_with_the_call_that_is_open() -> None:
    claimed = builders.started(to=TWO)
    hear(payload("Delivery", ["ann@example.com"], tag=claimed.request_tag))
    assert row(claimed).state == RowState.SENDING
    builders.finish(claimed, Outcome.AMBIGUOUS)
    states = [each.state for each in Recipient.select().order_by(Recipient.id)]
    assert states == [RecipientState.ACCEPTED, RecipientState.AMBIGUOUS]


def test_an_event_with_the_id_alone_waits_for_the_result() -> None:
    claimed = builders.started()
    hear(payload("Bounce", provider_id="id-1"))
    assert event_states() == ["unmatched"]
    assert facts(None) == {("ann@example.com", "bounced_permanent")}
    assert suppressed() == {"ann@example.com"}
    builders.finish(claimed, Outcome.ACCEPTED)
    assert event_states() == ["received"]
    Feedback(readers()).interpret()
    assert event_states() == ["processed"]
    assert facts(None) == set()
    assert facts(claimed.outbox_id) == {("ann@example.com", "bounced_permanent")}
    linked = FactRow.get()
    assert linked.attempt == attempt(claimed)
    assert linked.recipient == Recipient.get()


def test_a_proof_by_tag_wakes_the_events_that_know_the_id_alone() -> None:
    claimed = in_doubt()
    hear(payload("Delivery", provider_id="ses-7"))
    assert event_states() == ["unmatched"]
    hear(payload("Send", provider_id="ses-7", tag=claimed.request_tag))
    assert event_states() == ["processed", "processed"]
    assert facts(claimed.outbox_id) == {("ann@example.com", "delivered"), ("", "accepted")}


def test_the_sweep_finds_what_was_written_at_the_same_moment() -> None:
    claimed = builders.started()
    hear(payload("Delivery", provider_id="id-1"))
    builders.finish(claimed, Outcome.ACCEPTED)
    Event.update(state=EventState.UNMATCHED).execute()
    assert Feedback(readers()).rematch() == 1
    assert event_states() == ["processed"]
    assert Feedback(readers()).rematch() == 0


def test_an_older_unmatched_event_is_left_to_a_full_rematch() -> None:
    hear(payload("Delivery", provider_id="id-1"))
    Event.update(received_at=database.after(-7200)).execute()
    claimed = builders.started()
    builders.finish(claimed, Outcome.ACCEPTED)
    Event.update(state=EventState.UNMATCHED).execute()
    assert Feedback(readers()).rematch() == 0
    assert Feedback(readers()).rematch(seconds=None) == 1
    assert facts(claimed.outbox_id) == {("ann@example.com", "delivered")}


def test_the_id_goes_before_the_tag_and_a_conflict_is_noted() -> None:
    other = in_doubt(key="other")
    claimed = sent(key="one")
    hear(payload("Delivery", provider_id="id-1", tag=other.request_tag))
    event = Event.get()
    assert (event.matched_by, event.attempt) == ("provider_id", attempt(claimed))
    assert event.conflict
    assert row(other).state == RowState.AMBIGUOUS


def test_a_second_id_for_one_attempt_is_a_message_taken_twice() -> None:
    claimed = sent()
    hear(payload("Send", provider_id="another", tag=claimed.request_tag))
    assert attempt(claimed).duplicate
    assert Event.get().conflict
    assert attempt(claimed).provider_id == "id-1"


def test_a_late_proof_after_a_resend_marks_the_duplicate() -> None:
    first = in_doubt(on_ambiguous="resend")
    builders.wait_out_the_doubt()
    second = builders.claim_one()
    assert claims.begin([second]) == {second.attempt_id}
    builders.finish(second, Outcome.ACCEPTED)
    assert row(first).state == RowState.SUBMITTED
    assert not attempt(first).duplicate
    hear(payload("Delivery", provider_id="ses-7", tag=first.request_tag))
    proven = attempt(first)
    assert (proven.resolution, proven.duplicate) == (Resolution.ACCEPTED, True)
    assert not attempt(second).duplicate
    hear(payload("Delivery", provider_id="id-1"))
    assert not attempt(second).duplicate


def test_a_proof_while_the_second_send_is_open_marks_that_one() -> None:
    first = in_doubt(on_ambiguous="resend")
    builders.wait_out_the_doubt()
    second = builders.claim_one()
    assert claims.begin([second]) == {second.attempt_id}
    hear(payload("Delivery", provider_id="ses-7", tag=first.request_tag))
    builders.finish(second, Outcome.ACCEPTED)
    assert row(first).state == RowState.SUBMITTED
    assert attempt(second).duplicate


def test_a_proof_takes_back_a_second_send_that_has_not_begun() -> None:
    first = in_doubt(on_ambiguous="resend")
    builders.wait_out_the_doubt()
    second = builders.claim_one()
    hear(payload("Delivery", tag=first.request_tag))
    assert row(first).state == RowState.SUBMITTED
    assert attempt(second).state == "released"
    assert claims.begin([second]) == set()


def test_a_proof_corrects_an_operator_who_was_wrong() -> None:
    claimed = in_doubt()
    builders.take_for_unsent(claimed.outbox_id)
    assert row(claimed).state == RowState.PENDING
    hear(payload("Delivery", tag=claimed.request_tag))
    assert row(claimed).state == RowState.SUBMITTED
    assert attempt(claimed).resolution == Resolution.ACCEPTED
    assert "before: not_accepted by operator" in (attempt(claimed).evidence or "")


def test_a_stranger_named_in_a_bounce_is_shown_and_not_suppressed() -> None:
    claimed = sent()
    hear(payload("Bounce", provider_id="id-1", named=["stranger@example.net"]))
    assert facts(claimed.outbox_id) == {("stranger@example.net", "bounced_permanent")}
    assert FactRow.get().unlisted
    assert suppressed() == set()


def test_what_a_stranger_may_have_written_neither_settles_nor_suppresses() -> None:
    claimed = in_doubt()

    def untrusted(body: bytes, published_at: Any) -> Notice:
        said = readers()[Channel.HTTPS](body, published_at)
        return Notice(
            **{name: getattr(said, name) for name in Notice.__slots__} | {"trusted": False}
        )

    feedback.store([incoming(payload("Bounce", tag=claimed.request_tag))])
    Feedback({Channel.HTTPS: untrusted}).interpret()
    assert row(claimed).state == RowState.AMBIGUOUS
    assert suppressed() == set()
    assert facts(claimed.outbox_id) == {("ann@example.com", "bounced_permanent")}
    assert not FactRow.get().trusted


def test_the_same_event_stored_twice_is_one() -> None:
    sent()
    event = incoming(payload("Delivery", provider_id="id-1"))
    assert feedback.store([event, event]) == 1
    assert feedback.store([event]) == 0


def test_one_event_that_cannot_be_written_does_not_hold_up_the_others() -> None:
    claimed = sent()
    honest = readers()[Channel.HTTPS]

    def reader(body: bytes, published_at: Any) -> Notice:
        notice = honest(body, published_at)
        if b"poison" not in body:
            return notice
        bad = Fact(FactKind.DELIVERED, "a\x00b", notice.facts[0].occurred_at, "x")
        return Notice("Delivery", EventState.PROCESSED, provider_id="poison", facts=(bad,))

    feedback.store([incoming(payload("Delivery", provider_id=each)) for each in ("poison", "id-1")])
    Feedback({Channel.HTTPS: reader}).interpret()
    assert facts(claimed.outbox_id) == {("ann@example.com", "delivered")}
    if database.is_postgresql():
        assert event_states() == ["unparsed", "processed"]


SEQUENCE = (
    payload("Send", TWO, provider_id="ses-7", tag="TAG"),
    payload("DeliveryDelay", TWO, provider_id="ses-7", tag="TAG", named=[TWO[0]]),
    payload("Delivery", TWO, provider_id="ses-7", tag="TAG", named=[TWO[0]]),
    payload("Bounce", TWO, provider_id="ses-7", tag="TAG", named=[TWO[1]]),
    payload("Complaint", TWO, provider_id="ses-7", tag="TAG", named=[TWO[0]]),
    payload("Bounce", TWO, provider_id="ses-7", named=[TWO[1]], bounce=("Permanent", "Suppressed")),
)


def _picture(claimed: Claimed) -> Any:
    listed = Suppression.select(
        Suppression.address_key, Suppression.reason, Suppression.expires_at, Suppression.occurred_at
    )
    return (
        facts(claimed.outbox_id),
        {each.address: each.state for each in Recipient.select()},
        row(claimed).state,
        attempt(claimed).resolution,
        attempt(claimed).provider_id,
        sorted(str(each) for each in listed.tuples()),
    )


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(data=st.data())
def test_any_order_and_any_repetition_come_to_the_same(data: st.DataObject) -> None:
    """The finish may fall anywhere between the events."""
    order = data.draw(st.permutations(range(len(SEQUENCE))))
    again = data.draw(st.lists(st.sampled_from(range(len(SEQUENCE))), max_size=3))
    finish_at = data.draw(st.integers(0, len(order)))
    batched = data.draw(st.booleans())
    for table in (FactRow, Event, Suppression, Attempt, Recipient, Outbox):
        table.delete().execute()
    claimed = builders.started(key="key", to=TWO)
    told = [
        {**SEQUENCE[each], "mail": _tagged(SEQUENCE[each]["mail"], claimed.request_tag)}
        for each in [*order, *again]
    ]
    early, late = told[:finish_at], told[finish_at:]
    _tell(early, batched=batched)
    builders.finish(claimed, Outcome.AMBIGUOUS)
    _tell(late, batched=batched)
    Feedback(readers()).rematch()
    expected_facts = {
        ("", "accepted"),
        (TWO[0], "delayed"),
        (TWO[0], "delivered"),
        (TWO[0], "complained"),
        (TWO[1], "bounced_permanent"),
        (TWO[1], "suppressed_by_provider"),
    }
    got = _picture(claimed)
    assert got[0] == expected_facts
    assert got[1:3] == (dict.fromkeys(TWO, "accepted"), "submitted")
    assert got[4] == "ses-7"
    barred = Suppression.select().order_by(Suppression.address_key)
    assert [(each.address_key, each.reason, each.expires_at) for each in barred] == [
        (TWO[0], "complaint", None),
        (TWO[1], "bounce", None),
    ]
    assert FactRow.select().count() == len(expected_facts)


def _tell(messages: list[Any], *, batched: bool) -> None:
    groups = [messages] if batched else [[each] for each in messages]
    for group in groups:
        if group:
            hear(*group)


def _tagged(mail: dict[str, Any], tag: str) -> dict[str, Any]:
    return {**mail, "tags": {"mailer-attempt": [tag]} if mail["tags"] else {}}


def test_all_orders_of_three_give_one_picture() -> None:
    pictures = []
    for order in itertools.permutations(SEQUENCE[2:5]):
        for table in (FactRow, Event, Suppression, Attempt, Recipient, Outbox):
            table.delete().execute()
        claimed = sent(to=TWO)
        hear(*({**each, "mail": {**each["mail"], "messageId": "id-1"}} for each in order))
        pictures.append(_picture(claimed))
    assert all(each == pictures[0] for each in pictures)


def test_a_call_during_another_has_it_look_once_more() -> None:
    """Hints come one a commit: they must not read the same events side by side."""
    first, second = sent(key="first"), payload("Delivery", provider_id="id-1")
    honest = readers()[Channel.HTTPS]
    inner: list[int] = []

    def reader(body: bytes, published_at: Any) -> Notice:
        if not inner:
            inner.append(0)
            feedback.store([incoming(payload("Send", provider_id="id-1"))])
            inner[0] = both.interpret()
        return honest(body, published_at)

    both = Feedback({Channel.HTTPS: reader})
    feedback.store([incoming(second)])
    assert (both.interpret(), inner) == (2, [0])
    assert facts(first.outbox_id) == {("ann@example.com", "delivered"), ("", "accepted")}
