"""Reports: true numbers, pages without gaps, whole stories, and nothing that must not be shown."""

import datetime as dt
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from mailer import claims, database, lookups, operations, overdue, reports
from mailer.errors import Refused
from mailer.outcome import Outcome
from mailer.states import Resolution, RowState
from mailer.tables import Attempt
from mailer.views import Listed
from tests.builders import (
    PAST,
    POLICY,
    bound_to,
    claim_one,
    enqueue,
    finish,
    insert_plainly,
    make_due,
    prepare,
    run_out,
    started,
)

CANARY = "canary-Zx81"
SOON = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)


@pytest.fixture(autouse=True)
def outbox_url(database_url: str) -> Iterator[str]:
    prepare(database_url)
    with bound_to(database_url):
        yield database_url


def in_doubt(key: str = "key", **changes: str) -> int:
    claimed = started(key, **changes)
    finish(claimed, Outcome.AMBIGUOUS, rule="data-lost")
    return claimed.outbox_id


class TestStatus:
    def test_of_an_empty_outbox_has_every_state(self) -> None:
        status = reports.status()
        assert status.states == dict.fromkeys(RowState, 0)
        assert (status.due, status.oldest_due_seconds, status.recent_attempts) == (0, None, ())
        assert status.recent_complete

    def test_counts_rows_by_state_and_stream(self) -> None:
        finish(started("a", stream="news"), Outcome.ACCEPTED)
        finish(started("b"), Outcome.ACCEPTED)
        finish(started("c"), Outcome.PERMANENT)
        enqueue("d", stream="news")
        status = reports.status()
        assert {name: rows for name, rows in status.states.items() if rows} == {
            "pending": 1,
            "submitted": 2,
            "failed": 1,
        }
        assert [(each.stream, each.state, each.rows) for each in status.streams] == [
            ("default", "failed", 1),
            ("default", "submitted", 1),
            ("news", "pending", 1),
            ("news", "submitted", 1),
        ]

    def test_tells_due_rows_from_those_that_wait(self) -> None:
        finish(started("tried"), Outcome.RETRYABLE)
        due_again = started("tried and due")
        finish(due_again, Outcome.RETRYABLE)
        make_due(due_again.outbox_id)
        enqueue("later", send_at=SOON)
        due, _ = enqueue("due")
        enqueue("due too")
        make_due(due.id)
        status = reports.status()
        assert (status.due, status.retry_waiting, status.scheduled) == (3, 1, 1)
        assert status.oldest_due_seconds == pytest.approx(
            (status.at - PAST).total_seconds(), abs=1e-3
        )

    def test_counts_leases_that_nobody_has_ended(self) -> None:
        run_out(started("lost").outbox_id)
        started("alive")
        status = reports.status()
        assert (status.states["sending"], status.overdue_leases) == (2, 1)

    def test_counts_a_row_in_doubt_once_by_its_latest_doubt(self) -> None:
        row = in_doubt("twice", on_ambiguous="resend")
        make_due(row)
        overdue.apply_policies(10, POLICY)
        finish(claim_one(), Outcome.AMBIGUOUS, rule="stalled")
        in_doubt("once")
        settled = in_doubt("settled")
        operations.resolve(settled, Resolution.ACCEPTED, actor="ann", why="seen")
        counts = [(each.stage, each.rule, each.rows) for each in reports.status().ambiguous]
        assert counts == [("after_dot", "data-lost", 1), ("after_dot", "stalled", 1)]

    def test_counts_the_attempts_of_the_last_hour_alone(self) -> None:
        finish(started("old"), Outcome.ACCEPTED, rule="old")
        Attempt.update(finished_at=PAST).execute()
        finish(started("a"), Outcome.ACCEPTED, rule="ok")
        finish(started("b"), Outcome.ACCEPTED, rule="ok")
        finish(started("c"), Outcome.RETRYABLE, rule="greylisted")
        started("open")
        counts = reports.status().recent_attempts
        assert [(each.outcome, each.rule, each.attempts) for each in counts] == [
            ("accepted", "ok", 2),
            ("retryable", "greylisted", 1),
        ]

    def test_says_when_there_were_more_attempts_than_it_looks_at(self) -> None:
        for key in "abc":
            finish(started(key), Outcome.ACCEPTED, rule="ok")
        assert lookups.recent(3_600, at_most=3).complete
        bounded = lookups.recent(3_600, at_most=2)
        assert (bounded.counts, bounded.complete) == ((("accepted", "ok", 2),), False)
        Attempt.update(claimed_at=PAST).where(Attempt.id == Attempt.select().first().id).execute()
        assert lookups.recent(3_600, at_most=2).complete


class TestListing:
    def test_pages_follow_each_other_without_gap_or_overlap(self) -> None:
        ids = [enqueue(str(number))[0].id for number in range(5)]
        seen: list[int] = []
        after: int | None = 0
        while after is not None:
            page = reports.listing(RowState.PENDING, after_id=after, limit=2)
            seen += [each.id for each in page.rows]
            after = page.next_after
        assert seen == ids

    def test_keeps_to_one_state_and_one_stream(self) -> None:
        finish(started("submitted", stream="news"), Outcome.ACCEPTED)
        enqueue("elsewhere")
        wanted, _ = enqueue("wanted", stream="news")
        found = reports.listing(RowState.PENDING, stream="news").rows
        assert [(each.id, each.dedup_key) for each in found] == [(wanted.id, "wanted")]

    def test_tells_where_the_doubt_began(self) -> None:
        row = in_doubt()
        (found,) = reports.listing(RowState.AMBIGUOUS).rows
        assert (found.id, found.state, found.reason) == (row, "ambiguous", "data-lost")
        assert found.doubt is not None
        doubt = found.doubt
        assert (doubt.number, doubt.stage, doubt.rule, doubt.code) == (
            1,
            "after_dot",
            "data-lost",
            "250",
        )

    def test_shows_no_address(self) -> None:
        in_doubt(to="ann@example.com")
        (found,) = reports.listing(RowState.AMBIGUOUS).rows
        assert isinstance(found, Listed)
        assert "@" not in repr(found)

    @pytest.mark.parametrize("limit", [0, -1, 10_001])
    def test_refuses_an_unbounded_page(self, limit: int) -> None:
        with pytest.raises(Refused, match="limit: must be from 1 to 10,000"):
            reports.listing(RowState.PENDING, limit=limit)


class TestTimeline:
    def test_tells_the_story_in_order(self) -> None:
        claimed = started(to=["ann@example.com", "bob@example.com"])
        finish(claimed, Outcome.RETRYABLE, rule="greylisted")
        make_due(claimed.outbox_id)
        finish(claim_one(), Outcome.AMBIGUOUS, rule="data-lost")
        operations.resolve(
            claimed.outbox_id, Resolution.ACCEPTED, actor="ann", why="in the relay's log"
        )
        story = reports.timeline(claimed.outbox_id, max_resends=1)
        assert (story.message.state, story.message.subject) == ("submitted", "Welcome")
        assert [(each.address, each.role, each.state) for each in story.recipients] == [
            ("ann@example.com", "to", "accepted"),
            ("bob@example.com", "to", "accepted"),
        ]
        assert [(each.number, each.outcome, each.rule) for each in story.attempts] == [
            (1, "retryable", "greylisted"),
            (2, "ambiguous", "data-lost"),
        ]
        assert story.attempts[1].resolved_by == "operator ann"
        assert [(each.actor, each.verb, each.why) for each in story.audit] == [
            ("ann", "resolve accepted", "in the relay's log")
        ]
        assert story.next_step == "nothing: the provider took it"

    def test_next_step_follows_the_row(self) -> None:
        row, _ = enqueue()
        assert self.next_step(row.id).startswith("due since ")
        claimed = claim_one()
        assert self.next_step(row.id) == "a worker has claimed it; its call has not begun"
        run_out(row.id)
        assert self.next_step(row.id).endswith("the next sweep makes it due again")
        overdue.end_expired_leases(10, POLICY, lambda: 0.5)
        finish(started_again(), Outcome.AMBIGUOUS)
        assert f"mailer resolve {row.id} --as accepted|not-accepted" in self.next_step(row.id)
        assert claimed.outbox_id == row.id

    def test_next_step_tells_an_assumption_from_an_acceptance(self) -> None:
        row = in_doubt(on_ambiguous="assume_sent")
        make_due(row)
        assert "takes it for sent at the next sweep" in self.next_step(row)
        overdue.apply_policies(10, POLICY)
        assert self.next_step(row) == "nothing: policy assume_sent took it for sent"

    def test_next_step_knows_how_often_a_message_may_be_resent(self) -> None:
        row = in_doubt(on_ambiguous="resend")
        assert "policy resend sends it again in " in self.next_step(row)
        story = reports.timeline(row, max_resends=0)
        assert story.next_step.startswith("waits for evidence or a person")

    def test_next_step_counts_the_recipients_that_were_left_out(self) -> None:
        claimed = started(to=["a@example.com", "b@example.com"])
        finish(claimed, Outcome.ACCEPTED, Outcome.PERMANENT)
        assert self.next_step(claimed.outbox_id).endswith("except for 1 of its recipients")

    def test_of_a_row_that_came_by_plain_insert(self) -> None:
        row = insert_plainly("plain", ["ann@example.com"], subject="Hi", text="Hello")
        story = reports.timeline(row, max_resends=1)
        assert (story.message.message_id, story.recipients, story.attempts) == (None, (), ())

    def test_holds_nothing_that_must_not_be_shown(self) -> None:
        claimed = started(
            text=f"text {CANARY}",
            html=f"<p>{CANARY}</p>",
            headers={"X-Note": CANARY},
            attachments=[(f"{CANARY}.txt", CANARY.encode())],
        )
        finish(claimed, Outcome.AMBIGUOUS)
        story = repr(reports.timeline(claimed.outbox_id, max_resends=1))
        assert CANARY not in story
        assert claimed.lease_token not in story

    def test_refuses_a_row_that_does_not_exist(self) -> None:
        with pytest.raises(Refused, match="no outbox row 404"):
            reports.timeline(404, max_resends=1)
        with pytest.raises(Refused, match="no outbox row 404"):
            reports.state(404)

    @staticmethod
    def next_step(row: int) -> str:
        return reports.timeline(row, max_resends=1).next_step


def started_again() -> claims.Claimed:
    claimed = claim_one()
    claims.begin([claimed])
    return claimed


def test_a_key_finds_its_row() -> None:
    row, _ = enqueue("welcome:7:v1")
    assert reports.find("welcome:7:v1") == row.id
    with pytest.raises(Refused, match="no outbox row has this dedup key"):
        reports.find("welcome:8:v1")


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_only_the_totals_read_a_whole_table(caplog: pytest.LogCaptureFixture) -> None:
    row = in_doubt()
    pending, _ = enqueue("pending")
    with caplog.at_level(logging.DEBUG, logger="peewee"):
        reports.status()
        reports.providers()
        reports.timeline(pending.id, max_resends=1)
        for state in RowState:
            reports.listing(state)
        reports.timeline(row, max_resends=1)
        reports.find("key")
    asked: list[Any] = [each.msg for each in caplog.records if each.msg[0].startswith("SELECT")]
    execute: Any = database.bound().execute_sql
    execute("SET enable_seqscan TO off")
    plans = {sql: str(execute(f"EXPLAIN {sql}", params).fetchall()) for sql, params in asked}
    assert len(plans) > 10
    reading_all = [sql for sql, plan in plans.items() if "Seq Scan" in plan]
    assert len(reading_all) <= 1
    assert all('GROUP BY "t1"."stream"' in sql for sql in reading_all)
