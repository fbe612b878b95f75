"""What many scenarios share: the servers, and a database that is ready to be copied."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2

from mailer.migrations import migrate
from mailer.prove.kit.pgbouncer import PgBouncer
from mailer.prove.kit.servers import PostgresServer, RedisServer
from mailer.session import sitting

_HISTORY = """
CREATE TABLE kit_history (
    number bigserial PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    outbox_id bigint NOT NULL, was text, became text NOT NULL
);
CREATE FUNCTION kit_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO kit_history (outbox_id, was, became)
    VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.state END, NEW.state);
    RETURN NULL;
END $$;
CREATE TRIGGER kit_note_insert AFTER INSERT ON email_outbox
    FOR EACH ROW EXECUTE FUNCTION kit_note();
CREATE TRIGGER kit_note_update AFTER UPDATE OF state ON email_outbox
    FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION kit_note();
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """Servers that may be killed, and the name of a database with all tables to be copied."""

    postgres: PostgresServer
    redis: RedisServer
    template: str
    folder: Path
    pgbouncer: PgBouncer | None = None


@contextmanager
def stage(folder: Path, *, pgbouncer: bool = False) -> Iterator[Stage]:
    """Start servers of our own for the length of the block.

    Raises NoServer, naming what to install, and StartFailed.
    """
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgresServer(durable=True))
        redis = stack.enter_context(RedisServer())
        pooler = stack.enter_context(PgBouncer(_port(postgres.url()))) if pgbouncer else None
        yield Stage(postgres, redis, postgres.create_template(_prepare), folder, pooler)


def _port(url: str) -> int:
    return urlsplit(url).port or 0


def _prepare(url: str) -> None:
    with sitting(url, migrated=False):
        migrate()
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(_HISTORY)
        connection.commit()
