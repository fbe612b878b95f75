"""One row enqueued in the caller's transaction, beside a bare Peewee insert of the same columns.

`enqueue` checks, freezes, identifies and writes the row with its recipients; the bare insert writes
columns that somebody else made. The commit, which both pay alike, is left out of both.

`python -m benchmarks.enqueue --times 500 --rounds 3`
"""

import statistics
import time
from typing import Any

from benchmarks.letter import HTML, RECIPIENT, SENDER, SUBJECT, TEXT
from benchmarks.report import Mark, close, parser
from mailer.database import bound
from mailer.prove.kit.servers import PostgresServer
from mailer.tables import Outbox
from tests.builders import bound_to, enqueue, prepare

_WARM_UP = 50


def main() -> None:
    """Measure in turns and report."""
    made = parser(__doc__)
    made.add_argument("--times", type=int, default=500)
    made.add_argument("--rounds", type=int, default=3)
    options = made.parse_args()
    ours: list[float] = []
    bare: list[float] = []
    with PostgresServer(durable=True) as postgres:
        url = postgres.create_database()
        prepare(url)
        with bound_to(url):
            columns = _columns()
            for number in range(_WARM_UP + options.times * options.rounds):
                ours.append(_enqueue_us(number))
                bare.append(_insert_us(number, columns))
    medians = [statistics.median(each[_WARM_UP:]) for each in (ours, bare)]
    lines = [f"inside the transaction, median: enqueue {medians[0]:.0f} µs, "
             f"a bare insert of the same columns {medians[1]:.0f} µs"]  # fmt: skip
    marks = [Mark("enqueue, of a bare Peewee insert", medians[0] / medians[1], 1.5)]
    close(options, {"microseconds": {"enqueue": medians[0], "insert": medians[1]}}, lines, marks)


def _enqueue_us(number: int) -> float:
    with bound().atomic():
        began = time.perf_counter()
        enqueue(f"ours{number}", RECIPIENT, sender=SENDER, subject=SUBJECT, text=TEXT, html=HTML)
        return (time.perf_counter() - began) * 1e6


def _columns() -> dict[str, Any]:
    """The columns that `enqueue` writes, with what it writes there."""
    row = enqueue("seed", RECIPIENT, sender=SENDER, subject=SUBJECT, text=TEXT, html=HTML).row
    stored = Outbox.get_by_id(row.id)
    names = (
        "fingerprint", "sender", "to", "cc", "bcc", "reply_to", "subject", "text", "html",
        "headers", "attachments", "template", "template_version", "context", "stream", "priority",
        "on_ambiguous", "expires_at", "next_attempt_at",
    )  # fmt: skip
    return {name: getattr(stored, name) for name in names}


def _insert_us(number: int, columns: dict[str, Any]) -> float:
    with bound().atomic():
        began = time.perf_counter()
        Outbox.insert(
            dedup_key=f"bare{number}", message_id=f"<{number}@example.com>", **columns
        ).execute()
        return (time.perf_counter() - began) * 1e6


if __name__ == "__main__":
    main()
