"""What claims and begins make of suppressed recipients, and who wins a race."""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
import pytest

from mailer import claims, database, outbox, suppressions
from mailer.claims import Claimed
from mailer.database import DatabaseError
from mailer.facts import SuppressionReason
from mailer.outcome import Outcome
from mailer.suppressions import Barred
from mailer.tables import Attempt, Recipient
from tests.builders import (
    attempt_of,
    claim,
    claim_one,
    enqueue,
    finish,
    freezer,
    insert_plainly,
    make_due,
    recipient_states,
    row_of,
    started,
)

ANN, BEN = "ann@example.com", "ben@example.com"
MARCH = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
LONG_AGO = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
R = SuppressionReason


def bar(address_key: str, reason: R = R.BOUNCE, *, until: dt.datetime | None = None) -> None:
    """Suppress one address."""
    assert suppressions.bar([Barred(address_key, reason, "event Bounce", MARCH, until)]) == 1


def let_go(address_key: str = ANN) -> None:
    """Release an address."""
    assert suppressions.release(address_key, by="ann", why="asked") is not None


def withhold(*claimed: Claimed) -> dict[int, str]:
    """Leave suppressed recipients out; return the states of rows that were changed."""
    return {row: state.value for row, state in suppressions.withhold(claimed)}


@pytest.mark.usefixtures("outbox")
class TestWithhold:
    """On both databases."""

    def test_a_claim_tells_who_is_suppressed_and_the_rest_is_sent_to(self) -> None:
        enqueue(to=[ANN, BEN])
        bar(ANN)
        claimed = claim_one()
        assert claimed.is_barred
        assert [(each.address, each.suppressed) for each in claimed.recipients] == [
            (ANN, True),
            (BEN, False),
        ]
        assert claims.begin([claimed]) == set()
        assert withhold(claimed) == {claimed.outbox_id: "pending"}
        assert recipient_states(claimed.outbox_id) == ["suppressed", "due"]
        assert attempt_of(claimed).state == "released"
        again = claim_one()
        assert not again.is_barred
        assert [each.address for each in again.due] == [BEN]
        assert claims.begin([again]) == {again.attempt_id}
        finish(again, Outcome.ACCEPTED)
        assert row_of(again.outbox_id).state == "submitted"
        assert recipient_states(again.outbox_id) == ["suppressed", "accepted"]

    def test_with_nobody_left_the_row_is_suppressed(self) -> None:
        enqueue(to=[ANN, BEN])
        bar(ANN, R.COMPLAINT)
        bar(BEN)
        claimed = claim_one()
        assert withhold(claimed) == {claimed.outbox_id: "suppressed"}
        row = row_of(claimed.outbox_id)
        assert (row.state, row.lease_token, row.attempts) == ("suppressed", None, 0)
        assert row.finished_at is not None
        rules = [each.rule for each in Recipient.select().order_by(Recipient.id)]
        assert rules == ["suppressed-complaint", "suppressed-bounce"]
        assert claim() == []

    def test_a_spelling_is_no_way_around(self) -> None:
        bar(ANN)
        for given in (ANN, "Ann <ANN@Example.COM>"):
            enqueue(given, given)
            assert claim_one().is_barred

    def test_what_was_accepted_is_left_alone(self) -> None:
        claimed = started(to=[ANN, BEN])
        finish(claimed, Outcome.ACCEPTED, Outcome.RETRYABLE)
        bar(ANN)
        make_due(claimed.outbox_id)
        again = claim_one()
        assert not again.is_barred
        assert withhold(again) == {}
        assert claims.begin([again]) == {again.attempt_id}

    def test_the_last_one_suppressed_after_another_was_accepted_leaves_it_submitted(self) -> None:
        claimed = started(to=[ANN, BEN])
        finish(claimed, Outcome.ACCEPTED, Outcome.RETRYABLE)
        bar(BEN)
        make_due(claimed.outbox_id)
        assert withhold(claim_one()) == {claimed.outbox_id: "submitted"}

    def test_a_plain_insert_is_caught_at_begin(self) -> None:
        """Its recipients are known only once it is frozen, which is after the claim."""
        row_id = insert_plainly("plain", ["Ann@Example.com"], subject="Hi", text="Hello")
        bar(ANN)
        claimed = claim_one()
        assert (claimed.recipients, claimed.is_barred) == ((), False)
        frozen = frozen_by_hand(claimed)
        assert claims.begin([frozen]) == set()
        assert withhold(frozen) == {row_id: "suppressed"}

    def test_one_suppressed_after_the_claim_may_not_begin(self) -> None:
        enqueue("ann", ANN)
        enqueue("ben", BEN)
        ann, ben = claim()
        bar(ANN)
        assert claims.begin([ann, ben]) == {ben.attempt_id}
        assert withhold(ann, ben) == {ann.outbox_id: "suppressed"}
        assert attempt_of(ben).state == "started"

    def test_one_suppressed_after_the_begin_is_left_to_its_call(self) -> None:
        claimed = started()
        bar(ANN)
        assert withhold(claimed) == {}
        finish(claimed, Outcome.RETRYABLE)
        make_due(claimed.outbox_id)
        assert withhold(claim_one()) == {claimed.outbox_id: "suppressed"}

    def test_a_lost_lease_is_left_alone(self) -> None:
        enqueue()
        bar(ANN)
        claimed = claim_one()
        claims.release([claimed])
        assert withhold(claimed) == {}
        assert recipient_states(claimed.outbox_id) == ["due"]

    def test_what_is_expired_or_released_keeps_nobody_back(self) -> None:
        enqueue(to=[ANN, BEN])
        bar(ANN, until=LONG_AGO)
        bar(BEN)
        let_go(BEN)
        claimed = claim_one()
        assert not claimed.is_barred
        assert claims.begin([claimed]) == {claimed.attempt_id}

    def test_requeued_after_a_release_it_is_sent(self) -> None:
        enqueue()
        bar(ANN)
        claimed = claim_one()
        withhold(claimed)
        outbox.requeue(claimed.outbox_id)
        assert withhold(claim_one()) == {claimed.outbox_id: "suppressed"}
        let_go()
        outbox.requeue(claimed.outbox_id)
        again = claim_one()
        assert claims.begin([again]) == {again.attempt_id}

    def test_unreadable_suppressions_let_nothing_be_claimed(self) -> None:
        row, _ = enqueue()
        with unreadable(), pytest.raises(DatabaseError):
            claim()
        found = row_of(row.id)
        assert (found.state, found.lease_token) == ("pending", None)
        assert Attempt.select().count() == 0

    def test_unreadable_suppressions_let_nothing_begin(self) -> None:
        enqueue()
        claimed = claim_one()
        with unreadable(), pytest.raises(DatabaseError):
            claims.begin([claimed])
        assert attempt_of(claimed).state == "claimed"
        assert claims.begin([claimed]) == {claimed.attempt_id}


def test_a_suppression_that_commits_before_the_begin_wins(postgres_outbox: str) -> None:
    """Not committed yet, it keeps nobody back and nobody waiting; committed, it does."""
    enqueue("first")
    enqueue("second")
    first, second = claim()
    with other_transaction(postgres_outbox) as other:
        other.execute(
            "INSERT INTO email_suppression (address_key, reason, source)"
            " VALUES (%s, 'bounce', 'event Bounce')",
            [ANN],
        )
        assert claims.begin([first]) == {first.attempt_id}
        other.connection.commit()
        assert claims.begin([second]) == set()
    assert withhold(first, second) == {second.outbox_id: "suppressed"}


def test_a_begin_that_is_not_committed_yet_does_not_hold_a_suppression_up(
    postgres_outbox: str,
) -> None:
    enqueue("first")
    enqueue("second")
    first, second = claim()
    with other_transaction(postgres_outbox) as other, database.transaction():
        assert claims.begin([first]) == {first.attempt_id}
        other.execute(
            "INSERT INTO email_suppression (address_key, reason, source)"
            " VALUES (%s, 'bounce', 'event Bounce')",
            [ANN],
        )
        other.connection.commit()
        assert claims.begin([second]) == set()
    assert (attempt_of(first).state, attempt_of(second).state) == ("started", "claimed")


@contextmanager
def other_transaction(url: str) -> Iterator[Any]:
    """A cursor of another connection; what it has not committed is undone."""
    connection = psycopg2.connect(url, options="-c lock_timeout=5000")
    try:
        yield connection.cursor()
    finally:
        connection.close()


@contextmanager
def unreadable() -> Iterator[None]:
    """Have no table of suppressions for the block."""
    execute: Any = database.bound().execute_sql
    execute("ALTER TABLE email_suppression RENAME TO email_suppression_away")
    try:
        yield
    finally:
        execute("ALTER TABLE email_suppression_away RENAME TO email_suppression")


def frozen_by_hand(claimed: Claimed) -> Claimed:
    """Freeze what came by plain INSERT."""
    frozen = freezer().freeze(
        dedup_key=claimed.dedup_key,
        given={**claimed.columns, "attachments": []},
        template=None,
        context=None,
    )
    following = claims.freeze(
        claimed,
        columns=frozen.columns,
        message_id=frozen.message_id,
        fingerprint=frozen.fingerprint,
        template_version=frozen.template_version,
        recipients=frozen.recipients,
    )
    assert following is not None
    return following
