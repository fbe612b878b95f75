"""Migrations, and what the database refuses by itself."""

import os
import subprocess
import sys

import peewee
import pytest

from mailer import database
from mailer.migrations import migrate, pending
from mailer.tables import TABLES, Outbox
from tests.builders import bound_to, enqueue, started

ALL = ["0001_outbox", "0002_provider", "0003_event", "0004_functions"]


def test_three_runners_at_once_all_succeed(database_url: str) -> None:
    """Each a process of its own, as three dynos would be."""
    script = (
        "import sys; from mailer import database, migrations;"
        "database.bind(database.connect(sys.argv[1])); print(migrations.migrate())"
    )
    runners = [
        subprocess.Popen(
            [sys.executable, "-c", script, database_url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ},
        )
        for _ in range(3)
    ]
    answers = [each.communicate(timeout=60) for each in runners]
    assert [each.returncode for each in runners] == [0, 0, 0], answers
    assert sorted(out.strip() for out, _ in answers) == [
        str(ALL),
        "[]",
        "[]",
    ]


def test_migrating_twice_changes_nothing(database_url: str) -> None:
    with bound_to(database_url):
        assert pending() == ALL
        assert migrate() == ALL
        assert migrate() == []
        assert pending() == []


def test_an_applications_own_database_serves_too(database_url: str) -> None:
    """Bound as it is: connected by itself, and on SQLite with deferred transactions."""
    if database_url.startswith("sqlite"):
        own: peewee.Database = peewee.SqliteDatabase(database_url.removeprefix("sqlite:///"))
    else:
        own = database.connect(database_url)
    database.bind(own)
    try:
        migrate()
        with own.atomic():
            assert enqueue().created
    finally:
        own.close()
        database.proxy.initialize(None)


def test_other_databases_are_refused() -> None:
    with pytest.raises(Exception, match="MySQLDatabase is not supported"):
        database.bind(peewee.MySQLDatabase("x"))


@pytest.mark.usefixtures("outbox")
class TestConstraints:
    """On both databases."""

    def test_models_and_tables_agree(self) -> None:
        for table in TABLES:
            name = table._meta.table_name
            stored = {each.name: each.null for each in database.bound().get_columns(name)}
            declared = {field.column_name: field.null for field in table._meta.sorted_fields}
            assert {**stored, "id": False} == {**declared, "id": False}, name

    @pytest.mark.parametrize(
        "change",
        [
            "state = 'lost'",
            "state = 'sending'",
            "lease_token = 'x'",
            "lease_token = 'x', lease_expires_at = created_at",
            "state = 'submitted'",
            "finished_at = created_at",
            "attempts = -1",
            "priority = 10",
            "on_ambiguous = 'guess'",
            "message_id = NULL",
            "dedup_key = ''",
            "next_attempt_at = NULL",
            "subject = NULL",
            "text = NULL",
            "cc = '{}'",
        ],
    )
    def test_impossible_rows_are_refused(self, change: str) -> None:
        enqueue()
        with pytest.raises(peewee.IntegrityError):
            database.bound().execute_sql(f"UPDATE email_outbox SET {change}")

    @pytest.mark.parametrize(
        "change",
        [
            "state = 'finished'",
            "outcome = 'accepted'",
            "state = 'lost'",
            "started_at = NULL",
            "state = 'released'",
            "resolution = 'accepted'",
            "state = 'finished', outcome = 'accepted', finished_at = claimed_at",
        ],
    )
    def test_impossible_attempts_are_refused(self, change: str) -> None:
        started()
        with pytest.raises(peewee.IntegrityError):
            database.bound().execute_sql(f"UPDATE email_attempt SET {change}")

    def test_a_plain_insert_needs_content(self) -> None:
        with pytest.raises(peewee.IntegrityError):
            Outbox.create(dedup_key="empty", to=["ann@example.com"])

    def test_naive_moments_are_refused(self) -> None:
        import datetime as dt

        with pytest.raises(ValueError, match="timezone"):
            Outbox.create(
                dedup_key="k",
                to=[],
                template="t-v1",
                expires_at=dt.datetime(2030, 1, 1),  # noqa: DTZ001
            )


def test_claims_are_served_by_the_partial_index(postgres_outbox: str) -> None:
    from mailer.claims import Frontier
    from mailer.claims_sql import POSTGRESQL

    sql = "EXPLAIN " + POSTGRESQL.claim
    params = {
        "limit": 100,
        "provider": "p",
        "token": "t",
        "lease": 60.0,
        "streams": None,
        "other_streams": [],
        "held_senders": [],
        "only_sender": None,
        "default_sender": "",
        "first_sends": False,
        **Frontier().params(),
    }
    plan = "\n".join(row[0] for row in database.rows(sql, params))
    assert "email_outbox_due" in plan
