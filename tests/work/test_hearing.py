"""A relay's log heard on attempts in doubt: what it proves is settled, the rest stays as it was."""

from collections.abc import Iterable
from typing import Any

import pytest

from mailer import claims, database, doubts
from mailer.claims import Claimed
from mailer.hearing import Bench, Hearing, hear
from mailer.outcome import Outcome
from mailer.returnpath import ReturnPath
from mailer.tables import Attempt, Audit, Outbox, Recipient
from mailer.testimony import Verdict
from providers.relay_log import RelayLog
from tests.builders import (
    PAST,
    POLICY,
    SECRET,
    attempt_of,
    claim_one,
    finish,
    make_due,
    middle,
    recipient_states,
    row_of,
    started,
    take_for_unsent,
    wait_out_the_doubt,
)
from tests.providers.relay_lines import BEFORE, Exim, Postfix

pytestmark = pytest.mark.usefixtures("outbox")

PATH = ReturnPath("bounces@mail.example.com", SECRET)
BENCH = Bench("ann", PATH, POLICY, middle)
DAY = 86_400.0
OWN_SENDER = "shop@example.com"


def in_doubt(key: str = "key", **changes: Any) -> Claimed:
    claimed = started(key, **changes)
    finish(claimed, Outcome.AMBIGUOUS)
    return claimed


def sent_again(claimed: Claimed, outcome: Outcome = Outcome.AMBIGUOUS) -> Claimed:
    """A second attempt of a message in doubt, as its policy has it."""
    wait_out_the_doubt()
    make_due(claimed.outbox_id)
    again = claim_one()
    assert claims.begin([again])
    finish(again, outcome)
    return again


def taken(claimed: Claimed, sender: str | None = None, queue_id: str = "4F1A2B3C4D") -> list[str]:
    """What Postfix logs of an attempt that it took."""
    one = Postfix(queue_id)
    sender = PATH.address(claimed.request_tag) if sender is None else sender
    named = one.named(row_of(claimed.outbox_id).message_id or "")
    return [one.client(), named, one.active(sender), one.to(), one.removed()]


def refused(claimed: Claimed) -> list[str]:
    text = (
        "milter-reject: END-OF-MESSAGE from app.example[192.0.2.1]: 5.7.1 no; "
        f"from=<{PATH.address(claimed.request_tag)}> to=<ann@example.com> proto=ESMTP helo=<app>"
    )
    one = Postfix()
    message_id = row_of(claimed.outbox_id).message_id or ""
    return [one.client(), one.named(message_id), one.said("cleanup", text)]


def heard(lines: Iterable[str], bench: Bench = BENCH, **changes: Any) -> Hearing:
    return hear(RelayLog(lines, before=BEFORE), bench, **{"seconds": DAY, **changes})


def everything() -> list[list[Any]]:
    return [list(table.select().dicts()) for table in (Outbox, Attempt, Recipient, Audit)]


def test_an_attempts_own_sender_settles_it_on_record_and_without_an_address() -> None:
    claimed = in_doubt()
    found = heard(taken(claimed))
    (ruling,) = found.rulings
    assert (ruling.verdict, ruling.before, ruling.after) == ("accepted", "ambiguous", "submitted")
    assert (found.settled, found.silent, found.fates) == (1, 0, {"delivered": 1})
    assert row_of(claimed.outbox_id).state == "submitted"
    attempt = attempt_of(claimed)
    assert (attempt.resolution, attempt.resolved_by) == ("accepted", "relay log (postfix)")
    assert "queue id 4F1A2B3C4D: taken at 2026-03-10T12:00:01Z" in (attempt.evidence or "")
    audit = Audit.get()
    assert (audit.actor, audit.verb, audit.outbox_id) == ("ann", "reconcile log", claimed.outbox_id)
    assert (audit.before, audit.after) == ("ambiguous", "submitted")
    assert "@" not in repr((attempt.evidence, audit.why, found))


def test_the_same_log_again_has_nothing_to_settle() -> None:
    claimed = in_doubt()
    heard(taken(claimed))
    before = everything()
    assert heard(taken(claimed)).doubts == 0
    assert everything() == before


@pytest.mark.parametrize("path", [PATH, None])
def test_a_message_id_under_the_messages_own_sender_settles_a_single_attempt(
    path: ReturnPath | None,
) -> None:
    claimed = in_doubt()
    bench = Bench("ann", path, POLICY, middle)
    assert heard(taken(claimed, OWN_SENDER), bench).settled == 1
    assert row_of(claimed.outbox_id).state == "submitted"


def test_exims_log_is_heard_too() -> None:
    claimed = in_doubt()
    one = Exim()
    message_id = row_of(claimed.outbox_id).message_id or ""
    heard([one.arrived(message_id, PATH.address(claimed.request_tag)), one.completed()])
    assert attempt_of(claimed).resolved_by == "relay log (exim)"


def test_our_message_under_another_sender_is_somebody_elses_doing() -> None:
    claimed = in_doubt()
    before = everything()
    found = heard(taken(claimed, "list-bounces@lists.example"))
    assert (found.settled, found.silent, found.elsewhere) == (0, 1, 1)
    assert everything() == before


def test_our_sender_on_another_message_proves_nothing() -> None:
    claimed = in_doubt()
    one = Postfix()
    sender = PATH.address(claimed.request_tag)
    found = heard([one.client(), one.named("<other@example.net>"), one.active(sender)])
    assert (found.settled, found.elsewhere) == (0, 1)


def test_absence_and_a_header_that_was_only_read_prove_nothing() -> None:
    absent, begun = in_doubt("absent"), in_doubt("begun")
    before = everything()
    one = Postfix()
    message_id = row_of(begun.outbox_id).message_id or ""
    found = heard([one.client(), one.named(message_id), one.cut()])
    assert (found.doubts, found.settled, found.silent) == (2, 0, 2)
    assert everything() == before
    assert absent.outbox_id != begun.outbox_id


def test_of_two_attempts_one_acceptance_is_kept_on_both_and_settles_neither() -> None:
    first = in_doubt(on_ambiguous="resend")
    second = sent_again(first)
    for _ in range(2):
        found = heard(taken(first, OWN_SENDER))
        assert [each.verdict for each in found.rulings] == [Verdict.UNCLEAR] * 2
    assert row_of(first.outbox_id).state == "ambiguous"
    for each in (first, second):
        evidence = attempt_of(each).evidence or ""
        assert evidence.count("queue id 4F1A2B3C4D") == 1
        assert attempt_of(each).resolution is None
    assert Audit.select().count() == 0


def test_as_many_acceptances_as_attempts_prove_them_all() -> None:
    first = in_doubt(on_ambiguous="resend")
    second = sent_again(first)
    log = taken(first, OWN_SENDER) + taken(first, OWN_SENDER, "5E1A2B3C4D")
    assert heard(log).settled == 2
    assert row_of(first.outbox_id).state == "submitted"
    assert [attempt_of(each).resolution for each in (first, second)] == ["accepted"] * 2
    assert attempt_of(second).duplicate


def test_a_late_proof_of_what_was_sent_again_marks_the_duplicate() -> None:
    first = in_doubt(on_ambiguous="resend")
    sent_again(first, Outcome.ACCEPTED)
    (ruling,) = heard(taken(first)).rulings
    assert (ruling.before, ruling.after, ruling.duplicate) == ("submitted", "submitted", True)
    assert attempt_of(first).duplicate


def test_one_attempt_that_was_taken_twice_is_marked() -> None:
    claimed = in_doubt()
    (ruling,) = heard(taken(claimed) + taken(claimed, queue_id="5E1A2B3C4D")).rulings
    assert ruling.duplicate
    assert attempt_of(claimed).duplicate


def test_a_mistaken_decision_is_overruled_before_the_message_is_sent_again() -> None:
    claimed = in_doubt()
    take_for_unsent(claimed.outbox_id)
    (ruling,) = heard(taken(claimed)).rulings
    assert (ruling.before, ruling.after) == ("pending", "submitted")
    assert "before: not_accepted by operator" in (attempt_of(claimed).evidence or "")


def test_a_refusal_has_the_message_tried_again_at_the_cost_of_one_attempt() -> None:
    claimed = in_doubt()
    (ruling,) = heard(refused(claimed)).rulings
    assert (ruling.verdict, ruling.after) == ("not_accepted", "pending")
    row, attempt = row_of(claimed.outbox_id), attempt_of(claimed)
    assert (row.state, row.attempts) == ("pending", 1)
    assert (attempt.resolution, attempt.resolved_by) == ("not_accepted", "relay log (postfix)")
    assert recipient_states(row.id) == ["due"]


def test_a_refusal_does_not_hide_that_another_attempt_may_have_been_taken() -> None:
    first = in_doubt(on_ambiguous="resend")
    second = sent_again(first)
    heard(refused(second))
    assert row_of(first.outbox_id).state == "ambiguous"
    assert attempt_of(second).resolution == "not_accepted"
    assert attempt_of(first).resolution is None


def test_a_trial_says_all_and_changes_nothing() -> None:
    accepted, turned_down = in_doubt("a"), in_doubt("b")
    log = taken(accepted) + refused(turned_down)
    before = everything()
    tried = heard(log, trial=True)
    assert everything() == before
    assert tried.is_trial
    assert tried.rulings == heard(log).rulings
    assert tried.settled == 2


def test_older_doubts_are_not_looked_up() -> None:
    claimed = in_doubt()
    Attempt.update(finished_at=PAST).execute()
    assert heard(taken(claimed)).doubts == 0
    assert row_of(claimed.outbox_id).state == "ambiguous"


def test_what_was_settled_or_purged_while_the_log_was_read_is_left_alone() -> None:
    settled, purged = in_doubt("settled"), in_doubt("purged")
    log = taken(settled) + taken(purged, queue_id="5E1A2B3C4D")

    def lines() -> Iterable[str]:
        take_for_unsent(settled.outbox_id)
        finish(started_again(settled), Outcome.ACCEPTED)
        Outbox.delete().where(Outbox.id == purged.outbox_id).execute()
        yield from log

    found = heard(lines())
    assert [each.outbox_id for each in found.rulings] == [settled.outbox_id]
    assert found.rulings[0].duplicate


def started_again(claimed: Claimed) -> Claimed:
    make_due(claimed.outbox_id)
    again = claim_one()
    assert claims.begin([again])
    return again


def test_doubts_are_found_by_their_own_index() -> None:
    """Whatever the length of the history."""
    explain = "EXPLAIN" if database.is_postgresql() else "EXPLAIN QUERY PLAN"
    with database.transaction() as block:
        if database.is_postgresql():
            # In an empty table nothing is cheaper than to read it.
            database.bound().execute_sql("SET LOCAL enable_seqscan = off")
        sql, params = doubts.query(DAY).sql()
        plan = database.bound().execute_sql(f"{explain} {sql}", params).fetchall()
        block.rollback()
    assert "email_attempt_in_doubt" in str(plan)
