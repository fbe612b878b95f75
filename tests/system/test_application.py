"""From an application of a dozen lines to a message at the SMTP server."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest
import redis as redis_client

from mailer.prove.kit.fleet import Worker, process_environment
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.servers import PostgresServer, RedisServer
from mailer.wiring import WORKER_CONNECTIONS
from tests.system.application import commit, welcome
from tests.system.conftest import migrate, migration, settings
from tests.system.sink import GatedSink, SinkLog, dawdling_sink, gated_sink

APPLICATION = """
import os
import mailer
from peewee import CharField, Model

db = mailer.connect(os.environ["DATABASE_URL"])
Account = type("Account", (Model,), {
    "email": CharField(), "name": CharField(), "Meta": type("Meta", (), {"database": db}),
})
db.create_tables([Account])

with db.atomic():
    account = Account.create(email="ada@example.com", name="Ada")
    mailer.enqueue(
        dedup_key=f"welcome:{account.id}:v1",
        to=account.email,
        template="welcome-v1",
        context={"name": account.name},
    )
db.close()
"""

INSERT = """
INSERT INTO email_outbox (dedup_key, "to", template, context)
VALUES ('plain:1', '["grace@example.com"]', 'welcome-v1', '{"name": "Grace"}')
"""


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A folder with one template."""
    folder = tmp_path / "templates"
    (folder / "welcome-v1").mkdir(parents=True)
    (folder / "welcome-v1" / "subject.txt").write_text("Welcome, {{ name }}")
    (folder / "welcome-v1" / "body.txt").write_text("Hello {{ name }}!\n")
    (folder / "welcome-v1" / "body.html").write_text("<p>Hello <b>{{ name }}</b>!</p>\n")
    return folder


@pytest.fixture
def sink(sink_log: SinkLog) -> Iterator[GatedSink]:
    with gated_sink(sink_log) as sink:
        yield sink


def only_message(sink: GatedSink) -> EmailMessage:
    (content,) = sink.contents
    message = message_from_bytes(content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def check_welcome(message: EmailMessage, name: str) -> None:
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert message["Subject"] == f"Welcome, {name}"
    assert message["To"] == f"{name.lower()}@example.com"
    assert text is not None
    assert html is not None
    assert text.get_content().splitlines() == [f"Hello {name}!"]
    assert html.get_content().splitlines() == [f"<p>Hello <b>{name}</b>!</p>"]


def test_an_application_commits_a_mail_and_the_worker_delivers_it(
    ledger: Ledger, redis: RedisServer, sink: GatedSink, templates: Path, tmp_path: Path
) -> None:
    variables = settings(ledger, sink.port, REDIS_URL=redis.url, MAILER_TEMPLATES=str(templates))
    with Worker(variables, tmp_path) as worker:
        worker.wait_started()
        subprocess.run(
            [sys.executable, "-c", APPLICATION],
            env=process_environment(variables),
            cwd=tmp_path,
            check=True,
        )
        ledger.wait_states(submitted=1)
        assert worker.stop() == 0

    message = only_message(sink)
    check_welcome(message, "Ada")
    (stored,) = ledger.ask("SELECT message_id FROM email_outbox")[0]
    assert message["Message-ID"] == stored
    assert ledger.ask("SELECT email FROM account") == [("ada@example.com",)]


def test_a_plain_insert_is_rendered_and_delivered(
    ledger: Ledger, redis: RedisServer, sink: GatedSink, templates: Path, tmp_path: Path
) -> None:
    ledger.ask(INSERT)
    variables = settings(ledger, sink.port, REDIS_URL=redis.url, MAILER_TEMPLATES=str(templates))
    with Worker(variables, tmp_path):
        ledger.wait_states(submitted=1)
    check_welcome(only_message(sink), "Grace")
    ((version, subject),) = ledger.ask("SELECT template_version, subject FROM email_outbox")
    assert (version, subject) == ("v1", "Welcome, Grace")


def test_an_application_that_ends_at_once_still_sends_its_hint(
    ledger: Ledger, redis: RedisServer, tmp_path: Path
) -> None:
    variables = settings(ledger, sink_port=25, REDIS_URL=redis.url)
    with closing(redis_client.Redis.from_url(redis.url)) as client:
        # A hint is given half a second, which may be short on a busy machine: some must make it.
        for number in range(5):
            commit(variables, tmp_path, [welcome(f"key-{number}")])
        assert client.hlen("mailer:mailer.msgs") > 0


def test_three_migrations_at_once_all_succeed(durable_postgres: PostgresServer) -> None:
    url = durable_postgres.create_database()
    with ExitStack() as stack:
        runners = [stack.enter_context(migration(url)) for _ in range(3)]
        said = [each.communicate()[1] for each in runners]
    assert [each.returncode for each in runners] == [0, 0, 0], said
    assert Ledger(url).rows() == []
    migrate(url)
    durable_postgres.drop_database(url)


def test_a_worker_started_before_the_migration_delivers_after_it(
    durable_postgres: PostgresServer, sink: GatedSink, tmp_path: Path
) -> None:
    ledger = Ledger(durable_postgres.create_database())
    variables = settings(ledger, sink.port)
    with Worker(variables, tmp_path) as worker:
        worker.wait_started()
        migrate(ledger.url)
        commit(variables, tmp_path, [welcome("first")])
        ledger.wait_states(submitted=1)
    durable_postgres.drop_database(ledger.url)


def test_a_worker_process_keeps_to_its_number_of_connections(
    ledger: Ledger, redis: RedisServer, sink_log: SinkLog, tmp_path: Path
) -> None:
    seen = [0]
    with dawdling_sink(sink_log, seed=6) as port:
        variables = settings(ledger, port, REDIS_URL=redis.url)
        with Worker(variables, tmp_path) as worker:
            worker.wait_started()
            commit(variables, tmp_path, *([welcome(f"key-{number}")] for number in range(40)))
            while ledger.states() != {"submitted": 40} and len(seen) < 10_000:
                seen.append(ledger.connections())
            ledger.wait_states(submitted=40)
    assert 1 <= max(seen) <= WORKER_CONNECTIONS
