"""Suppressing, releasing and importing by hand: each with its audit line, or not at all."""

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mailer import database, lookups, suppressing, suppressions
from mailer.account_list import AccountListError, ListedAddress
from mailer.errors import InvalidEmail, Refused
from mailer.facts import SuppressionReason
from mailer.suppressing import Change, Delisted, Imported
from mailer.suppressions import Barred
from mailer.tables import Audit, Suppression
from tests.builders import claim_one, enqueue

pytestmark = pytest.mark.usefixtures("outbox")

ANN, BEN, CAT = "ann@example.com", "ben@example.com", "cat@example.com"
MARCH = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
WHY = "asked by phone"
R = SuppressionReason


def audit_lines() -> list[tuple[Any, ...]]:
    columns = (Audit.actor, Audit.verb, Audit.outbox_id, Audit.before, Audit.after, Audit.why)
    lines: Any = Audit.select(*columns).order_by(Audit.id).tuples()
    return list(lines)


def in_force() -> dict[str, str]:
    return {each.address_key: each.reason for each in suppressions.page(limit=10_000)}


def add(*addresses: str, **changes: Any) -> list[Change]:
    return suppressing.add(addresses, **{"actor": "ann", "why": WHY, **changes})


def release(address: str = ANN) -> Change:
    return suppressing.release(address, actor="bea", why=WHY)


def import_text(text: str | bytes, **changes: Any) -> Imported:
    octets = text.encode() if isinstance(text, str) else text
    options = {"actor": "ann", "why": WHY, **changes}
    return suppressing.import_lines(octets.splitlines(keepends=True), **options)


def event(address: str = ANN, at: dt.datetime = MARCH) -> int:
    return suppressions.bar([Barred(address, R.BOUNCE, "event Bounce", at)])


class TestAdd:
    def test_suppresses_for_good_and_says_who_did_it(self) -> None:
        done = add("Ann <ANN@Example.com>", BEN, ANN)
        assert done == [Change(ANN, None, R.MANUAL), Change(BEN, None, R.MANUAL)]
        assert in_force() == {ANN: "manual", BEN: "manual"}
        row = suppressions.in_force([ANN])[ANN]
        assert (row.source, row.expires_at, row.event) == ("operator ann", None, None)
        assert audit_lines() == [
            ("ann", "suppression add", None, None, "manual", f"{ANN}: {WHY}"),
            ("ann", "suppression add", None, None, "manual", f"{BEN}: {WHY}"),
        ]

    def test_lasts_as_long_as_is_said(self) -> None:
        (done,) = add(ANN, seconds=3_600)
        assert done.expires_at is not None
        left = (done.expires_at - lookups.clock()).total_seconds()
        assert 3_500 < left <= 3_601

    def test_keeps_the_graver_reason_and_the_later_end(self) -> None:
        event()
        assert add(ANN, reason=R.PROVIDER, seconds=60) == [Change(ANN, R.BOUNCE, R.BOUNCE)]
        assert add(ANN, reason=R.COMPLAINT) == [Change(ANN, R.BOUNCE, R.COMPLAINT)]

    def test_holds_right_after_a_release(self) -> None:
        add(ANN)
        release()
        assert add(ANN) == [Change(ANN, None, R.MANUAL)]

    def test_what_is_no_address_is_named_by_its_place_and_changes_nothing(self) -> None:
        for addresses, field in (
            (["nobody"], "address"),
            ([ANN, "bob@x, eve@y"], "address 2"),
            ([ANN, BEN, "a b@example.com"], "address 3"),
            (["x@\x00y"], "address"),
        ):
            with pytest.raises(InvalidEmail, match=rf"^{field}: ") as refusal:
                add(*addresses)
            assert addresses[-1] not in str(refusal.value)
        assert (in_force(), audit_lines()) == ({}, [])

    def test_a_time_that_cannot_be_is_refused(self) -> None:
        for seconds in (0, -1, 366 * 86_400 + 1, float("nan"), float("inf")):
            with pytest.raises(Refused, match=r"^for: "):
                add(ANN, seconds=seconds)
        assert in_force() == {}


class TestRelease:
    def test_lets_mail_go_again_and_older_events_do_not_stop_it(self) -> None:
        event()
        assert release("Ann <ANN@example.com>") == Change(ANN, R.BOUNCE, None)
        event(at=MARCH + DAY)
        assert in_force() == {}
        enqueue()
        assert not claim_one().is_barred
        assert audit_lines() == [
            ("bea", "suppression release", None, "bounce", "released", f"{ANN}: {WHY}")
        ]

    def test_of_what_is_not_suppressed_is_refused_without_the_address(self) -> None:
        add(ANN)
        release()
        for each in (ANN, BEN):
            with pytest.raises(Refused, match=r"^address: is not suppressed; ") as refusal:
                release(each)
            assert each not in str(refusal.value)
        assert len(audit_lines()) == 2

    def test_of_what_is_no_address_is_refused(self) -> None:
        with pytest.raises(InvalidEmail, match=r"^address: "):
            release("ann")


class Listing:
    """An account list that removes, has nothing to remove, or fails."""

    def __init__(self, name: str, answer: bool | None) -> None:
        self.name = name
        self.asked: list[str] = []
        self._answer = answer

    def remove(self, address: str) -> bool:
        self.asked.append(address)
        if self._answer is None:
            raise AccountListError(f"suppression list {self.name}: AccessDenied: allow it")
        return self._answer

    def entries(self, since: dt.datetime | None = None) -> Iterator[ListedAddress]:
        del since
        return iter(())

    def add(self, address: str, reason: SuppressionReason) -> None:
        raise AssertionError

    def close(self) -> None:
        """Nothing is open."""


class TestDelist:
    def test_tells_of_each_list_and_a_failure_stops_no_other(self) -> None:
        lists = [Listing("ses:a", None), Listing("ses:b", True), Listing("ses:c", False)]
        done = suppressing.delist("Ann@example.com", lists, actor="bea", why=WHY)
        problem = "suppression list ses:a: AccessDenied: allow it"
        assert done == [
            Delisted("ses:a", problem=problem),
            Delisted("ses:b", removed=True),
            Delisted("ses:c"),
        ]
        assert [each.asked for each in lists] == [["Ann@example.com"]] * 3
        assert [(line[1], line[4], line[5]) for line in audit_lines()] == [
            ("suppression delist", "failed", f"ses:a: {ANN}: {WHY}"),
            ("suppression delist", "removed", f"ses:b: {ANN}: {WHY}"),
            ("suppression delist", "not listed", f"ses:c: {ANN}: {WHY}"),
        ]

    def test_of_what_is_suppressed_here_is_refused(self) -> None:
        add(ANN)
        listing = Listing("ses:a", answer=True)
        with pytest.raises(Refused, match=r"^address: is suppressed; release it first"):
            suppressing.delist(ANN, [listing], actor="bea", why=WHY)
        assert listing.asked == []


class TestImport:
    def test_one_address_a_line(self) -> None:
        assert import_text("ann@example.com\nBen <BEN@example.com>\r\n\n  cat@example.com  ") == (
            Imported(new=3)
        )
        assert in_force() == {ANN: "manual", BEN: "manual", CAT: "manual"}
        assert {each.source for each in Suppression.select()} == {"operator ann"}
        assert audit_lines() == [("ann", "suppression import", None, None, "3 addresses", WHY)]

    def test_columns_with_and_without_their_names(self) -> None:
        lines = f"{ANN},BOUNCE,2026-03-01T01:00:00+01:00\n{BEN},complaint,\n{CAT}\n"
        for start in ("", "address,reason,occurred_at\n", "\ufeffAddress, Reason, Occurred_At\n"):
            Suppression.delete().execute()
            assert import_text(start + lines, reason=R.UNSUBSCRIBE) == Imported(new=3)
            assert in_force() == {ANN: "bounce", BEN: "complaint", CAT: "unsubscribe"}
            assert suppressions.in_force([ANN])[ANN].occurred_at == MARCH

    def test_a_mark_at_the_beginning_is_no_part_of_the_address(self) -> None:
        import_text(b"\xef\xbb\xbf" + ANN.encode())
        assert list(in_force()) == [ANN]

    def test_again_changes_nothing(self) -> None:
        text = f"{ANN},bounce,2026-03-01T00:00:00Z\n{BEN}\n{ANN},complaint\n"
        assert import_text(text) == Imported(new=2)
        before = list(Suppression.select().order_by(Suppression.id).dicts())
        assert import_text(text) == Imported(known=2)
        assert list(Suppression.select().order_by(Suppression.id).dicts()) == before

    def test_what_happened_before_a_release_leaves_it_released(self) -> None:
        event()
        release()
        assert import_text(f"{ANN},bounce,2026-03-02T00:00:00Z\n{BEN}") == (
            Imported(new=1, left_released=1)
        )
        assert list(in_force()) == [BEN]

    def test_every_bad_line_is_named_by_its_number_before_anything_is_written(self) -> None:
        bad = {
            2: b"secret-nobody",
            3: b"secret@example.com,hate",
            4: b"secret@example.com,bounce,yesterday-secret",
            5: b"secret@example.com,bounce,2026-03-01T00:00:00",
            6: b"secret@example.com,bounce,2999-03-01T00:00:00Z",
            7: b"secret@example.com,bounce,0001-01-01T00:00:00+14:00",
            8: b"secret@example.com,bounce,,secret",
            9: b"\xff\xfesecret@example.com",
            10: b'"secret@example.com',
            11: b"secret@" + b"x" * 3_000,
            12: b",bounce",
            13: b"secret@example.com;bounce",
            14: b"address",
            15: b"secret\x00@example.com",
            16: b"secret@example.com\rsecret2@example.com",
            17: b"secret@example.com,bounce,1969-12-31T23:59:59Z",
        }
        lines = [ANN.encode() + b"\n", *(each + b"\n" for each in bad.values())]
        with pytest.raises(Refused) as refusal:
            suppressing.import_lines(lines, actor="ann", why=WHY)
        first, *told = str(refusal.value).splitlines()
        assert first == f"file: {len(bad)} lines cannot be read, and nothing was imported:"
        assert [int(line.split()[1].rstrip(":")) for line in told] == list(bad)
        assert "secret" not in str(refusal.value)
        assert (in_force(), audit_lines()) == ({}, [])

    def test_only_the_first_line_may_name_the_columns(self) -> None:
        with pytest.raises(Refused, match=r"  line 3: address: "):
            import_text(f"\n{ANN}\naddress\n")

    def test_an_empty_file_imports_nobody(self) -> None:
        assert import_text("\n\n") == Imported()
        assert import_text("address,reason\n") == Imported()

    def test_long_files_are_written_in_batches_and_told_of(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(suppressing, "BATCH", 2)
        told: list[int] = []
        names = ["c", "a", "b", "a", "a", "d"]
        text = "\n".join(f"{each}@example.com" for each in names)
        assert import_text(text, told=told.append) == Imported(new=4)
        assert told == [3, 5, 6]
        assert len(audit_lines()) == 1


VERBS: dict[str, Callable[[str, str], object]] = {
    "add": lambda actor, why: add(BEN, actor=actor, why=why),
    "release": lambda actor, why: suppressing.release(ANN, actor=actor, why=why),
    "delist": lambda actor, why: suppressing.delist(BEN, [], actor=actor, why=why),
    "import": lambda actor, why: import_text(BEN, actor=actor, why=why),
}


def test_without_a_usable_name_and_reason_nothing_is_done() -> None:
    event()
    for verb in VERBS.values():
        for field, actor, why in (("why", "ann", " "), ("why", "ann", "a\nb"), ("actor", "", WHY)):
            with pytest.raises(Refused, match=rf"^{field}: "):
                verb(actor, why)
    assert in_force() == {ANN: "bounce"}
    assert audit_lines() == []


def test_what_cannot_be_audited_is_not_done() -> None:
    event()
    execute: Any = database.bound().execute_sql
    execute("DROP TABLE email_audit")
    for verb in ("add", "release", "import"):
        with pytest.raises(database.DatabaseError, match="email_audit"):
            VERBS[verb]("ann", WHY)
    assert in_force() == {ANN: "bounce"}
