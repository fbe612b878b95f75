"""No command prints a body, a header field, an attachment, a context or a credential."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mailer.outcome import Outcome
from mailer.states import RowState
from mailer.tables import Outbox
from tests.builders import claim_one, enqueue, finish, freezer, insert_plainly, started
from tests.doors.conftest import Console

CANARY = "Kanarie-Vw62"


@pytest.fixture
def guarded_console(console: Console, tmp_path: Path) -> Console:
    """A console whose every credential is the canary; servers of tests trust any password."""
    url = urlsplit(console.environ["DATABASE_URL"])
    if url.scheme != "sqlite":
        netloc = f"{url.username}:{CANARY}@{url.hostname}:{url.port}"
        console.environ["DATABASE_URL"] = url._replace(netloc=netloc).geturl()
    console.environ |= {
        "MAILER_SECRET": CANARY * 2,
        "MAILER_PROVIDERS": f"smtp://{CANARY}:{CANARY}@127.0.0.1:1?tls=starttls",
        "MAILER_TEMPLATES": str(tmp_path / "templates"),
        "REDIS_URL": f"redis://:{CANARY}@127.0.0.1:1/0",
    }
    folder = tmp_path / "templates" / "note-v1"
    folder.mkdir(parents=True)
    (folder / "subject.txt").write_text("A note")
    (folder / "body.txt").write_text("{{ secret }}")
    return console


def fill(templates: Path) -> list[int]:
    """Bring messages full of canaries into every state that a person may look at."""
    secrets = {
        "text": CANARY,
        "html": f"<p>{CANARY}</p>",
        "headers": {"X-Note": CANARY},
        "attachments": [(f"{CANARY}.txt", CANARY.encode())],
    }
    ids = []
    for outcome in (Outcome.ACCEPTED, Outcome.PERMANENT, Outcome.AMBIGUOUS):
        claimed = started(outcome, **secrets)
        finish(claimed, outcome)
        ids.append(claimed.outbox_id)
    ids.append(started("under way", **secrets).outbox_id)
    enqueue("rendered", text=None, subject=None, template="note-v1",
            context={"secret": CANARY}, freezer=freezer(templates=templates))  # fmt: skip
    ids.append(claim_one().outbox_id)
    ids.append(
        insert_plainly("plain", ["ann@example.com"], template="note-v1", context={"a": CANARY})
    )
    return ids


def test_nothing_secret_is_ever_printed(guarded_console: Console, tmp_path: Path) -> None:
    ids = fill(tmp_path / "templates")
    commands: list[tuple[object, ...]] = [("status",), ("settings",), ("check",)]
    commands += [("list", "--state", state) for state in RowState]
    commands += [("show", each) for each in ids]
    printed = []
    for command in commands:
        for more in ((), ("--json",)):
            printed.append(guarded_console.run(*command, *more).output)
    for each in ids:
        printed += [
            guarded_console.run("requeue", each, "--why", "x").output,
            guarded_console.run("cancel", each, "--why", "x").output,
            guarded_console.run("resolve", each, "--as", "accepted", "--why", "x").output,
        ]
    printed.append(
        guarded_console.run(
            *("send", "--to", "bob@example.com", "--subject", "Hi", "--text", CANARY, "--key", "k")
        ).output
    )
    printed.append(
        guarded_console.run(
            *("send", "--to", "bob@example.com", "--template", "note-v1", "--key", "k"),
            *("--context", f'{{"secret": "{CANARY}"}}'),
        ).output
    )
    assert all(printed)
    assert CANARY not in "".join(printed)
    assert "A note" in "".join(printed)


def test_the_canary_was_there_to_be_found(guarded_console: Console, tmp_path: Path) -> None:

    fill(tmp_path / "templates")
    rows = list(Outbox.select().dicts())
    assert len(rows) == 6
    assert all(CANARY in repr(row) for row in rows)
    assert guarded_console.environ["MAILER_SECRET"].startswith(CANARY)
