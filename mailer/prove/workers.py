"""What a worker does, step by step; between any two of them anything else may happen."""

from mailer.prove.decisions import Decisions
from mailer.prove.guards import Guard, Premise, Removed
from mailer.prove.leases import Leases
from mailer.prove.steps import Kind, Step, Steps
from mailer.prove.world import IDLE, Phase, Reply, Scenario, Wire, Worker, World
from mailer.states import AttemptState

_NAMES = "AB"

BEFORE = (Phase.HOLDING, Phase.BEGUN, Phase.ASKED)
"""Where a worker's own deadline still matters."""


class Workers:
    """The steps of the workers, without the guards and premises that are `removed`."""

    def __init__(self, scenario: Scenario, removed: Removed) -> None:
        self._scenario = scenario
        self._removed = removed
        self._leases = Leases(scenario, removed)
        self._decisions = Decisions(scenario, removed)

    def steps(self, world: World, index: int) -> Steps:
        """Every step that this worker may take next."""
        worker = world.workers[index]
        name = _NAMES[index]
        if worker.phase is Phase.IDLE:
            yield from self._claim(world, index, name)
            return
        number = worker.attempt
        yield Step(Kind.CRASH, f"{name} is killed", world.with_worker(index, IDLE), number)
        if worker.phase is Phase.LANDED:
            yield from self._finish(world, index, name)
            return
        yield from self._own_clock(world, index, name)
        if worker.phase is Phase.HOLDING:
            yield from self._begin(world, index, name)
        elif worker.phase is Phase.BEGUN:
            yield from self._commit_point(world, index, name)
        elif worker.phase is Phase.ASKED:
            yield from self._hand_over(world, index, name)
        else:
            yield from self._answer(world, index, name)

    def _claim(self, world: World, index: int, name: str) -> Steps:
        if len(world.attempts) == self._scenario.attempts:
            return
        claimed = self._leases.claim(world)
        if claimed is not None:
            number = claimed.token
            worker = Worker(
                Phase.HOLDING,
                number,
                known=claimed.recipients,
                spent=claimed.spent,
                resends=claimed.resends,
            )
            words = f"{name} claims the row: attempt {number}"
            yield Step(Kind.CLAIM, words, claimed.with_worker(index, worker), number)

    def _own_clock(self, world: World, index: int, name: str) -> Steps:
        worker = world.workers[index]
        if worker.phase in BEFORE and not worker.past_deadline:
            late = world.with_worker(index, worker._replace(past_deadline=True))
            yield Step(Kind.DEADLINE, f"{name}'s own deadline passes", late, worker.attempt)
        renewed = self._leases.renew(world, worker.attempt)
        if renewed is not None and (worker.past_deadline or world.overdue):
            fresh = renewed.with_worker(index, worker._replace(past_deadline=False))
            yield Step(Kind.RENEW, f"{name} renews its lease", fresh, worker.attempt)

    def _begin(self, world: World, index: int, name: str) -> Steps:
        worker = world.workers[index]
        number = worker.attempt
        released = self._leases.release(world, number).with_worker(index, IDLE)
        yield Step(Kind.RELEASE, f"{name} gives its claim back", released, number)
        lost = worker._replace(phase=Phase.LANDED, reply=Reply.NOT_SENT)
        if Guard.BEGIN_FIRST in self._removed:
            yield from self._hand_over(world, index, name)
        withheld = self._decisions.withhold(world, number)
        if withheld is not None:
            after = withheld.with_worker(index, IDLE)
            yield Step(Kind.WITHHOLD, f"{name} leaves out who is suppressed", after, number)
        begun = self._leases.begin(world, number)
        words = f"{name} begins attempt {number}"
        if begun is not None:
            after = begun.with_worker(index, worker._replace(phase=Phase.BEGUN))
            yield Step(Kind.BEGIN, words, after, number)
            unheard = begun.with_worker(index, lost)
            yield Step(Kind.BEGIN_UNHEARD, f"{words}, and is not told so", unheard, number)
        elif world.expired and not worker.past_deadline:
            ended = worker._replace(phase=Phase.LANDED, reply=Reply.TOO_LATE)
            yield Step(
                Kind.HOLD_BACK, f"{name} finds it expired", world.with_worker(index, ended), number
            )
        unheard = world.with_worker(index, lost)
        yield Step(Kind.BEGIN_UNHEARD, f"{name} loses the database at begin", unheard, number)

    def _commit_point(self, world: World, index: int, name: str) -> Steps:
        worker = world.workers[index]
        number = worker.attempt
        unsent = worker._replace(phase=Phase.LANDED, reply=Reply.NOT_SENT)
        yield Step(
            Kind.HOLD_BACK,
            f"{name} cannot hand attempt {number} over",
            world.with_worker(index, unsent),
            number,
        )
        if worker.past_deadline and Guard.COMMIT_DEADLINE not in self._removed:
            return
        if world.expired:
            too_late = worker._replace(phase=Phase.LANDED, reply=Reply.TOO_LATE)
            yield Step(
                Kind.HOLD_BACK,
                f"{name} finds it expired",
                world.with_worker(index, too_late),
                number,
            )
            return
        if Premise.ASKED_AND_HANDED_OVER in self._removed:
            asked = world.with_worker(index, worker._replace(phase=Phase.ASKED))
            yield Step(Kind.ASK, f"{name}'s clock lets attempt {number} pass", asked, number)
        else:
            yield from self._hand_over(world, index, name)

    def _hand_over(self, world: World, index: int, name: str) -> Steps:
        worker = world.workers[index]
        number = worker.attempt
        attempt = world.attempt(number)
        calling = world.with_worker(
            index, worker._replace(phase=Phase.CALLING, past_deadline=False)
        )
        for agreed in self._scenario.agreed(attempt.to):
            under_way = attempt._replace(wire=Wire.UNDER_WAY, agreed=agreed)
            words = f"{name} hands attempt {number} over{self._scenario.whom(agreed)}"
            if attempt.state is AttemptState.CLAIMED:
                words += ", not begun"
            yield Step(Kind.HAND_OVER, words, calling.with_attempt(number, under_way), number)

    def _answer(self, world: World, index: int, name: str) -> Steps:
        worker = world.workers[index]
        number = worker.attempt
        wire = world.attempt(number).wire
        if wire not in (Wire.UNDER_WAY, Wire.LOST):
            read = worker._replace(phase=Phase.LANDED, reply=Reply.ANSWERED)
            words = f"{name} reads the answer: {wire}"
            yield Step(Kind.ANSWER, words, world.with_worker(index, read), number)
        silent = worker._replace(phase=Phase.LANDED, reply=Reply.SILENCE)
        words = f"{name} gets no answer"
        yield Step(Kind.NO_ANSWER, words, world.with_worker(index, silent), number)

    def _finish(self, world: World, index: int, name: str) -> Steps:
        worker = world.workers[index]
        written = self._leases.finish(world, worker)
        words = f"{name} writes its result ({worker.reply})"
        yield Step(Kind.FINISH, words, written.with_worker(index, IDLE), worker.attempt)
        if written != world:
            yield Step(Kind.FINISH_UNHEARD, f"{words}, and is not told so", written, worker.attempt)
