"""The memory of the worker processes over a long run: how much, and whether it grows.

Flat means: the largest process grows by no more than a few per cent from one quarter of the run to
its end.

`python -m benchmarks.memory --rows 200000`
"""

import time
from collections.abc import Callable

from benchmarks import product
from benchmarks.report import Mark, close, parser
from benchmarks.sink import smtp_sink
from mailer.prove.kit.servers import PostgresServer
from tests.builders import prepare

_SAMPLE_SECONDS = 0.5


def main() -> None:
    """Measure and report."""
    made = parser(__doc__)
    made.add_argument("--rows", type=int, default=200_000)
    options = made.parse_args()
    with PostgresServer(durable=True) as postgres, smtp_sink() as sink:
        samples = _samples(
            product.Workers(postgres.create_database(), sink.port), sink.count, options.rows
        )
    settled = next(megabytes for done, megabytes in samples if done >= options.rows / 4)
    largest, last = max(megabytes for _, megabytes in samples), samples[-1][1]
    lines = [f"largest worker over {options.rows:,} rows: {settled:.0f} MB after a quarter, "
             f"{last:.0f} MB at the end, {largest:.0f} MB at most"]  # fmt: skip
    marks = [
        Mark("memory of the largest worker process", largest, 150, "MB"),
        Mark("its memory at the end, of that after a quarter", last / settled, 1.05),
    ]
    close(options, {"samples": samples}, lines, marks)


def _samples(
    workers: product.Workers, accepted: Callable[[], int], rows: int
) -> list[tuple[int, float]]:
    """How many rows were sent, with the megabytes of the largest process then."""
    prepare(workers.database_url)
    found: list[tuple[int, float]] = []
    with product.running(workers) as crew:
        crew.hold()
        product.queue(workers.database_url, rows)
        crew.release()
        while not found or found[-1][0] < rows:
            crew.check()
            time.sleep(_SAMPLE_SECONDS)
            found.append((accepted(), crew.largest_megabytes()))
    return found


if __name__ == "__main__":
    main()
