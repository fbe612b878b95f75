"""The console script as a process: what it loads, how it ends, and the workers that it starts."""

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mailer.cli.run import dramatiq_options
from tests.builders import prepare

ROOT = Path(__file__).parents[2]
SCRIPT = (sys.executable, "-W", "error", "-c", "from mailer.cli import main; main()")
CANARY = "canary-Pq35"

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a migrated outbox in one file, whose provider writes files."""
    (tmp_path / "sent").mkdir()
    url = f"sqlite:///{tmp_path / 'mailer.db'}"
    prepare(url)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "USER": "ann",
        "PYTHONPATH": str(ROOT),
        "DATABASE_URL": url,
        "MAILER_PROVIDERS": f"file://{tmp_path / 'sent'}",
        "MAILER_FROM": "Shop <shop@example.com>",
        "MAILER_SECRET": CANARY * 2,
    }


def run(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SCRIPT, *arguments],
        env=environ,
        cwd=environ["HOME"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def send(environ: dict[str, str], *more: str) -> subprocess.CompletedProcess[str]:
    start = ("send", "--to", "bob@example.com", "--subject", "Hi", "--text", f"Hello {CANARY}")
    return run(environ, *start, *more)


def test_help_and_version_need_nothing(tmp_path: Path) -> None:
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    for option in ("--help", "--version"):
        found = run(bare, option)
        assert (found.returncode, found.stderr) == (0, "")
        assert found.stdout
    assert list(tmp_path.iterdir()) == []


def test_help_loads_nothing_that_is_slow_to_load(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom typer.main import get_command\nfrom mailer.cli import app\n"
        "get_command(app)(['--help'], standalone_mode=False)\n"
        "print(*sorted(each for each in sys.modules if '.' not in each), file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    slow = {"actors", "aiosmtplib", "dramatiq", "jinja2", "providers", "pydantic", "redis"}
    assert not slow & set(found.stderr.split())


@pytest.mark.parametrize("arguments", [(), ("deliver",), ("status", "--jsno"), ("show",)])
def test_wrong_usage_ends_with_2(environ: dict[str, str], arguments: tuple[str, ...]) -> None:
    assert run(environ, *arguments).returncode == 2


def test_a_refusal_ends_with_1_and_one_line_on_stderr(environ: dict[str, str]) -> None:
    found = run(environ, "cancel", "404", "--why", "x")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == "id: there is no outbox row 404; see `mailer list`\n"


def test_a_mistake_of_the_program_is_told_without_what_it_was_about(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """A table that misses a column is no case of ours: nobody wrote a sentence for it."""
    with closing(sqlite3.connect(tmp_path / "mailer.db")) as database:
        database.execute("ALTER TABLE email_audit DROP COLUMN why")
    found = send(environ)
    assert (found.returncode, found.stdout) == (1, "")
    line = json.loads(found.stderr)
    assert (line["level"], line["event"]) == ("critical", "uncaught exception")
    assert "Traceback" not in found.stderr
    assert CANARY not in found.stderr
    assert json.loads(run(environ, "status", "--json").stdout)["states"]["pending"] == 0


@pytest.mark.parametrize(
    ("more", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({}, False)],
)
def test_colours_are_for_terminals_that_want_them(
    environ: dict[str, str], more: dict[str, str], coloured: bool
) -> None:
    send(environ)
    if not more:
        assert not COLOUR.search(run(environ, "show", "1").stdout)
        return
    assert bool(COLOUR.search(on_terminal(environ | more, "show", "1"))) == coloured


def on_terminal(environ: dict[str, str], *arguments: str) -> str:
    """Run a command on a terminal of its own and return all that appears there."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        with os.fdopen(theirs, "wb") as terminal:
            process = subprocess.Popen(
                [*SCRIPT, *arguments],
                env=environ,
                cwd=environ["HOME"],
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=terminal,
            )
        seen = b"".join(_chunks(screen.fileno()))
        assert process.wait(30) == 0
    return seen.decode()


def _chunks(screen: int) -> Iterator[bytes]:
    # Linux tells the end of a terminal by EIO.
    while True:
        try:
            chunk = os.read(screen, 65_536)
        except OSError:
            return
        if not chunk:
            return
        yield chunk


def test_many_decisions_on_a_terminal_are_all_told(environ: dict[str, str]) -> None:
    ids = [send(environ).stdout.strip() for _ in range(3)]
    seen = on_terminal(environ | {"TERM": "xterm"}, "cancel", *ids, "--why", "x")
    for each in ids:
        assert f"{each}: pending -> cancelled" in seen


@contextmanager
def running_worker(environ: dict[str, str], *options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*SCRIPT, "worker", *options],
        env=environ,
        cwd=environ["HOME"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("options", [("--embedded",), ("--processes", "1", "--threads", "2")])
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_delivers_what_is_sent_and_stops_cleanly(
    environ: dict[str, str], tmp_path: Path, options: tuple[str, ...], stop: signal.Signals
) -> None:
    with running_worker(environ, *options) as worker:
        sent = send(environ, "--wait")
        assert sent.returncode == 0, sent.stderr
        assert "next: nothing: the provider took it" in sent.stdout
        worker.send_signal(stop)
        _, told = worker.communicate(timeout=30)
    assert worker.returncode == 0, told
    (message,) = (tmp_path / "sent").glob("*.eml")
    assert CANARY in message.read_text()
    assert CANARY not in told + sent.stdout


def test_a_worker_is_started_as_the_procfile_starts_it() -> None:
    (line,) = re.findall("^worker: (.*)$", (ROOT / "Procfile").read_text(), re.MULTILINE)
    before, _, options = line.partition(" dramatiq ")
    assert options.replace("${MAILER_PROCESSES:-1}", "1").split() == dramatiq_options(1, 4)
    assert "dramatiq_worker_timeout=50" in before


def test_a_worker_does_not_start_where_it_could_not_work(environ: dict[str, str]) -> None:
    unset = environ | {"MAILER_PROVIDERS": ""}
    lost = environ | {"DATABASE_URL": f"sqlite:///{environ['HOME']}/empty.db"}
    for options in ((), ("--embedded",)):
        assert "MAILER_PROVIDERS: is not set" in run(unset, "worker", *options).stderr
        refused = run(lost, "worker", *options)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "run `mailer migrate`" in refused.stderr
