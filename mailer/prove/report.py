"""The walks and trials in words: for a terminal, and as the tables of `docs/protocol.md`."""

from collections.abc import Iterator, Mapping

from mailer.prove.explore import Fault, Walk
from mailer.prove.guards import ALL, GUARDS, PREMISES, Guard, Premise
from mailer.prove.invariants import Invariant
from mailer.prove.trials import IN_PAIRS, LONGER, SCENARIOS, fault_without, walk_whole

Faults = Mapping[Guard | Premise, Fault | None]


def report() -> str:
    """Walk everything and say what was found; takes two minutes."""
    return "\n".join(lines())


def lines() -> Iterator[str]:
    """The report, line by line as it comes."""
    yield "With every guard in place:"
    for scenario in (*SCENARIOS, *LONGER):
        yield from told_walk(walk_whole(scenario))
    yield ""
    yield "Without one of them, the shortest way to a fault:"
    for one in ALL:
        yield ""
        yield from _told(one, fault_without(one))


def told_walk(walk: Walk) -> Iterator[str]:
    """One walk in words."""
    verdict = "BROKEN" if walk.faults else "holds"
    yield f"  {verdict}: {walk.scenario.name}: {walk.states:,} states, {walk.steps:,} steps"
    for fault in walk.faults.values():
        yield f"    {fault.invariant}"
        yield from _numbered(fault, "      ")


def _told(one: Guard | Premise, fault: Fault | None) -> Iterator[str]:
    yield f"  without {one}: {said(one)}"
    if fault is None:
        yield "    NOT CAUGHT"
        return
    yield f"    breaks {fault.invariant}"
    yield from _numbered(fault, "      ")


def _numbered(fault: Fault, indent: str) -> Iterator[str]:
    for number, words in enumerate(fault.trace, 1):
        yield f"{indent}{number:2}. {words}"


def said(one: Guard | Premise) -> str:
    """What a guard or premise says."""
    return PREMISES[one] if isinstance(one, Premise) else GUARDS[one].says


def tables(faults: Faults) -> str:
    """The tables of `docs/protocol.md`, from what the trials found."""
    return "\n".join(
        [
            *_invariants(),
            "",
            "### Guards",
            "",
            "| guard | it says | where | without it |",
            "|---|---|---|---|",
            *(_guard_row(each, faults[each]) for each in GUARDS),
            "",
            "### Premises",
            "",
            "| premise | it says | without it |",
            "|---|---|---|",
            *(_premise_row(each, faults[each]) for each in PREMISES),
        ]
    )


def _invariants() -> Iterator[str]:
    yield "### Invariants"
    yield ""
    for each in Invariant:
        yield f"- {each}"


def _guard_row(guard: Guard, fault: Fault | None) -> str:
    meaning = GUARDS[guard]
    where = f"`{meaning.place.module}.py`"
    alone = "nothing alone, its double is enough; without both: " if guard in IN_PAIRS else ""
    return f"| `{guard}` | {meaning.says} | {where} | {alone}{_in_a_cell(fault)} |"


def _premise_row(premise: Premise, fault: Fault | None) -> str:
    return f"| `{premise}` | {PREMISES[premise]} | {_in_a_cell(fault)} |"


def _in_a_cell(fault: Fault | None) -> str:
    if fault is None:
        return "not caught"
    name = fault.invariant.name.lower().replace("_", " ")
    return f"*{name}*: {' → '.join(fault.trace)}"
