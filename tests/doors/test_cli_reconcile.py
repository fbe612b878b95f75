"""`reconcile log`: files in, what is proven out; a message really sent, whose answer was lost."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mailer import database
from mailer.cli.log_lines import MAX_LINE_BYTES
from mailer.facts import FactKind
from mailer.prove.kit.smtp_script import RESET, Script
from mailer.prove.kit.smtp_server import SmtpServer
from mailer.returnpath import ReturnPath
from mailer.settings import load
from mailer.tables import Attempt, Audit, Fact, Suppression
from mailer.wiring import Mailer, assemble
from tests.builders import SECRET, enqueue, row_of
from tests.doors.conftest import Console
from tests.providers.bounce_mails import report, status
from tests.providers.relay_lines import Postfix
from tests.work.test_hearing import in_doubt, taken

BOUNCES = "bounces@mail.example.com"
PATH = ReturnPath(BOUNCES, SECRET)


@pytest.fixture
def reconciling(console: Console) -> Console:
    """A console that knows the return path of the tests' messages."""
    console.environ |= {"MAILER_RETURN_PATH": BOUNCES, "MAILER_SECRET": SECRET}
    return console


def written(folder: Path, name: str, lines: list[str]) -> Path:
    """A log file, gzipped where its name says so."""
    octets = "".join(f"{line}\n" for line in lines).encode()
    path = folder / name
    path.write_bytes(gzip.compress(octets) if name.endswith(".gz") else octets)
    return path


def test_a_message_in_several_files_is_settled_and_the_rest_is_told(
    reconciling: Console, tmp_path: Path
) -> None:
    claimed, silent = in_doubt("a"), in_doubt("b")
    log = taken(claimed)
    files = [written(tmp_path, "mail.log.1.gz", log[:2]), written(tmp_path, "mail.log", log[2:])]
    printed = reconciling.done("reconcile", "log", *files)
    first, *rest = printed.splitlines()
    assert first.startswith(f"{claimed.outbox_id}: ambiguous -> submitted, attempt ")
    assert rest[0] == "1 of 2 attempts in doubt settled"
    assert rest[1].startswith("1 in doubt as before")
    assert rest[2] == "recipients in the log: 1 delivered"
    assert "@" not in printed
    assert row_of(silent.outbox_id).state == "ambiguous"
    assert Audit.get().actor == "ann"


def test_a_trial_changes_nothing_and_stdin_is_read(reconciling: Console) -> None:
    claimed = in_doubt()
    log = "\n".join(taken(claimed))
    printed = reconciling.done("reconcile", "log", "-", "--dry-run", stdin=log)
    assert "1 of 1 attempts in doubt would be settled" in printed
    assert row_of(claimed.outbox_id).state == "ambiguous"
    assert Audit.select().count() == 0
    found = json.loads(reconciling.done("reconcile", "log", "-", "--json", stdin=log))
    assert (found["doubts"], found["silent"], found["is_trial"]) == (1, 0, False)
    assert found["rulings"][0]["verdict"] == "accepted"
    assert found["fates"] == {"delivered": 1}


def test_times_without_a_zone_are_read_in_the_one_that_is_given(
    reconciling: Console, tmp_path: Path
) -> None:
    in_summer = [each.replace("Mar 10", "Jul 10") for each in taken(in_doubt())]
    log = written(tmp_path, "mail.log", in_summer)
    printed = reconciling.done("reconcile", "log", log, "--zone", "Europe/Berlin")
    assert "-07-10T10:00:01Z" in printed


def test_of_a_line_that_is_too_long_the_rest_is_no_line_of_its_own(
    reconciling: Console, tmp_path: Path
) -> None:
    lines = taken(in_doubt())
    hidden = written(tmp_path, "hidden.log", ["x" * MAX_LINE_BYTES + each for each in lines])
    assert "0 of 1" in reconciling.done("reconcile", "log", hidden)
    plain = written(tmp_path, "mail.log", ["x" * 2 * MAX_LINE_BYTES, *lines])
    assert "1 of 1" in reconciling.done("reconcile", "log", plain)


def test_a_file_that_cannot_be_read_is_refused_and_nothing_is_settled(
    reconciling: Console, tmp_path: Path
) -> None:
    claimed = in_doubt()
    good = written(tmp_path, "mail.log", taken(claimed))
    whole = gzip.compress(b"line\n" * 9)
    (tmp_path / "plain.gz").write_bytes(b"not gzip")
    (tmp_path / "cut.gz").write_bytes(whole[:-9])
    (tmp_path / "wrong.gz").write_bytes(whole[:12] + b"\xff" * 40)
    for name in ("missing.log", "plain.gz", "cut.gz", "wrong.gz"):
        told = reconciling.refused("reconcile", "log", good, tmp_path / name)
        assert told.startswith("file: ")
        assert f"{name} cannot be read" in told
    assert row_of(claimed.outbox_id).state == "ambiguous"


@pytest.mark.parametrize(
    "arguments",
    [
        ("reconcile", "log"),
        ("reconcile", "log", "-", "--zone", "Nowhere/Land"),
        ("reconcile", "log", "-", "--zone", "../etc/passwd"),
        ("reconcile", "log", "-", "--within", "soon"),
    ],
)
def test_wrong_usage(bare_console: Console, arguments: tuple[str, ...]) -> None:
    assert bare_console.run(*arguments).exit_code == 2


@contextmanager
def working(console: Console) -> Iterator[Mailer]:
    """A worker by the console's settings; the tests' own database is bound again afterwards."""
    earlier = database.bound()
    mailer = assemble(load(console.environ, role="worker"))
    mailer.start()
    try:
        yield mailer
    finally:
        mailer.delivery.stop()
        mailer.close()
        database.bind(earlier)


def test_a_lost_answer_is_settled_by_the_log_and_its_bounce_becomes_a_suppression(
    reconciling: Console, tmp_path: Path
) -> None:
    with SmtpServer.scripted(Script(dot=RESET), Script()) as relay:
        reconciling.environ["MAILER_PROVIDERS"] = f"smtp://127.0.0.1:{relay.port}?tls=none"
        row = row_of(enqueue()[0].id)
        with working(reconciling) as mailer:
            mailer.delivery.deliver()
        assert row_of(row.id).state == "ambiguous"

        (attempt,) = Attempt.select()
        sender = PATH.address(attempt.request_tag)
        assert f"MAIL FROM:<{sender}>".encode() in relay.settle()[0].commands[1]
        one = Postfix()
        log = [one.client(), one.named(row.message_id or ""), one.active(sender)]
        reconciling.done("reconcile", "log", written(tmp_path, "mail.log", log))
        assert row_of(row.id).state == "submitted"

        bounce = report(status(who="Final-Recipient: rfc822; Ann@Example.com"), to=sender)
        told = reconciling.done("events", "mail", "--recipient", sender, stdin=bounce)
        assert told.endswith(
            f"delivery-status, processed, row {row.id}, attempt {attempt.id} by tag\n"
        )
        assert Fact.get().kind == FactKind.BOUNCED_PERMANENT
        assert Suppression.get().address_key == "ann@example.com"

        enqueue("next")
        with working(reconciling) as mailer:
            mailer.delivery.deliver()
        assert [record.dots for record in relay.settle()] == [1]


def test_a_bounce_alone_settles_a_lost_answer(reconciling: Console) -> None:
    claimed = in_doubt()
    bounce = report(status(who="Final-Recipient: rfc822; ann@example.com"))
    reconciling.done(
        "events", "mail", "--recipient", PATH.address(claimed.request_tag), stdin=bounce
    )
    assert row_of(claimed.outbox_id).state == "submitted"
    assert Suppression.get().reason == "bounce"
