"""Claims, their results, and the end of leases: each method is one transaction of the code.

What a row becomes is decided by `mailer.states`, not here.
"""

from collections.abc import Collection

from mailer.outcome import Outcome
from mailer.prove.endings import (
    POLICY,
    Ending,
    Recipients,
    late_changes,
    message_of,
    outcome_of,
    result_of,
)
from mailer.prove.guards import Guard, Removed
from mailer.prove.row import (
    applied,
    changed,
    end_claim,
    ended,
    kept_as_evidence,
    marked,
    moved,
    rederived,
    take_back_claim,
)
from mailer.prove.world import Attempt, Reply, Scenario, Worker, World
from mailer.states import (
    WITHDRAWN_STATES,
    AttemptState,
    RecipientState,
    Resolution,
    RowState,
    Settlement,
    settle,
)


class Leases:
    """What workers and sweeps write, without the guards that are `removed`."""

    def __init__(self, scenario: Scenario, removed: Removed) -> None:
        self._scenario = scenario
        self._removed = removed

    def claim(self, world: World) -> World | None:
        """`claims.claim_due`."""
        claimable = world.state is RowState.PENDING or (
            Guard.CLAIM_PENDING in self._removed and world.state is RowState.AMBIGUOUS
        )
        if not claimable or world.expired:
            return None
        to = (
            world.due()
            if world.state is RowState.PENDING
            else world.all_in(RecipientState.AMBIGUOUS)
        )
        return world._replace(
            state=RowState.SENDING,
            token=len(world.attempts) + 1,
            told=False,
            attempts=(*world.attempts, Attempt(AttemptState.CLAIMED, to)),
        )

    def begin(self, world: World, number: int) -> World | None:
        """`claims.begin`."""
        attempt = world.attempt(number)
        live = world.token == number and not world.overdue
        if not live and Guard.BEGIN_TOKEN not in self._removed:
            return None
        if attempt.state is not AttemptState.CLAIMED and Guard.BEGIN_CLAIMED not in self._removed:
            return None
        if world.expired:
            return None
        if world.barred and Guard.BEGIN_SUPPRESSED not in self._removed:
            return None
        world = world.with_attempt(number, attempt._replace(state=AttemptState.STARTED))
        return self._outdated(world)

    def _outdated(self, world: World) -> World:
        """What a person saw before is no ground any more for saying `not accepted`."""
        if world.seen is None or Guard.RESOLVE_NAMES_ATTEMPT in self._removed:
            return world
        return world._replace(stale=True) if world.seen else world._replace(seen=None)

    def release(self, world: World, number: int) -> World:
        """`claims.release`."""
        if world.token != number or world.attempt(number).state is not AttemptState.CLAIMED:
            return world
        return moved(end_claim(world, number), RowState.PENDING)

    def renew(self, world: World, number: int) -> World | None:
        """`claims.renew`."""
        if world.token == number:
            return world._replace(overdue=False)
        return world if Guard.RENEW_TOKEN in self._removed else None

    def finish(self, world: World, worker: Worker) -> World:
        """`results.finish`: in bulk under the token, and what that leaves singly."""
        attempt = world.attempt(worker.attempt)
        handed_over = worker.reply in (Reply.ANSWERED, Reply.SILENCE)
        agreed = attempt.agreed if handed_over else attempt.to
        ending = Ending(worker.reply, attempt.to, agreed, attempt.wire)
        if self._moves_in_bulk(world, worker):
            settled = self._settled(worker.known, worker.spent, worker.attempt, ending)
            return applied(ended(world, worker.attempt, ending), settled)
        return self._finish_one(world, worker.attempt, ending)

    def _moves_in_bulk(self, world: World, worker: Worker) -> bool:
        removed = self._removed
        return (
            self._scenario.bulk
            and (not worker.resends or Guard.FINISH_RESENDS in removed)
            and (world.token == worker.attempt or Guard.FINISH_TOKEN in removed)
            and (not world.told or Guard.FINISH_EVIDENCE in removed)
        )

    def _settled(
        self,
        known: Recipients,
        spent: int,
        number: int,
        ending: Ending,
        *,
        in_doubt: bool = False,
    ) -> Settlement:
        too_late = ending.reply is Reply.TOO_LATE
        guard = Guard.WITHDRAWAL_IN_DOUBT if too_late else Guard.REFUSAL_IN_DOUBT
        in_doubt = in_doubt and guard not in self._removed
        return outcome_of(known, spent, number, ending, in_doubt=in_doubt)

    def _finish_one(self, world: World, number: int, ending: Ending) -> World:
        attempt = world.attempt(number)
        if attempt.state is AttemptState.FINISHED and attempt.outcome is not Outcome.AMBIGUOUS:
            return world
        if world.token == number and attempt.state is not AttemptState.FINISHED:
            if attempt.proven and Guard.FINISH_PROVEN not in self._removed:
                ending = ending._replace(proven=world.all_in(RecipientState.ACCEPTED))
            settled = self._settled(
                world.recipients, world.spent, number, ending, in_doubt=world.in_doubt()
            )
            taken = result_of(ending).taken
            return applied(ended(marked(world, number, taken), number, ending), settled)
        return self._finish_late(world, number, ending)

    def _finish_late(self, world: World, number: int, ending: Ending) -> World:
        """`settlement.apply_late`."""
        others = world.in_doubt(without=number)
        world = kept_as_evidence(self._marked_late(world, number, ending), number, ending)
        if Guard.LATE_RESULT in self._removed:
            return world
        alone = not others or Guard.LATE_REFUSAL in self._removed
        changes = late_changes(world.recipients, ending, others_in_doubt=not alone)
        if not changes:
            return world
        if world.state in WITHDRAWN_STATES:
            return changed(world, changes)
        if world.state is RowState.SENDING:
            taken_back = take_back_claim(world)
            if taken_back is None:
                return changed(world, changes)._replace(told=True)
            world = taken_back
        in_doubt = others or bool(result_of(ending).doubtful)
        message = message_of(world.recipients, world.spent, number, in_doubt=in_doubt)
        settled = settle(message, changes, result_of(ending), POLICY, jitter=0.5)
        return applied(world, settled)

    def _marked_late(self, world: World, number: int, ending: Ending) -> World:
        attempt = world.attempt(number)
        if attempt.resolution is Resolution.ACCEPTED:
            return world
        return marked(world, number, self.newly_taken(attempt, result_of(ending).taken))

    def newly_taken(self, attempt: Attempt, taken: Collection[int]) -> Collection[int]:
        """`settlement.newly_taken`."""
        if not attempt.doubtful or Guard.MARK_DOUBTFUL in self._removed:
            return taken
        return {*taken} & {*attempt.doubtful}

    def sweep(self, world: World) -> World | None:
        """`overdue.end_expired_leases`."""
        if Guard.SWEEP in self._removed or world.state is not RowState.SENDING:
            return None
        if not world.overdue and Guard.SWEEP_OVERDUE not in self._removed:
            return None
        number = world.token
        claimed = world.attempt(number).state is AttemptState.CLAIMED
        as_claimed = (
            Guard.SWEEP_CLAIMED not in self._removed
            if claimed
            else Guard.SWEEP_STARTED in self._removed
        )
        if as_claimed:
            return rederived(end_claim(world, number))
        to, known = world.due(), world.recipients
        if Guard.SWEEP_EVIDENCE in self._removed:
            to = world.attempt(number).to
            known = tuple(RecipientState.DUE if i in to else each for i, each in enumerate(known))
        is_proven = bool(world.attempt(number).proven) and not to
        ending = Ending(Reply.PROVEN if is_proven else Reply.NEVER, to, to)
        settled = self._settled(known, world.spent, number, ending, in_doubt=world.in_doubt())
        return applied(ended(world, number, ending), settled)
