"""A plain Dramatiq actor: it reads its row, sends it with smtplib, and writes one UPDATE.

Its worker threads, eight a process as dramatiq has them, keep their connections to the database and
to the relay; one that opened them for each mail would reach about half.
"""

import time

import redis

from benchmarks.contestant import Bout, Contestant, Ring, ask, environment, execute
from benchmarks.crew import Crew
from benchmarks.letter import HTML, RECIPIENT, SUBJECT, TEXT
from benchmarks.peers.children import run

_WORKER = "benchmarks.peers.plain_dramatiq_worker"

TABLE = """
CREATE TABLE mail (id bigserial PRIMARY KEY, recipient text NOT NULL, subject text NOT NULL,
    text text NOT NULL, html text NOT NULL, ready text NOT NULL, sent_at timestamptz)
"""


class PlainDramatiq(Contestant):
    """The row is in the table and its hint in Redis; a crash after the send sends it again."""

    name = "dramatiq actor"
    requirements = "plain_dramatiq.txt"

    def prepare(self, ring: Ring, bout: Bout) -> None:
        """Make the application's table."""
        execute(ring.database_url, TABLE)

    def start(self, ring: Ring, bout: Bout, crew: Crew) -> None:
        """Start dramatiq and wait until its workers have asked Redis for work."""
        crew.launch(
            [
                *(str(ring.python), "-m", "dramatiq", f"{_WORKER}:broker"),
                *("--processes", str(bout.processes)),
            ],
            environ(ring, bout),
        )
        with redis.Redis.from_url(ring.redis_url) as client:
            while client.zcard("dramatiq:__heartbeats__") < bout.processes:
                crew.check()
                time.sleep(0.1)

    def fill(self, ring: Ring, bout: Bout) -> None:
        """Insert the rows, then send a message for each."""
        execute(
            ring.database_url,
            "INSERT INTO mail (recipient, subject, text, html, ready) SELECT %(recipient)s,"
            " %(subject)s, %(text)s, %(html)s, %(ready)s FROM generate_series(1, %(rows)s)",
            values={
                "rows": bout.rows,
                "recipient": RECIPIENT,
                "subject": SUBJECT,
                "text": TEXT if bout.ready is None else "",
                "html": HTML if bout.ready is None else "",
                "ready": (bout.ready or b"").decode(),
            },
        )
        run([str(ring.python), "-m", _WORKER, "fill"], environ(ring, bout))

    def is_done(self, ring: Ring) -> bool:
        """Every row has the time at which it was sent."""
        return ask(ring.database_url, "SELECT count(*) FROM mail WHERE sent_at IS NULL") == 0


def environ(ring: Ring, bout: Bout) -> dict[str, str]:
    """What the actor's processes find in their environment."""
    return environment(
        BENCHMARK_DATABASE=ring.database_url,
        BENCHMARK_REDIS=ring.redis_url,
        BENCHMARK_SINK=str(ring.sink_port),
        BENCHMARK_ROWS=str(bout.rows),
    )
