"""The demo over SES: what it shows, what it leaves behind, and what it never touches."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.doors.demo_run import STRICT, Shown, environment, show

CIRCUIT_VERBS = 'SELECT verb, "before", "after" FROM email_audit WHERE outbox_id IS NULL'


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """Run the demo once where the user's own AWS settings are broken, or point at listeners."""
    base = tmp_path_factory.mktemp("demo-ses")
    aws = base / "home" / ".aws"
    aws.mkdir(parents=True)
    (aws / "config").write_text("this is no configuration file")
    (aws / "credentials").write_text("nor is this one of credentials")
    return show("ses", base, lambda ports: hostile(base / "home", ports))


def hostile(home: Path, ports: list[int]) -> dict[str, str]:
    proxy, endpoint, metadata, database = (f"127.0.0.1:{each}" for each in ports)
    return {
        "HOME": str(home),
        "HTTP_PROXY": f"http://{proxy}",
        "http_proxy": f"http://{proxy}",
        "AWS_ENDPOINT_URL": f"http://{endpoint}",
        "AWS_ENDPOINT_URL_SESV2": f"http://{endpoint}",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{metadata}/credentials",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{metadata}",
        "AWS_PROFILE": "theirs",
        "AWS_SESSION_TOKEN": "theirs",
        "AWS_MAX_ATTEMPTS": "nonsense",
        "AWS_CA_BUNDLE": "/nonexistent/bundle",
        "DATABASE_URL": f"postgres://user:secret@{database}/theirs",
        "MAILER_PROVIDERS": "ses://nowhere",
    }


def test_it_ends_well_and_silently(shown: Shown) -> None:
    assert (shown.status, shown.err) == (0, "")
    assert "As promised" in shown.out
    assert "\x1b" not in shown.out


def test_every_message_was_taken_and_none_was_charged(shown: Shown) -> None:
    assert shown.rows("SELECT state, attempts FROM email_outbox") == [("submitted", 0)] * 6
    assert shown.rows(
        "SELECT outbox_id, outcome, code, resolution FROM email_attempt"
        " WHERE state = 'finished' ORDER BY outbox_id, number"
    ) == [
        (1, "accepted", "200", None),
        (2, "retryable", "TooManyRequestsException", None),
        (2, "accepted", "200", None),
        (3, "ambiguous", "InternalFailure", "accepted"),
        (4, "retryable", "AccountSuspendedException", None),
        (4, "accepted", "200", None),
        (5, "accepted", "200", None),
        (6, "accepted", "200", None),
    ]


def test_the_throttle_has_slowed_the_provider_down(shown: Shown) -> None:
    assert re.search(r"slowed all workers down, to 5\d% of 14 recipients a second", shown.out)
    ((rate, slowed),) = shown.rows("SELECT rate, slowed FROM email_provider")
    assert rate == 14
    assert 0.5 <= slowed < 1


def test_what_was_in_doubt_is_settled_by_the_tag_of_its_attempt(shown: Shown) -> None:
    ((tag,),) = shown.rows("SELECT request_tag FROM email_attempt WHERE outcome = 'ambiguous'")
    ((before, after, why),) = shown.rows(
        'SELECT "before", "after", why FROM email_audit WHERE outbox_id = 3'
    )
    assert (before, after) == ("ambiguous", "submitted")
    assert f"mailer-attempt {tag}: accepted" in why
    assert f"mailer resolve 3 --as accepted --why '{why}'" in shown.out


def test_the_suspended_account_opens_the_circuit_and_one_probe_closes_it(shown: Shown) -> None:
    _, _, after = shown.out.partition("4. The account is suspended")
    held, _, recovered = after.partition("5. AWS lifts the suspension")
    assert held.count("held: circuit of ses:eu-west-1") == 3
    assert re.search(r"ses:\S+ +provider +open +account: ses-stopped ", held)
    assert "attempt 1: retryable" not in recovered.partition("6. What")[0]
    assert shown.rows(CIRCUIT_VERBS) == [("provider open", "open", "open")]
    ((state, reason, since),) = shown.rows("SELECT state, reason, since FROM email_provider")
    assert (state, reason) == ("closed", None)
    sent = shown.rows(
        "SELECT started_at FROM email_attempt WHERE outcome = 'accepted' AND outbox_id > 3"
    )
    assert sorted(at < since for (at,) in sent) == [False, False, True]


def test_the_workers_log_tells_of_the_circuit_and_holds_no_address(shown: Shown) -> None:
    lines = [json.loads(line) for line in shown.log().splitlines()]
    events = [each["event"] for each in lines]
    assert events.count("attempt finished") == 8
    assert [each for each in events if each.startswith("circuit")] == [
        "circuit opened",
        "circuit closed",
    ]
    assert "example.com" not in shown.log()


def test_it_touches_nothing_of_the_users(shown: Shown) -> None:
    assert shown.knocks == 0
    assert set(shown.hosts) <= {"127.0.0.1", "::1"}
    assert [each.name for each in shown.cwd.iterdir()] == [".env"]
    assert "theirs" not in shown.out + shown.log()


def test_an_interrupt_stops_and_removes_everything(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*STRICT, "-c", "import sys; from mailer.demo import main; sys.exit(main(provider='ses'))"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "message 4, attempt 1" in line:
                demo.send_signal(signal.SIGINT)
                break
        out, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (130, "")
    assert "Interrupted" in out
    assert list(tmp_path.iterdir()) == []
