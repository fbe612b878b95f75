"""The provider's lists, read over HTTP from two regions: mirrored, compared, and never obeyed."""

import datetime as dt
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from mailer import fake_ses, mirroring, suppressing, suppressions
from mailer.account_list import AccountListError
from mailer.errors import Refused, SettingsError
from mailer.facts import SuppressionReason
from mailer.fake_ses import FakeSes
from mailer.mirroring import Mirrored
from mailer.settings import load
from mailer.suppressions import Barred
from mailer.tables import Audit, Suppression
from mailer.wiring import account_lists
from providers.ses_suppression import SesSuppressionList
from tests.doors.fake_ses.client import client_of
from tests.ses_endpoint import END, SesEndpoint, answer, aws_environment

ANN, BEN, CAT = "ann@example.com", "ben@example.com", "cat@example.com"
WHY = "asked by phone"
R = SuppressionReason
LONG_AGO = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)

on_both = pytest.mark.parametrize("outbox", ["postgresql", "sqlite"], indirect=True)
on_sqlite = pytest.mark.parametrize("outbox", ["sqlite"], indirect=True)
"""For what does not depend on the dialect: whom a row suppresses is shown on both elsewhere."""


class Region:
    """A fake SES, the product's view of its list in pages of two, and a client beside it."""

    def __init__(self, fake: FakeSes, listing: SesSuppressionList, client: Any) -> None:
        self.fake = fake
        self.list = listing
        self._client = client

    @property
    def name(self) -> str:
        return self.list.name

    def put(self, *addresses: str, reason: str = "BOUNCE") -> None:
        for each in addresses:
            self._client.put_suppressed_destination(EmailAddress=each, Reason=reason)

    def remove(self, address: str) -> None:
        self._client.delete_suppressed_destination(EmailAddress=address)

    def reason_of(self, address: str) -> str:
        found = self._client.get_suppressed_destination(EmailAddress=address)
        reason: str = found["SuppressedDestination"]["Reason"]
        return reason

    def calls(self, operation: str) -> int:
        return self.fake.calls(f"{operation}SuppressedDestination")


@pytest.fixture(scope="module")
def regions() -> Iterator[list[Region]]:
    with ExitStack() as stack:
        stack.enter_context(aws_environment())
        found = []
        for name in ("eu-west-1", "us-east-1"):
            fake = stack.enter_context(fake_ses.running())
            listing = stack.enter_context(closing(SesSuppressionList(name, fake.url, page_size=2)))
            found.append(Region(fake, listing, stack.enter_context(client_of(fake.url))))
        yield found


@pytest.fixture
def ireland(outbox: str, regions: list[Region]) -> Region:
    del outbox
    for each in regions:
        each.fake.reset()
    return regions[0]


@pytest.fixture
def virginia(ireland: Region, regions: list[Region]) -> Region:
    del ireland
    return regions[1]


def sync(*regions: Region, **changes: Any) -> list[Mirrored]:
    return mirroring.sync([each.list for each in regions], **{"actor": "cron", **changes})


def sync_one(region: Region, **changes: Any) -> Mirrored:
    (found,) = sync(region, **changes)
    return found


def in_force() -> dict[str, str]:
    return {each.address_key: each.source for each in suppressions.page(limit=10_000)}


def audit_lines() -> list[tuple[str, str, str]]:
    lines: Any = Audit.select(Audit.verb, Audit.after, Audit.why).order_by(Audit.id).tuples()
    return list(lines)


@on_both
def test_every_page_of_every_region_is_mirrored(ireland: Region, virginia: Region) -> None:
    ireland.put(*[f"{name}@example.com" for name in "abcde"])
    virginia.put("A@Example.com", "x@example.com", reason="COMPLAINT")
    told: list[tuple[str, int]] = []
    first, second = sync(ireland, virginia, told=lambda *each: told.append(each))
    assert (first.name, first.read, first.new, first.since) == (ireland.name, 5, 5, None)
    assert (second.name, second.read, second.new, second.problem) == (virginia.name, 2, 1, None)
    assert told == [(ireland.name, 5), (virginia.name, 2)]
    rows = {each.address_key: (each.reason, each.source) for each in suppressions.page()}
    assert rows["a@example.com"] == ("complaint", virginia.name)
    assert rows["e@example.com"] == ("bounce", ireland.name)
    assert len(rows) == 6
    assert audit_lines() == [
        ("suppression sync", "complete", f"{ireland.name}: 5 read, 5 new, 0 pushed, 0 in drift"),
        ("suppression sync", "complete", f"{virginia.name}: 2 read, 1 new, 0 pushed, 0 in drift"),
    ]


@on_both
def test_again_changes_nothing(ireland: Region) -> None:
    ireland.put(ANN, BEN)
    for _ in range(2):  # the first may find them younger than its own beginning
        sync_one(ireland, full=True)
    before = list(Suppression.select().order_by(Suppression.id).dicts())
    assert sync_one(ireland, full=True).new == 0
    assert list(Suppression.select().order_by(Suppression.id).dicts()) == before


@on_both
def test_the_next_run_reads_what_changed_since_an_hour_before_the_latest(ireland: Region) -> None:
    assert sync_one(ireland).since is None
    latest = Audit.get().at
    assert sync_one(ireland).since == latest - dt.timedelta(hours=1)
    assert sync_one(ireland, full=True).since is None
    ireland.put(ANN)
    Audit.update(at=dt.datetime.now(dt.UTC) + dt.timedelta(hours=3)).execute()
    assert sync_one(ireland).read == 0
    assert sync_one(ireland, full=True).read == 1


@on_sqlite
def test_each_list_has_its_own_latest_run(ireland: Region, virginia: Region) -> None:
    sync(ireland)
    first, second = sync(ireland, virginia)
    assert (first.since is None, second.since) == (False, None)


@on_sqlite
def test_a_run_counts_from_its_beginning(ireland: Region) -> None:
    """What changes on pages that were read already is seen by the next run."""
    ireland.put(ANN)
    before_the_end: list[dt.datetime] = []

    def told(*_: object) -> None:
        row = suppressions.in_force([ANN])[ANN]
        before_the_end.append(row.created_at)

    sync(ireland, told=told)
    assert Audit.get().at <= before_the_end[0]


@on_sqlite
def test_what_is_gone_from_the_list_is_told_and_stays_suppressed(ireland: Region) -> None:
    ireland.put(ANN, BEN, CAT)
    suppressions.bar([Barred(CAT, R.BOUNCE, "event Bounce", LONG_AGO)])
    sync(ireland)
    for each in (BEN, CAT):
        ireland.remove(each)
    assert sync_one(ireland).unlisted == ()
    found = sync_one(ireland, full=True)
    assert (found.unlisted, found.drift) == ((BEN,), 1)
    assert set(in_force()) == {ANN, BEN, CAT}


@on_sqlite
def test_what_is_released_while_the_list_is_read_is_not_told_of(ireland: Region) -> None:
    ireland.put(ANN)
    suppressions.bar([Barred(BEN, R.BOUNCE, ireland.name, LONG_AGO)])

    def told(*_: object) -> None:
        suppressing.release(BEN, actor="ann", why=WHY)

    assert sync_one(ireland, full=True, told=told).unlisted == ()


@on_sqlite
def test_what_is_released_here_and_still_listed_is_told_and_stays_released(
    ireland: Region,
) -> None:
    ireland.put(ANN)
    sync(ireland)
    suppressing.release(ANN, actor="ann", why=WHY)
    found = sync_one(ireland)
    assert (found.released, found.new, found.drift) == ((ANN,), 0, 1)
    assert in_force() == {}


@on_sqlite
def test_what_is_listed_anew_after_a_release_is_suppressed_again(ireland: Region) -> None:
    ireland.put(ANN)
    sync(ireland)
    suppressing.release(ANN, actor="ann", why=WHY)
    Suppression.update(released_at=LONG_AGO, occurred_at=LONG_AGO).execute()
    assert sync_one(ireland).new == 1


@on_sqlite
def test_a_list_that_speaks_of_the_future_cannot_undo_a_release(outbox: str) -> None:
    del outbox
    entry = {"EmailAddress": ANN, "Reason": "BOUNCE", "LastUpdateTime": 4_000_000_000}
    with (
        SesEndpoint.scripted(
            unknown=answer(200, {"SuppressedDestinationSummaries": [entry]})
        ) as endpoint,
        aws_environment(),
        closing(SesSuppressionList("eu-west-1", endpoint.url)) as listing,
    ):
        mirroring.sync([listing], actor="cron")
        assert suppressions.in_force([ANN])[ANN].occurred_at < dt.datetime.now(dt.UTC) + (
            dt.timedelta(hours=1)
        )


@on_sqlite
def test_a_list_that_fails_is_told_and_the_others_are_read(
    ireland: Region, virginia: Region
) -> None:
    virginia.put(ANN)
    with (
        SesEndpoint.scripted(unknown=END) as endpoint,
        closing(SesSuppressionList("eu-west-1", endpoint.url)) as broken,
    ):
        lists = [broken, virginia.list]
        first, second = mirroring.sync(lists, actor="cron")
        assert first.problem is not None
        assert first.problem.startswith(f"suppression list {broken.name}: ")
        assert mirroring.sync(lists, actor="cron")[0].since is None
    assert (second.read, second.problem) == (1, None)
    assert [after for _, after, _ in audit_lines()][:2] == ["incomplete", "complete"]
    assert ireland.fake.calls("ListSuppressedDestinations") == 0


@on_sqlite
def test_a_list_that_breaks_off_reports_nobody_as_gone(ireland: Region) -> None:
    suppressions.bar([Barred(ANN, R.BOUNCE, ireland.name, LONG_AGO)])

    class Breaking:
        name = ireland.name

        def entries(self, since: dt.datetime | None = None) -> Any:
            yield from ireland.list.entries(since)
            raise AccountListError("suppression list: broke off")

    ireland.put(BEN)
    found = mirroring.sync([Breaking()], actor="cron", full=True)[0]  # type: ignore[list-item]
    assert (found.read, found.unlisted, found.problem) == (0, (), "suppression list: broke off")


@on_sqlite
class TestPush:
    def test_puts_on_each_list_whom_people_suppressed_for_good(
        self, ireland: Region, virginia: Region
    ) -> None:
        suppressing.add([ANN], actor="ann", why=WHY)
        suppressing.add([BEN], actor="ann", why=WHY, reason=R.COMPLAINT)
        suppressing.add([CAT], actor="ann", why=WHY, seconds=3_600)
        suppressions.bar([Barred("dan@example.com", R.BOUNCE, "event Bounce", LONG_AGO)])
        virginia.put(ANN, reason="COMPLAINT")
        assert [each.pushed for each in sync(ireland, virginia)] == [0, 0]
        assert [each.pushed for each in sync(ireland, virginia, push=True)] == [2, 1]
        assert (ireland.reason_of(ANN), ireland.reason_of(BEN)) == ("BOUNCE", "COMPLAINT")
        assert virginia.reason_of(ANN) == "COMPLAINT"
        again = sync_one(ireland, push=True)
        assert (again.read, again.pushed, again.drift) == (2, 0, 0)
        assert in_force()[ANN] == "operator ann"
        assert suppressions.in_force([CAT])[CAT].expires_at is not None

    def test_passes_over_what_a_list_does_not_take_and_says_so(
        self, ireland: Region, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = [f"{name}@example.com" for name in "abcdefgh"]
        suppressing.add(names, actor="ann", why=WHY)
        put = ireland.list.add

        def refuse(address: str, reason: SuppressionReason) -> None:
            if address[0] in refused:
                raise AccountListError("suppression list: BadRequest")
            put(address, reason)

        monkeypatch.setattr(ireland.list, "add", refuse)
        refused = {"a", "c"}
        found = sync_one(ireland, push=True)
        assert (found.pushed, found.problem) == (
            6,
            "2 not put on it; the last: suppression list: BadRequest",
        )
        for more, failed in ("abcdfgh", 7), ("bcdefgh", 5):
            ireland.fake.reset()
            refused.clear()
            refused.update(more)
            found = sync_one(ireland, push=True)
            assert found.pushed == 1
            assert found.problem is not None
            assert found.problem.startswith(f"{failed} not put on it; ")


@on_sqlite
def test_a_release_takes_the_address_off_every_list(ireland: Region, virginia: Region) -> None:
    ireland.put("Ann@Example.com")
    sync(ireland)
    suppressing.release(ANN, actor="ann", why=WHY)
    lists = [ireland.list, virginia.list]
    done = suppressing.delist(ANN, lists, actor="ann", why=WHY)
    assert [(each.name, each.removed) for each in done] == [
        (ireland.name, True),
        (virginia.name, False),
    ]
    assert sync_one(ireland, full=True).read == 0


@on_sqlite
def test_without_a_list_or_a_name_it_is_refused(outbox: str) -> None:
    del outbox
    with pytest.raises(Refused, match=r"^MAILER_PROVIDERS: names no provider with "):
        mirroring.sync([], actor="cron")
    with pytest.raises(Refused, match=r"^actor: "):
        mirroring.sync([], actor=" ")


class TestWiring:
    def test_builds_each_list_of_all_orders_once(self) -> None:
        settings = load(
            {
                "DATABASE_URL": "sqlite:///x",
                "MAILER_PROVIDERS": "ses://eu-west-1?configuration_set=a smtp://127.0.0.1",
                "MAILER_STREAM_BULK": "ses://eu-west-1?configuration_set=b ses://us-east-1",
                "MAILER_STREAM_TEST": "ses://eu-west-1?endpoint_url=http://127.0.0.1:9",
            }
        )
        with aws_environment():
            names = [each.name for each in account_lists(settings)]
        assert names == ["ses:eu-west-1", "ses:us-east-1", "ses:eu-west-1+127.0.0.1:9"]

    def test_refuses_what_cannot_work(self) -> None:
        settings = load({"DATABASE_URL": "sqlite:///x", "MAILER_PROVIDERS": "ses://nowhere"})
        with pytest.raises(SettingsError, match=r"^MAILER_PROVIDERS: region: "):
            account_lists(settings)
