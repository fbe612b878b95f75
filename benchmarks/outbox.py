"""Rows per second from all queued to all submitted, beside bare aiosmtplib in the same run.

`make bench`, or `python -m benchmarks.outbox --rows 20000 --rounds 3`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import psycopg2

from benchmarks.machine import cpu_seconds, rss_megabytes, smtp_sink
from benchmarks.messages import HTML, TEXT, content
from tests.builders import SECRET, bound_to, enqueue, prepare
from tests.servers import PostgresServer


@dataclass(frozen=True)
class Round:
    """One measured run of one contestant; CPU times are microseconds a row."""

    rows_per_second: float
    worker_us: float
    postgresql_us: float
    sink_us: float
    worker_megabytes: float = 0.0


def main() -> None:
    """Measure in turns and print a table, or JSON."""
    options = _options()
    rounds: dict[str, list[Round]] = {"mailer": [], "bare aiosmtplib": []}
    with PostgresServer(durable=True) as server, smtp_sink() as (port, sink):
        for _ in range(options.rounds):
            rounds["bare aiosmtplib"].append(_bare(port, sink, options))
            rounds["mailer"].append(_mailer(server, port, sink, options))
    _report(rounds, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=32, help="connections a process")
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _bare(port: int, sink: int, options: argparse.Namespace) -> Round:
    share = options.rows // options.processes
    sink_before, began = cpu_seconds(sink), os.times()
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.bare",
                *map(str, (port, share, options.concurrency)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(options.processes)
    ]
    took = max(float(each.communicate()[0]) for each in processes)
    ended, rows = os.times(), share * options.processes
    used = (ended.children_user - began.children_user) + (
        ended.children_system - began.children_system
    )
    return Round(
        rows / took, used / rows * 1e6, 0.0, (cpu_seconds(sink) - sink_before) / rows * 1e6
    )


def _mailer(server: PostgresServer, port: int, sink: int, options: argparse.Namespace) -> Round:
    url = server.create_database()
    prepare(url)
    with _worker(url, port, options) as worker:
        parts = {"worker": worker, "postgresql": server.pid, "sink": sink}
        queued_at = _queue(url, options.rows)
        filled = {name: cpu_seconds(pid) for name, pid in parts.items()}
        took = _drained(url, options.rows) - queued_at
        used = {name: (cpu_seconds(pid) - filled[name]) / options.rows * 1e6
                for name, pid in parts.items()}  # fmt: skip
        memory = rss_megabytes(worker)
    server.drop_database(url)
    return Round(options.rows / took, used["worker"], used["postgresql"], used["sink"], memory)


@contextmanager
def _worker(url: str, port: int, options: argparse.Namespace) -> Iterator[int]:
    environ = {
        **os.environ,
        "DATABASE_URL": url,
        "MAILER_PROVIDERS": f"smtp://127.0.0.1:{port}?tls=none",
        "MAILER_FROM": "Shop <shop@example.com>",
        "MAILER_SECRET": SECRET,
        "MAILER_BATCH": str(options.batch),
        "MAILER_CONCURRENCY": str(options.concurrency),
        "MAILER_POLL_SECONDS": "0.1",
        "dramatiq_worker_timeout": "50",
    }
    environ.pop("REDIS_URL", None)
    with open(os.devnull, "w") as nowhere:
        worker = subprocess.Popen(
            [
                *(sys.executable, "-m", "dramatiq", "actors.worker:broker", "--skip-logging"),
                *("--processes", str(options.processes), "--threads", "4"),
            ],
            env=environ,
            stderr=nowhere,
        )
        try:
            _connected(url, options.processes)
            yield worker.pid
        finally:
            worker.terminate()
            worker.wait()


def _connected(url: str, processes: int) -> None:
    """Wait until every worker process polls."""
    while _ask(url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND backend_type = 'client backend'") <= processes:  # fmt: skip
        time.sleep(0.1)


def _queue(url: str, rows: int) -> float:
    """Enqueue one row through the product, multiply it, and return the commit's moment."""
    with bound_to(url):
        enqueue("k0", subject="Your order has been shipped", text=TEXT, html=HTML)
    connection = psycopg2.connect(url)
    with connection.cursor() as cursor:
        cursor.execute(
            'INSERT INTO email_outbox (dedup_key, fingerprint, message_id, sender, "to", subject,'
            " text, html) SELECT 'k' || n, fingerprint, n || message_id, sender, \"to\", subject,"
            " text, html FROM email_outbox, generate_series(1, %s) AS n",
            [rows - 1],
        )
        cursor.execute(
            "INSERT INTO email_recipient (outbox_id, address, address_key, role)"
            " SELECT id, 'ann@example.com', 'ann@example.com', 'to' FROM email_outbox"
            " WHERE dedup_key <> 'k0'"
        )
        cursor.execute("ANALYZE email_outbox; ANALYZE email_recipient")
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        (moment,) = cursor.fetchone() or (0.0,)
    connection.commit()
    connection.close()
    return float(moment)


def _drained(url: str, rows: int) -> float:
    """Wait for the last row and return the moment at which it was written."""
    while _ask(url, "SELECT count(*) FROM email_outbox WHERE state = 'submitted'") < rows:
        time.sleep(0.2)
    return _ask(url, "SELECT extract(epoch FROM max(finished_at)) FROM email_outbox")


def _ask(url: str, question: str) -> float:
    connection = psycopg2.connect(url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(question)
            return float((cursor.fetchone() or (0,))[0])
    finally:
        connection.close()


def _report(rounds: dict[str, list[Round]], options: argparse.Namespace) -> None:
    medians = {
        name: {
            field: statistics.median(getattr(each, field) for each in runs)
            for field in Round.__dataclass_fields__
        }
        for name, runs in rounds.items()
    }
    ratio = medians["mailer"]["rows_per_second"] / medians["bare aiosmtplib"]["rows_per_second"]
    if options.json:
        runs = {name: [asdict(each) for each in of] for name, of in rounds.items()}
        print(json.dumps({"options": vars(options), "rounds": runs, "ratio": ratio}, indent=2))
        return
    print(f"{options.rows} rows of {len(content(1))} bytes, {options.processes} processes, "
          f"{options.concurrency} connections each, medians of {options.rounds}")  # fmt: skip
    for name, values in medians.items():
        print(f"{name:16} {values['rows_per_second']:8.0f} rows/s   CPU a row: worker "
              f"{values['worker_us']:4.0f} µs, PostgreSQL {values['postgresql_us']:4.0f} µs, sink "
              f"{values['sink_us']:4.0f} µs   {values['worker_megabytes']:4.0f} MB")  # fmt: skip
    print(f"mailer / bare aiosmtplib: {ratio:.2f}")


if __name__ == "__main__":
    main()
