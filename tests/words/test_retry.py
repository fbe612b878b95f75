"""When to try again: bounds and jitter."""

from hypothesis import given
from hypothesis import strategies as st

from mailer.retry import SHORTEST_DELAY_SECONDS, GiveUp, Retry, RetryPolicy, backoff_seconds, decide

POLICY = RetryPolicy(max_attempts=3, max_age_seconds=1000, base_seconds=10, cap_seconds=100)
jitters = st.floats(0, 1, exclude_max=True)


@given(st.integers(0, 10_000), jitters)
def test_backoff_is_full_jitter_under_a_doubling_window(tries: int, jitter: float) -> None:
    delay = backoff_seconds(POLICY, tries, jitter)
    window = min(100, 10 * 2 ** min(max(tries - 1, 0), 30))
    assert delay == max(SHORTEST_DELAY_SECONDS, window * jitter)


@given(st.integers(1, 40))
def test_the_window_never_shrinks(tries: int) -> None:
    assert backoff_seconds(POLICY, tries, 0.9) <= backoff_seconds(POLICY, tries + 1, 0.9)


@given(st.integers(0, 10), st.integers(1, 50), st.floats(0, 3000), jitters)
def test_both_bounds_end_it(spent: int, tries: int, age: float, jitter: float) -> None:
    verdict = decide(POLICY, spent=spent, tries=tries, age_seconds=age, jitter=jitter)
    if spent >= 3:
        assert verdict == GiveUp("budget")
    elif isinstance(verdict, Retry):
        assert age + verdict.delay_seconds <= 1000
    else:
        assert verdict == GiveUp("age")
        assert age + 100 > 1000


@given(st.floats(0, 1e6), jitters)
def test_a_servers_hint_is_a_floor_under_the_cap(hint: float, jitter: float) -> None:
    verdict = decide(POLICY, spent=0, tries=1, age_seconds=0, jitter=jitter, hint_seconds=hint)
    assert isinstance(verdict, Retry)
    assert min(hint, 100) <= verdict.delay_seconds <= 100
