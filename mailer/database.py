"""Which database the tables live in, and the few things its two dialects say differently."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from peewee import (
    SQL,
    Database,
    DatabaseError,
    DatabaseProxy,
    InterfaceError,
    InternalError,
    OperationalError,
    PostgresqlDatabase,
    SqliteDatabase,
)
from playhouse.db_url import connect as connect_url
from playhouse.pool import MaxConnectionsExceeded

from mailer.errors import MailerError, NotBound

__all__ = [
    "AWAY",
    "Database",
    "DatabaseError",
    "after",
    "bind",
    "bound",
    "connect",
    "connect_worker",
    "connected",
    "is_postgresql",
    "now",
    "proxy",
    "rows",
    "transaction",
]

proxy = DatabaseProxy()
"""What every model is bound to; filled by `bind`."""

AWAY = (OperationalError, InterfaceError, InternalError, MaxConnectionsExceeded)
"""What is raised when the database cannot be reached, is full or read-only, or asks to try again.

PostgreSQL calls it internal that a transaction is read-only (25006), as in a failover.
"""

_SESSION = "-c timezone=UTC"
_KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "connect_timeout": 10,
}
_SQLITE_OLDEST = (3, 38, 0)
_SQLITE = {
    "lock_type": "IMMEDIATE",
    "pragmas": {
        "journal_mode": "wal",
        "synchronous": "normal",
        "busy_timeout": 10_000,
        "foreign_keys": 1,
    },
}
_WORKER_SESSION = (
    f"{_SESSION} -c statement_timeout=30000 -c lock_timeout=10000"
    " -c idle_in_transaction_session_timeout=30000"
)


def connect(url: str) -> Database:
    """Open an application's database by URL; `bind` is still to be called.

    `postgres://` and `postgresql://` give PostgreSQL, `sqlite:///file` gives SQLite in WAL mode
    with immediate transactions (a deferred one may fail when it turns to writing).
    """
    if _is_sqlite_url(url):
        return _sqlite(url)
    options = {**_KEEPALIVE, "options": _SESSION}
    return connect_url(url, unquote_user=True, unquote_password=True, **options)  # type: ignore[no-any-return]


def connect_worker(url: str, *, connections: int) -> Database:
    """Open a worker's database: pooled, bounded, and never connecting by itself.

    `autoconnect` is off so that a query from the event loop's thread is an error and not a hidden
    connection. Statements, locks and idle transactions are bounded in time: a worker that waits
    for a lock for longer than that has lost its leases anyway.
    """
    if _is_sqlite_url(url):
        return _sqlite(url, autoconnect=False)
    pooled = "postgresql+pool:" + url.partition(":")[2]
    return connect_url(  # type: ignore[no-any-return]
        pooled,
        unquote_user=True,
        unquote_password=True,
        max_connections=connections,
        timeout=10,
        stale_timeout=300,
        autoconnect=False,
        options=_WORKER_SESSION,
        **_KEEPALIVE,
    )


def bind(database: Database) -> Database:
    """Make all tables live in `database`, an application's own or one opened here.

    Raises MailerError for a kind of database that is neither PostgreSQL nor SQLite.
    """
    if not isinstance(database, PostgresqlDatabase | SqliteDatabase):
        raise MailerError(
            f"database: {type(database).__name__} is not supported; "
            "bind a peewee PostgresqlDatabase or SqliteDatabase"
        )
    proxy.initialize(database)
    return database


def bound() -> Database:
    """Return the bound database; raises NotBound when there is none."""
    if proxy.obj is None:
        raise NotBound
    database: Database = proxy.obj
    return database


def is_postgresql() -> bool:
    """Tell which of the two dialects is bound."""
    return isinstance(bound(), PostgresqlDatabase)


@contextmanager
def connected() -> Iterator[Database]:
    """Have a connection for the block, and leave things as they were found."""
    database = bound()
    opened = database.connect(reuse_if_open=True)
    try:
        yield database
    finally:
        if opened:
            database.close()


@contextmanager
def transaction() -> Iterator[Any]:
    """Run the block in one transaction, or in a savepoint of the one that is open.

    SQLite takes its write lock at once: a deferred transaction may fail when it turns to writing.
    Yields the block, which can be rolled back without an error.
    """
    database = bound()
    with database.atomic() if is_postgresql() else database.atomic("IMMEDIATE") as block:
        yield block


def now() -> SQL:
    """The database's clock, the only one that decides leases, as an SQL expression."""
    return SQL("now()") if is_postgresql() else SQL(SQLITE_NOW)


def after(seconds: float) -> SQL:
    """`seconds` from the database's present."""
    if is_postgresql():
        return SQL("now() + make_interval(secs => %s)", [seconds])
    return SQL(SQLITE_AFTER, [f"{seconds:+.3f} seconds"])


SQLITE_NOW = "strftime('%Y-%m-%d %H:%M:%f000+00:00', 'now')"
SQLITE_AFTER = "strftime('%Y-%m-%d %H:%M:%f000+00:00', 'now', ?)"


def rows(sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Run one statement written for the bound dialect and return all its rows."""
    cursor = bound().execute_sql(sql, params)
    return list(cursor.fetchall())


def _is_sqlite_url(url: str) -> bool:
    return url.startswith("sqlite")


def _sqlite(url: str, **options: Any) -> Database:
    if sqlite3.sqlite_version_info < _SQLITE_OLDEST:
        raise MailerError(
            f"DATABASE_URL: SQLite {sqlite3.sqlite_version} is too old; 3.38 or newer is needed"
        )
    return connect_url(url, **_SQLITE, **options)  # type: ignore[no-any-return]
