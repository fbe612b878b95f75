"""When a provider is trusted with mail: the circuit breaker's rules. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from mailer.outcome import Blame, CallResult, Outcome, Pressure, Scope
from mailer.provider import Refusal


class CircuitState(StrEnum):
    """Whether a provider's mail is claimed (`email_provider.state`)."""

    CLOSED = "closed"
    """In use. Entered by the first sign of health, or by an operator."""
    OPEN = "open"
    """Not used until `until`. Entered by the faults below, or by an operator; left by a probe."""
    HALF_OPEN = "half_open"
    """One probe is out until `until`; it closes the circuit or opens it again, for longer."""


@dataclass(frozen=True, slots=True)
class CircuitPolicy:
    """What opens a circuit, and for how long. Times are seconds.

    An account's refusal opens it at once. `permanents_in_a_row` of one rule without an acceptance
    between them point to a bug or a policy that eats the queue; `ambiguous_in_window` keep a
    failing provider from putting the queue in doubt.
    """

    permanents_in_a_row: int = 30
    ambiguous_in_window: int = 10
    window_seconds: float = 60.0
    connection_failures_in_a_row: int = 5
    first_open_seconds: float = 15.0
    longest_open_seconds: float = 900.0
    quota_pause_seconds: float = 900.0


@dataclass(frozen=True, slots=True)
class Tally:
    """What is remembered of a provider's latest calls; `openings` counts those since it worked."""

    permanents: int = 0
    permanent_rule: str | None = None
    ambiguous: int = 0
    window_age_seconds: float = 0.0
    connection_failures: int = 0
    openings: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing that an acceptance would have to wipe out."""
        return self == Tally(window_age_seconds=self.window_age_seconds)


@dataclass(frozen=True, slots=True)
class Trip:
    """The circuit opens, for this reason and this long."""

    reason: str
    seconds: float


_NOT_ABOUT_THE_PROVIDER = frozenset({"freeze", "compose", "begin", "prepare", "unknown"})
"""Stages before a provider was spoken to."""

_WITHHELD = frozenset(Refusal)


def is_health_sign(result: CallResult) -> bool:
    """Tell whether a result says something about the provider at all."""
    return result.stage not in _NOT_ABOUT_THE_PROVIDER and result.rule not in _WITHHELD


def is_trouble(result: CallResult) -> bool:
    """Tell whether a result may open a circuit."""
    return is_health_sign(result) and (
        result.outcome in (Outcome.AMBIGUOUS, Outcome.PERMANENT)
        or result.scope in (Scope.ACCOUNT, Scope.CONNECTION)
    )


def after_results(
    tally: Tally, results: Iterable[CallResult], policy: CircuitPolicy
) -> tuple[Tally, Trip | None]:
    """Count results in, one by one, and say whether they open the circuit."""
    trip: Trip | None = None
    for result in results:
        tally, tripped = _after(tally, result, policy)
        trip = trip or tripped
    if trip is not None:
        tally = replace(tally, openings=tally.openings + 1)
    return tally, trip


def _after(tally: Tally, result: CallResult, policy: CircuitPolicy) -> tuple[Tally, Trip | None]:
    if result.scope is Scope.ACCOUNT:
        return tally, _account_trip(tally, result, policy)
    if result.outcome is Outcome.AMBIGUOUS:
        return _count_ambiguous(tally, policy)
    if result.outcome is Outcome.PERMANENT:
        return _count_permanent(tally, result.rule, policy)
    if result.scope is Scope.CONNECTION:
        return _count_failure(tally, result.rule, policy)
    if result.outcome is Outcome.ACCEPTED:
        return Tally(), None
    return replace(tally, connection_failures=0, openings=0), None


def _account_trip(tally: Tally, result: CallResult, policy: CircuitPolicy) -> Trip | None:
    if result.pressure is Pressure.THROTTLE:
        return None
    if result.pressure is Pressure.QUOTA:
        return Trip("quota used up", policy.quota_pause_seconds)
    return Trip(f"account: {result.rule}", open_seconds(tally, policy))


def _count_ambiguous(tally: Tally, policy: CircuitPolicy) -> tuple[Tally, Trip | None]:
    fresh = tally.window_age_seconds > policy.window_seconds or not tally.ambiguous
    count = 1 if fresh else tally.ambiguous + 1
    age = 0.0 if fresh else tally.window_age_seconds
    counted = replace(tally, ambiguous=count, window_age_seconds=age)
    if count < policy.ambiguous_in_window:
        return counted, None
    return replace(counted, ambiguous=0), Trip(
        f"{count} messages in doubt", open_seconds(tally, policy)
    )


def _count_permanent(tally: Tally, rule: str, policy: CircuitPolicy) -> tuple[Tally, Trip | None]:
    count = tally.permanents + 1 if tally.permanent_rule == rule else 1
    counted = replace(
        tally, permanents=count, permanent_rule=rule, connection_failures=0, openings=0
    )
    if count < policy.permanents_in_a_row:
        return counted, None
    return replace(counted, permanents=0), Trip(
        f"{count} refusals in a row: {rule}", open_seconds(tally, policy)
    )


def _count_failure(tally: Tally, rule: str, policy: CircuitPolicy) -> tuple[Tally, Trip | None]:
    count = tally.connection_failures + 1
    counted = replace(tally, connection_failures=count)
    if count < policy.connection_failures_in_a_row and not tally.openings:
        return counted, None
    return replace(counted, connection_failures=0), Trip(
        f"connection: {rule}", open_seconds(tally, policy)
    )


def open_seconds(tally: Tally, policy: CircuitPolicy) -> float:
    """How long to stay away: twice as long after each opening without a recovery."""
    doubled: float = policy.first_open_seconds * 2.0 ** min(tally.openings, 20)
    return min(policy.longest_open_seconds, doubled)


def key_of(provider: str, sender: str, result: CallResult) -> str:
    """Name the circuit that a result is about: no wider than the fault."""
    narrow = result.scope is Scope.ACCOUNT and result.blame is Blame.SENDER
    return sender_key(provider, sender) if narrow else provider


def sender_key(provider: str, sender: str) -> str:
    """The circuit of one sender identity at one provider."""
    return f"{provider} sender {sender}"


RECOVERY_SECONDS = 60.0
"""A rate that a throttle answer has slowed is back at its full height after this long."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket: `tokens` recipients may be sent to, refilled at `rate * slowed` a second."""

    rate: float
    slowed: float
    tokens: float

    @property
    def burst(self) -> float:
        """What it holds: a tenth of a second's worth, so that a second's edge cannot double it."""
        return max(1.0, self.rate / 10.0)

    def take(self, want: int, elapsed_seconds: float) -> tuple["Bucket", int]:
        """Refill, and grant up to `want`.

        A message larger than the bucket is let through when it is full, and leaves a debt.
        """
        held = min(self.burst, self.tokens + elapsed_seconds * self.rate * self.slowed)
        whole = held >= want or (held >= self.burst and want > self.burst)
        granted = want if whole else max(0, int(held))
        slowed = min(1.0, self.slowed + elapsed_seconds / RECOVERY_SECONDS)
        return Bucket(self.rate, slowed, held - granted), granted
