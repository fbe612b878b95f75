"""What sightings prove about attempts: counted, never guessed, and nothing by their absence."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailer.evidence import Sighting, SightingKind
from mailer.testimony import Seen, Standing, Tried, Verdict, weigh

ACCEPTED, NOT_ACCEPTED, UNCLEAR = Verdict.ACCEPTED, Verdict.NOT_ACCEPTED, Verdict.UNCLEAR
DOUBT, AGAINST, TAKEN = Standing.IN_DOUBT, Standing.DECIDED_AGAINST, Standing.TAKEN
NOT_TAKEN, UNDER_WAY = Standing.NOT_TAKEN, Standing.UNDER_WAY


def attempts(*standings: Standing) -> list[Tried]:
    return [Tried(number, f"t{number}", each) for number, each in enumerate(standings, start=1)]


def taken(
    queue_id: str, *, tag: str | None = None, came_from: str | None = None, to: Sequence[str] = ()
) -> Seen:
    kind = SightingKind.ACCEPTED
    sighting = Sighting(
        kind, "postfix", queue_id, came_from=came_from, passed_to=tuple(to), note=queue_id
    )
    return Seen(sighting, tag)


def refused(tag: str | None) -> Seen:
    return Seen(Sighting(SightingKind.REFUSED, "postfix", note="no"), tag)


def found(tried: list[Tried], *seen: Seen) -> list[tuple[int, Verdict, bool]]:
    return [(each.attempt_id, each.verdict, each.twice) for each in weigh(tried, seen)]


def test_an_attempts_own_sender_proves_it_whatever_else_is_in_doubt() -> None:
    tried = attempts(DOUBT, DOUBT)
    assert found(tried, taken("A", tag="t2")) == [(2, ACCEPTED, False)]
    assert found(attempts(AGAINST), taken("A", tag="t1")) == [(1, ACCEPTED, False)]


@pytest.mark.parametrize(
    ("standings", "acceptances", "verdicts"),
    [
        ((DOUBT,), 1, [(1, ACCEPTED, False)]),
        ((DOUBT,), 2, [(1, ACCEPTED, True)]),
        ((NOT_TAKEN, DOUBT), 1, [(2, ACCEPTED, False)]),
        ((DOUBT, DOUBT), 1, [(1, UNCLEAR, False), (2, UNCLEAR, False)]),
        ((DOUBT, DOUBT), 2, [(1, ACCEPTED, False), (2, ACCEPTED, False)]),
        ((DOUBT, TAKEN), 1, [(1, UNCLEAR, False)]),
        ((DOUBT, TAKEN), 2, [(1, ACCEPTED, False)]),
        ((DOUBT, UNDER_WAY), 1, [(1, UNCLEAR, False)]),
        ((AGAINST, DOUBT), 1, [(1, UNCLEAR, False), (2, UNCLEAR, False)]),
        ((TAKEN,), 1, []),
        ((NOT_TAKEN,), 1, []),
    ],
)
def test_acceptances_that_name_no_attempt_are_counted(
    standings: tuple[Standing, ...], acceptances: int, verdicts: list[tuple[int, Verdict, bool]]
) -> None:
    seen = [taken(f"A{number}") for number in range(acceptances)]
    assert found(attempts(*standings), *seen) == verdicts


def test_an_attempt_that_was_named_is_not_behind_an_acceptance_that_names_none() -> None:
    tried = attempts(DOUBT, DOUBT)
    assert found(tried, taken("A", tag="t1"), taken("B")) == [
        (1, ACCEPTED, False),
        (2, ACCEPTED, False),
    ]


@pytest.mark.parametrize(
    "chain",
    [
        [taken("A", tag="t1", to=["B"]), taken("B", tag="t1")],
        [taken("A", tag="t1"), taken("B", tag="t1", came_from="A")],
        [taken("B", tag="t1"), taken("A", tag="t1", to=["B"])],
        [taken("A", tag="t1"), taken("A", tag="t1")],
        [taken("A", tag="t1", to=["B"]), taken("B", tag="t1", to=["A"])],
        [taken("A", tag="t1", came_from="A")],
        [taken("A", tag="t1", came_from="not in this log")],
    ],
)
def test_what_continues_an_acceptance_is_no_second_one(chain: list[Seen]) -> None:
    assert found(attempts(DOUBT), *chain) == [(1, ACCEPTED, False)]


def test_two_acceptances_of_one_attempt_are_told() -> None:
    assert found(attempts(DOUBT), taken("A", tag="t1"), taken("B", tag="t1")) == [
        (1, ACCEPTED, True)
    ]


def test_a_refusal_counts_for_its_own_attempt_and_only_where_nothing_was_taken() -> None:
    assert found(attempts(DOUBT, DOUBT), refused("t1")) == [(1, NOT_ACCEPTED, False)]
    assert found(attempts(DOUBT), refused("t1"), taken("A", tag="t1")) == [(1, ACCEPTED, False)]
    assert found(attempts(DOUBT), refused("t1"), taken("A")) == [(1, ACCEPTED, False)]
    assert found(attempts(DOUBT, DOUBT), refused("t1"), taken("A")) == [
        (1, UNCLEAR, False),
        (2, UNCLEAR, False),
    ]
    assert found(attempts(DOUBT), refused(None)) == []
    assert found(attempts(AGAINST), refused("t1")) == []


def test_what_proves_nothing_and_what_is_absent_change_nothing() -> None:
    begun = Seen(Sighting(SightingKind.NOTHING, "postfix", "A", note="read"), "t1")
    assert found(attempts(DOUBT), begun) == found(attempts(DOUBT)) == []


@given(
    st.lists(st.sampled_from(Standing), max_size=4),
    st.lists(
        st.builds(
            Seen,
            st.builds(Sighting, st.sampled_from(SightingKind), st.just("x"), st.sampled_from("AB")),
            st.sampled_from([None, "t1", "t2", "t9"]),
        ),
        max_size=6,
    ),
)
def test_nothing_is_said_twice_nor_of_what_is_settled_nor_without_grounds(
    standings: list[Standing], seen: list[Seen]
) -> None:
    tried = attempts(*standings)
    findings = weigh(tried, seen)
    standing = {each.attempt_id: each.standing for each in tried}
    assert len({each.attempt_id for each in findings}) == len(findings)
    for each in findings:
        assert standing[each.attempt_id] in (DOUBT, AGAINST)
        assert each.sightings
