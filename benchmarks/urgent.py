"""How long urgent rows take to go out while a bulk stream is queued, beside their time alone.

`--urgent` rows of priority 0 are committed in one transaction: to idle workers, and to workers busy
with `--bulk` rows of priority 9. The time is from that commit to the last urgent row's result, on
the database's clock.

`python -m benchmarks.urgent --urgent 3000 --bulk 200000 --rounds 3`
"""

import statistics
import sys
import time

from benchmarks import product
from benchmarks.report import Mark, close, parser
from benchmarks.sink import Sink, smtp_sink
from mailer.prove.kit.servers import PostgresServer
from tests.builders import prepare

_URGENT, _BULK = 0, 9
_UNDER_WAY = 1_000
_LOOK_SECONDS = 0.05


def main() -> None:
    """Measure in turns and report."""
    made = parser(__doc__)
    made.add_argument("--urgent", type=int, default=3_000)
    made.add_argument("--bulk", type=int, default=200_000)
    made.add_argument("--rounds", type=int, default=3)
    options = made.parse_args()
    alone: list[float] = []
    beside: list[float] = []
    with PostgresServer(durable=True) as postgres, smtp_sink() as sink:
        for number in range(options.rounds):
            for bulk, taken in ((0, alone), (options.bulk, beside)):
                url = postgres.create_database()
                taken.append(_seconds(url, sink, options.urgent, bulk))
                postgres.drop_database(url)
            print(f"round {number + 1}: alone {alone[-1]:.2f} s, beside bulk {beside[-1]:.2f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
    medians = statistics.median(alone), statistics.median(beside)
    lines = [f"{options.urgent:,} urgent rows: {medians[0]:.2f} s alone, {medians[1]:.2f} s "
             f"beside {options.bulk:,} of bulk"]  # fmt: skip
    marks = [Mark("urgent rows beside bulk, of their time alone", medians[1] / medians[0], 2.0)]
    close(options, {"seconds": {"alone": alone, "beside": beside}}, lines, marks)


def _seconds(url: str, sink: Sink, urgent: int, bulk: int) -> float:
    prepare(url)
    with product.running(product.Workers(url, sink.port)) as crew:
        if bulk:
            crew.hold()
            product.queue(url, bulk, name="bulk", priority=_BULK)
            crew.release()
            under_way = sink.count() + min(_UNDER_WAY, bulk // 10)
            while sink.count() < under_way:
                crew.check()
                time.sleep(_LOOK_SECONDS)
        committed = product.queue(url, urgent, name="urgent", priority=_URGENT)
        return product.wait_drained(url, crew, priority=_URGENT) - committed


if __name__ == "__main__":
    main()
