"""The demo: what it shows, what it leaves behind, and what it never touches."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.doors.demo_run import STRICT, Shown, environment, show


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Run the demo once where the user's own settings point at servers that listen."""
    return show(
        "smtp",
        tmp_path_factory.mktemp("demo"),
        lambda ports: {
            "DATABASE_URL": f"postgres://user:secret@127.0.0.1:{ports[0]}/theirs",
            "REDIS_URL": f"redis://127.0.0.1:{ports[1]}",
            "MAILER_PROVIDERS": f"smtp://127.0.0.1:{ports[2]}",
            "MAILER_LEASE_SECONDS": "nonsense",
        },
    )


def test_it_ends_well_and_silently(shown: Shown) -> None:
    assert (shown.status, shown.err) == (0, "")
    assert "As promised" in shown.out
    assert "\x1b" not in shown.out


def test_the_table_has_the_four_stories(shown: Shown) -> None:
    assert shown.rows(
        "SELECT r.address, o.state, o.attempts FROM email_outbox o"
        " JOIN email_recipient r ON r.outbox_id = o.id ORDER BY o.id"
    ) == [
        ("ana@example.com", "submitted", 0),
        ("ben@example.com", "submitted", 1),
        ("cleo@example.com", "failed", 0),
        ("dan@example.com", "submitted", 0),
    ]
    assert shown.rows(
        "SELECT outbox_id, number, outcome, code, resolution FROM email_attempt"
        " WHERE state = 'finished' ORDER BY outbox_id, number"
    ) == [
        (1, 1, "accepted", "250 2.0.0", None),
        (2, 1, "retryable", "451 4.7.1", None),
        (2, 2, "accepted", "250 2.0.0", None),
        (3, 1, "permanent", "550 5.1.1", None),
        (4, 1, "ambiguous", None, "accepted"),
    ]


def test_the_sign_up_that_was_rolled_back_left_nothing(shown: Shown) -> None:
    assert shown.rows("SELECT name FROM account ORDER BY id") == [
        ("Ana",),
        ("Ben",),
        ("Cleo",),
        ("Dan",),
    ]
    assert "Eve's payment is declined" in shown.out
    assert "eve@example.com" not in shown.out


def test_the_operators_decision_is_on_record_with_the_relays_log_as_evidence(shown: Shown) -> None:
    ((outbox_id, verb, before, after, why),) = shown.rows(
        'SELECT outbox_id, verb, "before", "after", why FROM email_audit'
    )
    assert (outbox_id, verb, before, after) == (4, "resolve accepted", "ambiguous", "submitted")
    assert "X-Outbox-Id 4" in why
    assert "connection lost before the reply" in why
    assert f"mailer resolve 4 --as accepted --why '{why}'" in shown.out


def test_it_tells_each_attempt_and_each_timeline(shown: Shown) -> None:
    news = [line for line in shown.out.splitlines() if ", attempt " in line]
    assert [line for line in news if "message 1" in line] == [
        "  message 1, attempt 1: accepted, the relay took responsibility (250 2.0.0)"
    ]
    assert [line for line in news if "message 2" in line] == [
        "  message 2, attempt 1: retryable, refused for now (451 4.7.1): retry in 2 s",
        "  message 2, attempt 2: accepted, the relay took responsibility (250 2.0.0)",
    ]
    assert any("message 3, attempt 1: permanent" in line for line in news)
    assert any("message 4, attempt 1: ambiguous" in line for line in news)
    _, _, timelines = shown.out.partition("4. What `mailer show` has")
    stories = timelines.split("dedup key")[1:]
    assert [f"welcome:{number}:v1" in story for number, story in enumerate(stories, 1)] == [
        True
    ] * 4
    assert "smtp-rcpt-deferred" in stories[1]
    assert "5.1.1 no such user here" in stories[2]
    assert "settled as accepted by operator demo" in stories[3]
    assert "ambiguous -> submitted" in stories[3]


def test_it_names_the_database_that_it_kept(shown: Shown) -> None:
    (folder,) = shown.temp.glob("mailer-demo-*")
    assert f"export DATABASE_URL=sqlite:///{folder}/mailer.db" in shown.out
    assert f"rm -r {folder}" in shown.out
    assert folder.stat().st_mode & 0o077 == 0


def test_the_workers_log_is_beside_the_database_and_holds_no_address(shown: Shown) -> None:
    lines = [json.loads(line) for line in shown.log().splitlines()]
    assert sum(line["event"] == "attempt finished" for line in lines) == 5
    assert "@" not in shown.log()
    assert "attempt finished" not in shown.out


def test_it_writes_nothing_where_the_user_is(shown: Shown) -> None:
    assert [each.name for each in shown.cwd.iterdir()] == [".env"]
    assert (shown.cwd / ".env").read_text() == "MAILER_BATCH=nonsense\n"


def test_it_reaches_nothing_but_its_own_relay(shown: Shown) -> None:
    assert shown.knocks == 0
    assert set(shown.hosts) == {"127.0.0.1"}


def test_what_does_not_come_out_is_a_sentence_and_exit_1(tmp_path: Path) -> None:
    run = subprocess.run(
        [*STRICT, "-c", "import sys; from mailer.demo import main; sys.exit(main(seconds=0))"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr) == (1, "")
    assert "the worker was not done after 0 s" in run.stdout
    assert "As promised" not in run.stdout


def test_an_interrupt_stops_and_removes_everything(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*STRICT, "-m", "mailer.demo"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "message 2, attempt 1" in line:
                demo.send_signal(signal.SIGINT)
                break
        out, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (130, "")
    assert "Interrupted" in out
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_leaves_nothing_behind(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*STRICT, "-m", "mailer.demo"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        assert demo.stdout.readline() == "\n"
        demo.stdout.close()
        err = demo.stderr.read()
    assert (demo.wait(timeout=60), err) == (1, "")
    assert list(tmp_path.iterdir()) == []
