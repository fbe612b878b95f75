"""`send` writes one message by hand; a worker sends it like any other."""

import json
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from mailer.cli.session import Actor, actor_or_user, at_work, on_terminal, say
from mailer.errors import InvalidEmail
from mailer.states import FINAL_STATES, OnAmbiguous, RowState

if TYPE_CHECKING:
    from mailer.settings_fields import Settings

_LOOK_SECONDS = 0.2

TextFile = typer.Option(metavar="FILE", help="UTF-8; - reads stdin.")
AnyFile = typer.Option(exists=True, dir_okay=False, readable=True, help="A file; may be repeated.")


def _context(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise typer.BadParameter('give a JSON object, for example {"name": "Ada"}')
    return values


def send(
    *,
    to: Annotated[list[str] | None, typer.Option(help="May be repeated.")] = None,
    cc: Annotated[list[str] | None, typer.Option(help="May be repeated.")] = None,
    bcc: Annotated[list[str] | None, typer.Option(help="May be repeated.")] = None,
    sender: Annotated[str | None, typer.Option("--from", help="Default: MAILER_FROM.")] = None,
    subject: Annotated[str | None, typer.Option()] = None,
    text: Annotated[str | None, typer.Option(help="The plain body itself.")] = None,
    text_file: Annotated[typer.FileBinaryRead | None, TextFile] = None,
    html_file: Annotated[typer.FileBinaryRead | None, TextFile] = None,
    template: Annotated[str | None, typer.Option(help="Instead of subject and bodies.")] = None,
    context: Annotated[
        Any, typer.Option(parser=_context, metavar="JSON", help="The template's values.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The dedup key; default: a random one.")] = None,
    attach: Annotated[list[Path] | None, AnyFile] = None,
    stream: Annotated[str, typer.Option()] = "default",
    priority: Annotated[int, typer.Option(min=0, max=9, help="0 is first, 9 last.")] = 5,
    on_ambiguous: Annotated[
        OnAmbiguous, typer.Option(help="What to do when the answer to the send is lost.")
    ] = OnAmbiguous.HOLD,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it has ended or is in doubt.")
    ] = False,
    actor: Actor = None,
) -> None:
    """Put one message into the outbox and print its number."""
    if text is not None and text_file is not None:
        raise typer.BadParameter("--text and --text-file: give one or the other")
    who = actor_or_user(actor)
    message = {
        "to": to or (),
        "cc": cc or (),
        "bcc": bcc or (),
        "sender": sender,
        "subject": subject,
        "text": text if text_file is None else _read(text_file, "text"),
        "html": None if html_file is None else _read(html_file, "html"),
        "template": template,
        "context": context,
        "attachments": [(each.name, each.read_bytes()) for each in attach or ()],
        "stream": stream,
        "priority": priority,
        "on_ambiguous": on_ambiguous,
    }
    with at_work("application") as settings:
        outbox_id = _enqueue(settings, key or f"by-hand:{secrets.token_hex(8)}", message, who)
        typer.echo(outbox_id)
        if wait:
            _show_end(outbox_id, settings)


def _read(file: BinaryIO, field: str) -> str:
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        raise InvalidEmail(field, "the file is not UTF-8 text; convert it") from None


def _enqueue(settings: "Settings", key: str, message: dict[str, Any], actor: str) -> int:
    from mailer import face, operations
    from mailer.database import bound, transaction

    face.bind(bound(), settings)
    with transaction():
        row, created = face.enqueue(dedup_key=key, **message)
        if created:
            operations.note_sent(row.id, actor=actor)
    if not created:
        say("this key already stands for the same message; nothing was added")
    return int(row.id)


def _show_end(outbox_id: int, settings: "Settings") -> None:
    """Exit with 1 unless the message was taken."""
    from mailer import reports
    from mailer.cli.show import show_timeline

    state = _await_end(outbox_id)
    show_timeline(reports.timeline(outbox_id, max_resends=settings.max_resends))
    if state is not RowState.SUBMITTED:
        raise typer.Exit(1)


def _await_end(outbox_id: int) -> RowState:
    from rich.console import Console

    from mailer import reports

    waiting = Console(stderr=True, quiet=not on_terminal())
    with waiting.status("waiting for a worker"):
        while True:
            state = reports.state(outbox_id)
            if state in FINAL_STATES or state is RowState.AMBIGUOUS:
                return state
            time.sleep(_LOOK_SECONDS)
