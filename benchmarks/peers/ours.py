"""This product: its real worker, rows as `enqueue` writes them.

Where composing is left out, the rows hold the ready octets as their text, and the worker's composer
is swapped for one that puts the Message-ID and the X-Outbox headers before them.
"""

from benchmarks import product
from benchmarks.contestant import Bout, Contestant, Ring, ask
from benchmarks.crew import Crew
from tests.builders import prepare


class Ours(Contestant):
    """Every durable step taken: claim, attempt, begin before the call, fenced finish."""

    name = "mailer"

    def prepare(self, ring: Ring, bout: Bout) -> None:
        """Migrate."""
        prepare(ring.database_url)

    def start(self, ring: Ring, bout: Bout, crew: Crew) -> None:
        """Start the worker processes without Redis: the poll alone drives them."""
        product.start(
            product.Workers(
                ring.database_url,
                ring.sink_port,
                processes=bout.processes,
                connections=bout.connections,
                batch=bout.batch,
                swaps=() if bout.ready is None else (("BENCHMARK_COMPOSE", "ready"),),
            ),
            crew,
        )

    def fill(self, ring: Ring, bout: Bout) -> None:
        """Queue one row through the product and multiply it."""
        product.queue(ring.database_url, bout.rows, ready=bout.ready)

    def is_done(self, ring: Ring) -> bool:
        """Every row is `submitted`."""
        left = "SELECT count(*) FROM email_outbox WHERE state <> 'submitted'"
        return ask(ring.database_url, left) == 0
