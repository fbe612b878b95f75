"""`resolve`, `requeue`, `cancel`: what they do, what they refuse, and that it is on record."""

from typing import Any

import psycopg2
import pytest

from mailer import claims, session
from mailer.outcome import Outcome
from mailer.tables import Audit
from tests.builders import claim_one, enqueue, finish, row_of, started
from tests.doors.conftest import Console


def in_doubt(key: str = "key") -> int:
    claimed = started(key)
    finish(claimed, Outcome.AMBIGUOUS)
    return claimed.outbox_id


def failed(key: str = "key") -> int:
    claimed = started(key)
    finish(claimed, Outcome.PERMANENT)
    return claimed.outbox_id


def audit_lines() -> list[tuple[Any, ...]]:
    columns = (Audit.actor, Audit.verb, Audit.outbox_id, Audit.after, Audit.why)
    lines: Any = Audit.select(*columns).order_by(Audit.id).tuples()
    return list(lines)


@pytest.mark.parametrize(
    ("verdict", "state"), [("accepted", "submitted"), ("not-accepted", "pending")]
)
def test_resolve_settles_a_doubt_either_way(console: Console, verdict: str, state: str) -> None:
    row = in_doubt()
    printed = console.done("resolve", row, "--as", verdict, "--why", "in the relay's log")
    assert printed == f"{row}: ambiguous -> {state}\n"
    assert row_of(row).state == state
    verb = f"resolve {verdict.replace('-', '_')}"
    assert audit_lines() == [("ann", verb, row, state, "in the relay's log")]


def test_not_accepted_names_the_latest_of_several_attempts(console: Console) -> None:
    row = in_doubt()
    resolve = ("resolve", row, "--as", "not-accepted", "--why", "nothing in the log")
    console.done(*resolve)
    second = claim_one()
    claims.begin([second])
    finish(second, Outcome.AMBIGUOUS)
    asked = console.refused(*resolve)
    assert asked == "attempt: 2 were begun; look into all of them, and say so with --attempt 2\n"
    assert "look into attempt 2 as well" in console.refused(*resolve, "--attempt", 1)
    assert console.done(*resolve, "--attempt", 2) == f"{row}: ambiguous -> pending\n"
    assert [verb for _, verb, *_ in audit_lines()] == ["resolve not_accepted"] * 2


def test_requeue_sends_again_what_failed(console: Console) -> None:
    row = failed()
    assert console.done("requeue", row, "--why", "fixed") == f"{row}: failed -> pending\n"
    assert claim_one().outbox_id == row


def test_cancel_takes_a_key(console: Console) -> None:
    row, _ = enqueue("welcome:7:v1")
    printed = console.done("cancel", "key:welcome:7:v1", "--why", "asked for")
    assert printed == f"{row.id}: pending -> cancelled\n"
    assert audit_lines() == [("ann", "cancel", row.id, "cancelled", "asked for")]


def test_the_audit_names_who_was_given(console: Console) -> None:
    console.done("cancel", enqueue("a")[0].id, "--why", "x", "--actor", "bea on call")
    assert audit_lines()[0][0] == "bea on call"


def test_without_a_name_given_the_system_is_asked(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "carl")
    console.environ["USER"] = ""
    console.done("cancel", enqueue("a")[0].id, "--why", "x")
    assert audit_lines()[0][0] == "carl"


@pytest.mark.parametrize(
    ("command", "mend"),
    [
        (("resolve", "{pending}", "--as", "accepted"), "nothing is in doubt, it is due to be sent"),
        (("requeue", "{pending}"), "is pending; it is due already"),
        (
            ("requeue", "{doubt}"),
            "settle it with `mailer resolve ID --as not-accepted` to send it again",
        ),
        (("cancel", "{doubt}"), "it may have gone out; settle it with `mailer resolve ID`"),
        (("cancel", "404"), "there is no outbox row 404; see `mailer list`"),
        (("cancel", "key:nobody"), "no outbox row has this dedup key; see `mailer list`"),
    ],
)
def test_what_does_not_apply_is_refused_in_one_line(
    console: Console, command: tuple[str, ...], mend: str
) -> None:
    ids = {"doubt": in_doubt("doubt"), "pending": enqueue("pending")[0].id}
    line = console.refused(*(each.format(**ids) for each in command), "--why", "x")
    assert line.startswith("id: ")
    assert line.endswith(f"{mend}\n")
    assert line.count("\n") == 1
    assert audit_lines() == []


def test_of_many_rows_one_refusal_does_not_stop_the_others(console: Console) -> None:
    first, second = failed("first"), failed("second")
    pending, _ = enqueue("pending")
    result = console.run("requeue", first, pending.id, second, "--why", "relay mended")
    assert result.exit_code == 1
    assert result.stdout == f"{first}: failed -> pending\n{second}: failed -> pending\n"
    assert result.stderr == f"id: row {pending.id} is pending; it is due already\n"


def test_an_id_of_the_wrong_form_is_wrong_usage_and_nothing_is_done(console: Console) -> None:
    row = failed()
    for wrong in ("twelve", "-1", "1.5", "1" * 19, "٣"):
        result = console.run("requeue", "--why", "x", "--", row, wrong)
        assert result.exit_code == 2
        assert "key:" in result.stderr
    assert row_of(row).state == "failed"


@pytest.mark.parametrize(
    "arguments",
    [
        ("resolve", "1", "--why", "x"),
        ("resolve", "1", "--as", "maybe", "--why", "x"),
        ("resolve", "1", "--as", "accepted"),
        ("resolve", "1", "--as", "not-accepted", "--attempt", "0", "--why", "x"),
        ("resolve", "--as", "accepted", "--why", "x"),
        ("requeue", "1"),
        ("cancel", "1", "--because", "x"),
    ],
)
def test_a_decision_that_is_not_whole_is_wrong_usage(
    console: Console, arguments: tuple[str, ...]
) -> None:
    assert console.run(*arguments).exit_code == 2


def test_an_empty_reason_is_refused(console: Console) -> None:
    row = in_doubt()
    assert "why: is empty" in console.refused("resolve", row, "--as", "accepted", "--why", " ")
    assert row_of(row).state == "ambiguous"


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_row_that_another_transaction_holds_is_given_up_with_a_sentence(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_LOCK_WAIT", "SET lock_timeout TO '50ms'")
    row = in_doubt()
    holder = psycopg2.connect(console.environ["DATABASE_URL"])
    try:
        holder.cursor().execute("SELECT 1 FROM email_outbox WHERE id = %s FOR UPDATE", [row])
        line = console.refused("resolve", row, "--as", "accepted", "--why", "x")
    finally:
        holder.close()
    assert "has this row locked by another transaction; try again" in line
    assert row_of(row).state == "ambiguous"
