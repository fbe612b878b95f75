"""What every system test stands on: servers of its own, that may be killed, and a sink's log."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mailer.prove.kit.fleet import process_environment
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.servers import PostgresServer, RedisServer
from tests.conftest import server_or_skip
from tests.system.sink import SinkLog

MIGRATE = """
import os
from mailer import database
from mailer.migrations import migrate
database.bind(database.connect(os.environ["DATABASE_URL"]))
migrate()
"""


def migration(url: str) -> subprocess.Popen[str]:
    """Start a process that brings the tables up to date."""
    return subprocess.Popen(
        [sys.executable, "-c", MIGRATE],
        env=process_environment({"DATABASE_URL": url}),
        stderr=subprocess.PIPE,
        text=True,
    )


def migrate(url: str) -> None:
    """Bring the tables up to date."""
    with migration(url) as process:
        _, said = process.communicate()
    assert process.returncode == 0, said


@pytest.fixture(scope="package")
def durable_postgres(bare_environment: None) -> Iterator[PostgresServer]:
    """A PostgreSQL server whose commits survive a kill."""
    with server_or_skip(), PostgresServer(durable=True) as server:
        yield server


@pytest.fixture(scope="package")
def migrated(durable_postgres: PostgresServer) -> str:
    """The name of a database with all tables, to be copied."""
    return durable_postgres.create_template(migrate)


@pytest.fixture
def ledger(durable_postgres: PostgresServer, migrated: str) -> Iterator[Ledger]:
    """A new database with all tables and no rows."""
    url = durable_postgres.create_database(migrated)
    yield Ledger(url)
    durable_postgres.drop_database(url)


@pytest.fixture
def redis(bare_environment: None) -> Iterator[RedisServer]:
    """A Redis server that may be killed."""
    with server_or_skip(), RedisServer() as server:
        yield server


@pytest.fixture
def sink_log(tmp_path: Path) -> SinkLog:
    """What the sink accepts, empty at first."""
    return SinkLog(tmp_path / "sink.jsonl")


@contextmanager
def power_cut(server: PostgresServer) -> Iterator[None]:
    """Kill the server for the length of the block; it is back after it."""
    server.kill()
    try:
        yield
    finally:
        server.restart()


def settings(ledger: Ledger, sink_port: int, **more: str) -> dict[str, str]:
    """Return the settings of a worker, and of an application, that send to the sink.

    Short leases and few calls at a time, so that a test meets the end of both.
    """
    return {
        "DATABASE_URL": ledger.url,
        "MAILER_PROVIDERS": f"smtp://127.0.0.1:{sink_port}",
        "MAILER_FROM": "Shop <shop@example.com>",
        "MAILER_SECRET": "a secret of the system tests",
        "MAILER_LEASE_SECONDS": "3",
        "MAILER_POLL_SECONDS": "0.2",
        "MAILER_CONCURRENCY": "4",
        "MAILER_BATCH": "12",
        "MAILER_RETRY_BASE": "1",
        "MAILER_RETRY_CAP": "1",
        **more,
    }
