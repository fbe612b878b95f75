"""What it is worth that nothing was heard: recorded with each decision, and never proof."""

import pytest

from mailer import absence, overdue, reports
from mailer.claims import Claimed
from mailer.feedback import Feedback, store
from mailer.outcome import CallResult, Outcome, Scope
from mailer.results import finish as write_down
from mailer.retry import RetryPolicy
from mailer.states import RowState
from mailer.tables import Attempt
from mailer.wiring import readers
from tests.builders import (
    attempt_of,
    ended,
    finish,
    make_due,
    middle,
    row_of,
    started,
)
from tests.ses_payloads import incoming, payload

pytestmark = pytest.mark.usefixtures("outbox")

POLICY = RetryPolicy(ambiguous_wait_seconds=900, max_resends=1)


def in_doubt(key: str = "lost") -> Claimed:
    """A message whose answer was lost, whose application chose `resend`, and whose wait is over."""
    claimed = started(key, on_ambiguous="resend")
    finish(claimed, Outcome.AMBIGUOUS)
    make_due(claimed.outbox_id)
    return claimed


def heard_of(key: str) -> None:
    """A message that was accepted and that an event has come for."""
    claimed = started(key)
    finish(claimed, Outcome.ACCEPTED)
    store([incoming(payload("Delivery", tag=claimed.request_tag))])
    Feedback(readers()).interpret()


def decided() -> list[str]:
    """What the policies do now."""
    return [done for _, done in overdue.apply_policies(10, POLICY)]


def test_where_no_events_come_the_policy_decides_and_the_record_says_so() -> None:
    claimed = in_doubt()
    assert decided() == ["sent again"]
    assert "no events come of this provider's attempts; sent again by policy" in (
        attempt_of(claimed).evidence or ""
    )
    assert attempt_of(claimed).resolution is None


def test_without_a_positive_control_the_wait_is_made_longer_once() -> None:
    heard_of("earlier")
    claimed = in_doubt()
    assert decided() == ["waits on: nothing else is heard either"]
    assert row_of(claimed.outbox_id).state == RowState.AMBIGUOUS
    assert decided() == []
    make_due(claimed.outbox_id)
    ended_long_ago(claimed)
    assert decided() == ["sent again"]
    assert "nor of any later attempt; sent again by policy" in (attempt_of(claimed).evidence or "")


def ended_long_ago(claimed: Claimed) -> None:
    """Let the doubt have lasted for longer than any wait."""
    long_ago = attempt_of(claimed).finished_at
    assert long_ago is not None
    Attempt.update(finished_at=long_ago.replace(year=2020)).where(
        Attempt.id == claimed.attempt_id
    ).execute()


def test_later_attempts_that_were_heard_of_are_a_positive_control() -> None:
    heard_of("earlier")
    claimed = in_doubt()
    heard_of("later")
    silence = absence.silence_about(claimed.outbox_id)
    assert (silence.later, silence.is_spoken_of, silence.means_little) == (1, True, False)
    assert decided() == ["sent again"]
    assert "while 1 later attempts were heard of; sent again by policy" in (
        attempt_of(claimed).evidence or ""
    )


def test_a_list_says_how_much_had_left_what_was_read_last_and_what_was_heard() -> None:
    claimed = started("lost")
    result = CallResult.alike(
        tuple(each.recipient_id for each in claimed.due),
        Outcome.AMBIGUOUS,
        Scope.CONNECTION,
        stage="after_dot",
        rule="lost",
        reason="354 go ahead, ann@example.com",
        bytes_sent=4_711,
    )
    write_down([ended(claimed, result)], POLICY, middle)
    (listed,) = reports.listing(RowState.AMBIGUOUS).rows
    assert listed.doubt is not None
    assert listed.doubt.bytes_sent == 4_711
    assert listed.doubt.reply == "354 go ahead, [address]"
    assert listed.doubt.evidence.startswith("no evidence of acceptance in")
    assert "waits for evidence or a person" in listed.doubt.next_step
