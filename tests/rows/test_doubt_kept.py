"""Doubt that is left where it belongs: by withdrawals, by proofs of a part, by people."""

import datetime as dt
from collections.abc import Callable

import pytest

from mailer import claims, operations, outbox, overdue, suppressions
from mailer.claims import Claimed
from mailer.database import transaction
from mailer.errors import Refused
from mailer.facts import SuppressionReason
from mailer.outcome import CallResult, Outcome, RecipientVerdict, Scope
from mailer.proofs import Proof, Proven, apply_proof
from mailer.provider import Refusal
from mailer.results import finish as write_down
from mailer.retry import RetryPolicy
from mailer.states import Resolution
from mailer.suppressions import Barred
from tests.builders import (
    POLICY,
    attempt_of,
    claim,
    claim_one,
    ended,
    finish,
    lose_lease,
    make_due,
    middle,
    pass_expiry,
    recipient_states,
    row_of,
    started,
    take_for_unsent,
)

pytestmark = pytest.mark.usefixtures("outbox")

ANN, BEN = "ann@example.com", "ben@example.com"
BOTH = [ANN, BEN]
EAGER = RetryPolicy(max_attempts=3, base_seconds=10, cap_seconds=100, max_resends=2)
"""A policy that would send again once more."""


def prove(claimed: Claimed, *named: str, whole: bool = False) -> Proven:
    """Hear that the provider took an attempt."""
    proof = Proof("event Delivery", "scripted", named=named, whole=whole)
    with transaction():
        return apply_proof(claimed.outbox_id, claimed.attempt_id, proof)


def silent(claimed: Claimed, *deferred: str) -> CallResult:
    """What a driver writes that had handed the content over, for those whom the relay agreed to."""
    verdicts = tuple(
        RecipientVerdict(each.recipient_id, Outcome.RETRYABLE, Scope.RECIPIENT, "deferred")
        if each.address in deferred
        else RecipientVerdict(each.recipient_id, Outcome.AMBIGUOUS, Scope.CONNECTION, "lost")
        for each in claimed.due
    )
    return CallResult(
        Outcome.AMBIGUOUS, Scope.CONNECTION, "after_dot", "lost", verdicts, bytes_sent=700
    )


def fall_silent(claimed: Claimed, *deferred: str) -> None:
    """Write that no answer came."""
    write_down([ended(claimed, silent(claimed, *deferred))], POLICY, middle)


def send_again(claimed: Claimed, policy: RetryPolicy = EAGER) -> None:
    """Let the policy have a message in doubt sent again."""
    make_due(claimed.outbox_id)
    assert overdue.apply_policies(10, policy) == [(claimed.outbox_id, "sent again")]


def waiting_to_be_resent() -> Claimed:
    """A message whose first attempt is in doubt, and that is due again by its policy."""
    first = started(on_ambiguous="resend")
    lose_lease(first)
    send_again(first)
    return first


def begun_again(claimed: Claimed) -> Claimed:
    """The next attempt of a message, begun."""
    make_due(claimed.outbox_id)
    following = claim_one()
    assert claims.begin([following])
    return following


def cancel(first: Claimed) -> None:
    outbox.cancel(first.outbox_id)


def cancel_its_claim(first: Claimed) -> None:
    claim_one()
    outbox.cancel(first.outbox_id)


def expire(first: Claimed) -> None:
    pass_expiry(first.outbox_id)
    assert overdue.expire_due(10) == 1


def expire_at_the_commit_point(first: Claimed) -> None:
    second = begun_again(first)
    pass_expiry(first.outbox_id)
    finish(second, Outcome.RETRYABLE, rule=Refusal.MESSAGE_EXPIRED)


def suppress(first: Claimed) -> None:
    long_ago = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    suppressions.bar([Barred(ANN, SuppressionReason.BOUNCE, "event Bounce", long_ago)])
    second = claim_one()
    assert claims.begin([second]) == set()
    suppressions.withhold([second])


WITHDRAWALS = [cancel, cancel_its_claim, expire, expire_at_the_commit_point, suppress]


@pytest.mark.parametrize("withdraw", WITHDRAWALS)
def test_what_is_withdrawn_in_doubt_stays_in_doubt(withdraw: Callable[[Claimed], None]) -> None:
    first = waiting_to_be_resent()
    withdraw(first)
    assert row_of(first.outbox_id).state == "ambiguous"
    assert recipient_states(first.outbox_id) == ["ambiguous"]
    assert claim() == []
    assert prove(first, ANN).after == "submitted"


@pytest.mark.parametrize("withdraw", [cancel, cancel_its_claim])
def test_what_is_cancelled_in_doubt_is_not_sent_even_if_it_turns_out_that_nothing_was(
    withdraw: Callable[[Claimed], None],
) -> None:
    first = waiting_to_be_resent()
    withdraw(first)
    take_for_unsent(first.outbox_id)
    assert claim() == []
    overdue.expire_due(10)
    assert row_of(first.outbox_id).state == "expired"


@pytest.mark.parametrize("withdraw", [cancel, cancel_its_claim])
def test_what_is_cancelled_in_doubt_is_not_sent_again_by_its_policy(
    withdraw: Callable[[Claimed], None],
) -> None:
    first = waiting_to_be_resent()
    withdraw(first)
    make_due(first.outbox_id)
    assert overdue.apply_policies(10, EAGER) == []
    assert row_of(first.outbox_id).on_ambiguous == "hold"


def test_what_is_withdrawn_without_doubt_keeps_its_policy() -> None:
    first = started(on_ambiguous="resend")
    finish(first, Outcome.RETRYABLE)
    cancel(first)
    row = row_of(first.outbox_id)
    assert (row.state, row.on_ambiguous) == ("cancelled", "resend")


def lost(**changes: str) -> Claimed:
    """A call to two recipients whose worker was lost: whom the relay agreed to is unknown."""
    claimed = started(to=BOTH, **changes)
    lose_lease(claimed)
    return claimed


def test_a_proof_for_one_leaves_the_other_in_doubt() -> None:
    claimed = lost()
    proven = prove(claimed, ANN)
    assert (proven.after, proven.settled, proven.duplicate) == ("ambiguous", True, False)
    assert recipient_states(claimed.outbox_id) == ["accepted", "ambiguous"]
    assert attempt_of(claimed).resolution is None


def test_the_same_proof_again_changes_nothing() -> None:
    claimed = lost()
    prove(claimed, ANN)
    before = attempt_of(claimed).__data__
    again = prove(claimed, ANN)
    assert (again.after, again.duplicate) == ("ambiguous", False)
    assert recipient_states(claimed.outbox_id) == ["accepted", "ambiguous"]
    assert attempt_of(claimed).__data__ == before


def test_naming_the_second_settles_the_attempt() -> None:
    claimed = lost()
    prove(claimed, ANN)
    assert (prove(claimed, BEN).after, attempt_of(claimed).resolution) == ("submitted", "accepted")
    assert not attempt_of(claimed).duplicate


def test_a_proof_that_names_nobody_settles_nobody_of_two() -> None:
    claimed = lost()
    prove(claimed, ANN)
    assert prove(claimed).after == "ambiguous"


def test_a_proof_that_names_nobody_settles_the_only_one() -> None:
    claimed = started()
    lose_lease(claimed)
    assert prove(claimed).after == "submitted"


def test_a_whole_proof_settles_both() -> None:
    claimed = lost()
    assert prove(claimed, ANN, whole=True).after == "submitted"
    assert recipient_states(claimed.outbox_id) == ["accepted", "accepted"]


def test_where_the_driver_counted_one_named_settles_both() -> None:
    claimed = started(to=BOTH)
    fall_silent(claimed)
    assert prove(claimed, ANN).after == "submitted"
    assert attempt_of(claimed).resolution == "accepted"


def test_where_the_driver_counted_who_was_put_off_is_still_due() -> None:
    claimed = started(to=BOTH)
    fall_silent(claimed, BEN)
    assert prove(claimed, ANN).after == "pending"
    assert recipient_states(claimed.outbox_id) == ["accepted", "due"]


def test_a_late_reply_after_its_own_proof_is_no_duplicate() -> None:
    claimed = lost()
    prove(claimed, ANN)
    finish(claimed, Outcome.ACCEPTED)
    attempt = attempt_of(claimed)
    assert (row_of(claimed.outbox_id).state, attempt.resolution) == ("submitted", "accepted")
    assert not attempt.duplicate


def test_silence_after_a_proof_in_flight_leaves_only_the_rest_in_doubt() -> None:
    claimed = started(to=BOTH)
    prove(claimed, ANN)
    fall_silent(claimed)
    assert recipient_states(claimed.outbox_id) == ["accepted", "ambiguous"]
    assert not prove(claimed, ANN, BEN).duplicate
    assert row_of(claimed.outbox_id).state == "submitted"


def test_silence_after_all_whom_the_relay_took_are_proven_is_no_doubt() -> None:
    claimed = started(to=BOTH)
    prove(claimed, ANN)
    fall_silent(claimed, BEN)
    assert row_of(claimed.outbox_id).state == "pending"
    assert (attempt_of(claimed).outcome, attempt_of(claimed).doubtful) == ("accepted", None)
    assert outbox.cancel(claimed.outbox_id) == ("submitted", True)


def test_a_lost_call_whose_recipients_were_proven_is_no_doubt() -> None:
    first = lost(on_ambiguous="resend")
    send_again(first)
    second = begun_again(first)
    prove(second, BEN)
    prove(first, ANN)
    assert lose_lease(second).state == "submitted"
    assert attempt_of(second).outcome == "accepted"
    assert not prove(second, BEN).duplicate


def test_a_mark_made_in_flight_outlives_the_result() -> None:
    first = started(on_ambiguous="resend", to=BOTH)
    lose_lease(first)
    send_again(first)
    second = begun_again(first)
    prove(first, ANN)
    assert prove(second, ANN).duplicate
    finish(second, Outcome.ACCEPTED)
    assert attempt_of(second).duplicate


def test_silence_told_twice_does_not_give_up_what_it_leaves_in_doubt() -> None:
    first = started(to=BOTH, on_ambiguous="resend")
    fall_silent(first, BEN)
    send_again(first)
    second = begun_again(first)
    finish(second, Outcome.RETRYABLE, Outcome.PERMANENT, policy=RetryPolicy(max_attempts=9))
    once = RetryPolicy(max_attempts=1)
    write_down([ended(first, silent(first, BEN))], once, middle)
    assert row_of(first.outbox_id).state == "ambiguous"
    assert "refused" not in recipient_states(first.outbox_id)


def test_taken_for_accepted_holds_for_whom_a_later_attempt_was_put_off() -> None:
    first = started(to=BOTH, on_ambiguous="resend")
    fall_silent(first)
    send_again(first)
    fall_silent(begun_again(first), BEN)
    assert recipient_states(first.outbox_id) == ["ambiguous", "due"]
    after = operations.resolve(
        first.outbox_id, Resolution.ACCEPTED, actor="ann", why="in the relay's log"
    ).after
    assert (after, recipient_states(first.outbox_id)) == ("submitted", ["accepted"] * 2)


def twice_begun() -> int:
    """A message in doubt that was begun twice."""
    first = started()
    lose_lease(first)
    take_for_unsent(first.outbox_id)
    lose_lease(begun_again(first))
    return first.outbox_id


def resolve(row_id: int, resolution: Resolution, attempt: int | None = None) -> str:
    """Settle as a person who knows."""
    return operations.resolve(row_id, resolution, actor="ann", why="looked", attempt=attempt).after


@pytest.mark.parametrize(
    ("attempt", "mend"),
    [
        (None, r"2 were begun; look into all of them, and say so with --attempt 2"),
        (1, r"1 is not the latest; look into attempt 2 as well"),
        (3, r"3 is not the latest"),
    ],
)
def test_not_accepted_is_refused_for_another_attempt_than_the_latest(
    attempt: int | None, mend: str
) -> None:
    row_id = twice_begun()
    with pytest.raises(Refused, match=mend):
        resolve(row_id, Resolution.NOT_ACCEPTED, attempt)
    assert row_of(row_id).state == "ambiguous"


def test_not_accepted_is_obeyed_for_the_latest_attempt() -> None:
    assert resolve(twice_begun(), Resolution.NOT_ACCEPTED, 2) == "pending"


def test_accepted_needs_no_attempt() -> None:
    assert resolve(twice_begun(), Resolution.ACCEPTED) == "submitted"


def test_a_claim_that_never_began_is_not_to_be_looked_into() -> None:
    claimed = started()
    lose_lease(claimed)
    take_for_unsent(claimed.outbox_id)
    lose_lease(claim_one())
    lose_lease(begun_again(claimed))
    with pytest.raises(Refused, match=r"2 were begun; .* --attempt 3"):
        resolve(claimed.outbox_id, Resolution.NOT_ACCEPTED)
