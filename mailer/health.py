"""The health of providers in the database: shared by all workers, seen by operators.

Works without a broker. A circuit's row is written only when a result says something new about the
provider; the usual acceptance of a healthy one costs nothing here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import SQL

from mailer.circuit import (
    Bucket,
    CircuitPolicy,
    CircuitState,
    Tally,
    Trip,
    after_results,
    is_health_sign,
    key_of,
    sender_key,
)
from mailer.database import after, is_postgresql, now, rows, transaction
from mailer.health_sql import POSTGRESQL_TAKE
from mailer.outcome import CallResult, Outcome, Pressure
from mailer.tables import ProviderHealth

LEAST_SHARE = 0.05
"""A throttled provider is never slowed below this share of its rate."""

UNKNOWN_RATE_PAUSE_SECONDS = 5.0
"""How long to stay away after a throttle answer of a provider whose rate nobody knows."""


@dataclass(frozen=True, slots=True)
class Health:
    """One row of `email_provider` as workers need it; `ready`: an open circuit may be probed."""

    name: str
    provider: str
    sender: str | None
    state: CircuitState
    ready: bool
    is_clean: bool
    rate: float | None


@dataclass(frozen=True, slots=True)
class Change:
    """What results made of a circuit."""

    name: str
    sender: str | None
    state: CircuitState
    reason: str


def snapshot() -> dict[str, Health]:
    """Read the health of everything that has a row; what has none is healthy."""
    query = ProviderHealth.select(ProviderHealth, (ProviderHealth.until <= now()).alias("ready"))
    return {each.name: _health(each) for each in query}


def _health(row: Any) -> Health:
    tally = Tally(
        permanents=row.permanents,
        ambiguous=row.ambiguous,
        connection_failures=row.connection_failures,
        openings=row.openings,
    )
    return Health(
        row.name,
        row.provider,
        row.sender,
        CircuitState(row.state),
        bool(row.ready),
        tally.is_clean,
        row.rate,
    )


def claim_probe(name: str, *, seconds: float) -> bool:
    """Take the one probe of a circuit whose time is up; it is given out again if it never ends."""
    taken = (
        ProviderHealth.update(state=CircuitState.HALF_OPEN, until=after(seconds))
        .where(
            (ProviderHealth.name == name)
            & (ProviderHealth.state != CircuitState.CLOSED)
            & (ProviderHealth.until <= now())
        )
        .execute()
    )
    return bool(taken)


def give_back_probe(name: str) -> None:
    """Let another worker probe: this one found nothing to send."""
    ProviderHealth.update(state=CircuitState.OPEN, until=now()).where(
        (ProviderHealth.name == name) & (ProviderHealth.state == CircuitState.HALF_OPEN)
    ).execute()


def note(
    provider: str,
    ended: Sequence[tuple[str, CallResult]],
    known: Mapping[str, Health],
    policy: CircuitPolicy,
) -> list[Change]:
    """Count results, given with their senders, into the circuits that they are about."""
    about: dict[str, list[CallResult]] = {}
    senders: dict[str, str | None] = {}
    for sender, result in ended:
        for key in _keys(provider, sender, result, known):
            about.setdefault(key, []).append(result)
            senders[key] = sender if key != provider else None
    changes = [
        _count(key, provider, senders[key], results, policy)
        for key, results in about.items()
        if _matters(results, known.get(key))
    ]
    return [each for each in changes if each is not None]


def _keys(
    provider: str, sender: str, result: CallResult, known: Mapping[str, Health]
) -> Iterator[str]:
    if not is_health_sign(result):
        return
    yield key_of(provider, sender, result)
    if sender_key(provider, sender) in known and _recovered([result]):
        yield sender_key(provider, sender)


def _matters(results: Sequence[CallResult], known: Health | None) -> bool:
    if any(each.outcome is not Outcome.ACCEPTED for each in results):
        return True
    return known is not None and not (known.state is CircuitState.CLOSED and known.is_clean)


def _count(
    key: str,
    provider: str,
    sender: str | None,
    results: Sequence[CallResult],
    policy: CircuitPolicy,
) -> Change | None:
    with transaction():
        row = _locked(key, provider, sender)
        if _stays_away(row):
            return None
        tally, trip = after_results(_tally(row), results, policy)
        trip = trip or _throttled(row, results)
        state, reason = CircuitState(row.state), row.reason
        if trip is not None:
            state, reason = CircuitState.OPEN, trip.reason
        elif _recovered(results):
            state, reason = CircuitState.CLOSED, None
        _write(row, tally, state, reason, trip)
        if state == row.state:
            return None
        return Change(key, sender, state, reason or "recovered")


def _stays_away(row: Any) -> bool:
    """An open circuit ends with its time: a call that was in flight neither ends nor cuts it."""
    return row.state == CircuitState.OPEN and not row.due


def _recovered(results: Sequence[CallResult]) -> bool:
    """Any definite answer about a message shows that the provider works."""
    definite = (Outcome.ACCEPTED, Outcome.PERMANENT)
    return any(each.outcome in definite for each in results)


def _throttled(row: Any, results: Sequence[CallResult]) -> Trip | None:
    if not any(each.pressure is Pressure.THROTTLE for each in results):
        return None
    if row.rate is None:
        return Trip("throttled", UNKNOWN_RATE_PAUSE_SECONDS)
    row.slowed = max(LEAST_SHARE, row.slowed / 2)
    ProviderHealth.update(slowed=row.slowed, tokens=0).where(ProviderHealth.id == row.id).execute()
    return None


def _locked(key: str, provider: str, sender: str | None) -> Any:
    ensure(key, provider, sender)
    query = ProviderHealth.select(
        ProviderHealth, _window_age(), (ProviderHealth.until <= now()).alias("due")
    ).where(ProviderHealth.name == key)
    return (query.for_update() if is_postgresql() else query).get()


def ensure(key: str, provider: str, sender: str | None = None) -> None:
    """Have a row for `key`; any number of workers may ask at once."""
    ProviderHealth.insert(name=key, provider=provider, sender=sender).on_conflict(
        conflict_target=[ProviderHealth.name], action="IGNORE"
    ).returning(ProviderHealth.id).execute()


def _tally(row: Any) -> Tally:
    return Tally(
        permanents=row.permanents,
        permanent_rule=row.permanent_rule,
        ambiguous=row.ambiguous,
        window_age_seconds=float(row.window_age),
        connection_failures=row.connection_failures,
        openings=row.openings,
    )


def _write(
    row: Any, tally: Tally, state: CircuitState, reason: str | None, trip: Trip | None
) -> None:
    changes: dict[str, Any] = {
        "permanents": tally.permanents,
        "permanent_rule": tally.permanent_rule,
        "ambiguous": tally.ambiguous,
        "connection_failures": tally.connection_failures,
        "openings": tally.openings,
        "state": state,
        "reason": reason,
    }
    if tally.ambiguous == 1 and row.ambiguous != 1:
        changes["ambiguous_since"] = now()
    if state != row.state:
        changes["since"] = now()
    if trip is not None:
        changes["until"] = after(trip.seconds)
    elif state is CircuitState.CLOSED:
        changes["until"] = None
    ProviderHealth.update(**changes).where(ProviderHealth.id == row.id).execute()


def set_circuit(name: str, state: CircuitState, *, reason: str, seconds: float) -> CircuitState:
    """Open or close a circuit by hand; return the state it left."""
    with transaction():
        row = _locked(name, name, None)
        left = CircuitState(row.state)
        closed = state is CircuitState.CLOSED
        ProviderHealth.update(
            state=state,
            reason=None if closed else reason,
            since=now(),
            until=None if closed else after(seconds),
            **({"openings": 0, "connection_failures": 0, "permanents": 0} if closed else {}),
        ).where(ProviderHealth.id == row.id).execute()
        return left


def pause(name: str, *, reason: str, seconds: float) -> bool:
    """Open a circuit that is in use; one that is open already keeps its reason and its time."""
    with transaction():
        row = _locked(name, name, None)
        if _stays_away(row):
            return False
        ProviderHealth.update(
            state=CircuitState.OPEN, reason=reason, since=now(), until=after(seconds)
        ).where(ProviderHealth.id == row.id).execute()
        return True


def take(name: str, recipients: int) -> int:
    """Take leave to send to up to `recipients` now; return to how many.

    One statement for all workers: the bucket refills at the provider's rate, holds a tenth of a
    second's worth (at least one), and a message larger than that is let through when it is full.
    """
    if is_postgresql():
        found = rows(POSTGRESQL_TAKE, {"name": name, "want": recipients})
        return int(found[0][0]) if found else recipients
    return _take_in_steps(name, recipients)


def _take_in_steps(name: str, recipients: int) -> int:
    elapsed = SQL("max(0.0, (julianday('now') - julianday(refilled_at)) * 86400.0)")
    with transaction():
        query = ProviderHealth.select(ProviderHealth, elapsed.alias("elapsed"))
        row: Any = query.where(
            (ProviderHealth.name == name) & ProviderHealth.rate.is_null(is_null=False)
        ).first()
        if row is None:
            return recipients
        bucket = Bucket(row.rate, row.slowed, row.tokens)
        after_taking, granted = bucket.take(recipients, float(row.elapsed))
        ProviderHealth.update(
            tokens=after_taking.tokens, slowed=after_taking.slowed, refilled_at=now()
        ).where(ProviderHealth.id == row.id).execute()
        return granted


def set_limits(name: str, *, rate: float | None, left_today: float | None) -> None:
    """Keep what the provider says that it allows."""
    ProviderHealth.update(rate=rate, left_today=left_today).where(
        ProviderHealth.name == name
    ).execute()


def claim_limits(name: str, *, every_seconds: float) -> bool:
    """Take the turn to ask a provider for its limits, where nobody has for `every_seconds`."""
    ensure(name, name)
    return bool(
        ProviderHealth.update(limits_at=now())
        .where(
            (ProviderHealth.name == name)
            & (
                ProviderHealth.limits_at.is_null()
                | (ProviderHealth.limits_at <= after(-every_seconds))
            )
        )
        .execute()
    )


def _window_age() -> Any:
    if is_postgresql():
        return SQL("extract(epoch FROM now() - ambiguous_since)").alias("window_age")
    return SQL("(julianday('now') - julianday(ambiguous_since)) * 86400.0").alias("window_age")
