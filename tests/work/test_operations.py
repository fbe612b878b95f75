"""Operator verbs: each moves a row by the rules and leaves one audit line, or does neither."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mailer import database, operations, outbox
from mailer.errors import Refused
from mailer.operations import Decided
from mailer.outcome import Outcome
from mailer.states import Resolution
from mailer.tables import Attempt, Audit, Outbox
from tests.builders import (
    attempt_of,
    bound_to,
    claim,
    claim_one,
    enqueue,
    finish,
    make_due,
    pass_expiry,
    prepare,
    recipient_states,
    row_of,
    started,
)

WHY = "the relay's log shows it"


@pytest.fixture(autouse=True)
def outbox_url(database_url: str) -> Iterator[str]:
    prepare(database_url)
    with bound_to(database_url):
        yield database_url


def ended(outcome: Outcome) -> int:
    claimed = started()
    finish(claimed, outcome)
    return claimed.outbox_id


def expired() -> int:
    claimed = started()
    finish(claimed, Outcome.RETRYABLE, rule="message-expired")
    return claimed.outbox_id


def cancelled() -> int:
    row, _ = enqueue()
    outbox.cancel(row.id)
    return int(row.id)


IN_STATE: dict[str, Callable[[], int]] = {
    "pending": lambda: int(enqueue()[0].id),
    "sending": lambda: started().outbox_id,
    "ambiguous": lambda: ended(Outcome.AMBIGUOUS),
    "submitted": lambda: ended(Outcome.ACCEPTED),
    "failed": lambda: ended(Outcome.PERMANENT),
    "expired": expired,
    "cancelled": cancelled,
}

VERBS: dict[str, Callable[[int], Decided]] = {
    "resolve": lambda row: operations.resolve(row, Resolution.ACCEPTED, actor="ann", why=WHY),
    "requeue": lambda row: operations.requeue(row, actor="ann", why=WHY),
    "cancel": lambda row: operations.cancel(row, actor="ann", why=WHY),
}


def audit_lines() -> list[tuple[object, ...]]:
    columns = (Audit.actor, Audit.verb, Audit.outbox_id, Audit.before, Audit.after, Audit.why)
    lines: Any = Audit.select(*columns).order_by(Audit.id).tuples()
    return list(lines)


def test_taken_for_accepted_a_message_is_submitted_and_the_record_says_by_whom() -> None:
    claimed = started()
    finish(claimed, Outcome.AMBIGUOUS)
    row = claimed.outbox_id
    decided = operations.resolve(row, Resolution.ACCEPTED, actor="ann", why=WHY)
    assert decided.after == row_of(row).state == "submitted"
    assert recipient_states(row) == ["accepted"]
    attempt = attempt_of(claimed)
    assert (attempt.outcome, attempt.resolution) == ("ambiguous", "accepted")
    assert (attempt.resolved_by, attempt.evidence) == ("operator ann", WHY)
    assert audit_lines() == [("ann", "resolve accepted", row, "ambiguous", "submitted", WHY)]


def test_taken_for_not_accepted_a_message_is_sent_again_at_once() -> None:
    row = ended(Outcome.AMBIGUOUS)
    decided = operations.resolve(row, Resolution.NOT_ACCEPTED, actor="ann", why=WHY)
    assert decided.after == "pending"
    assert claim_one().outbox_id == row
    assert audit_lines() == [("ann", "resolve not_accepted", row, "ambiguous", "pending", WHY)]


def test_resolving_leaves_recipients_alone_that_are_not_in_doubt() -> None:
    claimed = started(to=["a@example.com", "b@example.com", "c@example.com"])
    finish(claimed, Outcome.ACCEPTED, Outcome.AMBIGUOUS, Outcome.PERMANENT)
    decided = operations.resolve(claimed.outbox_id, Resolution.NOT_ACCEPTED, actor="ann", why=WHY)
    assert decided.after == "pending"
    assert recipient_states(claimed.outbox_id) == ["accepted", "due", "refused"]


def test_resolving_settles_every_attempt_in_doubt() -> None:
    row = ended(Outcome.AMBIGUOUS)
    operations.resolve(row, Resolution.NOT_ACCEPTED, actor="ann", why=WHY)
    again = claim_one()
    finish(again, Outcome.AMBIGUOUS)
    operations.resolve(row, Resolution.ACCEPTED, actor="bea", why=WHY)
    settled = Attempt.select(Attempt.resolution, Attempt.resolved_by).order_by(Attempt.number)
    assert list(settled.tuples()) == [
        ("not_accepted", "operator ann"),
        ("accepted", "operator bea"),
    ]


def test_requeueing_gives_a_failed_message_another_life() -> None:
    row = ended(Outcome.PERMANENT)
    decided = operations.requeue(row, actor="ann", why=WHY)
    assert (decided.before, decided.after) == ("failed", "pending")
    assert claim_one().outbox_id == row
    assert audit_lines() == [("ann", "requeue", row, "failed", "pending", WHY)]


def test_cancelling_reaches_what_is_claimed_and_not_begun() -> None:
    enqueue()
    claimed = claim_one()
    decided = operations.cancel(claimed.outbox_id, actor="ann", why=WHY)
    assert (decided.before, decided.after) == ("sending", "cancelled")
    assert attempt_of(claimed).state == "released"
    assert audit_lines() == [("ann", "cancel", claimed.outbox_id, "sending", "cancelled", WHY)]


def test_cancelling_cannot_call_back_what_some_recipients_were_sent() -> None:
    claimed = started(to=["a@example.com", "b@example.com"])
    finish(claimed, Outcome.ACCEPTED, Outcome.RETRYABLE)
    row = claimed.outbox_id
    assert operations.cancel(row, actor="ann", why=WHY).after == row_of(row).state == "submitted"
    assert recipient_states(row) == ["accepted", "refused"]
    assert audit_lines() == [("ann", "cancel", row, "pending", "submitted", WHY)]


def test_a_cancelled_message_is_never_claimed() -> None:
    row = IN_STATE["pending"]()
    operations.cancel(row, actor="ann", why=WHY)
    make_due(row)
    assert claim() == []


@pytest.mark.parametrize(
    ("verb", "state", "mend"),
    [
        ("resolve", "pending", "nothing is in doubt"),
        ("resolve", "sending", "wait for its attempt"),
        ("resolve", "submitted", "it was accepted"),
        ("resolve", "failed", "mailer requeue ID"),
        ("resolve", "expired", "it was not sent"),
        ("resolve", "cancelled", "it was not sent"),
        ("requeue", "pending", "due already"),
        ("requeue", "sending", "wait for its attempt"),
        ("requeue", "ambiguous", "mailer resolve ID --as not-accepted"),
        ("requeue", "submitted", "new key"),
        ("requeue", "expired", "new key"),
        ("requeue", "cancelled", "new key"),
        ("cancel", "sending", "its call has begun"),
        ("cancel", "ambiguous", "mailer resolve ID"),
        ("cancel", "submitted", "cannot be called back"),
        ("cancel", "failed", "unless it is requeued"),
        ("cancel", "expired", "will not be sent"),
        ("cancel", "cancelled", "already"),
    ],
)
def test_a_verb_that_does_not_apply_is_refused_and_changes_nothing(
    verb: str, state: str, mend: str
) -> None:
    row = IN_STATE[state]()
    before = Outbox.select().where(Outbox.id == row).dicts().get()
    with pytest.raises(Refused, match=mend) as refusal:
        VERBS[verb](row)
    assert f"row {row} is {state};" in str(refusal.value)
    assert Outbox.select().where(Outbox.id == row).dicts().get() == before
    assert audit_lines() == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_row_that_does_not_exist_is_refused(verb: str) -> None:
    with pytest.raises(Refused, match="no outbox row 404"):
        VERBS[verb](404)
    assert audit_lines() == []


@pytest.mark.parametrize(
    ("field", "actor", "why"),
    [
        ("why", "ann", ""),
        ("why", "ann", " \t"),
        ("why", "ann", "y" * 501),
        ("why", "ann", "seen\nin the log"),
        ("why", "ann", "seen\x1b[2J"),
        ("actor", "", WHY),
        ("actor", "a" * 201, WHY),
        ("actor", "ann\x00", WHY),
    ],
)
def test_a_decision_without_a_usable_reason_and_name_is_refused(
    field: str, actor: str, why: str
) -> None:
    row = ended(Outcome.AMBIGUOUS)
    verbs: list[Callable[[], Decided]] = [
        lambda: operations.resolve(row, Resolution.ACCEPTED, actor=actor, why=why),
        lambda: operations.requeue(row, actor=actor, why=why),
        lambda: operations.cancel(row, actor=actor, why=why),
    ]
    for verb in verbs:
        with pytest.raises(Refused, match=f"^{field}: "):
            verb()
    assert row_of(row).state == "ambiguous"


def test_the_longest_name_and_reason_are_kept_whole() -> None:
    row = ended(Outcome.AMBIGUOUS)
    operations.resolve(row, Resolution.ACCEPTED, actor="a" * 200, why="y" * 500)
    assert audit_lines()[0][0] == "a" * 200
    assert audit_lines()[0][5] == "y" * 500


def test_a_decision_rolls_back_with_its_audit_line() -> None:
    row = ended(Outcome.AMBIGUOUS)
    with database.transaction() as block:
        operations.resolve(row, Resolution.ACCEPTED, actor="ann", why=WHY)
        block.rollback()
    assert row_of(row).state == "ambiguous"
    assert audit_lines() == []


@pytest.mark.parametrize(
    ("verb", "state"), [("resolve", "ambiguous"), ("requeue", "failed"), ("cancel", "pending")]
)
def test_a_decision_that_cannot_be_audited_is_not_made(verb: str, state: str) -> None:
    row = IN_STATE[state]()
    execute: Any = database.bound().execute_sql
    execute("DROP TABLE email_audit")
    with pytest.raises(Exception, match="email_audit"):
        VERBS[verb](row)
    assert row_of(row).state == state


def test_of_two_operators_who_disagree_the_second_is_refused() -> None:
    """The first has not committed when the second asks: the second waits, and then looks again."""
    row = ended(Outcome.AMBIGUOUS)
    asking, answers = threading.Event(), []

    def disagree() -> None:
        asking.set()
        try:
            operations.resolve(row, Resolution.NOT_ACCEPTED, actor="bea", why=WHY)
        except Refused as refusal:
            answers.append(str(refusal))

    second = threading.Thread(target=disagree)
    with database.transaction():
        operations.resolve(row, Resolution.ACCEPTED, actor="ann", why=WHY)
        second.start()
        assert asking.wait(10)
    second.join(20)
    assert answers == [f"id: row {row} is submitted; nothing is in doubt, it was accepted"]
    assert [line[0] for line in audit_lines()] == ["ann"]


def test_a_message_whose_time_has_passed_can_still_be_cancelled() -> None:
    row = IN_STATE["pending"]()
    pass_expiry(row)
    assert operations.cancel(row, actor="ann", why=WHY).after == "cancelled"
