"""What evidence, policies, applications and people make of a row: each method one transaction."""

from mailer.outcome import Outcome
from mailer.prove.guards import Guard, Removed
from mailer.prove.leases import Leases
from mailer.prove.row import (
    applied,
    changed,
    doubtful_become,
    end_claim,
    marked,
    moved,
    rederived,
    take_back_claim,
    union,
)
from mailer.prove.world import Attempt, Scenario, World
from mailer.states import (
    WITHDRAWN_STATES,
    AttemptState,
    OnAmbiguous,
    RecipientChange,
    RecipientState,
    Resolution,
    RowState,
    after_cancel,
    after_expiry,
    after_proof,
    after_suppression,
)


class Decisions:
    """What is decided about a row from outside, without the guards that are `removed`."""

    def __init__(self, scenario: Scenario, removed: Removed) -> None:
        self._scenario = scenario
        self._removed = removed
        self._leases = Leases(scenario, removed)

    def expire(self, world: World) -> World:
        """`overdue.expire_due`."""
        known = dict(enumerate(world.recipients))
        return applied(world, after_expiry(known, in_doubt=self._in_doubt(world)))

    def cancel(self, world: World) -> World | None:
        """`outbox.cancel`."""
        if world.state is RowState.SENDING:
            begun = world.attempt(world.token).state is not AttemptState.CLAIMED
            if begun and Guard.CANCEL_CLAIMED not in self._removed:
                return None
            world = end_claim(world, world.token)
        elif world.state is not RowState.PENDING:
            return None
        known = dict(enumerate(world.recipients))
        world = applied(world, after_cancel(known, in_doubt=self._in_doubt(world)))
        held = world.state is RowState.AMBIGUOUS and world.resends < self._scenario.resends
        return world._replace(held=True) if held else world

    def _in_doubt(self, world: World) -> bool:
        return world.in_doubt() and Guard.WITHDRAWAL_IN_DOUBT not in self._removed

    def withhold(self, world: World, number: int) -> World | None:
        """`suppressions.withhold`."""
        if not world.barred or world.token != number:
            return None
        taken_back = take_back_claim(world)
        if taken_back is None:
            return None
        barred = dict.fromkeys(world.due(), "suppressed")
        in_doubt = world.in_doubt() and Guard.SUPPRESSION_IN_DOUBT not in self._removed
        known = dict(enumerate(world.recipients))
        return applied(taken_back, after_suppression(known, barred, in_doubt=in_doubt))

    def prove(self, world: World, number: int, named: tuple[int, ...]) -> World:
        """`proofs.apply_proof`."""
        attempt = world.attempt(number)
        targets = {*named, *self._spoken_for(attempt)}
        if _is_undecided(attempt):
            world = marked(world, number, self._leases.newly_taken(attempt, targets))
        changes = after_proof(dict(enumerate(world.recipients)), targets, by="event")
        in_flight = attempt.state is AttemptState.STARTED and world.token == number
        world = _put_on_record(world, number, targets, named)
        if in_flight:
            return self._prove_in_flight(world, number, changes)
        if not changes or Guard.PROOF_SETTLES in self._removed:
            return world
        return self._settle(world, changes)

    def _spoken_for(self, attempt: Attempt) -> tuple[int, ...]:
        whole = not self._scenario.partly or Guard.PROOF_NAMES in self._removed
        is_theirs = whole or attempt.counted or self._scenario.recipients == 1
        return attempt.doubtful if is_theirs else ()

    def _prove_in_flight(
        self, world: World, number: int, changes: tuple[RecipientChange, ...]
    ) -> World:
        world = changed(world, changes)._replace(told=True)
        if world.due():
            return world
        attempt = world.attempt(number)._replace(
            state=AttemptState.FINISHED, outcome=Outcome.ACCEPTED
        )
        return rederived(world.with_attempt(number, attempt))

    def _settle(self, world: World, changes: tuple[RecipientChange, ...]) -> World:
        if world.state is RowState.SENDING:
            taken_back = None if Guard.PROOF_TAKES_BACK in self._removed else take_back_claim(world)
            if taken_back is None:
                return changed(world, changes)._replace(told=True)
            world = taken_back
        world = changed(world, changes)
        return world if world.state in WITHDRAWN_STATES else rederived(world)

    def resolve(self, world: World, resolution: Resolution) -> World | None:
        """`operations.resolve`."""
        if world.state is not RowState.AMBIGUOUS and (
            Guard.RESOLVE_AMBIGUOUS not in self._removed
            or world.state not in (RowState.SENDING, RowState.PENDING)
        ):
            return None
        if resolution is Resolution.NOT_ACCEPTED and world.stale:
            return None
        return self.settle_doubt(world, resolution)

    def settle_doubt(self, world: World, resolution: Resolution) -> World:
        """`settlement.settle_doubt`."""
        accepted = resolution is Resolution.ACCEPTED
        theirs = world.doubtful() if accepted else ()
        attempts = tuple(
            each._replace(resolution=resolution) if each.in_doubt else each
            for each in world.attempts
        )
        state = RecipientState.ACCEPTED if accepted else RecipientState.DUE
        return rederived(doubtful_become(world._replace(attempts=attempts), state, due=theirs))

    def requeue(self, world: World) -> World | None:
        """`outbox.requeue`."""
        states = {RecipientState.REFUSED, RecipientState.SUPPRESSED}
        if world.state is RowState.AMBIGUOUS and Guard.REQUEUE_ENDED in self._removed:
            states.add(RecipientState.AMBIGUOUS)
        elif world.state not in (RowState.FAILED, RowState.SUPPRESSED):
            return None
        recipients = tuple(
            RecipientState.DUE if each in states else each for each in world.recipients
        )
        return moved(world._replace(recipients=recipients, spent=0), RowState.PENDING)

    def apply_policy(self, world: World) -> World | None:
        """`overdue.apply_policies`, with its wait over."""
        if world.state is not RowState.AMBIGUOUS:
            return None
        if world.held and Guard.WITHDRAWN_HELD not in self._removed:
            return None
        if self._scenario.on_ambiguous is OnAmbiguous.ASSUME_SENT:
            return self.settle_doubt(world, Resolution.ACCEPTED)
        if (
            self._scenario.on_ambiguous is OnAmbiguous.RESEND
            and world.resends < self._scenario.resends
        ):
            again = doubtful_become(world, RecipientState.DUE)
            return rederived(again._replace(resends=world.resends + 1))
        return None


def _is_undecided(attempt: Attempt) -> bool:
    """`proofs._is_undecided`."""
    if attempt.state is not AttemptState.FINISHED:
        return True
    if attempt.outcome is Outcome.AMBIGUOUS:
        return attempt.resolution is not Resolution.ACCEPTED
    return attempt.outcome is not Outcome.ACCEPTED


def _put_on_record(world: World, number: int, targets: set[int], named: tuple[int, ...]) -> World:
    """`proofs._write_on`: who is left in doubt, or that nobody is."""
    attempt = world.attempt(number)
    attempt = attempt._replace(proven=union(attempt.proven, named))
    if attempt.outcome is Outcome.AMBIGUOUS and attempt.resolution is not Resolution.ACCEPTED:
        known = {*targets, *world.all_in(RecipientState.ACCEPTED)}
        left = tuple(each for each in attempt.doubtful if each not in known)
        attempt = (
            attempt._replace(doubtful=left)
            if left
            else attempt._replace(resolution=Resolution.ACCEPTED)
        )
    return world.with_attempt(number, attempt)
