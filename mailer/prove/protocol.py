"""Who may do what next: every step of every actor from one state of the world.

A step is one thing that happens at once. Between any two of a worker's steps anything else may
happen, so that a pause, a stop and a crash at any point are all among the walks.
"""

from mailer.prove.decisions import Decisions
from mailer.prove.guards import Guard, Premise, Removed
from mailer.prove.leases import Leases
from mailer.prove.steps import Kind, Step, Steps
from mailer.prove.workers import BEFORE, Workers
from mailer.prove.world import Scenario, Wire, World, alone
from mailer.states import RecipientState, Resolution, RowState


class Protocol:
    """The steps of one scenario, without the guards and premises that are `removed`."""

    def __init__(self, scenario: Scenario, removed: Removed) -> None:
        self._scenario = scenario
        self._removed = removed
        self._workers = Workers(scenario, removed)
        self._leases = Leases(scenario, removed)
        self._decisions = Decisions(scenario, removed)

    def steps(self, world: World) -> Steps:
        """Every step that may come next."""
        for index in range(len(world.workers)):
            yield from self._workers.steps(world, index)
        yield from self._time(world)
        yield from self._provider(world)
        yield from self._sweep(world)
        yield from self._events(world)
        yield from self._application(world)
        yield from self._person(world)

    def _time(self, world: World) -> Steps:
        if world.token and not world.overdue:
            yield Step(Kind.LEASE_ENDS, "the lease runs out", self._lease_ended(world), world.token)
        if self._scenario.may_expire and not world.expired:
            yield Step(Kind.EXPIRES, "the message expires", world._replace(expired=True))
        if self._scenario.may_bar and not world.barred:
            yield Step(Kind.SUPPRESSED, "somebody is suppressed", world._replace(barred=True))

    def _lease_ended(self, world: World) -> World:
        """The holder's own deadline is never after the database's."""
        overdue = world._replace(overdue=True)
        if Guard.DEADLINE_BEFORE in self._removed:
            return overdue
        workers = tuple(
            each._replace(past_deadline=True)
            if each.attempt == world.token and each.phase in BEFORE
            else each
            for each in world.workers
        )
        return overdue._replace(workers=workers)

    def _provider(self, world: World) -> Steps:
        for number, attempt in enumerate(world.attempts, 1):
            if attempt.wire is not Wire.UNDER_WAY:
                continue
            for wire in (Wire.REFUSED, Wire.DEFERRED, Wire.LOST):
                decided = world.with_attempt(number, attempt._replace(wire=wire))
                yield Step(Kind.PROVIDER, f"attempt {number} is {wire}", decided, number)
            taken = world.with_attempt(number, attempt._replace(wire=Wire.TAKEN))
            words = f"the provider takes attempt {number}"
            yield Step(Kind.PROVIDER, words, taken, number)

    def _sweep(self, world: World) -> Steps:
        swept = self._leases.sweep(world)
        if swept is not None:
            yield Step(Kind.SWEEP, "a sweep ends the lease", swept, world.token)
        if world.expired and world.state is RowState.PENDING:
            yield Step(Kind.SWEEP, "a sweep ends the message", self._decisions.expire(world))
        settled = self._decisions.apply_policy(world)
        if settled is not None:
            words = "the policy takes it for sent"
            if settled.state is RowState.PENDING:
                words = "the policy has it sent again"
            yield Step(Kind.POLICY, words, settled)

    def _events(self, world: World) -> Steps:
        for number, attempt in enumerate(world.attempts, 1):
            if attempt.wire is not Wire.TAKEN:
                continue
            for named in (attempt.taken, *alone(attempt.taken)):
                proven = self._decisions.prove(world, number, named)
                whom = self._scenario.whom(named)
                words = f"an event proves attempt {number} accepted{whom}"
                yield Step(Kind.EVENT, words, proven, number)

    def _application(self, world: World) -> Steps:
        cancelled = self._decisions.cancel(world)
        if cancelled is not None:
            yield Step(Kind.CANCEL, "the application cancels", cancelled)

    def _person(self, world: World) -> Steps:
        yield from self._look(world)
        yield from self._resolve(world)
        requeued = self._decisions.requeue(world)
        if requeued is not None:
            yield Step(Kind.REQUEUE, "a person requeues", requeued)

    def _look(self, world: World) -> Steps:
        ambiguous = world.state is RowState.AMBIGUOUS
        under_way = any(each.wire is Wire.UNDER_WAY for each in world.attempts)
        if not ambiguous and Guard.RESOLVE_AMBIGUOUS not in self._removed:
            return
        if under_way and Premise.SETTLED_WHEN_LOOKED not in self._removed:
            return
        taken = world.taken()
        words = f"a person looks: {'it was' if taken else 'nothing was'} accepted"
        yield Step(Kind.LOOK, words, world._replace(seen=taken, stale=False))

    def _resolve(self, world: World) -> Steps:
        for resolution in self._known_resolutions(world):
            resolved = self._decisions.resolve(world, resolution)
            if resolved is not None:
                words = f"a person resolves: {resolution.replace('_', ' ')}"
                yield Step(Kind.RESOLVE, words, resolved._replace(seen=None, stale=False))

    def _known_resolutions(self, world: World) -> list[Resolution]:
        seen = world.seen
        if seen is None:
            blind = Premise.LOOKED_BEFORE_DECIDING in self._removed
            return [Resolution.NOT_ACCEPTED] if blind else []
        doubtful = {*world.all_in(RecipientState.AMBIGUOUS), *world.doubtful()}
        accepted = any(each in seen for each in doubtful)
        if accepted != all(each in seen for each in doubtful):
            return []
        return [Resolution.ACCEPTED if accepted else Resolution.NOT_ACCEPTED]
