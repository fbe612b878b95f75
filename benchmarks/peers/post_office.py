"""django-post_office 3.12, tuned: BATCH_SIZE 5000, `send_queued_mail --processes 2`, its log kept.

Its users run that command every minute or so; here it runs in a loop in a process that has Django
loaded, which spares it the start. Its threads keep one smtplib connection each, for a batch.
"""

from benchmarks.contestant import Bout, Contestant, Ring, ask, environment, execute
from benchmarks.crew import Crew
from benchmarks.peers.children import run


class PostOffice(Contestant):
    """Statuses and log rows are written once a batch: a crash sends a batch again."""

    name = "django-post_office"
    requirements = "post_office.txt"

    def prepare(self, ring: Ring, bout: Bout) -> None:
        """Migrate, and queue one message through its own face."""
        run([*_command(ring), "prepare"], _environ(ring, bout))

    def start(self, ring: Ring, bout: Bout, crew: Crew) -> None:
        """Start the loop; the first message is held back until all are there."""
        execute(ring.database_url, "UPDATE post_office_email SET scheduled_time = 'infinity'")
        started = crew.launch([*_command(ring), "work"], _environ(ring, bout))
        crew.hear(started, "ready")

    def fill(self, ring: Ring, bout: Bout) -> None:
        """Multiply the one message."""
        content = "message, html_message" if bout.ready is None else "%(ready)s, ''"
        execute(
            ring.database_url,
            'INSERT INTO post_office_email (from_email, "to", cc, bcc, subject, message,'
            " html_message, status, priority, created, last_updated, backend_alias)"
            f' SELECT from_email, "to", cc, bcc, subject, {content}, status, priority, created,'
            " last_updated, backend_alias FROM post_office_email, generate_series(1, %(rows)s)",
            "DELETE FROM post_office_email WHERE scheduled_time = 'infinity'",
            values={"rows": bout.rows, "ready": (bout.ready or b"").decode()},
        )

    def is_done(self, ring: Ring) -> bool:
        """Every message has status 0, sent."""
        left = "SELECT count(*) FROM post_office_email WHERE status <> 0"
        return ask(ring.database_url, left) == 0


def _command(ring: Ring) -> list[str]:
    return [str(ring.python), "-m", "benchmarks.peers.post_office_worker"]


def _environ(ring: Ring, bout: Bout) -> dict[str, str]:
    return environment(
        BENCHMARK_DATABASE=ring.database_url,
        BENCHMARK_SINK=str(ring.sink_port),
        BENCHMARK_PROCESSES=str(bout.processes),
        BENCHMARK_COMPOSE="" if bout.ready is None else "ready",
    )
