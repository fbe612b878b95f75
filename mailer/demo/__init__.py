"""`mailer demo`: messages from commit to end, in one process, with nothing but this package.

SQLite in a temporary folder, a relay or a fake Amazon SES of its own on loopback, and the embedded
worker. The environment's settings are neither read nor changed.
"""

import importlib
import shlex
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mailer.database import AWAY
from mailer.demo.screen import Screen
from mailer.demo.stage import Stage, program
from mailer.errors import MailerError

ProviderKind = Literal["smtp", "ses"]

PATIENCE_SECONDS = 12.0
"""How long the worker may take; it needs about four."""

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C has ended: 128 + SIGINT."""


@dataclass(frozen=True, slots=True)
class Show:
    """What is played, what it has shown when nothing was broken, and commands to go on with."""

    play: Callable[[Stage], None]
    shown: tuple[str, ...]
    commands: tuple[str, ...]


def main(*, provider: ProviderKind = "smtp", seconds: float | None = None) -> int:
    """Run the demo and return its exit status: 0, 1 with a sentence, or 130 after Ctrl-C.

    `seconds` bounds how long the worker may take. The folder with the database is kept, so that
    the other commands can look at it, unless the demo is interrupted.
    """
    folder = Path(tempfile.mkdtemp(prefix="mailer-demo-"))
    stage = Stage(Screen(), folder, PATIENCE_SECONDS if seconds is None else seconds)
    try:
        show = _show(provider)
        _play(show, stage)
        _conclude(show, stage)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        stage.screen.complain("Interrupted: all of it is stopped and removed.")
        return INTERRUPTED
    except SystemExit:
        # So rich ends a program whose reader has closed the pipe: nobody will learn of the folder.
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return 1 if stage.broken else 0


def _show(provider: ProviderKind) -> Show:
    module = importlib.import_module(f"mailer.demo.{provider}_show")
    return Show(module.play, module.SHOWN, module.COMMANDS)


def _play(show: Show, stage: Stage) -> None:
    """Go through all chapters; what stops the show on the way is broken too."""
    try:
        with stage.logging():
            show.play(stage)
    except (MailerError, OSError, *AWAY) as error:
        stage.broken.append(f"the demo could not go on: {error}")


def _conclude(show: Show, stage: Stage) -> None:
    """Say how it came out, what it was not, and where to look further."""
    screen = stage.screen
    if stage.broken:
        screen.title("Not as promised")
        for each in stage.broken:
            screen.complain(each)
        screen.say(f"What the worker logged: {stage.log_path}")
        return
    screen.title("As promised")
    screen.say(*show.shown)
    screen.title("To look further")
    screen.say(
        f"export DATABASE_URL={shlex.quote(stage.database_url)}",
        *(f"{program()} {each}" for each in show.commands),
        f"rm -r {shlex.quote(str(stage.folder))}   # when you have seen enough",
    )
