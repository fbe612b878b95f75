"""The state machine as tables and properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailer.outcome import CallResult, Outcome, RecipientVerdict, Scope
from mailer.provider import Refusal
from mailer.retry import RetryPolicy
from mailer.states import (
    FINAL_STATES,
    TRANSITIONS,
    Message,
    RecipientState,
    RowState,
    after_expiry,
    after_late_result,
    after_outcome,
    row_state,
)

DUE, ACCEPTED, REFUSED, SUPPRESSED, AMBIGUOUS = RecipientState
POLICY = RetryPolicy(max_attempts=3, max_age_seconds=1000, base_seconds=10, cap_seconds=100)

states = st.sampled_from(RecipientState)
outcomes = st.sampled_from(Outcome)
scopes = st.sampled_from(Scope)
jitters = st.floats(0, 1, exclude_max=True)


@st.composite
def calls(draw: st.DrawFn) -> tuple[Message, CallResult]:
    """A message with some recipients due, and a result for just those."""
    known = draw(st.dictionaries(st.integers(1, 6), states, min_size=1))
    known[draw(st.sampled_from(sorted(known)))] = DUE
    verdicts = tuple(
        RecipientVerdict(each, draw(outcomes), draw(scopes), "rule", "250", "text")
        for each, state in known.items()
        if state is DUE
    )
    first = verdicts[0]
    result = CallResult(first.outcome, first.scope, "stage", "rule", verdicts)
    message = Message(
        known,
        draw(st.integers(0, 4)),
        draw(st.integers(1, 20)),
        draw(st.floats(0, 2000)),
        in_doubt=draw(st.booleans()),
    )
    return message, result


@pytest.mark.parametrize(
    ("recipients", "expected"),
    [
        ([], "failed"),
        ([DUE], "pending"),
        ([ACCEPTED], "submitted"),
        ([REFUSED], "failed"),
        ([SUPPRESSED], "suppressed"),
        ([AMBIGUOUS], "ambiguous"),
        ([ACCEPTED, REFUSED], "submitted"),
        ([ACCEPTED, SUPPRESSED], "submitted"),
        ([ACCEPTED, DUE], "pending"),
        ([ACCEPTED, DUE, AMBIGUOUS], "ambiguous"),
        ([REFUSED, SUPPRESSED], "failed"),
    ],
)
def test_a_row_follows_from_its_recipients(recipients: list[RecipientState], expected: str) -> None:
    assert row_state(recipients) == expected
    assert row_state(recipients, leased=True) == "sending"


@given(st.lists(states, min_size=1), st.randoms())
def test_the_order_of_recipients_does_not_matter(
    recipients: list[RecipientState], rnd: object
) -> None:
    shuffled = sorted(recipients, key=lambda _: rnd.random())  # type: ignore[attr-defined]
    assert row_state(shuffled) == row_state(recipients)


@pytest.mark.parametrize(
    ("outcome", "scope", "state", "charge"),
    [
        (Outcome.ACCEPTED, Scope.MESSAGE, "submitted", 0),
        (Outcome.RETRYABLE, Scope.MESSAGE, "pending", 1),
        (Outcome.RETRYABLE, Scope.RECIPIENT, "pending", 1),
        (Outcome.RETRYABLE, Scope.CONNECTION, "pending", 0),
        (Outcome.RETRYABLE, Scope.ACCOUNT, "pending", 0),
        (Outcome.PERMANENT, Scope.MESSAGE, "failed", 0),
        (Outcome.PERMANENT, Scope.RECIPIENT, "failed", 0),
        (Outcome.AMBIGUOUS, Scope.CONNECTION, "ambiguous", 0),
    ],
)
def test_what_each_outcome_costs(outcome: Outcome, scope: Scope, state: str, charge: int) -> None:
    result = CallResult.alike((1,), outcome, scope, stage="s", rule="r")
    settled = after_outcome(Message({1: DUE}, 0, 1, 0), result, POLICY, jitter=0.5)
    assert (settled.state, settled.charge) == (state, charge)


@given(calls(), jitters)
def test_a_settlement_is_what_its_recipients_say(
    call: tuple[Message, CallResult], jitter: float
) -> None:
    message, result = call
    settled = after_outcome(message, result, POLICY, jitter=jitter)
    after = {**message.recipients, **{each.recipient_id: each.state for each in settled.recipients}}
    assert settled.state is row_state(after.values())
    assert settled.state in TRANSITIONS[RowState.SENDING]
    assert (settled.state is RowState.PENDING) <= (settled.delay_seconds is not None)


@given(calls(), jitters)
def test_acceptance_is_never_taken_back_and_never_made_up(
    call: tuple[Message, CallResult], jitter: float
) -> None:
    message, result = call
    settled = after_outcome(message, result, POLICY, jitter=jitter)
    said = {each.recipient_id: each.outcome for each in result.recipients}
    for change in settled.recipients:
        assert message.recipients[change.recipient_id] is not ACCEPTED
        if change.state is ACCEPTED:
            assert said[change.recipient_id] is Outcome.ACCEPTED


@given(calls(), jitters)
def test_what_is_in_doubt_is_never_refused_nor_sent_again(
    call: tuple[Message, CallResult], jitter: float
) -> None:
    message, result = call
    settled = after_outcome(message, result, POLICY, jitter=jitter)
    if any(each.outcome is Outcome.AMBIGUOUS for each in result.recipients):
        assert settled.state is RowState.AMBIGUOUS
    if message.in_doubt:
        assert not any(each.state is REFUSED for each in settled.recipients)


@given(calls(), jitters)
def test_giving_up_leaves_nobody_due(call: tuple[Message, CallResult], jitter: float) -> None:
    message, result = call
    settled = after_outcome(message, result, POLICY, jitter=jitter)
    if settled.decision.startswith("give up"):
        left = {
            **message.recipients,
            **{each.recipient_id: each.state for each in settled.recipients},
        }
        assert DUE not in left.values()
        assert message.attempts + settled.charge >= 3 or message.age_seconds > 900


@given(st.dictionaries(st.integers(1, 6), states, min_size=1), st.data(), st.booleans())
def test_a_late_result_settles_only_what_it_proves(
    known: dict[int, RecipientState], data: st.DataObject, others: bool
) -> None:
    verdicts = [
        RecipientVerdict(each, data.draw(outcomes), data.draw(scopes), "rule") for each in known
    ]
    changes = after_late_result(known, verdicts, others_in_doubt=others)
    said = {each.recipient_id: each.outcome for each in verdicts}
    for change in changes:
        before, outcome = known[change.recipient_id], said[change.recipient_id]
        assert outcome is not Outcome.AMBIGUOUS
        if outcome is not Outcome.ACCEPTED:
            assert before is AMBIGUOUS
            assert not others
    proven = {each for each, outcome in said.items() if outcome is Outcome.ACCEPTED}
    newly = {each for each in proven if known[each] is not ACCEPTED}
    assert newly <= {each.recipient_id for each in changes}


def test_a_message_that_expired_before_its_call_ends_without_a_charge() -> None:
    result = CallResult.alike(
        (1,), Outcome.RETRYABLE, Scope.MESSAGE, stage="data", rule=Refusal.MESSAGE_EXPIRED
    )
    settled = after_outcome(Message({1: DUE}, 0, 1, 0), result, POLICY, jitter=0.5)
    assert (settled.state, settled.charge) == ("expired", 0)


@pytest.mark.parametrize(
    ("known", "state"),
    [
        ({1: DUE}, "expired"),
        ({1: DUE, 2: REFUSED}, "expired"),
        ({1: DUE, 2: ACCEPTED}, "submitted"),
    ],
)
def test_expiry_respects_what_went_out(known: dict[int, RecipientState], state: str) -> None:
    assert after_expiry(known, in_doubt=False).state == state


def test_every_state_has_its_way_in_and_out() -> None:
    assert set(TRANSITIONS) == set(RowState)
    entered = {each for targets in TRANSITIONS.values() for each in targets}
    assert entered == set(RowState)
    assert all(TRANSITIONS[each] for each in set(RowState) - FINAL_STATES)
