"""Commit to the last octet at the sink, one message at a time on an idle system, milliseconds.

With hints over Redis, by the poll alone, and beside a plain Dramatiq actor as dramatiq comes.
`python -m benchmarks.latency --sends 200`
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import dramatiq
import psycopg2
from dramatiq.brokers.redis import RedisBroker

from benchmarks.contestant import Bout, Ring
from benchmarks.crew import Crew, Failed
from benchmarks.environments import python_for
from benchmarks.letter import HTML, RECIPIENT, SUBJECT, TEXT
from benchmarks.peers.plain_dramatiq import PlainDramatiq
from benchmarks.product import Workers, running
from benchmarks.report import Mark, close, parser, percentile, table
from benchmarks.stopwatch import Arrivals, stopwatch
from mailer.database import bound
from mailer.hints import Hinter, Nudge, silent
from mailer.prove.kit.servers import PostgresServer, RedisServer
from tests.builders import bound_to, enqueue, prepare

HINTED, POLLED, ACTOR = "with hints", "poll alone", "plain Dramatiq actor"

Commit = Callable[[int], float]
"""Commits message n and returns when that was done, on `time.perf_counter`."""


def main() -> None:
    """Measure and report."""
    made = parser(__doc__)
    made.add_argument("--sends", type=int, default=200)
    made.add_argument("--poll", type=float, default=1.0, help="the poll interval, seconds")
    options = made.parse_args()
    delays: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    with PostgresServer(durable=True) as postgres, RedisServer() as redis, stopwatch() as arrivals:

        def measure(name: str, commit: Commit, pauses: tuple[float, float]) -> None:
            delays[name] = _delays(commit, arrivals, options.sends, pauses)
            print(f"{name}: done", file=sys.stderr, flush=True)

        url = postgres.create_database()
        with _ours(url, arrivals, redis.url, options.poll) as commit:
            measure(HINTED, commit, (0.2, 0.7))
        url = postgres.create_database()
        with _ours(url, arrivals, None, options.poll) as commit:
            measure(POLLED, commit, (0.1, 0.1 + options.poll))
        url = postgres.create_database()
        redis.flush()
        try:
            with _actor(
                Ring(url, redis.url, arrivals.port, python_for("plain_dramatiq.txt"))
            ) as commit:
                measure(ACTOR, commit, (0.2, 0.7))
        except Failed as failure:
            missing[ACTOR] = str(failure)
    close(
        options,
        {"missing": missing, "milliseconds": {name: _summary(of) for name, of in delays.items()}},
        [*_lines(delays), *(f"not measured: {name}: {why}" for name, why in missing.items())],
        marks(delays, options.poll),
    )


@contextmanager
def _ours(url: str, arrivals: Arrivals, redis_url: str | None, poll: float) -> Iterator[Commit]:
    prepare(url)
    workers = Workers(url, arrivals.port, redis_url=redis_url, poll_seconds=poll)
    nudge: Nudge = silent if redis_url is None else Hinter(redis_url).nudge
    with running(workers), bound_to(url):

        def commit(number: int) -> float:
            moments: list[float] = []
            with bound().atomic():
                bound().after_commit(lambda: moments.append(time.perf_counter()))
                enqueue(f"k{number}", RECIPIENT, subject=SUBJECT, text=TEXT, html=HTML, nudge=nudge)
            return moments[0]

        yield commit


@contextmanager
def _actor(ring: Ring) -> Iterator[Commit]:
    contestant = PlainDramatiq()
    bout = Bout(rows=0, processes=2, connections=1, batch=1, ready=None)
    contestant.prepare(ring, bout)
    broker = RedisBroker(url=ring.redis_url)  # type: ignore[no-untyped-call]
    broker.declare_queue("default")
    insert = "INSERT INTO mail (recipient, subject, text, html, ready) VALUES (%s, %s, %s, %s, '')"
    with ExitStack() as stack:
        crew = stack.enter_context(Crew())
        contestant.start(ring, bout, crew)
        database = psycopg2.connect(ring.database_url)
        stack.callback(database.close)

        def commit(number: int) -> float:
            with database, database.cursor() as cursor:
                cursor.execute(insert + " RETURNING id", [RECIPIENT, SUBJECT, TEXT, HTML])
                (mail_id,) = cursor.fetchone() or (0,)
            committed = time.perf_counter()
            broker.enqueue(
                dramatiq.Message(
                    queue_name="default", actor_name="send", args=(mail_id,), kwargs={}, options={}
                )
            )
            return committed

        yield commit


def _delays(
    commit: Commit, arrivals: Arrivals, sends: int, pauses: tuple[float, float]
) -> list[float]:
    """The first send opens connections and is not counted."""
    pause = random.Random(1)
    found = []
    for number in range(sends + 1):
        time.sleep(pause.uniform(*pauses))
        committed = commit(number)
        found.append((arrivals.next() - committed) * 1e3)
    return found[1:]


def _summary(delays: list[float]) -> dict[str, float]:
    return {"p50": percentile(delays, 0.5), "p99": percentile(delays, 0.99), "max": max(delays)}


def _lines(delays: dict[str, list[float]]) -> list[str]:
    rows = [
        (name, *(f"{value:.1f}" for value in _summary(of).values())) for name, of in delays.items()
    ]
    return table(("commit to the sink, ms", "p50", "p99", "max"), rows)


def marks(delays: dict[str, list[float]], poll_seconds: float) -> list[Mark]:
    """What has to be reached."""
    hinted, polled = _summary(delays[HINTED]), _summary(delays[POLLED])
    return [
        Mark("commit to the sink with hints, p50", hinted["p50"], 25, "ms"),
        Mark("commit to the sink with hints, p99", hinted["p99"], 80, "ms"),
        Mark(
            "commit to the sink by the poll alone, longest",
            polled["max"],
            poll_seconds * 1e3 + 100,
            "ms",
        ),
    ]


if __name__ == "__main__":
    main()
