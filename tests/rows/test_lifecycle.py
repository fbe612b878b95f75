"""Claim, begin, renew, release, finish: each guard shown to hold, on both databases."""

import datetime as dt

import pytest

from mailer import claims, outbox, results
from mailer.outcome import Outcome, Scope
from mailer.tables import Attempt, Outbox
from tests.builders import (
    POLICY,
    attempt_of,
    claim,
    claim_one,
    enqueue,
    finish,
    insert_plainly,
    lose_lease,
    make_due,
    middle,
    pass_expiry,
    recipient_states,
    result_of,
    row_of,
    run_out,
    started,
    take_for_unsent,
)

pytestmark = pytest.mark.usefixtures("outbox")


def test_a_claim_leases_the_row_and_writes_its_attempt() -> None:
    row, _ = enqueue()
    claimed = claim_one()
    stored, attempt = row_of(row.id), attempt_of(claimed)
    assert (stored.state, stored.lease_token) == ("sending", claimed.lease_token)
    assert (attempt.state, attempt.number, attempt.provider) == ("claimed", 1, "scripted:test")
    assert stored.attempts == 0
    assert [each.address for each in claimed.due] == ["ann@example.com"]


def test_claims_take_the_urgent_first_then_the_longest_due() -> None:
    for key, priority in (("bulk", 9), ("second", 5), ("urgent", 0), ("third", 5)):
        enqueue(key, priority=priority)
    assert [each.dedup_key for each in claim()] == ["urgent", "second", "third", "bulk"]


def test_urgent_rows_that_wait_do_not_hide_what_is_due() -> None:
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    for number in range(5):
        enqueue(f"waiting:{number}", priority=0, send_at=later)
    enqueue("due", priority=7)
    assert [each.dedup_key for each in claim(limit=1)] == ["due"]


def test_a_claim_is_bounded_and_never_takes_a_row_twice() -> None:
    for number in range(5):
        enqueue(f"k{number}")
    first, second, third = claim(limit=3), claim(limit=3), claim(limit=3)
    assert (len(first), len(second), len(third)) == (3, 2, 0)
    assert not {each.outbox_id for each in first} & {each.outbox_id for each in second}


@pytest.mark.parametrize("final", ["submitted", "failed", "cancelled", "ambiguous"])
def test_only_pending_rows_are_claimed(final: str) -> None:
    if final == "cancelled":
        row, _ = enqueue()
        outbox.cancel(row.id)
    else:
        outcomes = {
            "submitted": Outcome.ACCEPTED,
            "failed": Outcome.PERMANENT,
            "ambiguous": Outcome.AMBIGUOUS,
        }
        claimed = started()
        finish(claimed, outcomes[final])
        make_due(claimed.outbox_id)
    assert claim() == []


def test_expired_rows_are_not_claimed() -> None:
    row, _ = enqueue()
    pass_expiry(row.id)
    assert claim() == []


def test_begin_marks_the_attempt_before_the_call() -> None:
    enqueue()
    claimed = claim_one()
    assert claims.begin([claimed]) == {claimed.attempt_id}
    assert attempt_of(claimed).state == "started"
    assert claims.begin([claimed]) == set()


def test_begin_needs_a_lease_that_has_not_run_out() -> None:
    enqueue()
    claimed = claim_one()
    run_out(claimed.outbox_id)
    assert claims.begin([claimed]) == set()
    assert attempt_of(claimed).state == "claimed"


def test_begin_needs_the_lease_that_is_live() -> None:
    enqueue()
    stale = claim_one()
    claims.release([stale])
    current = claim_one()
    assert claims.begin([stale]) == set()
    assert claims.begin([current]) == {current.attempt_id}


def test_begin_passes_over_a_message_that_has_expired_meanwhile() -> None:
    enqueue()
    claimed = claim_one()
    pass_expiry(claimed.outbox_id)
    assert claims.begin([claimed]) == set()


def test_release_costs_nothing_and_reaches_no_started_attempt() -> None:
    enqueue("a")
    enqueue("b")
    first, second = claim()
    claims.begin([second])
    assert claims.release([first, second]) == 1
    assert (row_of(first.outbox_id).state, row_of(first.outbox_id).attempts) == ("pending", 0)
    assert row_of(second.outbox_id).state == "sending"
    assert attempt_of(first).state == "released"


def test_a_renewal_extends_live_leases_alone() -> None:
    enqueue("a")
    enqueue("b")
    lost, held = claim()
    claims.release([lost])
    run_out(held.outbox_id)
    assert claims.renew([lost, held], lease_seconds=60) == {held.attempt_id}
    assert claims.begin([held]) == {held.attempt_id}


def test_an_accepted_message_is_submitted_with_the_proof_on_record() -> None:
    claimed = started()
    written = finish(claimed, Outcome.ACCEPTED)
    row, attempt = row_of(claimed.outbox_id), attempt_of(claimed)
    assert (written.state, written.late) == ("submitted", False)
    assert (row.state, row.lease_token, row.attempts) == ("submitted", None, 0)
    assert row.finished_at is not None
    assert (attempt.state, attempt.outcome, attempt.provider_id) == ("finished", "accepted", "id-1")
    assert recipient_states(row.id) == ["accepted"]


@pytest.mark.parametrize(
    ("scope", "spent"),
    [(Scope.MESSAGE, 1), (Scope.RECIPIENT, 1), (Scope.CONNECTION, 0), (Scope.ACCOUNT, 0)],
)
def test_only_the_messages_own_faults_spend_its_budget(scope: Scope, spent: int) -> None:
    claimed = started()
    written = finish(claimed, Outcome.RETRYABLE, scope=scope)
    row = row_of(claimed.outbox_id)
    assert (row.state, row.attempts, row.lease_token) == ("pending", spent, None)
    assert row.next_attempt_at > row.created_at
    assert written.decision == "retry in 5 s"
    assert claim() == []


def test_the_budget_ends_in_failed_with_the_last_reply() -> None:
    enqueue()
    for _ in range(POLICY.max_attempts):
        claimed = claim_one()
        claims.begin([claimed])
        written = finish(claimed, Outcome.RETRYABLE)
        make_due(claimed.outbox_id)
    row = row_of(claimed.outbox_id)
    assert (row.state, row.attempts, row.reason) == ("failed", 3, "gave-up-budget")
    assert written.decision == "give up: budget"
    assert recipient_states(row.id) == ["refused"]


def test_the_age_bounds_what_costs_no_budget() -> None:
    claimed = started()
    old = dt.datetime.now(dt.UTC) - dt.timedelta(days=4)
    Outbox.update(queued_at=old).where(Outbox.id == claimed.outbox_id).execute()
    claims.begin([claimed])
    (written,) = results.finish(
        [results.Ended(claimed.outbox_id, claimed.attempt_id, claimed.lease_token,
                       result_of(claimed, Outcome.RETRYABLE, scope=Scope.CONNECTION))],
        POLICY, middle,
    )  # fmt: skip
    assert (written.state, written.decision) == ("failed", "give up: age")


def test_a_servers_own_delay_is_waited_for() -> None:
    claimed = started()
    assert finish(claimed, Outcome.RETRYABLE, retry_after_seconds=80.0).decision == "retry in 80 s"


def test_delivers_to_the_willing_and_keeps_the_put_off_due() -> None:
    claimed = started(to=["a@example.com", "b@example.com", "c@example.com"])
    finish(claimed, Outcome.ACCEPTED, Outcome.PERMANENT, Outcome.RETRYABLE)
    row = row_of(claimed.outbox_id)
    assert (row.state, row.attempts) == ("pending", 1)
    assert recipient_states(row.id) == ["accepted", "refused", "due"]
    make_due(row.id)
    again = claim_one()
    assert [each.address for each in again.due] == ["c@example.com"]
    claims.begin([again])
    finish(again, Outcome.PERMANENT)
    assert row_of(row.id).state == "submitted"


@pytest.mark.parametrize("outcome", [Outcome.PERMANENT, Outcome.RETRYABLE, Outcome.AMBIGUOUS])
def test_a_result_without_the_live_lease_changes_no_row(outcome: Outcome) -> None:
    stale = started()
    lose_lease(stale)
    take_for_unsent(stale.outbox_id)
    current = claim_one()
    claims.begin([current])
    before = row_of(stale.outbox_id).__data__
    assert finish(stale, outcome).late
    assert row_of(stale.outbox_id).__data__ == before
    assert recipient_states(stale.outbox_id) == ["due"]


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("carried", [False, True])
def test_writing_a_result_twice_changes_nothing(outcome: Outcome, carried: bool) -> None:
    claimed = started()
    finish(claimed, outcome)
    before = (row_of(claimed.outbox_id).__data__, attempt_of(claimed).__data__)
    finish(claimed, outcome, carried=carried)
    after = (row_of(claimed.outbox_id).__data__, attempt_of(claimed).__data__)
    assert {**after[1], "evidence": None} == before[1]
    assert after[0] == before[0]


def test_one_lost_lease_does_not_stop_its_groups_results() -> None:
    enqueue("a")
    enqueue("b")
    first, second = claim()
    claims.begin([first, second])
    lose_lease(first)
    ended = [
        results.Ended(each.outbox_id, each.attempt_id, each.lease_token,
                      result_of(each, Outcome.ACCEPTED), each)
        for each in (first, second)
    ]  # fmt: skip
    written = results.finish(ended, POLICY, middle)
    assert [each.late for each in written] == [True, False]
    assert [row_of(each.outbox_id).state for each in (first, second)] == ["submitted"] * 2


def test_attempts_are_numbered_and_tagged_apart() -> None:
    enqueue()
    for _ in range(3):
        claims.release([claim_one()])
    attempts = list(Attempt.select().order_by(Attempt.id))
    assert [each.number for each in attempts] == [1, 2, 3]
    assert len({each.request_tag for each in attempts}) == 3
    assert all(each.request_tag.isalnum() for each in attempts)


def test_a_plain_insert_is_frozen_under_its_lease() -> None:
    row_id = insert_plainly("plain", ["ann@example.com"], subject="Hi", text="Hello")
    claimed = claim_one()
    assert (claimed.message_id, claimed.recipients) == (None, ())
    following = claims.freeze(
        claimed,
        columns={**_columns("Hi"), "text": "frozen"},
        message_id="<m@example.com>",
        fingerprint="f" * 64,
        template_version=None,
        recipients=[{"address": "ann@example.com", "address_key": "ann@example.com", "role": "to"}],
    )
    assert following is not None
    row = row_of(row_id)
    assert (row.message_id, row.text, row.to) == ("<m@example.com>", "frozen", ["ann@example.com"])
    assert [each.address for each in following.due] == ["ann@example.com"]
    assert recipient_states(row_id) == ["due"]


def test_freezing_needs_the_lease() -> None:
    insert_plainly("plain", ["ann@example.com"], subject="Hi", text="Hello")
    claimed = claim_one()
    claims.release([claimed])
    frozen = claims.freeze(
        claimed,
        columns=_columns("Hi"),
        message_id="<m@example.com>",
        fingerprint="f" * 64,
        template_version=None,
        recipients=[],
    )
    assert frozen is None
    assert row_of(claimed.outbox_id).message_id is None


def _columns(subject: str) -> dict[str, object]:
    return {
        "sender": "shop@example.com",
        "to": ["ann@example.com"],
        "cc": [],
        "bcc": [],
        "reply_to": [],
        "subject": subject,
        "text": "Hello",
        "html": None,
        "headers": [],
        "attachments": [],
    }
