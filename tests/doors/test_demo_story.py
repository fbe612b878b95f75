"""The demo checks its own claims: a record or a relay that tells otherwise is found out."""

from dataclasses import replace

import pytest

from mailer.demo.sink import Entry
from mailer.demo.story import STORIES, contradictions
from mailer.states import RowState
from mailer.views import AuditView, Timeline
from tests.doors.timelines import NOW, attempt, message


def true_timeline(number: int) -> Timeline:
    """The record as the demo promises it, once the operator has been there."""
    story = STORIES[number]
    in_doubt = story.leads_to is RowState.AMBIGUOUS
    attempts = tuple(
        attempt(tried, outcome, request_tag=f"tag-{tried}", settled=in_doubt)
        for tried, outcome in enumerate(story.outcomes, start=1)
    )
    by_hand = AuditView(NOW, "demo", "resolve accepted", "ambiguous", "submitted", "why")
    told = message(number + 1, story.ends)
    return Timeline(NOW, told, (), attempts, (by_hand,) if in_doubt else (), "nothing")


def true_log() -> list[Entry]:
    """The relay's log as the demo promises it."""
    return [
        Entry(NOW, story.email, reply, None, None, None)
        if reply in {"451", "550"}
        else Entry(NOW, story.email, reply, f"A{number}", str(number), "1")
        for number, story in enumerate(STORIES, start=1)
        for reply in story.replies
    ]


TRUE = [true_timeline(number) for number in range(len(STORIES))]
ANA, DAN = TRUE[0], TRUE[3]


def test_the_truth_contradicts_nothing() -> None:
    assert list(contradictions(TRUE, true_log(), settled=True)) == []


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        (
            replace(ANA, message=replace(ANA.message, state="failed")),
            "is failed; promised: submitted",
        ),
        (replace(ANA, attempts=()), "had the attempts nothing; promised: accepted"),
        (replace(ANA, audit=DAN.audit), "has 1 lines in its audit; promised: 0"),
        (
            replace(ANA, attempts=(replace(ANA.attempts[0], resolution="not_accepted"),)),
            "was settled as not_accepted; promised: nothing",
        ),
    ],
)
def test_a_record_that_is_not_as_promised_is_told(told: Timeline, problem: str) -> None:
    assert list(contradictions([told, *TRUE[1:]], true_log(), settled=True)) == [
        f"message 1 {problem}"
    ]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            Entry(NOW, "dan@example.com", "250 2.0.0 queued as A9", "A9", "4", "2"),
            "message 4 heard silence, 250 from the relay; promised: silence",
        ),
        (
            Entry(NOW, "eve@example.com", "250 2.0.0 queued as A9", "A9", "9", "1"),
            "the relay was asked to take a message that nobody committed",
        ),
    ],
)
def test_what_the_relay_took_and_the_record_does_not_know_is_told(
    more: Entry, problem: str
) -> None:
    assert list(contradictions(TRUE, [*true_log(), more], settled=True)) == [problem]


def test_a_message_taken_under_another_number_is_told() -> None:
    log = true_log()
    log[0] = replace(log[0], outbox_id="4")
    told = list(contradictions(TRUE, log, settled=True))
    assert "message 1 was taken by the relay under the number of another" in told
