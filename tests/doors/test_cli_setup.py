"""`migrate`, `check`, `settings`, and every way in which the surroundings are not ready."""

import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailer import database
from tests.doors.conftest import Console

NEEDING_TABLES = [
    ("status",),
    ("status", "--json"),
    ("list",),
    ("show", "1"),
    ("resolve", "1", "--as", "accepted", "--why", "x"),
    ("requeue", "1", "--why", "x"),
    ("cancel", "1", "--why", "x"),
    ("send", "--to", "a@example.com", "--subject", "Hi", "--text", "x"),
]


def closed_port() -> int:
    """A port on which nobody listens."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_migrate_says_what_it_did(unmigrated_console: Console) -> None:
    assert unmigrated_console.done("migrate").startswith("applied 0001_outbox\n")
    assert unmigrated_console.done("migrate") == "nothing to apply\n"
    assert "pending" in unmigrated_console.done("status")


@pytest.mark.parametrize("command", NEEDING_TABLES, ids=" ".join)
def test_a_database_without_tables_is_told_to_be_migrated(
    unmigrated_console: Console, command: tuple[str, ...]
) -> None:
    line = unmigrated_console.refused(*command)
    assert line.endswith("run `mailer migrate`\n")
    assert line.count("\n") == 1


@pytest.mark.parametrize("command", [("migrate",), ("settings",), *NEEDING_TABLES], ids=" ".join)
def test_a_missing_database_url_is_named(bare_console: Console, command: tuple[str, ...]) -> None:
    bare_console.environ["MAILER_SECRET"] = "a secret of the tests"
    bare_console.environ["MAILER_FROM"] = "shop@example.com"
    assert "DATABASE_URL: is not set" in bare_console.refused(*command)


def test_a_command_leaves_the_database_bound_that_was(console: Console) -> None:
    ours = database.bound()
    console.done("status")
    console.refused("show", "404")
    assert database.bound() is ours
    assert not ours.is_closed()


class TestUnreachable:
    def refusal(self, console: Console, url: str) -> str:
        console.environ["DATABASE_URL"] = url
        line = console.refused("status")
        assert line.startswith("DATABASE_URL: the database ")
        assert line.count("\n") == 1
        assert "Kanarie" not in line
        return line

    def test_nobody_listens(self, bare_console: Console) -> None:
        url = f"postgres://mailer:Kanarie@127.0.0.1:{closed_port()}/app"
        assert "does not answer; start the server" in self.refusal(bare_console, url)

    def test_a_host_of_no_name(self, bare_console: Console) -> None:
        url = "postgres://mailer:Kanarie@nowhere.invalid/app"
        assert "unknown host name" in self.refusal(bare_console, url)

    def test_a_database_that_is_not_there(self, bare_console: Console, postgres_url: str) -> None:
        server = urlsplit(postgres_url)
        url = server._replace(netloc=f"mailer:Kanarie@{server.netloc.split('@')[1]}", path="/nope")
        assert "knows no such database or user" in self.refusal(bare_console, url.geturl())

    def test_a_user_that_is_not_there(self, bare_console: Console, postgres_url: str) -> None:
        server = urlsplit(postgres_url)
        url = server._replace(netloc=f"nobody:Kanarie@{server.netloc.split('@')[1]}")
        assert "knows no such database or user" in self.refusal(bare_console, url.geturl())

    def test_a_folder_that_is_not_there(self, bare_console: Console, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/nowhere/mailer.db"
        assert "cannot be opened; make its folder" in self.refusal(bare_console, url)

    def test_a_file_of_another_kind(self, bare_console: Console, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("Kanarie " * 1000)
        url = f"sqlite:///{tmp_path}/notes.txt"
        assert "is a file of another kind" in self.refusal(bare_console, url)


class TestCheck:
    def findings(self, console: Console, *, status: int) -> dict[str, Any]:
        result = console.run("check", "--json")
        assert result.exit_code == status, result.output
        printed = json.loads(result.stdout)
        assert printed["ok"] == (status == 0)
        return {each["subject"]: each for each in printed["findings"]}

    def test_all_is_well(self, console: Console, tmp_path: Path) -> None:
        folder = tmp_path / "captured"
        folder.mkdir()
        console.environ["MAILER_PROVIDERS"] = f"file://{folder}"
        found = self.findings(console, status=0)
        assert list(found) == ["settings", "database", f"file:{folder} folder"]
        assert list(found["settings"]) == ["subject", "ok", "detail"]
        assert list(folder.iterdir()) == []
        assert console.done("check").startswith("ok     settings: ")

    def test_a_relay_that_does_not_answer_is_a_finding(self, console: Console) -> None:
        relay = f"127.0.0.1:{closed_port()}"
        console.environ["MAILER_PROVIDERS"] = f"smtp://u:Kanarie@{relay}?tls=starttls"
        found = self.findings(console, status=1)
        (failed,) = [name for name, each in found.items() if not each["ok"]]
        assert relay in failed
        result = console.run("check")
        assert result.exit_code == 1
        assert "FAILED" in result.stdout
        assert "Kanarie" not in result.output + repr(found)

    def test_a_missing_folder_is_a_finding(self, console: Console, tmp_path: Path) -> None:
        console.environ["MAILER_PROVIDERS"] = f"file://{tmp_path}/nowhere"
        found = self.findings(console, status=1)
        (failed,) = [name for name, each in found.items() if not each["ok"]]
        assert failed == f"file:{tmp_path}/nowhere folder"

    def test_mistakes_in_the_settings_are_findings(self, console: Console) -> None:
        console.environ |= {"MAILER_BATCH": "many", "MAILER_LEASE": "1m"}
        found = self.findings(console, status=1)
        assert set(found) == {"MAILER_BATCH", "MAILER_LEASE", "MAILER_PROVIDERS"}
        assert "whole number" in found["MAILER_BATCH"]["detail"]

    def test_a_database_that_is_not_migrated_is_a_finding(
        self, unmigrated_console: Console, tmp_path: Path
    ) -> None:
        unmigrated_console.environ["MAILER_PROVIDERS"] = f"file://{tmp_path}"
        found = self.findings(unmigrated_console, status=1)
        assert "mailer migrate" in found["database"]["detail"]
        assert found[f"file:{tmp_path} folder"]["ok"]


class TestSettings:
    def test_shows_values_and_no_secret(self, console: Console) -> None:
        console.environ |= {"MAILER_PROVIDERS": "smtp://u:p@relay.example", "MAILER_MAX_AGE": "40d"}
        (table,) = json.loads(console.done("settings", "--json")).values()
        assert {tuple(each) for each in table} == {("variable", "value", "default", "meaning")}
        values = {each["variable"]: each["value"] for each in table}
        assert values["MAILER_BATCH"] == "200"
        assert values["MAILER_MAX_AGE"] == "3456000"
        assert values["MAILER_FROM"] == "Shop <shop@example.com>"
        assert values["REDIS_URL"] == ""
        for secret in ("DATABASE_URL", "MAILER_PROVIDERS", "MAILER_SECRET"):
            assert values[secret] == "(set, not shown)"

    def test_is_a_table_for_people(self, console: Console) -> None:
        printed = console.done("settings")
        assert printed.startswith("variable ")
        (line,) = [each for each in printed.splitlines() if each.startswith("MAILER_BATCH ")]
        assert line.split()[1:3] == ["200", "200"]

    def test_mistakes_are_told_at_once(self, console: Console) -> None:
        console.environ |= {"MAILER_BATCH": "many", "MAILER_LEASE": "1m"}
        lines = console.refused("settings").splitlines()
        assert [line.split(":")[0].strip() for line in lines[1:]] == [
            "MAILER_BATCH",
            "MAILER_LEASE",
        ]
