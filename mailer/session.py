"""An operator's sitting at the database: opened, its schema checked, its troubles explained."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from peewee import Database, InterfaceError, OperationalError, PeeweeException

from mailer import migrations
from mailer.database import bind, connect, is_postgresql, proxy
from mailer.errors import MailerError

_LOCK_WAIT = "SET lock_timeout TO '10s'"
"""An application's open transaction may hold a row for longer than a person waits."""

_TROUBLES = (
    ("password authentication failed", "refuses the user or the password; correct the URL"),
    ("no password supplied", "asks for a password; add it to the URL"),
    ("does not exist", "knows no such database or user; create it, or correct the URL"),
    ("could not translate host name", "has an unknown host name; correct the URL"),
    ("refused", "does not answer; start the server, or correct host and port of the URL"),
    ("timeout expired", "does not answer in time; check host, port and firewall"),
    ("too many", "has no connection left; end other sessions or raise its limit"),
    ("lock timeout", "has this row locked by another transaction; try again when that has ended"),
    ("statement timeout", "took too long to answer; try again when it is less busy"),
    ("unable to open database file", "cannot be opened; make its folder, or correct the path"),
    ("readonly database", "cannot be written to; change the file's permissions"),
    ("database is locked", "is being written to by another process; try again"),
    ("malformed", "is a damaged file; restore it"),
    ("disk", "cannot use its disk; free some space, or look at the disk"),
)
"""A part of what the server says, and what it means. What it says may name the user."""

_DENIALS = (
    ("permission denied", "does not let this user do that; grant it, or use the owner's URL"),
    ("file is not a database", "is a file of another kind; correct the path"),
    ("no such table", "lacks a table that was there; restore it, or start with a new database"),
    ('relation "email_', "lacks a table that was there; restore it, or start with a new database"),
)
"""The same, among errors that are otherwise mistakes of this program."""


@contextmanager
def sitting(url: str, *, migrated: bool = True) -> Iterator[Database]:
    """Have the database at `url` bound and connected for the block, and leave things as before.

    Raises MailerError when it cannot be reached or used, and, with `migrated`, when its tables are
    not those of this version. No message holds a part of the URL.
    """
    earlier = proxy.obj
    database = bind(connect(url))
    try:
        with _one_sentence():
            database.connect()
            if is_postgresql():
                database.execute_sql(_LOCK_WAIT)
            if migrated:
                _require_migrated()
            yield database
    finally:
        database.close()
        proxy.initialize(earlier)


def _require_migrated() -> None:
    missing = migrations.pending()
    if missing:
        raise MailerError(
            f"DATABASE_URL: the database lacks {len(missing)} of mailer's migrations; "
            "run `mailer migrate`"
        )


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except PeeweeException as error:
        meaning = _meaning(error)
        if meaning is None:
            raise
        raise MailerError(f"DATABASE_URL: the database {meaning}") from None


def _meaning(error: Exception) -> str | None:
    away = isinstance(error, OperationalError | InterfaceError)
    known: Iterable[tuple[str, str]] = (*_TROUBLES, *_DENIALS) if away else _DENIALS
    said = str(error)
    for part, meaning in known:
        if part in said:
            return meaning
    # SQLite calls its own mistakes and ours operational alike.
    if away and is_postgresql():
        return "cannot be reached; check that it runs and that the URL is right"
    return None
