"""Composing one message of text and HTML, about 4 KB, beside the standard library's EmailMessage.

`python -m benchmarks.compose`
"""

import statistics
import time
from collections.abc import Callable
from email import policy

from benchmarks.letter import HTML, RECIPIENT, SUBJECT, TEXT, built
from benchmarks.messages import composed, message
from benchmarks.report import Mark, close, parser

_GROUP = 10


def main() -> None:
    """Measure in turns and report."""
    made = parser(__doc__)
    made.add_argument("--times", type=int, default=3_000)
    options = made.parse_args()
    email = message()
    ours: list[float] = []
    stdlib: list[float] = []
    for _ in range(options.times // _GROUP):
        ours.append(_us(lambda: composed(email, 1)))
        stdlib.append(
            _us(lambda: built(RECIPIENT, SUBJECT, TEXT, HTML).as_bytes(policy=policy.SMTP))
        )
    medians = statistics.median(ours), statistics.median(stdlib)
    octets = len(composed(email, 1))
    lines = [f"{octets:,} octets, median: {medians[0]:.0f} µs; EmailMessage {medians[1]:.0f} µs"]
    marks = [Mark("compose text and HTML, median", medians[0], 80, "µs")]
    close(
        options,
        {"octets": octets, "microseconds": {"compose": medians[0], "EmailMessage": medians[1]}},
        lines,
        marks,
    )


def _us(work: Callable[[], bytes]) -> float:
    """Microseconds of CPU for one, over a group that is long against the clock's own cost."""
    began = time.thread_time()
    for _ in range(_GROUP):
        work()
    return (time.thread_time() - began) / _GROUP * 1e6


if __name__ == "__main__":
    main()
