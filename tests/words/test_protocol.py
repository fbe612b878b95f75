"""The protocol's model: all of it holds, and without any one guard its fault is found.

Every walk is exhaustive within its bounds, and the document tells what the walks found.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from mailer.prove.explore import Fault
from mailer.prove.guards import ALL, GUARDS, PREMISES, Guard, Premise
from mailer.prove.report import tables, told_walk
from mailer.prove.steps import Kind
from mailer.prove.trials import (
    IN_PAIRS,
    PAIR,
    SCENARIOS,
    TRIALS,
    alone_harmless,
    fault_without,
    walk_whole,
)
from mailer.prove.world import Scenario

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "protocol.md"

LONGEST_TRACE = 16
"""Steps that a person still follows."""

FEWEST_STATES = 600

whole = cache(walk_whole)
without = cache(fault_without)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_every_interleaving_keeps_every_invariant(scenario: Scenario) -> None:
    walk = whole(scenario)
    assert not walk.faults, "\n".join(told_walk(walk))
    assert walk.states > FEWEST_STATES


def test_every_kind_of_step_was_taken() -> None:
    taken = {kind for scenario in SCENARIOS for kind in whole(scenario).fired}
    # Asking and handing over are two steps only without a premise.
    assert taken == set(Kind) - {Kind.ASK, Kind.SUPPRESSED, Kind.WITHHOLD}


@pytest.mark.parametrize("one", ALL, ids=str)
def test_without_it_the_fault_is_found(one: Guard | Premise) -> None:
    fault = without(one)
    assert fault is not None
    assert fault.invariant is (PAIR if one in IN_PAIRS else TRIALS[one]).breaks
    assert 1 < len(fault.trace) <= LONGEST_TRACE
    assert fault.trace[0] == "A claims the row: attempt 1"


@pytest.mark.parametrize("guard", sorted(IN_PAIRS), ids=str)
def test_a_guard_that_has_a_double_is_not_missed_alone(guard: Guard) -> None:
    assert alone_harmless(guard)


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_a_guard_stands_where_the_model_says(guard: Guard) -> None:
    place = GUARDS[guard].place
    source = (ROOT / "mailer" / f"{place.module}.py").read_text(encoding="utf-8")
    assert place.words in source


def test_nothing_is_left_out() -> None:
    assert set(GUARDS) == set(Guard)
    assert set(PREMISES) == set(Premise)
    assert set(TRIALS) | IN_PAIRS == {*Guard, *Premise}


def test_the_document_tells_what_the_walks_found() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    (written,) = re.findall(r"<!-- tables -->\n(.*?)\n<!-- /tables -->", text, re.DOTALL)
    faults: dict[Guard | Premise, Fault | None] = {each: without(each) for each in ALL}
    assert written == tables(faults), "run `python -m mailer.prove --tables`"


def test_the_document_names_the_scenarios_with_their_sizes() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for scenario in SCENARIOS:
        assert f"| {scenario.name} | {whole(scenario).states:,} |" in text
