"""The product as a measurement runs it: its real worker processes over a private database."""

import datetime as dt
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg2

from benchmarks.contestant import ask, environment
from benchmarks.crew import Crew
from benchmarks.letter import HTML, RECIPIENT, SENDER, SUBJECT, TEXT
from tests.builders import SECRET, bound_to, enqueue

_DRAIN_SECONDS = 0.2
_FAR_OFF = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Workers:
    """How the worker processes are set up; `swaps` is for `benchmarks.peers.ours_worker`."""

    database_url: str
    sink_port: int
    redis_url: str | None = None
    processes: int = 2
    connections: int = 32
    batch: int = 500
    poll_seconds: float = 0.1
    swaps: tuple[tuple[str, str], ...] = ()


def start(workers: Workers, crew: Crew) -> None:
    """Start the worker processes and wait until each of them polls."""
    environ = environment(
        DATABASE_URL=workers.database_url,
        MAILER_PROVIDERS=f"smtp://127.0.0.1:{workers.sink_port}?tls=none",
        MAILER_FROM=SENDER,
        MAILER_SECRET=SECRET,
        MAILER_BATCH=str(workers.batch),
        MAILER_CONCURRENCY=str(workers.connections),
        MAILER_POLL_SECONDS=str(workers.poll_seconds),
        dramatiq_worker_timeout="50",
        **dict(workers.swaps),
    )
    if workers.redis_url is not None:
        environ["REDIS_URL"] = workers.redis_url
    module = "benchmarks.peers.ours_worker" if workers.swaps else "actors.worker"
    crew.launch(
        [
            *(sys.executable, "-m", "dramatiq", f"{module}:broker", "--skip-logging"),
            *("--processes", str(workers.processes), "--threads", "4"),
        ],
        environ,
    )
    while _sessions(workers.database_url) < workers.processes:
        crew.check()
        time.sleep(0.1)


@contextmanager
def running(workers: Workers) -> Iterator[Crew]:
    """Have the worker processes for the block."""
    with Crew() as crew:
        start(workers, crew)
        yield crew


def queue(
    url: str, rows: int, *, name: str = "k", priority: int = 5, ready: bytes | None = None
) -> float:
    """Enqueue one row through the product, multiply it, and return the commit's moment.

    Seconds on the database's clock. Rows hold the `ready` octets as their text if there are any.
    """
    with bound_to(url):
        enqueue(
            f"{name}0",
            RECIPIENT,
            sender=SENDER,
            subject=SUBJECT,
            text=TEXT,
            html=HTML,
            priority=priority,
            # Far from due until it is multiplied: a worker that runs would take it before.
            send_at=_FAR_OFF,
        )
    connection = psycopg2.connect(url)
    with connection, connection.cursor() as cursor:
        if ready is not None:
            cursor.execute(
                "UPDATE email_outbox SET text = %s, html = NULL WHERE dedup_key = %s",
                [ready.decode(), f"{name}0"],
            )
        cursor.execute(_MULTIPLY, {"name": name, "rows": rows - 1})
        cursor.execute(_RECIPIENTS, {"name": name, "address": RECIPIENT})
        cursor.execute(
            "UPDATE email_outbox SET next_attempt_at = now() WHERE dedup_key = %s", [f"{name}0"]
        )
        cursor.execute("ANALYZE email_outbox; ANALYZE email_recipient")
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        (moment,) = cursor.fetchone() or (0.0,)
    connection.close()
    return float(moment)


_MULTIPLY = """
INSERT INTO email_outbox (dedup_key, fingerprint, message_id, sender, "to", subject, text, html,
    priority)
SELECT %(name)s || n, fingerprint, replace(message_id, '<', '<' || n || '.'), sender, "to", subject,
    text, html, priority
FROM email_outbox, generate_series(1, %(rows)s) AS n WHERE dedup_key = %(name)s || '0'
"""

_RECIPIENTS = """
INSERT INTO email_recipient (outbox_id, address, address_key, role)
SELECT o.id, %(address)s, %(address)s, 'to' FROM email_outbox o
WHERE o.dedup_key ~ ('^' || %(name)s || '[0-9]+$') AND o.dedup_key <> %(name)s || '0'
"""


def wait_drained(url: str, crew: Crew, *, priority: int | None = None) -> float:
    """Wait until every row (of one priority) is submitted; return when the last one was written.

    Seconds on the database's clock.
    """
    of_those = "" if priority is None else f" AND priority = {priority}"
    # Each half has an index of its own, so that looking costs the run next to nothing.
    left = " OR ".join(
        f"EXISTS (SELECT FROM email_outbox WHERE state = '{state}'{of_those})"
        for state in ("pending", "sending")
    )
    while ask(url, f"SELECT ({left})::int"):
        crew.check()
        time.sleep(_DRAIN_SECONDS)
    return ask(
        url, f"SELECT extract(epoch FROM max(finished_at)) FROM email_outbox WHERE true{of_those}"
    )


def _sessions(url: str) -> float:
    # The one that asks is not counted.
    return ask(
        url,
        "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend'",
    )
