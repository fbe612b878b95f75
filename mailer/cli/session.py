"""What the commands share: settings, the database for one command, ids, words on stderr."""

import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mailer.settings import Role
    from mailer.settings_fields import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

Why = Annotated[str, typer.Option("--why", help="On what grounds; kept in the audit.")]

Actor = Annotated[
    str | None,
    typer.Option("--actor", envvar="USER", help="Who decides; default: the user of this system."),
]

_NUMBER = re.compile(r"[0-9]{1,18}")
_KEY_PREFIX = "key:"


def reference(text: str) -> str:
    """Check the form of a command's ID; raises BadParameter, which is wrong usage."""
    if text.startswith(_KEY_PREFIX) or _NUMBER.fullmatch(text):
        return text
    raise typer.BadParameter("give a row's number, or key: and its dedup key")


RowArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID", parser=reference, help="A row's number, or key: and its dedup key."
    ),
]

RowArguments = Annotated[
    list[str],
    typer.Argument(metavar="ID", parser=reference, help="Rows' numbers, or key: and a dedup key."),
]


@contextmanager
def at_work(role: "Role" = "operator") -> "Iterator[Settings]":
    """Read the settings and have the database open for the block.

    Raises SettingsError, and MailerError where the database cannot be used as it is.
    """
    from mailer.session import sitting
    from mailer.settings import load

    settings = load(role=role)
    with sitting(settings.database_address):
        yield settings


def row_id(given: str) -> int:
    """Return the number that a checked ID stands for; raises Refused for an unknown key."""
    from mailer import reports

    if given.startswith(_KEY_PREFIX):
        return reports.find(given.removeprefix(_KEY_PREFIX))
    return int(given)


def actor_or_user(actor: str | None) -> str:
    """Return who is at the terminal; raises Refused where the system does not know."""
    import getpass

    from mailer.errors import Refused

    if actor:
        return actor
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise Refused("actor: this system's user has no name; give one with --actor") from None


def say(text: str) -> None:
    """Tell a person, and never whoever reads stdout."""
    typer.echo(text, err=True)


def print_json(value: Any) -> None:
    """Print one JSON document, in ASCII, so that no stored text can steer a terminal."""
    typer.echo(json.dumps(value, default=_plain, indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    raise TypeError(type(value).__name__)


def on_terminal() -> bool:
    """Tell whether a person sees stderr."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
