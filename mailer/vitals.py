"""What a monitor watches: a few numbers, each from an index, whatever the history's length."""

from dataclasses import dataclass
from datetime import datetime

from mailer import lookups
from mailer.circuit import CircuitState
from mailer.database import connected

RECENT_SECONDS = 3_600.0
"""How far back attempts are counted."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """The outbox at one moment.

    `rows` are counts by state, of all states but `submitted`, whose count would cost the more the
    longer the history is. `attempts` counts those that ended within `RECENT_SECONDS` by outcome and
    rule. `events` are counts by state of those that still need something. `event_lag_seconds` is
    the age of the oldest event that is stored and not interpreted, `event_transit_seconds` how long
    the latest ones took from publication to here. `circuits` are counts by provider, by whether
    they are about all of it or about one sender, and by state: no sender is named.
    """

    rows: dict[str, int]
    due: int
    oldest_due_seconds: float
    oldest_ambiguous_seconds: float
    overdue_leases: int
    attempts: tuple[tuple[str, str, int], ...]
    duplicates: int
    events: dict[str, int]
    event_lag_seconds: float
    event_transit_seconds: float
    suppressions: dict[str, int]
    circuits: dict[tuple[str, ...], int]


def vitals() -> Vitals:
    """Read them all; raises what the database raises."""
    with connected():
        at = lookups.clock()
        waiting = lookups.waiting()
        oldest_event, latest_transit = lookups.event_lags()
        return Vitals(
            rows=lookups.unsettled_counts(),
            due=waiting.due,
            oldest_due_seconds=_age(waiting.oldest_due_at, at),
            oldest_ambiguous_seconds=_age(lookups.oldest_doubt(), at),
            overdue_leases=lookups.overdue_leases(),
            attempts=lookups.recent(RECENT_SECONDS).counts,
            duplicates=lookups.duplicates(),
            events=lookups.event_counts(),
            event_lag_seconds=_age(oldest_event, at),
            event_transit_seconds=latest_transit,
            suppressions=lookups.suppression_counts(),
            circuits=_circuits(),
        )


def _age(moment: datetime | None, at: datetime) -> float:
    return 0.0 if moment is None else max(0.0, (at - moment).total_seconds())


def _circuits() -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    for each in lookups.circuits():
        for state in CircuitState:
            key = (each.provider, "provider" if each.sender is None else "sender", state.value)
            found[key] = found.get(key, 0) + (each.state == state)
    return found
