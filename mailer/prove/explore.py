"""Walk every state that can be reached, breadth first, so that a fault has a shortest trace."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mailer.prove.guards import NOTHING, Removed
from mailer.prove.invariants import Invariant, broken_by, broken_in
from mailer.prove.protocol import Protocol
from mailer.prove.steps import OUTSIDE, Kind
from mailer.prove.world import Scenario, World, canonical
from mailer.states import FINAL_STATES, RowState


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken invariant and a shortest walk that breaks it."""

    invariant: Invariant
    trace: tuple[str, ...]


@dataclass(slots=True)
class Walk:
    """What a whole walk found. `fired` counts steps by kind; faults hold one for each invariant."""

    scenario: Scenario
    removed: Removed
    states: int = 0
    steps: int = 0
    fired: dict[Kind, int] = field(default_factory=dict)
    faults: dict[Invariant, Fault] = field(default_factory=dict)


class Explorer:
    """One walk through all states of a scenario."""

    def __init__(self, scenario: Scenario, removed: Removed = NOTHING) -> None:
        self._scenario = scenario
        self._protocol = Protocol(scenario, removed)
        self._walk = Walk(scenario, removed)
        self._met: dict[World, int] = {}
        self._numbers: dict[World, int] = {}
        self._worlds: list[World] = []
        self._came_by: list[tuple[int, str]] = []
        self._back: list[list[int]] = []

    def walk(self, *, until: Invariant | None = None) -> Walk:
        """Visit every state; with `until`, stop where that invariant is broken first."""
        self._arrive(self._scenario.start(), -1, "")
        at = 0
        while at < len(self._worlds):
            self._leave(at)
            if until in self._walk.faults:
                break
            at += 1
        else:
            self._look_for_stuck()
        self._walk.states = len(self._worlds)
        return self._walk

    def _leave(self, at: int) -> None:
        before, walk = self._worlds[at], self._walk
        for step in self._protocol.steps(before):
            walk.steps += 1
            walk.fired[step.kind] = walk.fired.get(step.kind, 0) + 1
            self._note(broken_by(before, step), at, step.words)
            to = self._arrive(step.after, at, step.words)
            if step.kind not in OUTSIDE:
                self._back[to].append(at)

    def _arrive(self, world: World, came_from: int, by: str) -> int:
        number = self._met.get(world)
        if number is None:
            number = self._met[world] = self._number(world, came_from, by)
        return number

    def _number(self, world: World, came_from: int, by: str) -> int:
        key = canonical(world)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._worlds)
            self._worlds.append(world)
            self._came_by.append((came_from, by))
            self._back.append([])
            self._note(broken_in(self._scenario, world), came_from, by)
        return number

    def _note(self, invariants: Iterable[Invariant], at: int, words: str) -> None:
        for each in invariants:
            if each not in self._walk.faults:
                self._walk.faults[each] = Fault(each, (*self._trace(at), words))

    def _trace(self, at: int) -> tuple[str, ...]:
        words: list[str] = []
        while at > 0:
            at, by = self._came_by[at]
            words.append(by)
        return tuple(reversed(words))

    def _look_for_stuck(self) -> None:
        """Go back from where a message may rest; whatever is not met cannot get there."""
        resting = [number for number, each in enumerate(self._worlds) if self._may_rest(each)]
        met = set(resting)
        while resting:
            for each in self._back[resting.pop()]:
                if each not in met:
                    met.add(each)
                    resting.append(each)
        stuck = next((each for each in range(len(self._worlds)) if each not in met), None)
        if stuck is not None:
            invariant = Invariant.NEVER_STUCK
            self._walk.faults[invariant] = Fault(invariant, self._trace(stuck))

    def _may_rest(self, world: World) -> bool:
        """It has ended, a person can see it, or another claim is all that the bounds leave out."""
        if world.state in FINAL_STATES or world.state is RowState.AMBIGUOUS:
            return True
        return world.state is RowState.PENDING and len(world.attempts) == self._scenario.attempts
