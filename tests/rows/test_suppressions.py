"""Who gets no mail: put together in any order, and released for good."""

import datetime as dt
import itertools
from typing import Any

import pytest

from mailer import suppressions
from mailer.database import DatabaseError
from mailer.facts import SuppressionReason
from mailer.suppressions import Barred
from mailer.tables import Suppression

ANN, BEN, CAT = "ann@example.com", "ben@example.com", "cat@example.com"
MARCH = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
FAR = dt.datetime(2090, 1, 1, tzinfo=dt.UTC)
LONG_AGO = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
R = SuppressionReason


def bar(
    address_key: str = ANN,
    reason: R = R.BOUNCE,
    at: dt.datetime = MARCH,
    *,
    until: dt.datetime | None = None,
    source: str = "event Bounce",
) -> int:
    """Suppress one address; return whether that holds now."""
    return suppressions.bar([Barred(address_key, reason, source, at, until)])


def barred(*address_keys: str) -> set[str]:
    """Which of these get no mail."""
    return set(suppressions.in_force(address_keys or [ANN, BEN, CAT]))


def held(address_key: str = ANN) -> Any:
    """The one row of an address that nobody released."""
    return Suppression.get(Suppression.address_key == address_key, Suppression.released_at >> None)


def let_go(address_key: str = ANN) -> None:
    """Release an address."""
    assert suppressions.release(address_key, by="ann", why="asked") is not None


SEVERAL = {
    "reasons": [
        Barred(ANN, R.PROVIDER, "event Bounce Permanent/Suppressed", MARCH),
        Barred(ANN, R.COMPLAINT, "event Complaint", MARCH + DAY),
        Barred(ANN, R.BOUNCE, "ses:eu-west-1", MARCH - DAY),
        Barred(ANN, R.UNSUBSCRIBE, "event Bounce", MARCH),
    ],
    "ends": [
        Barred(ANN, R.BOUNCE, "event Bounce", MARCH, FAR),
        Barred(ANN, R.COMPLAINT, "event Complaint", MARCH - DAY, FAR + DAY),
        Barred(ANN, R.PROVIDER, "event Bounce", MARCH + DAY, FAR - DAY),
    ],
    "one for good": [
        Barred(ANN, R.PROVIDER, "event Bounce", MARCH),
        Barred(ANN, R.MANUAL, "operator ann", MARCH + DAY, FAR),
        Barred(ANN, R.BOUNCE, "event Bounce", MARCH),
    ],
    "one that is over": [
        Barred(ANN, R.PROVIDER, "event Bounce", MARCH, FAR),
        Barred(ANN, R.COMPLAINT, "event Complaint", LONG_AGO, LONG_AGO + DAY),
        Barred(ANN, R.BOUNCE, "event Bounce", MARCH, FAR + DAY),
    ],
    "sources alone": [
        Barred(ANN, R.BOUNCE, "ses:eu-west-1", MARCH),
        Barred(ANN, R.BOUNCE, "event Bounce Permanent/General", MARCH),
        Barred(ANN, R.BOUNCE, "ses:us-east-1", MARCH),
    ],
}


def essence() -> tuple[object, ...]:
    """What a suppression says, however it came about."""
    row = held()
    return row.reason, row.source, row.occurred_at, row.expires_at


@pytest.mark.usefixtures("outbox")
class TestBar:
    """On both databases."""

    def test_the_order_in_which_reasons_come_means_nothing(self) -> None:
        for name, several in SEVERAL.items():
            found = set()
            for order in itertools.permutations(several):
                Suppression.delete().execute()
                for each in order:
                    assert suppressions.bar([each]) == 1
                found.add(essence())
            Suppression.delete().execute()
            assert suppressions.bar(several) == len(several)
            assert found == {essence()}, name

    def test_keeps_the_graver_reason_the_later_end_and_the_latest_time(self) -> None:
        bar(reason=R.COMPLAINT, until=FAR, source="event Complaint")
        bar(reason=R.BOUNCE, at=MARCH + DAY, until=FAR + DAY)
        row = held()
        assert (row.reason, row.source) == ("complaint", "event Complaint")
        assert (row.occurred_at, row.expires_at) == (MARCH + DAY, FAR + DAY)

    def test_the_same_again_changes_nothing(self) -> None:
        bar(until=FAR)
        before = Suppression.select().dicts().get()
        assert bar(until=FAR) == 1
        assert Suppression.select().dicts().get() == before

    def test_what_happened_before_a_release_leaves_it_released(self) -> None:
        bar()
        let_go()
        assert bar(at=MARCH + DAY) == 0
        assert bar(reason=R.COMPLAINT, at=held_until_release()) == 0
        assert barred() == set()

    def test_what_happens_after_a_release_suppresses_at_once(self) -> None:
        bar()
        let_go()
        assert bar(at=held_until_release() + dt.timedelta(milliseconds=1)) == 1
        assert barred() == {ANN}
        assert [each.released_at is None for each in suppressions.history(ANN)] == [False, True]

    def test_a_release_guards_its_own_address_alone(self) -> None:
        bar()
        bar(BEN)
        let_go()
        assert bar(CAT) == 1
        assert barred() == {BEN, CAT}

    def test_one_that_has_expired_holds_nobody_and_is_replaced(self) -> None:
        bar(reason=R.MANUAL, at=LONG_AGO, until=LONG_AGO + DAY, source="operator ann")
        assert barred() == set()
        assert suppressions.page() == []
        assert bar(reason=R.PROVIDER, until=FAR) == 1
        row = held()
        assert (row.reason, row.source, row.expires_at) == ("provider", "event Bounce", FAR)
        assert barred() == {ANN}

    def test_of_several_all_or_none(self) -> None:
        with pytest.raises((DatabaseError, ValueError)):
            suppressions.bar([*SEVERAL["reasons"], Barred("", R.BOUNCE, "x", MARCH)])
        assert suppressions.history(ANN) == []


def held_until_release() -> dt.datetime:
    """When the latest release of ann's was."""
    moment: dt.datetime = suppressions.history(ANN)[-1].released_at
    return moment


@pytest.mark.usefixtures("outbox")
class TestLooking:
    """On both databases."""

    def test_pages_go_on_where_they_ended(self) -> None:
        for each in (ANN, BEN, CAT):
            bar(each)
        first = suppressions.page(limit=2)
        rest = suppressions.page(limit=2, after_id=first[-1].id)
        assert [each.address_key for each in (*first, *rest)] == [ANN, BEN, CAT]

    def test_pages_hold_what_is_in_force_or_all(self) -> None:
        bar(ANN, R.COMPLAINT)
        bar(BEN, until=LONG_AGO)
        bar(CAT)
        let_go(ANN)
        assert [each.address_key for each in suppressions.page()] == [CAT]
        assert len(suppressions.page(ended=True)) == 3
        assert [each.address_key for each in suppressions.page(reason=R.COMPLAINT, ended=True)] == [
            ANN
        ]

    def test_who_is_suppressed_by_whom(self) -> None:
        bar(ANN, source="ses:eu-west-1")
        bar(BEN, R.MANUAL, source="operator ann")
        bar(CAT, R.MANUAL, source="operator ann", until=FAR)
        bar("dan@example.com", R.COMPLAINT, source="operator bea")
        bar("eve@example.com", source="ses:eu-west-1", until=LONG_AGO)
        assert suppressions.from_source("ses:eu-west-1") == {ANN}
        assert suppressions.by_people() == {BEN: "manual", "dan@example.com": "complaint"}
        let_go(ANN)
        let_go(BEN)
        assert suppressions.from_source("ses:eu-west-1") == set()
        assert list(suppressions.by_people()) == ["dan@example.com"]

    def test_a_release_says_what_was_released_and_by_whom(self) -> None:
        bar()
        released = suppressions.release(ANN, by="bea", why="wrote to us")
        assert released is not None
        (row,) = suppressions.history(ANN)
        assert (row.id, row.released_by, row.release_reason) == (released.id, "bea", "wrote to us")
        assert suppressions.release(ANN, by="bea", why="again") is None
        assert suppressions.release(BEN, by="bea", why="never was") is None
