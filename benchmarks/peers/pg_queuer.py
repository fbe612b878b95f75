"""pgqueuer 1.6, tuned: a task per mail over pooled aiosmtplib connections, batches of 500, uvloop.

A batch is claimed by one statement and, once sent, deleted by one that logs it too. The payload of
a job is the mail: as JSON to be built with the standard library, or its octets.
"""

from benchmarks.contestant import Bout, Contestant, Ring, ask, environment
from benchmarks.crew import Crew
from benchmarks.peers.children import run


class PgQueuer(Contestant):
    """No attempt is recorded before a call: a crash sends up to a batch again."""

    name = "pgqueuer"
    requirements = "pg_queuer.txt"

    def prepare(self, ring: Ring, bout: Bout) -> None:
        """Install its tables."""
        run([*_command(ring), "prepare"], _environ(ring, bout))

    def start(self, ring: Ring, bout: Bout, crew: Crew) -> None:
        """Start the processes, each with its pool connected."""
        started = [
            crew.launch([*_command(ring), "work"], _environ(ring, bout))
            for _ in range(bout.processes)
        ]
        for each in started:
            crew.hear(each, "ready")

    def fill(self, ring: Ring, bout: Bout) -> None:
        """Enqueue through its own face."""
        run([*_command(ring), "fill"], _environ(ring, bout))

    def is_done(self, ring: Ring) -> bool:
        """A job that is done is deleted."""
        return ask(ring.database_url, "SELECT count(*) FROM pgqueuer") == 0


def _command(ring: Ring) -> list[str]:
    return [str(ring.python), "-m", "benchmarks.peers.pg_queuer_worker"]


def _environ(ring: Ring, bout: Bout) -> dict[str, str]:
    return environment(
        BENCHMARK_DATABASE=ring.database_url,
        BENCHMARK_SINK=str(ring.sink_port),
        BENCHMARK_ROWS=str(bout.rows),
        BENCHMARK_BATCH=str(bout.batch),
        BENCHMARK_CONNECTIONS=str(bout.connections),
        BENCHMARK_READY="" if bout.ready is None else bout.ready.decode(),
    )
