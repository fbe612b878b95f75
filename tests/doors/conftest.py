"""A console: the commands as a person runs them, on a migrated database of each kind."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from mailer import face
from mailer.cli import app
from tests.builders import bound_to, prepare


@dataclass
class Console:
    """Runs commands in one environment; a traceback fails the test that caused it."""

    environ: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: object, stdin: str | bytes | None = None) -> Result:
        """Run one command to its end."""
        return CliRunner().invoke(
            app,
            [str(each) for each in arguments],
            input=stdin,
            env=self.environ,
            catch_exceptions=False,
        )

    def done(self, *arguments: object, stdin: str | bytes | None = None) -> str:
        """Run a command that succeeds and return what it prints."""
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def refused(self, *arguments: object, status: int = 1) -> str:
        """Run a command that is refused and return its one sentence."""
        result = self.run(*arguments)
        assert result.exit_code == status, result.output
        assert result.stdout == ""
        return result.stderr


@pytest.fixture
def bare_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Console:
    """A console without any setting, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(face, "_intake", None)
    return Console({"USER": "ann"})


@pytest.fixture
def unmigrated_console(bare_console: Console, database_url: str) -> Console:
    """A console with all that is needed, on an empty database."""
    bare_console.environ |= {
        "DATABASE_URL": database_url,
        "MAILER_FROM": "Shop <shop@example.com>",
        "MAILER_SECRET": "a secret of the tests",
    }
    return bare_console


@pytest.fixture
def console(unmigrated_console: Console) -> Iterator[Console]:
    """A console on a migrated database, to which the test itself is bound too."""
    url = unmigrated_console.environ["DATABASE_URL"]
    prepare(url)
    with bound_to(url):
        yield unmigrated_console


def rows_of(report: Any) -> list[int]:
    """The ids in a list that was printed as JSON."""
    return [each["id"] for each in report["rows"]]
