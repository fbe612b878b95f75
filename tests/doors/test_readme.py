"""What the README says is what the code does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mailer.cli import app
from mailer.settings import table
from mailer.states import RowState
from mailer.wiring import WORKER_CONNECTIONS
from tests.builders import SECRET, bound_to, prepare, row_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_settings_table_is_generated_from_the_settings() -> None:
    (written,) = re.findall(r"<!-- settings -->\n(.*?)\n<!-- /settings -->", README, re.DOTALL)
    rows = [f"| `{name}` | {f'`{default}`' if default else ''} | {meaning} |"
            for name, default, meaning in table()]  # fmt: skip
    assert written.splitlines() == ["| variable | default | meaning |", "|---|---|---|", *rows]


def test_the_table_of_states_is_the_state_machines() -> None:
    section = README.partition("## The life of a message")[2].partition("\n## ")[0]
    written = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))
    source = (ROOT / "mailer" / "states.py").read_text(encoding="utf-8")
    documented = {
        state: re.sub(r"\s+", " ", text)
        for state, text in re.findall(r'= "(\w+)"\n    """(.+?)"""', source, re.DOTALL)
    }
    assert list(written) == list(RowState)
    for state, meaning in written.items():
        assert documented[state].startswith(meaning.rstrip(".")), state


def test_the_example_commits_a_mail(database_url: str, tmp_path: Path) -> None:
    prepare(database_url)
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    environ = {
        "DATABASE_URL": database_url,
        "MAILER_FROM": "Shop <shop@example.com>",
        "MAILER_SECRET": SECRET,
        "PYTHONPATH": str(ROOT),
    }
    subprocess.run(
        [sys.executable, "-W", "error", "-c", example], env=environ, cwd=tmp_path, check=True
    )
    with bound_to(database_url):
        row = row_of(1)
        assert (row.state, row.dedup_key, row.to) == (
            "pending",
            "welcome:1:v1",
            ["ann@example.com"],
        )


def test_every_command_that_is_named_exists() -> None:
    named = set(re.findall(r"\bmailer ([a-z-]+) (?:17|--|`)", README)) | set(
        re.findall(r"`mailer ([a-z-]+)", README)
    )
    known = {each.name for each in app.registered_commands}
    known |= {each.name for each in app.registered_groups}
    assert named <= known, named - known
    assert len(named) >= 8


def test_the_number_of_database_connections_is_told() -> None:
    assert f"at most **{WORKER_CONNECTIONS} database connections**" in README


@pytest.mark.parametrize("target", ["demo", "setup", "test", "check", "bench"])
def test_every_make_target_that_is_named_exists(target: str) -> None:
    assert f"make {target}" in README
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
