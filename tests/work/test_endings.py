"""The log of a busy worker: one line for many alike, one for each that is out of the ordinary."""

import logging

import pytest

from mailer import endings
from mailer.endings import TOGETHER_FROM
from mailer.outcome import CallResult, Outcome, Scope
from mailer.results import Ended, Written
from mailer.states import RowState
from tests.builders import claim, enqueue

pytestmark = pytest.mark.usefixtures("outbox")


def ended(outcome: Outcome, count: int) -> tuple[list[Ended], list[Written]]:
    """`count` claims that came to one outcome."""
    for number in range(count):
        enqueue(f"{outcome}-{number}")
    done = [
        Ended(
            each.outbox_id,
            each.attempt_id,
            each.lease_token,
            CallResult.alike((1,), outcome, Scope.MESSAGE, stage="after_dot", rule="a-rule"),
            each,
        )
        for each in claim()
    ]
    state = RowState.SUBMITTED if outcome is Outcome.ACCEPTED else RowState.AMBIGUOUS
    return done, [Written(each.outbox_id, each.attempt_id, state, "done") for each in done]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the lines say."""
    return [each.getMessage() for each in caplog.records if each.name == "mailer.delivery"]


def test_many_acceptances_alike_share_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    done, written = ended(Outcome.ACCEPTED, TOGETHER_FROM)
    endings.report(done, written)
    assert told(caplog) == ["attempts accepted"]
    (line,) = caplog.records
    assert vars(line)["outbox_ids"] == [each.outbox_id for each in done]
    assert vars(line)["attempt_ids"] == [each.attempt_id for each in done]


def test_a_few_have_a_line_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    endings.report(*ended(Outcome.ACCEPTED, TOGETHER_FROM - 1))
    assert told(caplog) == ["attempt finished"] * (TOGETHER_FROM - 1)


def test_what_needs_a_person_never_shares_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    endings.report(*ended(Outcome.AMBIGUOUS, TOGETHER_FROM))
    assert told(caplog) == ["attempt finished"] * TOGETHER_FROM
