"""What must hold in every state and over every step, whatever the interleaving."""

from collections.abc import Iterator
from enum import StrEnum

from mailer.outcome import Outcome
from mailer.prove.steps import Kind, Step
from mailer.prove.world import Attempt, Scenario, Wire, World
from mailer.states import (
    TRANSITIONS,
    WITHDRAWN_STATES,
    AttemptState,
    OnAmbiguous,
    RecipientState,
    Resolution,
    RowState,
    row_state,
)


class Invariant(StrEnum):
    """A sentence that is true of every walk."""

    ONE_STATE = "I1: the row is in one state, which follows from its recipients and its lease"
    FINAL = "I1: no step that the state machine does not know; what is final stays"
    NEVER_STUCK = "I1: from every state the system alone can end it, or a person can see it"
    NEVER_TWICE = "I2: the provider accepts nobody twice, but for a resend that was chosen"
    TRUE_WORDS = "I3: `submitted` only if it was accepted, `failed` only if it was not"
    IN_FLIGHT = "I4: only a call that had begun is ever in doubt"
    TOKEN = "I5: a result without the lease moves no row, but where it settles a doubt"  # noqa: S105
    WITHDRAWN = "`cancelled` and `expired` are never said of a mail that went out"
    PROOF = "what is proven accepted is never shown as anything else"
    NEEDLESS = "no call begins for somebody who is proven accepted"
    BARRED = "no call begins for somebody who is suppressed"
    HELD = "no policy sends again what was cancelled"
    MARKED = "an attempt is marked as a duplicate only if somebody was accepted through another too"


def broken_by(before: World, step: Step) -> Iterator[Invariant]:
    """The invariants that a step breaks by itself, whatever it leads to."""
    after = step.after
    if before.state is not after.state and after.state not in TRANSITIONS[before.state]:
        yield Invariant.FINAL
    if step.kind in _WRITING and not _keeps_off(before, step):
        yield Invariant.TOKEN
    if step.kind is Kind.SWEEP and _doubts_unbegun(before, step):
        yield Invariant.IN_FLIGHT
    if step.kind is Kind.BEGIN and _is_needless(after, step.attempt):
        yield Invariant.NEEDLESS
    if step.kind is Kind.BEGIN and before.barred:
        yield Invariant.BARRED
    if step.kind is Kind.POLICY and before.held:
        yield Invariant.HELD


def broken_in(scenario: Scenario, world: World) -> Iterator[Invariant]:
    """The invariants that do not hold in a state."""
    taken = world.taken()
    if not _follows(world):
        yield Invariant.ONE_STATE
    if any(taken.count(each) > 1 + world.resends for each in taken):
        yield Invariant.NEVER_TWICE
    if not _true(scenario, world, taken):
        yield Invariant.TRUE_WORDS
    if world.state in WITHDRAWN_STATES and _went_out(world):
        yield Invariant.WITHDRAWN
    proven = {each for attempt in world.attempts for each in attempt.proven}
    if any(world.recipients[each] is not RecipientState.ACCEPTED for each in proven):
        yield Invariant.PROOF
    if any(
        each.duplicate and _is_only(world, number) for number, each in enumerate(world.attempts)
    ):
        yield Invariant.MARKED


def _is_only(world: World, index: int) -> bool:
    others = {i for at, each in enumerate(world.attempts) if at != index for i in each.taken}
    return others.isdisjoint(world.attempts[index].taken)


_NOT_SENT = (RecipientState.REFUSED, RecipientState.SUPPRESSED)

_WRITING = (Kind.FINISH, Kind.FINISH_UNHEARD)


def _true(scenario: Scenario, world: World, taken: tuple[int, ...]) -> bool:
    assumed = scenario.on_ambiguous is OnAmbiguous.ASSUME_SENT and any(
        each.resolution is Resolution.ACCEPTED for each in world.attempts
    )
    for each, state in enumerate(world.recipients):
        if state is RecipientState.ACCEPTED and each not in taken and not assumed:
            return False
        if state in _NOT_SENT and each in taken:
            return False
    return not any(_is_denied(each) for each in world.attempts)


def _is_denied(attempt: Attempt) -> bool:
    """Resolved as not accepted for somebody in doubt whom the provider took."""
    doubtful = set(attempt.doubtful) - set(attempt.proven)
    denied = attempt.resolution is Resolution.NOT_ACCEPTED
    return denied and not doubtful.isdisjoint(attempt.taken)


def _went_out(world: World) -> bool:
    return any(each.taken or each.wire is Wire.UNDER_WAY for each in world.attempts)


def _follows(world: World) -> bool:
    if world.state is RowState.SENDING:
        return world.token > 0 and world.attempt(world.token).state in _OPEN
    derived = world.state in WITHDRAWN_STATES or world.state is row_state(world.recipients)
    return derived and world.token == 0


_OPEN = (AttemptState.CLAIMED, AttemptState.STARTED)


def _keeps_off(before: World, step: Step) -> bool:
    after = step.after
    if before.token == step.attempt or _row(before) == _row(after):
        return True
    if before.token and before.attempt(before.token).state is AttemptState.STARTED:
        ended = after.token != before.token
        return not ended and _settles(before, after)
    return _settles(before, after)


def _row(world: World) -> tuple[object, ...]:
    return world.state, world.token, world.spent, world.recipients


def _settles(before: World, after: World) -> bool:
    pairs = zip(before.recipients, after.recipients, strict=True)
    return RecipientState.AMBIGUOUS in before.recipients or any(
        now is RecipientState.ACCEPTED and was is not now for was, now in pairs
    )


def _doubts_unbegun(before: World, step: Step) -> bool:
    if not before.token or before.attempt(before.token).state is not AttemptState.CLAIMED:
        return False
    return step.after.attempt(before.token).outcome is Outcome.AMBIGUOUS


def _is_needless(world: World, number: int) -> bool:
    proven = {i for attempt in world.attempts for i in attempt.proven}
    return any(each in proven for each in world.attempt(number).to)
