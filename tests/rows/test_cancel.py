"""Withdrawing and requeueing: what they reach, what they leave alone, and who wins a race."""

import threading
from collections.abc import Callable

import psycopg2
import pytest

from mailer import claims, database, outbox
from mailer.errors import Refused
from mailer.outcome import Outcome
from tests.builders import (
    attempt_of,
    claim,
    claim_one,
    enqueue,
    finish,
    lose_lease,
    recipient_states,
    row_of,
    started,
)


@pytest.mark.usefixtures("outbox")
class TestCancel:
    """On both databases."""

    def test_reaches_pending_rows(self) -> None:
        row, _ = enqueue()
        assert outbox.cancel(row.id) == ("cancelled", True)
        assert claim() == []

    def test_reaches_claims_that_have_not_begun(self) -> None:
        enqueue()
        claimed = claim_one()
        assert outbox.cancel(claimed.outbox_id) == ("cancelled", True)
        assert attempt_of(claimed).state == "released"
        assert claims.begin([claimed]) == set()

    def test_never_reaches_a_started_attempt(self) -> None:
        claimed = started()
        assert outbox.cancel(claimed.outbox_id) == ("sending", False)
        finish(claimed, Outcome.ACCEPTED)
        assert row_of(claimed.outbox_id).state == "submitted"

    @pytest.mark.parametrize("outcome", [Outcome.ACCEPTED, Outcome.PERMANENT, Outcome.AMBIGUOUS])
    def test_does_not_undo_an_end(self, outcome: Outcome) -> None:
        claimed = started()
        left = finish(claimed, outcome).state
        assert outbox.cancel(claimed.outbox_id) == (left, False)

    def test_after_a_partial_acceptance_withdraws_the_rest(self) -> None:
        claimed = started(to=["a@example.com", "b@example.com"])
        finish(claimed, Outcome.ACCEPTED, Outcome.RETRYABLE)
        assert outbox.cancel(claimed.outbox_id) == ("submitted", True)
        assert recipient_states(claimed.outbox_id) == ["accepted", "refused"]

    def test_says_that_there_is_no_such_row(self) -> None:
        with pytest.raises(Refused, match="no outbox row 12345"):
            outbox.cancel(12345)


@pytest.mark.usefixtures("outbox")
class TestRequeue:
    """On both databases."""

    def test_gives_a_failed_row_a_fresh_budget(self) -> None:
        claimed = started(to=["a@example.com", "b@example.com"])
        finish(claimed, Outcome.PERMANENT)
        assert outbox.requeue(claimed.outbox_id) == "failed"
        row = row_of(claimed.outbox_id)
        assert (row.state, row.attempts, row.finished_at) == ("pending", 0, None)
        assert recipient_states(row.id) == ["due", "due"]
        assert claim_one().number == 2

    @pytest.mark.parametrize(
        ("outcome", "mend"), [(Outcome.ACCEPTED, "new key"), (Outcome.AMBIGUOUS, "mailer resolve")]
    )
    def test_refuses_what_might_double(self, outcome: Outcome, mend: str) -> None:
        claimed = started()
        finish(claimed, outcome)
        with pytest.raises(Refused, match=mend):
            outbox.requeue(claimed.outbox_id)


def test_cancel_wins_over_a_begin_that_comes_after(postgres_outbox: str) -> None:
    """The application's transaction is open: begin passes over the row and does not wait."""
    enqueue("other")
    enqueue("withdrawn")
    other, withdrawn = claim()
    with _other_connection(postgres_outbox) as begun, database.transaction():
        outbox.cancel(withdrawn.outbox_id)
        begun.run(lambda: claims.begin([other, withdrawn]))
        assert begun.answer() == {other.attempt_id}
        begun.run(lambda: claims.renew([other, withdrawn], lease_seconds=60))
        assert begun.answer() == {other.attempt_id}
        begun.run(lambda: claims.release([withdrawn]))
        assert begun.answer() == 0
    assert row_of(withdrawn.outbox_id).state == "cancelled"


def test_a_begin_that_came_first_wins_over_cancel(postgres_outbox: str) -> None:
    enqueue()
    claimed = claim_one()
    with _other_connection(postgres_outbox) as cancelling:
        with database.transaction():
            assert claims.begin([claimed]) == {claimed.attempt_id}
            cancelling.run(lambda: outbox.cancel(claimed.outbox_id))
        assert cancelling.answer() == ("sending", False)


def test_a_refused_cancel_leaves_nothing_locked(postgres_outbox: str) -> None:
    claimed = started()
    with _other_connection(postgres_outbox) as finishing, database.transaction():
        assert outbox.cancel(claimed.outbox_id) == ("sending", False)
        finishing.run(lambda: finish(claimed, Outcome.ACCEPTED).state)
        assert finishing.answer() == "submitted"


def test_claims_pass_over_rows_that_somebody_holds(postgres_outbox: str) -> None:
    first, _ = enqueue("first")
    enqueue("second")
    holder = psycopg2.connect(postgres_outbox)
    try:
        holder.cursor().execute("SELECT 1 FROM email_outbox WHERE id = %s FOR UPDATE", [first.id])
        assert [each.dedup_key for each in claim()] == ["second"]
    finally:
        holder.close()


def test_a_sweep_and_a_begin_never_both_win(postgres_outbox: str) -> None:
    enqueue()
    claimed = claim_one()
    with _other_connection(postgres_outbox) as sweeping:
        with database.transaction():
            assert claims.begin([claimed]) == {claimed.attempt_id}
            sweeping.run(lambda: lose_lease(claimed).state)
        assert sweeping.answer() == "ambiguous"


class _other_connection:  # noqa: N801 - reads as the context manager that it is
    """Runs row functions on a connection of its own, one at a time."""

    _answer: object

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> "_other_connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(10)

    def run(self, function: Callable[[], object]) -> None:
        def work() -> None:
            with database.connected():
                self._answer = function()

        self._answer = None
        self._thread = threading.Thread(target=work)
        self._thread.start()

    def answer(self) -> object:
        self._thread.join(10)
        assert not self._thread.is_alive(), "still waiting for a lock"
        return self._answer
