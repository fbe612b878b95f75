"""`events mail` and `events rematch`: what is on record, what is told, and how they end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mailer.claims import Claimed
from mailer.cli.events import EX_TEMPFAIL
from mailer.facts import EventState
from mailer.feed import MAX_BODY_BYTES, Channel
from mailer.identity import message_id
from mailer.outcome import Outcome
from mailer.returnpath import ReturnPath
from mailer.tables import Event, Fact, Suppression
from tests.builders import SECRET, attempt_of, finish, prepare, row_of, started
from tests.doors.conftest import Console
from tests.providers.bounce_mails import AWAY, complaint, mail, report, status

ROOT = Path(__file__).parents[2]
BOUNCES = "bounces@mail.example.com"
PATH = ReturnPath(BOUNCES, SECRET)
CANARY = "ann@example.com"
STRANGER = "postmaster@mail.example.com"


@pytest.fixture
def receiving(console: Console) -> Console:
    """A console that knows the return path of the tests' messages."""
    console.environ |= {"MAILER_RETURN_PATH": BOUNCES, "MAILER_SECRET": SECRET}
    return console


def accepted(key: str = "key") -> Claimed:
    claimed = started(key)
    finish(claimed, Outcome.ACCEPTED)
    return claimed


def bounce(*, to: str = STRANGER, returned: str = "Subject: Hi\n") -> bytes:
    who = f"Final-Recipient: rfc822; {CANARY}"
    return report(status(who=who), to=to, returned=returned)


def returned(key: str) -> str:
    """The header of a message of ours as a stranger may have seen it."""
    found = message_id(key, secret=SECRET, domain="mail.example.com")
    return f"Message-ID: {found}\nSubject: Hi\n"


def test_whom_the_envelope_named_proves_what_a_bounce_is_about(receiving: Console) -> None:
    claimed = accepted()
    sender = PATH.address(claimed.request_tag)
    told = receiving.done(
        "events", "mail", "--recipient", "else@mail.example.com", "--recipient", sender,
        stdin=bounce(),
    )  # fmt: skip
    event = Event.get()
    assert told == (
        f"event {event.id}: delivery-status, processed, row {claimed.outbox_id}, "
        f"attempt {claimed.attempt_id} by tag\n"
    )
    assert (event.topic_arn, event.channel, event.state) == ("mail", Channel.MAIL, "processed")
    assert bytes(event.body).startswith(b"X-Original-To: else@mail.example.com\r\n")
    assert bytes(event.body).endswith(bounce())
    assert Fact.get().trusted
    assert Suppression.get().address_key == CANARY


def test_the_same_mail_again_is_the_same_event(receiving: Console) -> None:
    sender = PATH.address(accepted().request_tag)
    command = ("events", "mail", "--recipient", sender)
    told = [receiving.done(*command, stdin=bounce()) for _ in range(2)]
    assert told[0] == told[1]
    assert (Event.select().count(), Fact.select().count()) == (1, 1)


def test_without_proof_a_mail_is_kept_and_suppresses_nobody(receiving: Console) -> None:
    claimed = accepted()
    own = PATH.address(claimed.request_tag)
    forged = f"bounces+{claimed.request_tag}.0123456789ab@mail.example.com"
    for unfit in (forged, f"x\r\nX-Original-To: {own}", "x" * 400 + own, ""):
        told = receiving.done(
            "events", "mail", "--recipient", unfit, stdin=bounce(returned=returned("key"))
        )
        assert f"row {claimed.outbox_id}, attempt {claimed.attempt_id} by message_id" in told
    assert [each.trusted for each in Fact.select()] == [False]
    assert Suppression.select().count() == 0


def test_every_mail_is_kept(receiving: Console) -> None:
    abuse = f"Feedback-Type: abuse\nVersion: 1\nUser-Agent: x\nOriginal-Rcpt-To: {CANARY}"
    told = {
        AWAY: "auto-reply, control",
        mail("\nHello, what is this?\n"): "mail, unparsed",
        b"\x00\xff" * 100: "mail, unparsed",
        complaint(abuse, to=STRANGER, returned="Subject: Hi"): "feedback-report, unmatched",
    }
    for content, what in told.items():
        assert receiving.done("events", "mail", stdin=content).endswith(f": {what}\n")
    assert {bytes(each.body) for each in Event.select()} == set(told)


def test_of_a_large_mail_the_beginning_is_kept_and_the_rest_is_read(receiving: Console) -> None:
    claimed = accepted()
    large = bounce() + b"x" * (2 * MAX_BODY_BYTES)
    receiving.done("events", "mail", "--recipient", PATH.address(claimed.request_tag), stdin=large)
    event = Event.get()
    assert len(bytes(event.body)) == MAX_BODY_BYTES
    assert event.state == "processed"


def test_files_of_one_mail_each(receiving: Console, tmp_path: Path) -> None:
    claimed = accepted()
    first, second = tmp_path / "1.eml", tmp_path / "2.eml"
    first.write_bytes(bounce(to=PATH.address(claimed.request_tag)))
    second.write_bytes(AWAY)
    told = receiving.done("events", "mail", first, second).splitlines()
    assert [each.partition(": ")[2].partition(",")[0] for each in told] == [
        "delivery-status",
        "auto-reply",
    ]
    assert Suppression.get().address_key == CANARY


def test_what_can_never_be_taken_is_refused(receiving: Console, tmp_path: Path) -> None:
    assert "is empty" in receiving.refused("events", "mail")
    missing = tmp_path / "missing.eml"
    assert f"file: {missing} cannot be read" in receiving.refused("events", "mail", missing)
    assert Event.select().count() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"},
        {"DATABASE_URL": "sqlite:////no/such/folder/x.db"},
        {"DATABASE_URL": ""},
        {"MAILER_LEASE_SECONDS": "never"},
    ],
)
def test_what_is_not_on_record_has_to_come_again(
    bare_console: Console, changes: dict[str, str]
) -> None:
    bare_console.environ |= changes
    result = bare_console.run("events", "mail", stdin=bounce())
    assert (result.exit_code, result.stdout) == (EX_TEMPFAIL, "")
    assert CANARY not in result.output


def test_a_database_without_its_tables_keeps_the_mail_waiting(unmigrated_console: Console) -> None:
    assert unmigrated_console.run("events", "mail", stdin=bounce()).exit_code == EX_TEMPFAIL


def test_wrong_usage(bare_console: Console) -> None:
    assert bare_console.run("events", "mail", "--to", CANARY, stdin="x").exit_code == 2


def test_rematch_finds_attempts_that_came_after_their_events(receiving: Console) -> None:
    receiving.done("events", "mail", stdin=bounce(returned=returned("key")))
    assert Event.get().state == EventState.UNMATCHED
    nothing = receiving.done("events", "rematch")
    assert nothing == "1 events read again: 1 unmatched\n"
    claimed = accepted("key")
    found = json.loads(receiving.done("events", "rematch", "--json"))
    assert found == {"read": 1, "states": {"processed": 1}}
    assert Event.get(Event.attempt == claimed.attempt_id).state == "processed"
    assert receiving.done("events", "rematch") == "0 events read again\n"


def test_rematch_reads_again_what_an_older_version_could_not_read(receiving: Console) -> None:
    claimed = accepted()
    sender = PATH.address(claimed.request_tag)
    receiving.done("events", "mail", stdin=bounce(to=sender))
    Fact.delete().execute()
    Suppression.delete().execute()
    Event.update(state=EventState.UNPARSED, attempt=None).execute()
    assert receiving.done("events", "rematch") == "0 events read again\n"
    printed = receiving.done("events", "rematch", "--unparsed")
    assert printed == "1 events read again: 1 processed\n"
    assert Suppression.get().address_key == CANARY


def test_a_proof_that_comes_by_mail_settles_the_doubt(receiving: Console) -> None:
    claimed = started()
    finish(claimed, Outcome.AMBIGUOUS)
    receiving.done(
        "events", "mail", "--recipient", PATH.address(claimed.request_tag), stdin=bounce()
    )
    assert row_of(claimed.outbox_id).state == "submitted"
    assert attempt_of(claimed).resolved_by == "event delivery-status"


def piped(environ: dict[str, str], content: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run the command as an MTA does."""
    script = "from mailer.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script, "events", "mail", "--recipient", BOUNCES],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environ},
        cwd=environ["HOME"],
        input=content,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_an_mta_is_told_by_the_exit_status(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mailer.db'}"
    prepare(url)
    environ = {"HOME": str(tmp_path), "DATABASE_URL": url, "MAILER_SECRET": SECRET}
    environ |= {"MAILER_RETURN_PATH": BOUNCES}
    stored = piped(environ, bounce())
    assert (stored.returncode, stored.stderr) == (0, b"")
    assert stored.stdout == b"event 1: delivery-status, unmatched\n"
    away = piped(environ | {"DATABASE_URL": "postgresql://u:p@127.0.0.1:1/app"}, bounce())
    assert (away.returncode, away.stdout) == (EX_TEMPFAIL, b"")
    assert away.stderr.startswith(b"DATABASE_URL: the database ")
