"""What happens next, as a sentence, for every state that a message can be in."""

from dataclasses import replace

import pytest

from mailer.next_step import Standing, next_step, span
from mailer.states import FINAL_STATES, OnAmbiguous, RowState

HOLD = Standing(17, RowState.AMBIGUOUS, 600)
RESEND = replace(HOLD, on_ambiguous=OnAmbiguous.RESEND)
ASSUME = replace(HOLD, on_ambiguous=OnAmbiguous.ASSUME_SENT)
PENDING = Standing(17, RowState.PENDING, 42)
CLAIMED = Standing(17, RowState.SENDING, -1, lease_seconds=34)
SUBMITTED = Standing(17, RowState.SUBMITTED, -1)

RESOLVE = "mailer resolve 17 --as accepted|not-accepted --why TEXT"


@pytest.mark.parametrize(
    ("standing", "sentence"),
    [
        (PENDING, "due in 42 s"),
        (replace(PENDING, tried=True), "due again in 42 s"),
        (replace(PENDING, due_in_seconds=-200), "due since 3 min: the next free worker takes it"),
        (replace(PENDING, expires_in_seconds=-1), "its time has passed: the next sweep expires it"),
        (replace(PENDING, expires_in_seconds=30), "expires in 30 s, before it is due"),
        (replace(PENDING, expires_in_seconds=43), "due in 42 s"),
        (CLAIMED, "a worker has claimed it; its call has not begun"),
        (
            replace(CLAIMED, begun=True),
            "its call is under way; the lease runs 34 s more unless it is renewed",
        ),
        (
            replace(CLAIMED, lease_seconds=-5),
            "its lease ran out 5 s ago: the next sweep makes it due again",
        ),
        (
            replace(CLAIMED, lease_seconds=-5, begun=True),
            "its lease ran out 5 s ago: the next sweep makes it ambiguous",
        ),
        (HOLD, f"waits for evidence or a person: {RESOLVE}"),
        (
            RESEND,
            f"policy resend sends it again in 10 min, unless evidence or a person: {RESOLVE}",
        ),
        (
            replace(RESEND, resends=1),
            f"resent 1 times already; waits for evidence or a person: {RESOLVE}",
        ),
        (
            replace(ASSUME, due_in_seconds=-1),
            "policy assume_sent takes it for sent at the next sweep, unless evidence or a person: "
            f"{RESOLVE}",
        ),
        (SUBMITTED, "nothing: the provider took it"),
        (
            replace(SUBMITTED, refused=2),
            "nothing: the provider took it, except for 2 of its recipients",
        ),
        (replace(SUBMITTED, assumed=True), "nothing: policy assume_sent took it for sent"),
        (
            Standing(17, RowState.FAILED, -1),
            "nothing by itself; to send it again: mailer requeue 17 --why TEXT",
        ),
    ],
)
def test_the_next_step_names_who_moves_the_message_and_when(
    standing: Standing, sentence: str
) -> None:
    assert next_step(standing) == sentence


@pytest.mark.parametrize("state", RowState)
def test_every_state_has_a_next_step_and_only_final_ones_have_none(state: RowState) -> None:
    ends = next_step(Standing(17, state, 42, lease_seconds=34)).startswith("nothing")
    assert ends == (state in FINAL_STATES)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (-3_600, "60 min"),
        (7_200, "2 h"),
        (172_799, "48 h"),
        (172_800, "2 d"),
    ],
)
def test_a_span_is_written_in_the_unit_a_person_would_use(seconds: float, text: str) -> None:
    assert span(seconds) == text
