"""`GET /metrics`: the outbox in numbers, read from the database and kept for a few seconds.

Any number of scrapers costs the database one reading every `CACHE_SECONDS`. No label holds an
address, a key or an id.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mailer.aside import aside
from mailer.clock import Clock, awake_or_asleep
from mailer.database import AWAY, DatabaseError
from mailer.vitals import RECENT_SECONDS, Vitals, vitals

CACHE_SECONDS = 5.0
CONTENT_TYPE = CONTENT_TYPE_LATEST


class MetricsDoor:
    """Answers `GET /metrics`, one reading at a time however many ask."""

    def __init__(self, metrics: "Metrics") -> None:
        self._metrics = metrics
        self._reading: asyncio.Task[bytes] | None = None

    def routes(self) -> list[Route]:
        """Return the routes of this part."""
        return [Route("/metrics", self.get)]

    async def get(self, _: Request) -> Response:
        """Answer one scrape."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(aside(self._metrics.text))
        text = await asyncio.shield(self._reading)
        return Response(text, headers={"content-type": CONTENT_TYPE})


class Metrics(Collector):
    """Reads the vitals when they are asked for, at most once every `CACHE_SECONDS`.

    Where the database cannot be read, `mailer_database_up` is 0 and the rest is left out: old
    numbers would look like calm. `answers` are the door's own, by status and rule.
    """

    def __init__(
        self,
        read: Callable[[], Vitals] = vitals,
        clock: Clock = awake_or_asleep,
        answers: Mapping[tuple[int, str], int] | None = None,
    ) -> None:
        self._answers = {} if answers is None else answers
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: Vitals | None = None
        self._read_at = float("-inf")
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return them in Prometheus' text format; blocks while the database is read."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Name nothing beforehand: registering must not read the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        present = self._present()
        yield GaugeMetricFamily(
            "mailer_database_up",
            "Whether the outbox could be read.",
            value=float(present is not None),
        )
        yield self._answered()
        if present is not None:
            yield from _families(present)

    def _answered(self) -> Metric:
        family = CounterMetricFamily(
            "mailer_event_answers",
            "Answers of this process's door for events, by status and rule.",
            labels=("status", "rule"),
        )
        for (status, rule), count in list(self._answers.items()):
            family.add_metric((str(status), rule), count)
        return family

    def _present(self) -> Vitals | None:
        with self._lock:
            if self._clock() - self._read_at >= CACHE_SECONDS:
                self._kept = self._fresh()
                self._read_at = self._clock()
            return self._kept

    def _fresh(self) -> Vitals | None:
        try:
            return self._read()
        except (*AWAY, DatabaseError):
            return None


def _families(it: Vitals) -> Iterator[Metric]:
    yield _gauge("mailer_due_rows", "Rows that are due now.", it.due)
    yield _gauge(
        "mailer_oldest_due_seconds", "For how long the oldest due row waits.", it.oldest_due_seconds
    )
    yield _gauge(
        "mailer_oldest_ambiguous_seconds",
        "For how long the oldest row is in doubt.",
        it.oldest_ambiguous_seconds,
    )
    yield _gauge("mailer_overdue_leases", "Leases that await a sweep.", it.overdue_leases)
    yield _gauge(
        "mailer_duplicate_attempts",
        "Attempts whose acceptance came on top of another's.",
        it.duplicates,
    )
    yield _gauge(
        "mailer_event_lag_seconds",
        "For how long the oldest stored event waits to be interpreted.",
        it.event_lag_seconds,
    )
    yield _gauge(
        "mailer_event_transit_seconds",
        "The longest way of the latest events from publication to here.",
        it.event_transit_seconds,
    )
    yield _labelled(
        "mailer_rows",
        "Rows by state, all but the submitted ones.",
        ("state",),
        {(state,): count for state, count in it.rows.items()},
    )
    yield _labelled(
        "mailer_recent_attempts",
        f"Attempts that ended in the last {RECENT_SECONDS:.0f} s, by outcome and rule.",
        ("outcome", "rule"),
        {(outcome, rule): count for outcome, rule, count in it.attempts},
    )
    yield _labelled(
        "mailer_events",
        "Events that are not interpreted, have no attempt yet, or cannot be read.",
        ("state",),
        {(state,): count for state, count in it.events.items()},
    )
    yield _labelled(
        "mailer_suppressions",
        "Addresses that were suppressed and not released, by reason.",
        ("reason",),
        {(reason,): count for reason, count in it.suppressions.items()},
    )
    yield _labelled(
        "mailer_circuits",
        "Circuits by provider, by what they are about, and by state.",
        ("provider", "about", "state"),
        it.circuits,
    )


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)


def _labelled(
    name: str, meaning: str, labels: tuple[str, ...], counts: Mapping[tuple[str, ...], int]
) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family
