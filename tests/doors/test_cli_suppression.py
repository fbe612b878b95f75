"""`suppression list|add|release|import|sync` as a person runs them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailer import fake_ses, suppressions
from mailer.fake_ses import FakeSes
from mailer.tables import Audit, Suppression
from tests.builders import PAST
from tests.doors.conftest import Console, rows_of
from tests.doors.fake_ses.client import client_of
from tests.ses_endpoint import END, SesEndpoint, aws_environment

ANN, BEN = "ann@example.com", "ben@example.com"

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For what is about words and not about rows."""


def parsed(console: Console, *arguments: object) -> Any:
    return json.loads(console.done(*arguments, "--json"))


def listed(console: Console, *arguments: object) -> list[str]:
    return [
        each["address_key"] for each in parsed(console, "suppression", "list", *arguments)["rows"]
    ]


def words(printed: str) -> list[str]:
    return [" ".join(each.split()) for each in printed.splitlines()]


def add(console: Console, *arguments: object) -> str:
    return console.done("suppression", "add", *arguments, "--why", "asked by phone")


def test_from_the_first_to_the_last_verb(console: Console, tmp_path: Path) -> None:
    assert add(console, "Ann <ANN@Example.com>", BEN) == (
        f"{ANN}: not suppressed -> manual\n{BEN}: not suppressed -> manual\n"
    )
    assert add(console, ANN, "--reason", "complaint") == f"{ANN}: manual -> manual\n"
    file = tmp_path / "them.csv"
    file.write_text(f"address,reason\n{ANN},bounce\ncat@example.com,complaint\n")
    printed = console.done("suppression", "import", file, "--why", "the old system's")
    assert printed == "1 suppressed, 1 were already, 0 left as they were released since\n"
    assert listed(console) == [ANN, BEN, "cat@example.com"]
    released = console.done("suppression", "release", ANN, "--why", "wrote", "--actor", "bea")
    assert released == f"{ANN}: manual -> released\n"
    assert listed(console) == [BEN, "cat@example.com"]
    assert [each.verb.split()[1] for each in Audit.select().order_by(Audit.id)] == [
        "add", "add", "add", "import", "release",
    ]  # fmt: skip
    assert {each.actor for each in Audit.select()} == {"ann", "bea"}


@on_sqlite
class TestList:
    def test_for_programs(self, console: Console) -> None:
        add(console, ANN, "--for", "2d")
        report = parsed(console, "suppression", "list")
        assert list(report) == ["rows", "next_after"]
        (row,) = report["rows"]
        assert list(row) == [
            "id",
            "address_key",
            "in_force",
            "reason",
            "source",
            "event_id",
            "occurred_at",
            "created_at",
            "expires_at",
            "released_at",
            "released_by",
            "release_reason",
        ]
        assert (row["address_key"], row["in_force"], row["reason"]) == (ANN, True, "manual")
        assert row["expires_at"].endswith("+00:00")

    def test_for_people(self, console: Console) -> None:
        add(console, ANN)
        add(console, BEN, "--reason", "bounce", "--for", "2d")
        Suppression.update(occurred_at=PAST).execute()
        lines = words(console.done("suppression", "list"))
        assert lines[0] == "id recipient reason source since until"
        assert lines[1] == f"1 {ANN} manual operator ann 2020-01-01 00:00:00Z"
        assert lines[2].startswith(f"2 {BEN} bounce operator ann 2020-01-01 00:00:00Z 20")
        assert lines[2].endswith("Z")

    def test_tells_an_addresss_whole_history(self, console: Console) -> None:
        add(console, ANN)
        console.done("suppression", "release", ANN, "--why", "wrote to us")
        add(console, ANN, "--reason", "bounce")
        spelled = "Ann <ANN@example.com>"
        lines = words(console.done("suppression", "list", spelled))
        assert lines[0].endswith("since until released who why")
        assert lines[1].endswith("Z ann wrote to us")
        assert len(lines) == 3
        first, second = parsed(console, "suppression", "list", spelled)["rows"]
        assert (first["in_force"], first["released_by"]) == (False, "ann")
        assert first["release_reason"] == "wrote to us"
        assert (second["in_force"], second["released_at"]) == (True, None)

    def test_is_narrowed_and_goes_on_where_it_ended(self, console: Console) -> None:
        add(console, "a@example.com", "b@example.com", "c@example.com")
        add(console, "d@example.com", "--reason", "bounce")
        console.done("suppression", "release", "a@example.com", "--why", "x")
        Suppression.update(expires_at=PAST).where(Suppression.id == 2).execute()
        assert listed(console) == ["c@example.com", "d@example.com"]
        assert listed(console, "--reason", "bounce") == ["d@example.com"]
        everything = parsed(console, "suppression", "list", "--all", "--limit", 3)
        assert [each["in_force"] for each in everything["rows"]] == [False, False, True]
        assert everything["next_after"] == 3
        assert rows_of(parsed(console, "suppression", "list", "--all", "--after", 3)) == [4]
        assert console.done("suppression", "list", "--limit", 1).endswith(
            "there may be more: --after 3\n"
        )

    def test_says_that_there_is_none(self, console: Console) -> None:
        assert console.done("suppression", "list") == "nobody is suppressed\n"
        assert console.done("suppression", "list", ANN) == "nothing was ever held against it\n"
        assert parsed(console, "suppression", "list", ANN) == {"rows": [], "next_after": None}

    def test_stored_text_cannot_steer_the_terminal(self, console: Console) -> None:
        Suppression.create(
            address_key="x\x1b[2J[red]@y", reason="bounce", source="e", occurred_at=PAST,
            created_at=PAST,
        )  # fmt: skip
        printed = console.done("suppression", "list")
        assert "\x1b" not in printed
        assert "[red]" in printed

    def test_fits_a_terminal_of_eighty_columns(
        self, console: Console, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add(console, "somebody.with.a.long.name@department.example.com")
        monkeypatch.setenv("COLUMNS", "80")
        assert max(map(len, console.done("suppression", "list").splitlines())) <= 80


@on_sqlite
class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "mend"),
        [
            (("add", "secret", "--why", "x"), "address: "),
            (("add", ANN, "secret", "--why", "x"), "address 2: "),
            (("add", "secret@example.com", "--why", " "), "why: is empty"),
            (("release", "secret@example.com", "--why", "x"), "address: is not suppressed"),
            (("release", "secret", "--why", "x"), "address: "),
            (("list", "secret"), "address: "),
            (("sync",), "MAILER_PROVIDERS: names no provider"),
        ],
    )
    def test_are_one_line_without_the_address(
        self, console: Console, arguments: tuple[str, ...], mend: str
    ) -> None:
        line = console.refused("suppression", *arguments)
        assert line.startswith(mend)
        assert "secret" not in line
        assert line.count("\n") == 1
        assert (Suppression.select().count(), Audit.select().count()) == (0, 0)

    def test_a_file_is_refused_with_all_its_bad_lines(self, console: Console) -> None:
        text = f"{ANN}\nsecret\n{BEN},secret\n"
        result = console.run("suppression", "import", "-", "--why", "x", stdin=text)
        assert (result.exit_code, result.stdout) == (1, "")
        first, second, third = result.stderr.splitlines()
        assert first == "file: 2 lines cannot be read, and nothing was imported:"
        assert second.startswith("  line 2: address: ")
        assert third.startswith("  line 3: reason: is unknown; write one of bounce, complaint, ")
        assert "secret" not in result.stderr
        assert Suppression.select().count() == 0

    @pytest.mark.parametrize(
        "arguments",
        [
            ("add", ANN),
            ("add", "--why", "x"),
            ("add", ANN, "--why", "x", "--reason", "hate"),
            ("add", ANN, "--why", "x", "--for", "an hour"),
            ("release", "--why", "x"),
            ("import", "nowhere.csv", "--why", "x"),
            ("list", "--reason", "hate"),
            ("list", "--limit", "0"),
            ("list", ANN, "--all"),
            ("mend",),
        ],
    )
    def test_wrong_usage(self, console: Console, arguments: tuple[str, ...]) -> None:
        assert console.run("suppression", *arguments).exit_code == 2
        assert Suppression.select().count() == 0


@pytest.fixture(scope="module")
def servers() -> Iterator[list[FakeSes]]:
    with aws_environment(), fake_ses.running() as one, fake_ses.running() as other:
        yield [one, other]


@pytest.fixture
def regions(servers: list[FakeSes], console: Console) -> list[FakeSes]:
    """Two regions in the settings, each a fake without a past."""
    for each in servers:
        each.reset()
    ireland, virginia = servers
    console.environ["MAILER_PROVIDERS"] = (
        f"ses://eu-west-1?endpoint_url={ireland.url} ses://us-east-1?endpoint_url={virginia.url}"
    )
    return servers


def name_of(fake: FakeSes, region: str) -> str:
    return f"ses:{region}+{fake.url.removeprefix('http://')}"


def put(fake: FakeSes, *addresses: str) -> None:
    with client_of(fake.url) as client:
        for each in addresses:
            client.put_suppressed_destination(EmailAddress=each, Reason="BOUNCE")


@on_sqlite
class TestLists:
    def test_sync_mirrors_and_reports_where_the_two_sides_disagree(
        self, console: Console, regions: list[FakeSes]
    ) -> None:
        ireland, virginia = (name_of(*each) for each in zip(regions, REGIONS, strict=True))
        put(regions[0], ANN, BEN)
        assert console.done("suppression", "sync") == (
            f"{ireland}: 2 read, 2 new\n{virginia}: 0 read, 0 new\n"
        )
        assert listed(console) == [ANN, BEN]
        assert regions[0].calls("PutSuppressedDestination") == 2  # the test's own
        suppressions.release(ANN, by="bea", why="wrote")
        with client_of(regions[0].url) as client:
            client.delete_suppressed_destination(EmailAddress=BEN)
        lines = words(console.done("suppression", "sync", "--full"))
        assert lines == [
            f"{ireland}: 1 read, 0 new",
            f"{BEN}: suppressed because of this list, and no longer on it",
            f"{ANN}: released here, and still on this list: what it is sent is not delivered",
            f"{virginia}: 0 read, 0 new",
        ]
        assert listed(console) == [BEN]
        first = parsed(console, "suppression", "sync")["lists"][0]
        assert (first["name"], first["unlisted"], first["released"]) == (ireland, [], [ANN])
        assert first["since"].startswith("20")

    def test_sync_pushes_when_asked(self, console: Console, regions: list[FakeSes]) -> None:
        add(console, ANN)
        printed = console.done("suppression", "sync", "--push")
        assert printed.count(", 1 put on it") == 2
        assert [each.calls("PutSuppressedDestination") for each in regions] == [1, 1]

    def test_release_takes_the_address_off_every_list(
        self, console: Console, regions: list[FakeSes]
    ) -> None:
        ireland, virginia = (name_of(*each) for each in zip(regions, REGIONS, strict=True))
        put(regions[0], ANN)
        add(console, ANN, "--reason", "bounce")
        assert console.done("suppression", "release", ANN, "--why", "wrote") == (
            f"{ANN}: bounce -> released\n{ireland}: removed\n{virginia}: was not on it\n"
        )
        assert regions[0].calls("DeleteSuppressedDestination") == 1
        assert Audit.select().where(Audit.verb == "suppression delist").count() == 2

    def test_a_list_that_fails_undoes_no_release_and_can_be_asked_again(
        self, console: Console, regions: list[FakeSes]
    ) -> None:
        add(console, ANN, "--reason", "bounce")
        working = console.environ["MAILER_PROVIDERS"]
        with SesEndpoint.scripted(unknown=END) as broken:
            console.environ["MAILER_PROVIDERS"] = (
                f"ses://eu-central-1?endpoint_url={broken.url} {working}"
            )
            result = console.run("suppression", "release", ANN, "--why", "wrote")
            assert result.exit_code == 1
            assert result.stdout.count("\n") == 3
            assert result.stdout.startswith(f"{ANN}: bounce -> released\n")
            first, second = result.stderr.splitlines()
            assert first.endswith("mend this, then repeat with --lists-only:")
            assert second.startswith("suppression list ses:eu-central-1+127.0.0.1:")
            assert ANN not in result.stderr
        assert listed(console) == []
        console.environ["MAILER_PROVIDERS"] = working
        again = console.done("suppression", "release", ANN, "--why", "wrote", "--lists-only")
        assert again.count("was not on it") == 2

    def test_a_list_that_fails_keeps_no_other_from_being_read(
        self, console: Console, regions: list[FakeSes]
    ) -> None:
        put(regions[0], ANN)
        with SesEndpoint.scripted(unknown=END) as broken:
            console.environ["MAILER_PROVIDERS"] = (
                f"ses://eu-central-1?endpoint_url={broken.url} ses://eu-west-1?endpoint_url="
                f"{regions[0].url}"
            )
            result = console.run("suppression", "sync")
        assert result.exit_code == 1
        assert result.stderr.startswith("suppression list ses:eu-central-1+127.0.0.1:")
        assert listed(console) == [ANN]


REGIONS = ("eu-west-1", "us-east-1")
