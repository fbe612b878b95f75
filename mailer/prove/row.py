"""What the transactions do to a row, its recipients and its attempts."""

from collections.abc import Collection

from mailer.outcome import Outcome
from mailer.prove.endings import POLICY, Ending, result_of
from mailer.prove.world import Reply, World
from mailer.states import (
    AttemptState,
    RecipientChange,
    RecipientState,
    Resolution,
    RowState,
    Settlement,
    row_state,
)


def moved(world: World, state: RowState) -> World:
    """Write the row's new state; any lease ends with it."""
    return world._replace(state=state, token=0, overdue=False)


def rederived(world: World) -> World:
    """Let the row follow from its recipients, with no lease."""
    return moved(world, row_state(world.recipients))


def changed(world: World, changes: tuple[RecipientChange, ...]) -> World:
    """Write what became of recipients."""
    recipients = list(world.recipients)
    for each in changes:
        recipients[each.recipient_id] = each.state
    return world._replace(recipients=tuple(recipients))


def applied(world: World, settled: Settlement) -> World:
    """Write a settlement whole."""
    spent = min(world.spent + settled.charge, POLICY.max_attempts)
    return moved(changed(world, settled.recipients)._replace(spent=spent), settled.state)


def doubtful_become(world: World, state: RecipientState, *, due: Collection[int] = ()) -> World:
    """Settle all recipients in doubt one way, and those of `due` who wait to be sent to again."""
    return world._replace(
        recipients=tuple(
            state
            if each is RecipientState.AMBIGUOUS or (each is RecipientState.DUE and i in due)
            else each
            for i, each in enumerate(world.recipients)
        )
    )


def end_claim(world: World, number: int) -> World:
    """End an attempt as given back."""
    return world.with_attempt(number, world.attempt(number)._replace(state=AttemptState.RELEASED))


def take_back_claim(world: World) -> World | None:
    """Take back the claim that holds the lease; None when its call has begun."""
    if world.attempt(world.token).state is not AttemptState.CLAIMED:
        return None
    return end_claim(world, world.token)


def ended(world: World, number: int, ending: Ending) -> World:
    """Write a call's outcome on its attempt."""
    result = result_of(ending)
    attempt = world.attempt(number)
    return world.with_attempt(
        number,
        attempt._replace(
            state=AttemptState.FINISHED,
            outcome=result.outcome,
            doubtful=result.doubtful,
            counted=ending.reply is Reply.SILENCE and len(ending.to) > 1,
            proven=union(attempt.proven, result.taken),
        ),
    )


def marked(world: World, number: int, accepted: Collection[int]) -> World:
    """Mark the attempt as a duplicate if it is accepted on top: `settlement.came_on_top`."""
    attempt = world.attempt(number)
    if attempt.outcome is not Outcome.AMBIGUOUS and attempt.proven:
        return world
    if not any(world.recipients[each] is RecipientState.ACCEPTED for each in accepted):
        return world
    return world.with_attempt(number, attempt._replace(duplicate=True))


def kept_as_evidence(world: World, number: int, ending: Ending) -> World:
    """`settlement._keep_evidence`."""
    attempt, result = world.attempt(number), result_of(ending)
    if attempt.state is not AttemptState.FINISHED:
        return ended(world, number, ending)
    if result.outcome is Outcome.AMBIGUOUS or attempt.resolution is Resolution.ACCEPTED:
        return world
    accepted = result.outcome is Outcome.ACCEPTED
    resolution = Resolution.ACCEPTED if accepted else Resolution.NOT_ACCEPTED
    proven = union(attempt.proven, result.taken)
    return world.with_attempt(number, attempt._replace(resolution=resolution, proven=proven))


def union(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """All of both, in order."""
    return tuple(sorted({*one, *other}))
