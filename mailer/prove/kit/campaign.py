"""Many scenarios in a row, in the order of their seeds, until one breaks an invariant."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from mailer.prove.kit.judge import Counts
from mailer.prove.kit.plan import Plan, Through, plan
from mailer.prove.kit.play import Result, Tell, play
from mailer.prove.kit.stage import Stage

MOST_REPLAYS = 8
"""How often a scenario that breaks something is played again, to find out what it takes."""


@dataclass(frozen=True, slots=True)
class Report:
    """All scenarios played, the last of which may be `broken`; `needs` are the faults that it
    still breaks with when the others are left out."""

    results: tuple[Result, ...]
    broken: Result | None = None
    needs: tuple[str, ...] = ()

    @property
    def totals(self) -> Counts:
        """All counts added up."""
        return sum((each.counts for each in self.results), Counts())

    @property
    def worst_recovery_seconds(self) -> float:
        """The longest time from the healing of all faults to the last message's rest."""
        return max((each.recovery_seconds for each in self.results), default=0.0)

    @property
    def skipped(self) -> tuple[str, ...]:
        """What this machine cannot do, each once."""
        return tuple(sorted({reason for each in self.results for reason in each.skipped}))


def numbers(*, first: int, count: int | None, minutes: float | None) -> Iterator[int]:
    """Give seeds in order: so many, or as many as begin within that time."""
    deadline = None if minutes is None else time.monotonic() + minutes * 60
    seed = first
    while count is None or seed < first + count:
        if deadline is not None and time.monotonic() >= deadline:
            return
        yield seed
        seed += 1


def campaign(
    stage: Stage,
    seeds: Iterable[int],
    through: Through,
    *,
    tell: Callable[[int, str], None] = lambda _, __: None,
    done: Callable[[Result], None] = lambda _: None,
    player: Callable[[Stage, Plan, Tell], Result] = play,
) -> Report:
    """Play each seed's scenario; the first that breaks an invariant is the last, and is shrunk."""
    results: list[Result] = []
    for seed in seeds:
        drawn = plan(seed, through)
        result = player(stage, drawn, partial(tell, seed))
        results.append(result)
        done(result)
        if result.breaks:
            tell(seed, "which faults does it take?")
            return Report(tuple(results), result, _needed(stage, drawn, player))
    return Report(tuple(results))


def _needed(
    stage: Stage, broken: Plan, player: Callable[[Stage, Plan, Tell], Result]
) -> tuple[str, ...]:
    """Leave out one fault after the other, for as long as the rest still breaks something."""
    replays, number = 0, 0
    while number < len(broken.strikes) and len(broken.strikes) > 1 and replays < MOST_REPLAYS:
        smaller = broken.without(number)
        replays += 1
        if player(stage, smaller, lambda _: None).breaks:
            broken = smaller
        else:
            number += 1
    return broken.faults
