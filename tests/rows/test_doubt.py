"""Leases that run out, late results, policies: what is in doubt, and what settles it."""

import pytest

from mailer import claims, overdue
from mailer.outcome import Outcome, Scope
from mailer.tables import Attempt
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
    row_of,
    run_out,
    started,
    take_for_unsent,
)

pytestmark = pytest.mark.usefixtures("outbox")


def test_a_claim_that_never_began_goes_back_at_no_cost() -> None:
    enqueue()
    claimed = claim_one()
    lose_lease(claimed)
    row = row_of(claimed.outbox_id)
    assert (row.state, row.attempts, row.lease_token) == ("pending", 0, None)
    assert attempt_of(claimed).state == "released"
    assert claim_one().number == 2


def test_a_claim_of_an_unfrozen_row_goes_back_too() -> None:
    row_id = insert_plainly("plain", ["ann@example.com"], subject="Hi", text="Hello")
    lose_lease(claim_one())
    assert row_of(row_id).state == "pending"


def test_a_started_attempt_without_an_answer_is_in_doubt() -> None:
    claimed = started()
    written = lose_lease(claimed)
    attempt = attempt_of(claimed)
    assert written.state == "ambiguous"
    assert (attempt.outcome, attempt.rule) == ("ambiguous", "lease-expired-started")
    assert recipient_states(claimed.outbox_id) == ["ambiguous"]
    make_due(claimed.outbox_id)
    assert claim() == []


def test_leases_that_live_are_not_swept() -> None:
    started()
    assert overdue.end_expired_leases(10, POLICY, middle) == []


def test_a_late_acceptance_settles_the_doubt() -> None:
    claimed = started()
    lose_lease(claimed)
    written = finish(claimed, Outcome.ACCEPTED)
    row, attempt = row_of(claimed.outbox_id), attempt_of(claimed)
    assert written.late
    assert (row.state, recipient_states(row.id)) == ("submitted", ["accepted"])
    assert (attempt.outcome, attempt.resolution) == ("ambiguous", "accepted")
    assert (attempt.resolved_by, attempt.provider_id) == ("late reply", "id-1")


def test_a_late_refusal_settles_the_doubt() -> None:
    claimed = started()
    lose_lease(claimed)
    finish(claimed, Outcome.PERMANENT)
    assert row_of(claimed.outbox_id).state == "failed"
    assert attempt_of(claimed).resolution == "not_accepted"


def test_a_late_put_off_is_tried_again_and_charged() -> None:
    claimed = started()
    lose_lease(claimed)
    finish(claimed, Outcome.RETRYABLE)
    row = row_of(claimed.outbox_id)
    assert (row.state, row.attempts) == ("pending", 1)


def test_a_late_ambiguous_result_settles_nothing() -> None:
    claimed = started()
    lose_lease(claimed)
    finish(claimed, Outcome.AMBIGUOUS)
    assert row_of(claimed.outbox_id).state == "ambiguous"
    assert attempt_of(claimed).evidence == "late reply at after_dot: scripted 250"


def test_acceptance_proven_while_pending_prevents_a_second_send() -> None:
    claimed = started()
    lose_lease(claimed)
    take_for_unsent(claimed.outbox_id)
    finish(claimed, Outcome.ACCEPTED)
    assert row_of(claimed.outbox_id).state == "submitted"
    assert attempt_of(claimed).resolution == "accepted"
    assert claim() == []


def test_acceptance_proven_while_a_newer_attempt_is_only_claimed_takes_it_back() -> None:
    first = started()
    lose_lease(first)
    take_for_unsent(first.outbox_id)
    second = claim_one()
    finish(first, Outcome.ACCEPTED)
    assert row_of(first.outbox_id).state == "submitted"
    assert attempt_of(second).state == "released"
    assert claims.begin([second]) == set()


@pytest.mark.parametrize("second_outcome", list(Outcome))
def test_acceptance_proven_while_a_newer_call_is_in_flight_outlives_its_result(
    second_outcome: Outcome,
) -> None:
    first = started()
    lose_lease(first)
    take_for_unsent(first.outbox_id)
    second = claim_one()
    claims.begin([second])
    finish(first, Outcome.ACCEPTED)
    assert row_of(first.outbox_id).state == "sending"
    finish(second, second_outcome)
    assert row_of(first.outbox_id).state == "submitted"
    assert recipient_states(first.outbox_id) == ["accepted"]


def test_acceptance_proven_meanwhile_decides_at_the_end_of_the_newer_lease() -> None:
    first = started()
    lose_lease(first)
    take_for_unsent(first.outbox_id)
    second = claim_one()
    claims.begin([second])
    finish(first, Outcome.ACCEPTED)
    assert lose_lease(second).state == "submitted"


def test_a_proof_turns_failed_into_submitted() -> None:
    first = started()
    lose_lease(first)
    take_for_unsent(first.outbox_id)
    second = claim_one()
    claims.begin([second])
    finish(second, Outcome.PERMANENT)
    assert row_of(first.outbox_id).state == "failed"
    finish(first, Outcome.ACCEPTED)
    row = row_of(first.outbox_id)
    assert (row.state, row.finished_at is not None) == ("submitted", True)


def test_one_recipients_doubt_holds_the_message_and_nobody_else() -> None:
    claimed = started(to=["a@example.com", "b@example.com"])
    finish(claimed, Outcome.AMBIGUOUS, Outcome.PERMANENT)
    assert row_of(claimed.outbox_id).state == "ambiguous"
    assert recipient_states(claimed.outbox_id) == ["ambiguous", "refused"]
    take_for_unsent(claimed.outbox_id)
    assert [each.address for each in claim_one().due] == ["a@example.com"]


def resent() -> claims.Claimed:
    """A message in doubt whose second send, by policy, has begun."""
    first = started(on_ambiguous="resend")
    finish(first, Outcome.AMBIGUOUS)
    make_due(first.outbox_id)
    assert overdue.apply_policies(10, POLICY) == [(first.outbox_id, "sent again")]
    second = claim_one()
    claims.begin([second])
    return second


def test_hold_waits_for_ever() -> None:
    claimed = started()
    finish(claimed, Outcome.AMBIGUOUS)
    make_due(claimed.outbox_id)
    assert overdue.apply_policies(10, POLICY) == []
    assert row_of(claimed.outbox_id).state == "ambiguous"


@pytest.mark.parametrize("policy", ["resend", "assume_sent"])
def test_policies_wait_their_time(policy: str) -> None:
    finish(started(on_ambiguous=policy), Outcome.AMBIGUOUS)
    assert overdue.apply_policies(10, POLICY) == []


def test_assume_sent_says_that_it_was_assumed() -> None:
    claimed = started(on_ambiguous="assume_sent")
    finish(claimed, Outcome.AMBIGUOUS)
    make_due(claimed.outbox_id)
    assert overdue.apply_policies(10, POLICY) == [(claimed.outbox_id, "assumed sent")]
    attempt = attempt_of(claimed)
    assert row_of(claimed.outbox_id).state == "submitted"
    assert (attempt.resolution, attempt.resolved_by) == ("accepted", "policy assume_sent")


def test_resend_sends_again_and_leaves_the_first_attempt_in_doubt() -> None:
    second = resent()
    finish(second, Outcome.ACCEPTED)
    first = Attempt.get(Attempt.number == 1)
    assert row_of(second.outbox_id).state == "submitted"
    assert (first.outcome, first.resolution) == ("ambiguous", None)


def test_resend_is_bounded() -> None:
    second = resent()
    finish(second, Outcome.AMBIGUOUS)
    make_due(second.outbox_id)
    assert overdue.apply_policies(10, POLICY) == []
    assert row_of(second.outbox_id).state == "ambiguous"


def test_a_refusal_of_the_second_send_cannot_hide_the_first() -> None:
    second = resent()
    finish(second, Outcome.PERMANENT)
    assert row_of(second.outbox_id).state == "ambiguous"
    assert recipient_states(second.outbox_id) == ["ambiguous"]


def test_a_late_refusal_of_one_attempt_cannot_hide_another_in_doubt() -> None:
    second = resent()
    lose_lease(second)
    finish(second, Outcome.PERMANENT)
    assert row_of(second.outbox_id).state == "ambiguous"
    assert attempt_of(second).resolution == "not_accepted"


def test_giving_up_after_a_resend_leaves_the_doubt() -> None:
    second = resent()
    finish(second, Outcome.RETRYABLE, policy=POLICY.__class__(max_attempts=1))
    assert row_of(second.outbox_id).state == "ambiguous"


def test_pending_messages_expire() -> None:
    row, _ = enqueue()
    enqueue("other")
    pass_expiry(row.id)
    assert overdue.expire_due(10) == 1
    assert (row_of(row.id).state, row_of(row.id).reason) == ("expired", "expired")


def test_expiry_after_a_partial_acceptance_keeps_the_acceptance() -> None:
    claimed = started(to=["a@example.com", "b@example.com"])
    finish(claimed, Outcome.ACCEPTED, Outcome.RETRYABLE)
    pass_expiry(claimed.outbox_id)
    overdue.expire_due(10)
    assert row_of(claimed.outbox_id).state == "submitted"
    assert recipient_states(claimed.outbox_id) == ["accepted", "refused"]


def test_an_ambiguous_message_does_not_expire() -> None:
    claimed = started()
    finish(claimed, Outcome.AMBIGUOUS, scope=Scope.CONNECTION)
    pass_expiry(claimed.outbox_id)
    assert overdue.expire_due(10) == 0
    assert row_of(claimed.outbox_id).state == "ambiguous"


def test_a_swept_lease_is_not_swept_again() -> None:
    claimed = started()
    lose_lease(claimed)
    assert overdue.end_expired_leases(10, POLICY, middle) == []


def test_a_result_in_time_beats_the_sweep() -> None:
    claimed = started()
    run_out(claimed.outbox_id)
    finish(claimed, Outcome.ACCEPTED)
    assert overdue.end_expired_leases(10, POLICY, middle) == []
    assert row_of(claimed.outbox_id).state == "submitted"
