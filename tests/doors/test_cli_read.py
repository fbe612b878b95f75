"""`status`, `list`, `show`: for people and, as one JSON document, for programs."""

import json
from typing import Any

import pytest

from mailer import claims, overdue
from mailer.outcome import Outcome
from mailer.states import RowState
from tests.builders import (
    POLICY,
    claim_one,
    enqueue,
    finish,
    insert_plainly,
    make_due,
    run_out,
    started,
)
from tests.doors.conftest import Console, rows_of


def in_doubt(key: str = "key", **changes: Any) -> int:
    claimed = started(key, **changes)
    finish(claimed, Outcome.AMBIGUOUS, rule="data-lost")
    return claimed.outbox_id


def parsed(console: Console, *arguments: object) -> Any:
    return json.loads(console.done(*arguments, "--json"))


class TestStatus:
    def test_for_programs(self, console: Console) -> None:
        in_doubt()
        due, _ = enqueue("due")
        make_due(due.id)
        status = parsed(console, "status")
        assert list(status) == [
            "at",
            "states",
            "due",
            "oldest_due_seconds",
            "retry_waiting",
            "scheduled",
            "overdue_leases",
            "ambiguous",
            "recent_seconds",
            "recent_complete",
            "recent_attempts",
            "streams",
            "circuits",
        ]
        assert list(status["states"]) == list(RowState)
        assert status["ambiguous"] == [{"stage": "after_dot", "rule": "data-lost", "rows": 1}]
        assert status["recent_attempts"] == [
            {"outcome": "ambiguous", "rule": "data-lost", "attempts": 1}
        ]
        assert status["due"] == 1
        assert status["oldest_due_seconds"] > 86_400
        assert status["at"].endswith("+00:00")

    def test_for_people(self, console: Console) -> None:
        in_doubt()
        printed = console.done("status")
        assert "ambiguous   1" in printed
        assert "after_dot  data-lost  1" in printed
        assert "to see them: mailer list" in printed


class TestList:
    def test_without_a_state_shows_what_waits_for_a_person(self, console: Console) -> None:
        row = in_doubt(to="ann@example.com")
        enqueue("other")
        listing = parsed(console, "list")
        (only,) = listing["rows"]
        assert list(only) == [
            "id",
            "dedup_key",
            "state",
            "reason",
            "stream",
            "age_seconds",
            "attempts",
            "next_attempt_at",
            "doubt",
        ]
        assert list(only["doubt"]) == [
            "number",
            "provider",
            "stage",
            "rule",
            "code",
            "at",
            "bytes_sent",
            "reply",
            "evidence",
            "next_step",
        ]
        assert (only["id"], only["state"]) == (row, "ambiguous")
        assert "no evidence of acceptance in" in only["doubt"]["evidence"]
        assert f"mailer resolve {row}" in only["doubt"]["next_step"]
        printed = console.done("list")
        assert "last reply:" in printed
        assert "next: waits for evidence or a person" in printed
        assert "@" not in printed

    def test_goes_on_where_a_page_ended(self, console: Console) -> None:
        ids = [enqueue(str(number))[0].id for number in range(3)]
        first = parsed(console, "list", "--state", "pending", "--limit", 2)
        assert rows_of(first) == ids[:2]
        second = parsed(console, "list", "--state", "pending", "--after", first["next_after"])
        assert (rows_of(second), second["next_after"]) == (ids[2:], None)
        assert f"--after {ids[1]}" in console.done("list", "--state", "pending", "--limit", 2)

    def test_keeps_to_a_stream(self, console: Console) -> None:
        enqueue("a")
        wanted, _ = enqueue("b", stream="news")
        assert rows_of(parsed(console, "list", "--state", "pending", "--stream", "news")) == [
            wanted.id
        ]

    def test_says_that_there_are_none(self, console: Console) -> None:
        assert console.done("list", "--state", "failed") == "no such rows\n"

    @pytest.mark.parametrize(
        "wrong", [("--state", "lost"), ("--limit", "0"), ("--after", "-1"), ("--limit", "10001")]
    )
    def test_wrong_usage(self, console: Console, wrong: tuple[str, str]) -> None:
        assert console.run("list", *wrong).exit_code == 2


class TestShow:
    def test_for_programs(self, console: Console) -> None:
        row = in_doubt(to="ann@example.com")
        story = parsed(console, "show", row)
        assert list(story) == [
            "at",
            "message",
            "recipients",
            "attempts",
            "audit",
            "next_step",
            "facts",
        ]
        assert (story["message"]["id"], story["message"]["state"]) == (row, "ambiguous")
        assert story["recipients"][0]["address"] == "ann@example.com"
        assert story["attempts"][0]["rule"] == "data-lost"
        assert parsed(console, "show", "key:key")["message"] == story["message"]

    def test_prints_the_next_step(self, console: Console) -> None:
        row = in_doubt()
        mend = f"mailer resolve {row} --as accepted|not-accepted --why TEXT"
        assert console.done("show", row).endswith(f"next: waits for evidence or a person: {mend}\n")

    def test_the_next_step_that_is_shown_works(self, console: Console) -> None:
        row = in_doubt()
        _, _, command = console.done("show", row).rpartition(": mailer ")
        words = command.replace("accepted|not-accepted", "accepted").split()
        console.done(*words)
        assert parsed(console, "show", row)["audit"][0]["why"] == "TEXT"

    def test_prints_the_whole_story(self, console: Console) -> None:
        claimed = started(to="ann@example.com")
        finish(claimed, Outcome.RETRYABLE, rule="greylisted")
        make_due(claimed.outbox_id)
        again = claim_one()
        claims.begin([again])
        run_out(again.outbox_id)
        overdue.end_expired_leases(10, POLICY, lambda: 0.5)
        console.done("resolve", again.outbox_id, "--as", "accepted", "--why", "seen in the log")
        printed = console.done("show", again.outbox_id)
        for part in (
            "Welcome",
            "ann@example.com",
            "greylisted",
            "lease-expired-started",
            "settled as accepted by operator ann",
            "seen in the log",
            "ambiguous -> submitted",
            "next: nothing: the provider took it",
        ):
            assert part in printed
        assert printed.index("greylisted") < printed.index("lease-expired-started")

    def test_stored_text_cannot_steer_the_terminal(self, console: Console) -> None:
        row = insert_plainly(
            "key[bold]\x1b[2J\u202e", ["a@example.com"], subject="\x07[red]Hi :smile:", text="x"
        )
        printed = console.done("show", row) + console.done("list", "--state", "pending")
        assert "\x1b" not in printed
        assert "\u202e" not in printed
        assert "\x07" not in printed
        assert "key[bold]" in printed
        assert "[red]Hi :smile:" in printed
        assert console.done("show", row, "--json").isascii()

    def test_refuses_what_is_not_there(self, console: Console) -> None:
        assert "no outbox row 404" in console.refused("show", 404)
        assert "no outbox row has this dedup key" in console.refused("show", "key:404", "--json")
