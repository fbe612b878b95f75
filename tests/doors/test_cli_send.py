"""`send`: one message by hand, by the same rules as an application's."""

import json
from pathlib import Path

import pytest

from mailer import claims
from mailer.attachments import Attachment
from mailer.outcome import Outcome
from mailer.tables import Audit, Outbox
from tests.builders import claim_one, finish, row_of
from tests.doors.conftest import Console

LEAST = ("send", "--to", "bob@example.com", "--subject", "Hi", "--text", "Hello")


def test_send_commits_a_message_and_prints_its_number(console: Console) -> None:
    row = row_of(int(console.done(*LEAST)))
    assert (row.state, row.sender, row.to) == (
        "pending",
        "Shop <shop@example.com>",
        ["bob@example.com"],
    )
    assert (row.subject, row.text, row.stream, row.priority) == ("Hi", "Hello", "default", 5)
    (line,) = Audit.select()
    assert (line.actor, line.verb, line.outbox_id) == ("ann", "send", row.id)


def test_everything_that_can_be_said_arrives_on_the_row(console: Console, tmp_path: Path) -> None:
    (tmp_path / "body.html").write_text("<p>Grüße</p>")
    (tmp_path / "a.txt").write_bytes(b"one")
    (tmp_path / "b.bin").write_bytes(b"\x00\xff")
    options = ["--to", "c@example.com", "--cc", "d@example.com", "--bcc", "e@example.com"]
    options += ["--from", "Ann <ann@example.com>", "--html-file", "body.html", "--key", "k"]
    options += ["--attach", "a.txt", "--attach", "b.bin", "--stream", "news", "--priority", "0"]
    row = row_of(int(console.done(*LEAST, *options, "--on-ambiguous", "assume_sent")))
    assert (row.to, row.cc, row.bcc) == (
        ["bob@example.com", "c@example.com"],
        ["d@example.com"],
        ["e@example.com"],
    )
    assert (row.sender, row.html) == ("Ann <ann@example.com>", "<p>Grüße</p>")
    assert (row.dedup_key, row.stream, row.priority) == ("k", "news", 0)
    assert row.on_ambiguous == "assume_sent"
    files = [Attachment.from_column(each) for each in row.attachments]
    assert [(each.filename, each.content) for each in files] == [
        ("a.txt", b"one"),
        ("b.bin", b"\x00\xff"),
    ]


def test_the_text_comes_from_a_file_or_from_stdin(console: Console, tmp_path: Path) -> None:
    (tmp_path / "body.txt").write_text("from a file\n")
    start = ("send", "--to", "bob@example.com", "--subject", "Hi", "--text-file")
    assert row_of(int(console.done(*start, "body.txt"))).text == "from a file\n"
    assert row_of(int(console.done(*start, "-", stdin="from stdin\n"))).text == "from stdin\n"


def test_a_template_is_rendered(console: Console, tmp_path: Path) -> None:
    folder = tmp_path / "templates" / "welcome-v1"
    folder.mkdir(parents=True)
    (folder / "subject.txt").write_text("Welcome, {{ name }}")
    (folder / "body.txt").write_text("Hello {{ name }}")
    console.environ["MAILER_TEMPLATES"] = str(tmp_path / "templates")
    start = ("send", "--to", "bob@example.com", "--template", "welcome-v1")
    row = row_of(int(console.done(*start, "--context", json.dumps({"name": "Bob"}))))
    assert (row.subject, row.template) == ("Welcome, Bob", "welcome-v1")
    assert "name" in console.refused(*start)


def test_the_same_key_adds_nothing_and_another_message_is_refused(console: Console) -> None:
    first = console.done(*LEAST, "--key", "k")
    again = console.run(*LEAST, "--key", "k")
    assert (again.exit_code, again.stdout) == (0, first)
    assert "nothing was added" in again.stderr
    other = console.refused(*LEAST[:-1], "Another", "--key", "k")
    assert other.startswith(f"dedup_key: already used by outbox row {first.strip()}")
    assert (Outbox.select().count(), Audit.select().count()) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("send", "--subject", "Hi", "--text", "x"), "to: "),
        (("send", "--to", "nobody", "--subject", "Hi", "--text", "x"), "to[0]: "),
        (("send", "--to", "a@example.com", "--text", "x"), "subject: "),
        (("send", "--to", "a@example.com", "--subject", "a\r\nBcc: b@c.example"), "subject: "),
        (("send", "--to", "a@example.com", "--subject", "Hi"), "text: "),
        (("send", "--to", "a@example.com", "--template", "no-v1"), "template: "),
    ],
)
def test_what_could_not_be_sent_is_refused_by_field(
    console: Console, arguments: tuple[str, ...], field: str
) -> None:
    line = console.refused(*arguments)
    assert line.startswith(field)
    assert "nobody" not in line
    assert Outbox.select().count() == 0
    assert Audit.select().count() == 0


def test_a_body_that_is_no_text_is_refused(console: Console, tmp_path: Path) -> None:
    (tmp_path / "body.txt").write_bytes(b"\xff\xfe")
    arguments = ("send", "--to", "a@example.com", "--subject", "Hi", "--text-file", "body.txt")
    assert "text: the file is not UTF-8 text" in console.refused(*arguments)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--context", "[1]"),
        ("--context", "{"),
        ("--priority", "10"),
        ("--on-ambiguous", "guess"),
        ("--text-file", "body.txt"),
        ("--attach", "nowhere.txt"),
        ("--html-file", "nowhere.html"),
    ],
)
def test_wrong_usage(console: Console, tmp_path: Path, wrong: tuple[str, str]) -> None:
    (tmp_path / "body.txt").touch()
    assert console.run(*LEAST, *wrong).exit_code == 2
    assert Outbox.select().count() == 0


def test_settings_for_sending_are_asked_for(console: Console) -> None:
    console.environ["MAILER_SECRET"] = ""
    assert "MAILER_SECRET: is not set" in console.refused(*LEAST)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [(Outcome.ACCEPTED, 0), (Outcome.PERMANENT, 1), (Outcome.AMBIGUOUS, 1)],
)
def test_waiting_ends_with_the_message_and_shows_its_timeline(
    console: Console, outcome: Outcome, status: int
) -> None:
    """The message has ended already when it is waited for: asking again for a key adds nothing."""
    number = console.done(*LEAST, "--key", "k").strip()
    claimed = claim_one()
    assert claims.begin([claimed])
    finish(claimed, outcome)
    result = console.run(*LEAST, "--key", "k", "--wait")
    assert result.exit_code == status
    assert result.stdout.startswith(f"{number}\n")
    assert outcome in result.stdout
    assert "next: " in result.stdout
