"""Schema changes, applied in order under a lock; the same files serve both databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playhouse.migrations import Runner

from mailer.database import bound, connected, is_postgresql, transaction

HISTORY_TABLE = "email_migration"
_LOCK_KEY = 0x6D61696C6572  # "mailer" in ASCII: a constant that nobody else would choose


def migrate() -> list[str]:
    """Apply what is missing and return the names applied.

    Any number of runners may start at once: one transaction holds the lock for all of it, and the
    others find nothing left to do. The lock is the transaction's own, so it also holds behind a
    pooler that shares sessions.
    """
    with connected(), _lock():
        return list(_runner().up())


def pending() -> list[str]:
    """Name the migrations that the database still lacks."""
    with connected():
        return [each.name for each in _runner().status() if not each.applied]


@contextmanager
def _lock() -> Iterator[None]:
    with transaction():
        if is_postgresql():
            bound().execute_sql("SELECT pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
        yield


def _runner() -> Runner:
    return Runner(bound(), str(Path(__file__).parent), table_name=HISTORY_TABLE)
