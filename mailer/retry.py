"""When to try again, and when to give up: pure rules; the jitter is passed in."""

from collections.abc import Callable
from dataclasses import dataclass

Jitter = Callable[[], float]
"""Draws from [0, 1)."""

SHORTEST_DELAY_SECONDS = 1.0
"""Full jitter may draw zero; a server that has just said "later" is not asked again at once."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a message is tried, and how long an ambiguous one waits.

    `max_attempts` bounds the attempts charged to the message; `max_age_seconds` bounds them all,
    counted from when the message was queued. `ambiguous_wait_seconds` and `max_resends` apply to
    messages whose `on_ambiguous` is not `hold`.
    """

    max_attempts: int = 10
    max_age_seconds: float = 3 * 86400.0
    base_seconds: float = 15.0
    cap_seconds: float = 3600.0
    ambiguous_wait_seconds: float = 900.0
    max_resends: int = 1


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after `delay_seconds`."""

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop trying; `reason` says which bound was reached."""

    reason: str


def backoff_seconds(policy: RetryPolicy, tries: int, jitter: float) -> float:
    """Full jitter: a point, `jitter` in [0, 1), of the exponential window after `tries` tries."""
    exponent = min(max(tries - 1, 0), 30)
    window = min(policy.cap_seconds, policy.base_seconds * 2.0**exponent)
    return max(SHORTEST_DELAY_SECONDS, window * jitter)


def decide(
    policy: RetryPolicy,
    *,
    spent: int,
    tries: int,
    age_seconds: float,
    jitter: float,
    hint_seconds: float | None = None,
) -> Retry | GiveUp:
    """Decide what follows a retryable outcome.

    `spent` is the budget used, this attempt included where it is charged; `tries` counts every
    attempt. A server's own delay hint is a floor under the backoff, bounded by its cap.
    """
    if spent >= policy.max_attempts:
        return GiveUp("budget")
    delay = backoff_seconds(policy, tries, jitter)
    if hint_seconds is not None:
        delay = max(delay, min(hint_seconds, policy.cap_seconds))
    if age_seconds + delay > policy.max_age_seconds:
        return GiveUp("age")
    return Retry(delay)
