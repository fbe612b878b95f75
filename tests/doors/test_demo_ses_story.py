"""The demo over SES checks its own claims: a record or an account that tells otherwise shows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mailer.demo.ses_story import (
    LATE_STORIES,
    STORIES,
    after_recovery,
    contradictions,
    untrue_of_the_circuit,
)
from mailer.demo.story import Promise
from mailer.fake_ses import Accepted
from mailer.states import RowState
from mailer.views import AuditView, CircuitView, Timeline
from tests.doors.timelines import NOW, attempt, message

EVERYBODY = [*STORIES, *after_recovery(LATE_STORIES)]
CALLS = 8

CIRCUIT = CircuitView(
    name="ses",
    about="provider",
    provider="ses",
    state="closed",
    reason=None,
    since=NOW + timedelta(seconds=1),
    until=None,
    probe_due=False,
    rate=14.0,
    slowed=1.0,
    left_today=None,
    limits_at=None,
)


def true_timeline(number: int, story: Promise) -> Timeline:
    """The record as the demo promises it, once the operator has been there."""
    in_doubt = story.leads_to is RowState.AMBIGUOUS
    tries = tuple(
        attempt(tried, outcome, request_tag=f"{number}-{tried}", settled=in_doubt)
        for tried, outcome in enumerate(story.outcomes, start=1)
    )
    by_hand = AuditView(NOW, "demo", "resolve accepted", "ambiguous", "submitted", "why")
    return Timeline(
        NOW, message(number, story.ends), (), tries, (by_hand,) if in_doubt else (), "nothing"
    )


def entry(number: int, story: Promise) -> Accepted:
    """What the fake has logged on a message; its last attempt was the one that was taken."""
    return Accepted(
        message_id=f"id-{number}",
        at=datetime(2026, 1, 2, tzinfo=UTC),
        sender="welcome@example.com",
        recipients=(story.email,),
        tags={},
        outbox_id=str(number),
        attempt=f"{number}-{len(story.outcomes)}",
        configuration_set=None,
        size=1,
        sha256="",
    )


TRUE = [true_timeline(number, story) for number, story in enumerate(EVERYBODY, start=1)]
LOG = [entry(number, story) for number, story in enumerate(EVERYBODY, start=1)]
ANA, LATE = TRUE[0], TRUE[3:]


def found(told: list[Timeline], log: list[Accepted], calls: int = CALLS) -> list[str]:
    return list(contradictions(EVERYBODY, told, log, calls=calls, settled=True))


def test_the_truth_contradicts_nothing() -> None:
    assert found(TRUE, LOG) == []


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        (replace(ANA, message=message(1, RowState.FAILED)), "is failed; promised: submitted"),
        (
            replace(ANA, message=replace(ANA.message, attempts=1)),
            "was charged 1 attempts; promised: none",
        ),
        (
            replace(ANA, attempts=(replace(ANA.attempts[0], request_tag="another"),)),
            "was taken 1 times by SES; the record tells of 1, or of others",
        ),
    ],
)
def test_a_record_that_is_not_as_promised_is_told(told: Timeline, problem: str) -> None:
    assert found([told, *TRUE[1:]], LOG) == [f"message 1 {problem}"]


def test_a_message_taken_twice_is_told() -> None:
    assert found(TRUE, [*LOG, LOG[2]]) == [
        "message 3 was taken 2 times by SES; the record tells of 1, or of others"
    ]


def test_a_message_that_was_not_taken_is_told() -> None:
    assert found(TRUE, LOG[:-1]) == [
        "message 6 was taken 0 times by SES; the record tells of 1, or of others"
    ]


def test_a_request_that_is_on_no_record_is_told() -> None:
    assert found(TRUE, LOG, CALLS + 1) == ["SES was asked 9 times; the record has 8 attempts"]


def test_a_message_that_nobody_committed_is_told() -> None:
    stray = replace(LOG[0], outbox_id="99")
    assert found(TRUE, [*LOG, stray]) == ["SES took a message that nobody committed"]


def test_one_probe_before_the_circuit_closed_contradicts_nothing() -> None:
    told = [LATE[0], *(sent_after(each) for each in LATE[1:])]
    assert list(untrue_of_the_circuit(CIRCUIT, told)) == []


def test_a_circuit_that_stays_open_and_a_crowd_of_probes_are_told() -> None:
    assert list(untrue_of_the_circuit(replace(CIRCUIT, state="half_open"), LATE)) == [
        "the circuit is half_open; promised: closed",
        "3 messages went out before the circuit closed; promised: one probe",
    ]


def sent_after(told: Timeline) -> Timeline:
    at = CIRCUIT.since + timedelta(seconds=1)
    return replace(told, attempts=tuple(replace(each, started_at=at) for each in told.attempts))
