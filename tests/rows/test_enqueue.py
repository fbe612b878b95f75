"""Intents: in the caller's transaction, once for each key, whole or not at all."""

import contextlib
import datetime as dt
import threading
from typing import Any

import psycopg2
import pytest

from mailer import database
from mailer.errors import DedupConflict, InvalidEmail
from mailer.prove.kit.waiting import until
from mailer.tables import Outbox, Recipient
from tests.builders import claim, enqueue, freezer, insert_plainly, row_of


@pytest.mark.usefixtures("outbox")
class TestEnqueue:
    """On both databases."""

    def test_writes_the_frozen_message_and_its_recipients(self) -> None:
        row, created = enqueue(
            to=["Ann <ann@Example.com>", "bob@example.com"],
            cc="ANN@example.com",
            bcc=["eve@example.com"],
        )
        stored = row_of(row.id)
        assert created
        assert stored.state == "pending"
        assert stored.to == ["Ann <ann@example.com>", "bob@example.com"]
        assert stored.message_id == row.message_id
        assert stored.created_at == row.created_at
        known = Recipient.select().where(Recipient.outbox == row.id).order_by(Recipient.id)
        assert [(each.address_key, each.role) for each in known] == [
            ("ann@example.com", "to"),
            ("bob@example.com", "to"),
            ("eve@example.com", "bcc"),
        ]

    def test_the_same_key_and_payload_is_the_same_row(self) -> None:
        first = enqueue()
        second = enqueue()
        assert (second.row.id, second.created) == (first.row.id, False)
        assert Outbox.select().count() == 1

    @pytest.mark.parametrize(
        "change",
        [
            {"to": "bob@example.com"},
            {"subject": "Other"},
            {"text": "Other"},
            {"cc": "c@example.com"},
        ],
    )
    def test_the_same_key_with_another_payload_is_refused(self, change: dict[str, Any]) -> None:
        row, _ = enqueue()
        with pytest.raises(DedupConflict) as caught:
            enqueue(**change)
        assert caught.value.outbox_id == row.id
        assert (
            caught.value.existing_fingerprint == row.fingerprint != (caught.value.given_fingerprint)
        )
        assert Outbox.select().count() == 1

    @pytest.mark.parametrize("again", [{}, {"text": "Other"}])
    def test_a_taken_key_does_not_abort_the_transaction(self, again: dict[str, Any]) -> None:
        enqueue()
        with database.transaction():
            with contextlib.suppress(DedupConflict):
                enqueue(**again)
            enqueue("second")
        assert Outbox.select().count() == 2

    def test_an_intent_rolls_back_with_its_transaction(self) -> None:
        with database.transaction() as block:
            enqueue()
            block.rollback()
        assert (Outbox.select().count(), Recipient.select().count()) == (0, 0)

    def test_the_hint_goes_out_after_the_commit_and_not_before(self) -> None:
        seen: list[int] = []
        with database.transaction():
            enqueue(nudge=lambda: seen.append(Outbox.select().count()))
            assert seen == []
        assert seen == [1]

    def test_no_hint_after_a_rollback(self) -> None:
        seen: list[int] = []
        with database.transaction() as block:
            enqueue(nudge=lambda: seen.append(1))
            block.rollback()
        assert seen == []

    def test_bad_input_is_refused_before_anything_is_written(self) -> None:
        with database.transaction():
            with pytest.raises(InvalidEmail, match=r"^to"):
                enqueue(to="nobody")
            enqueue("good")
        assert [each.dedup_key for each in Outbox.select()] == ["good"]

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("priority", 10),
            ("priority", -1),
            ("stream", ""),
            ("stream", "a\nb"),
            ("on_ambiguous", "guess"),
            ("send_at", dt.datetime(2030, 1, 1)),  # noqa: DTZ001 - naive on purpose
            ("expires_at", dt.datetime(2030, 1, 1)),  # noqa: DTZ001
        ],
    )
    def test_refusals_name_the_field(self, field: str, value: Any) -> None:
        with pytest.raises(InvalidEmail) as caught:
            enqueue(**{field: value})
        assert caught.value.field == field

    @pytest.mark.parametrize("key", ["", "k" * 256, "a\nb", None, 7])
    def test_keys_must_be_usable(self, key: Any) -> None:
        with pytest.raises(InvalidEmail, match=r"^dedup_key"):
            enqueue(key)

    def test_a_later_send_waits(self) -> None:
        enqueue(send_at=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
        assert claim() == []

    def test_a_key_of_a_plain_insert_is_compared_by_what_it_would_send(self) -> None:
        row_id = insert_plainly("key", ["ann@example.com"], subject="Welcome", text="Hello")
        assert enqueue().row.id == row_id
        with pytest.raises(DedupConflict):
            enqueue(text="Other")

    def test_templates_are_rendered_now_and_frozen(self, tmp_path: Any) -> None:
        folder = tmp_path / "welcome-v1"
        folder.mkdir()
        (folder / "subject.txt").write_text("Welcome {{ name }}")
        (folder / "body.txt").write_text("Hello {{ name }}")
        options: dict[str, Any] = {
            "template": "welcome-v1",
            "context": {"name": "Ann"},
            "subject": None,
            "text": None,
        }
        row, _ = enqueue(**options, freezer=freezer(templates=tmp_path))
        (folder / "body.txt").write_text("Changed {{ name }}")
        again = enqueue(**options, freezer=freezer(templates=tmp_path))
        stored = row_of(row.id)
        assert (stored.subject, stored.text) == ("Welcome Ann", "Hello Ann")
        assert (stored.template, stored.template_version) == ("welcome-v1", "v1")
        assert again.created is False

    def test_content_comes_from_the_template_or_from_the_call(self, tmp_path: Any) -> None:
        with pytest.raises(InvalidEmail, match=r"^subject"):
            enqueue(template="welcome-v1", freezer=freezer(templates=tmp_path))


def test_two_writers_race_for_one_key(postgres_outbox: str) -> None:
    """The later writer waits for the earlier one's end and then finds the key taken."""
    outcome: list[Any] = []

    def write_too() -> None:
        with database.connected(), database.transaction():
            outcome.append(enqueue().created)
            outcome.append(enqueue("mine").created)

    with database.transaction():
        enqueue()
        other = threading.Thread(target=write_too)
        other.start()
        until(lambda: _waits_for_a_lock(postgres_outbox))
        assert outcome == []
    other.join()
    assert outcome == [False, True]


def test_a_key_whose_writer_rolls_back_is_free(postgres_outbox: str) -> None:
    outcome: list[bool] = []

    def write_too() -> None:
        with database.connected():
            outcome.append(enqueue().created)

    with database.transaction() as block:
        enqueue()
        other = threading.Thread(target=write_too)
        other.start()
        until(lambda: _waits_for_a_lock(postgres_outbox))
        block.rollback()
        other.join()
    assert outcome == [True]


def _waits_for_a_lock(url: str) -> bool:
    connection = psycopg2.connect(url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = current_database()"
            )
            (waiting,) = cursor.fetchone() or (0,)
            return bool(waiting)
    finally:
        connection.close()


@pytest.mark.usefixtures("outbox")
@pytest.mark.parametrize(
    "context", [{"a": "\0"}, {"a": "\ud800"}, {"a": float("nan")}, {"a": object()}, {"a": {1, 2}}]
)
def test_a_context_that_cannot_be_stored_is_refused_and_aborts_nothing(
    context: dict[str, Any], tmp_path: Any
) -> None:
    folder = tmp_path / "plain-v1"
    folder.mkdir()
    (folder / "subject.txt").write_text("Hello")
    (folder / "body.txt").write_text("Hello")
    with database.transaction():
        with pytest.raises(InvalidEmail, match=r"^context"):
            enqueue(
                template="plain-v1",
                context=context,
                subject=None,
                text=None,
                freezer=freezer(templates=tmp_path),
            )
        enqueue("second")
    assert Outbox.select().count() == 1
