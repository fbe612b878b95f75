"""What opens a circuit, what counts as health, and the token bucket, as tables and properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailer.circuit import (
    Bucket,
    CircuitPolicy,
    Tally,
    after_results,
    is_health_sign,
    key_of,
    open_seconds,
)
from mailer.outcome import Blame, CallResult, Outcome, Pressure, Scope

POLICY = CircuitPolicy(permanents_in_a_row=3, ambiguous_in_window=3, connection_failures_in_a_row=3)


def result(
    outcome: Outcome,
    scope: Scope = Scope.MESSAGE,
    *,
    rule: str = "r",
    stage: str = "after_dot",
    blame: Blame = Blame.PROVIDER,
    pressure: Pressure | None = None,
) -> CallResult:
    return CallResult.alike(
        (1,), outcome, scope, stage=stage, rule=rule, blame=blame, pressure=pressure
    )


ACCEPTED = result(Outcome.ACCEPTED)
AMBIGUOUS = result(Outcome.AMBIGUOUS, Scope.CONNECTION)
FAILURE = result(Outcome.RETRYABLE, Scope.CONNECTION)
ACCOUNT = result(Outcome.RETRYABLE, Scope.ACCOUNT, rule="refused")
REFUSED = result(Outcome.PERMANENT, Scope.RECIPIENT, rule="no-such-user")
GREYLISTED = result(Outcome.RETRYABLE, Scope.RECIPIENT)


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ([ACCOUNT], "account: refused"),
        ([FAILURE] * 3, "connection: r"),
        ([AMBIGUOUS] * 3, "3 messages in doubt"),
        ([REFUSED] * 3, "3 refusals in a row: no-such-user"),
        ([result(Outcome.RETRYABLE, Scope.ACCOUNT, pressure=Pressure.QUOTA)], "quota used up"),
    ],
)
def test_what_opens_a_circuit(results: list[CallResult], reason: str) -> None:
    _, trip = after_results(Tally(), results, POLICY)
    assert trip is not None
    assert trip.reason == reason


@pytest.mark.parametrize(
    "results",
    [
        [ACCEPTED] * 50,
        [GREYLISTED] * 50,
        [FAILURE, FAILURE, ACCEPTED] * 5,
        [FAILURE, FAILURE, GREYLISTED] * 5,
        [REFUSED, REFUSED, ACCEPTED] * 5,
        [REFUSED, result(Outcome.PERMANENT, rule="other")] * 9,
        [AMBIGUOUS, AMBIGUOUS],
        [result(Outcome.RETRYABLE, Scope.ACCOUNT, pressure=Pressure.THROTTLE)] * 9,
    ],
)
def test_what_does_not(results: list[CallResult]) -> None:
    assert after_results(Tally(), results, POLICY)[1] is None


def test_doubts_of_an_older_window_are_forgotten() -> None:
    old = Tally(ambiguous=2, window_age_seconds=POLICY.window_seconds + 1)
    tally, trip = after_results(old, [AMBIGUOUS], POLICY)
    assert (tally.ambiguous, trip) == (1, None)


def test_a_probe_that_fails_opens_again_for_twice_as_long() -> None:
    first, trip = after_results(Tally(), [ACCOUNT], POLICY)
    assert trip is not None
    _, again = after_results(first, [ACCOUNT], POLICY)
    assert again is not None
    assert again.seconds == 2 * trip.seconds
    opened, _ = after_results(Tally(), [FAILURE] * 3, POLICY)
    assert after_results(opened, [FAILURE], POLICY)[1] is not None


@given(st.integers(0, 200))
def test_the_time_away_is_bounded(openings: int) -> None:
    seconds = open_seconds(Tally(openings=openings), POLICY)
    assert POLICY.first_open_seconds <= seconds <= POLICY.longest_open_seconds


@pytest.mark.parametrize("stage", ["freeze", "compose", "begin"])
def test_what_never_reached_a_provider_says_nothing_about_it(stage: str) -> None:
    assert not is_health_sign(result(Outcome.PERMANENT, stage=stage))


def test_a_lost_lease_says_nothing_either() -> None:
    assert not is_health_sign(result(Outcome.RETRYABLE, Scope.CONNECTION, rule="lease-expired"))


def test_a_circuit_is_no_wider_than_the_fault() -> None:
    narrow = result(Outcome.RETRYABLE, Scope.ACCOUNT, blame=Blame.SENDER)
    assert key_of("ses:x", "a@example.com", narrow) == "ses:x sender a@example.com"
    assert key_of("ses:x", "a@example.com", ACCOUNT) == "ses:x"


@given(
    st.floats(0.1, 1000),
    st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 50)), min_size=1, max_size=60),
)
def test_no_second_grants_more_than_the_rate_and_one_burst(
    rate: float, asks: list[tuple[float, int]]
) -> None:
    bucket, clock = Bucket(rate, 1.0, 0.0), 0.0
    grants: list[tuple[float, int]] = []
    largest = 1
    for pause, want in asks:
        clock += pause
        bucket, granted = bucket.take(want, pause)
        assert 0 <= granted <= want
        if granted:
            grants.append((clock, granted))
            largest = max(largest, granted)
    for at, _ in grants:
        within = sum(count for when, count in grants if at <= when < at + 1.0)
        assert within <= rate + bucket.burst + largest + 1e-6


def test_a_message_larger_than_the_bucket_leaves_a_debt() -> None:
    bucket, granted = Bucket(10, 1.0, 0.0).take(50, elapsed_seconds=1.0)
    assert (granted, bucket.tokens) == (50, -49)
    assert bucket.take(1, elapsed_seconds=4.0)[1] == 0
    assert bucket.take(1, elapsed_seconds=5.0)[1] == 1


def test_a_slowed_rate_recovers_by_and_by() -> None:
    bucket = Bucket(100, 0.5, 0.0)
    slow, _ = bucket.take(0, elapsed_seconds=0.1)
    assert slow.tokens == pytest.approx(5.0)
    assert slow.slowed > 0.5
    assert bucket.take(0, elapsed_seconds=60)[0].slowed == 1.0
