"""What the claim of 100 rows costs: beside a long history, and while a transaction stays open.

First, `--rows` finished messages with their recipients and attempts in one database and none in
another, both analysed, claimed from in turns. Second, a run of `--held-rows` through real workers
while another transaction is held open from before the first claim to after the last: no index entry
that the run leaves behind can be cleaned, and the claim must not walk over them.

`python -m benchmarks.claims --rows 5000000 --held-rows 200000`
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psycopg2

from benchmarks import product
from benchmarks.contestant import execute
from benchmarks.report import Mark, close, parser
from benchmarks.sink import smtp_sink
from mailer import claims, database
from mailer.prove.kit.servers import PostgresServer
from tests.builders import prepare

_CLAIM = 100
_CLAIMS = 60
_WARM_UP_CLAIMS = 5
_TENTH = 10


def main() -> None:
    """Measure and report."""
    made = parser(__doc__)
    made.add_argument("--rows", type=int, default=5_000_000)
    made.add_argument("--held-rows", type=int, default=200_000)
    options = made.parse_args()
    with PostgresServer() as postgres:
        beside, alone = _history(postgres, options)
    with PostgresServer(durable=True) as postgres:
        start, end = _held(postgres, options)
    figures = {
        "milliseconds": {"none": alone, "history": beside, "held_start": start, "held_end": end}
    }
    lines = [
        f"claim of {_CLAIM} rows, median: {alone:.2f} ms with no history, {beside:.2f} ms beside "
        f"{options.rows:,} finished rows",
        f"through {options.held_rows:,} rows with a transaction held open: {start:.2f} ms in the "
        f"first tenth, {end:.2f} ms in the last",
    ]
    marks = [
        Mark(f"claim beside {options.rows:,} finished rows, of none", beside / alone, 1.3),
        Mark("claim at the end of the run with a transaction held, of the start", end / start, 2.0),
    ]
    close(options, figures, lines, marks)


def _history(postgres: PostgresServer, options: argparse.Namespace) -> tuple[float, float]:
    """Median milliseconds beside the history, and without."""
    urls = [postgres.create_database() for _ in range(2)]
    for url in urls:
        prepare(url)
    print(f"writing {options.rows:,} finished rows", file=sys.stderr, flush=True)
    execute(
        urls[0],
        # Nothing here breaks a reference, and checking five million of them takes minutes.
        "SET LOCAL session_replication_role = replica",
        _FINISHED_ROWS,
        _FINISHED_RECIPIENTS,
        _FINISHED_ATTEMPTS,
        values={"rows": options.rows},
    )
    for url in urls:
        product.queue(url, (_WARM_UP_CLAIMS + _CLAIMS) * _CLAIM)
        _vacuum(url)
    opened = [database.connect(url) for url in urls]
    times: list[list[float]] = [[], []]
    for _ in range(_WARM_UP_CLAIMS + _CLAIMS):
        for each, taken in zip(opened, times, strict=True):
            database.bind(each)
            taken.append(_claim_ms())
    for each in opened:
        each.close()
    database.proxy.initialize(None)
    beside, alone = (statistics.median(taken[_WARM_UP_CLAIMS:]) for taken in times)
    return beside, alone


def _claim_ms() -> float:
    began = time.perf_counter()
    taken = claims.claim_due(_CLAIM, provider="benchmark", lease_seconds=600.0)
    took = (time.perf_counter() - began) * 1e3
    assert len(taken) == _CLAIM, len(taken)
    return took


def _held(postgres: PostgresServer, options: argparse.Namespace) -> tuple[float, float]:
    """Median milliseconds of the full claims in the first tenth of the run, and in the last."""
    url = postgres.create_database()
    prepare(url)
    with tempfile.TemporaryDirectory() as folder, smtp_sink() as sink:
        timings = Path(folder) / "claims"
        workers = product.Workers(
            url, sink.port, connections=8, batch=_CLAIM, swaps=(("BENCHMARK_CLAIMS", str(timings)),)
        )
        with product.running(workers) as crew:
            crew.hold()
            product.queue(url, options.held_rows)
            _vacuum(url)
            holder = psycopg2.connect(url)
            holder.cursor().execute("SELECT txid_current(), count(*) FROM email_audit")
            crew.release()
            product.wait_drained(url, crew)
            holder.close()
        full = [float(ms) for taken, ms in _pairs(timings) if int(taken) == _CLAIM]
    tenth = max(1, len(full) // _TENTH)
    return statistics.median(full[:tenth]), statistics.median(full[-tenth:])


def _pairs(timings: Path) -> list[tuple[str, str]]:
    lines = timings.read_text().splitlines()
    return [(taken, ms) for taken, _, ms in (each.partition(" ") for each in lines)]


def _vacuum(url: str) -> None:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    connection.close()


_FINISHED_ROWS = """
INSERT INTO email_outbox (dedup_key, fingerprint, message_id, sender, "to", subject, text, state,
    last_number, created_at, queued_at, next_attempt_at, finished_at)
SELECT 'h' || n, md5(n::text), '<' || md5(n::text) || '@example.com>', 'shop@example.com',
    '["ann@example.com"]', 'Your order', 'It is on its way.', 'submitted', 1, at, at, at, at
FROM generate_series(1, %(rows)s) AS n,
    LATERAL (SELECT now() - make_interval(secs => %(rows)s - n) AS at) AS t
"""

_FINISHED_RECIPIENTS = """
INSERT INTO email_recipient (outbox_id, address, address_key, role, state, code, updated_at)
SELECT id, 'ann@example.com', 'ann@example.com', 'to', 'accepted', '250', finished_at
FROM email_outbox WHERE state = 'submitted'
"""

_FINISHED_ATTEMPTS = """
INSERT INTO email_attempt (outbox_id, number, provider, lease_token, request_tag, state, outcome,
    scope, stage, rule, code, claimed_at, started_at, finished_at)
SELECT id, 1, 'smtp:127.0.0.1', md5(id::text), md5('tag' || id), 'finished', 'accepted', 'message',
    'after_dot', 'accepted', '250', finished_at, finished_at, finished_at
FROM email_outbox WHERE state = 'submitted'
"""


if __name__ == "__main__":
    main()
