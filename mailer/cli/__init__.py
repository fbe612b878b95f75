"""The console script `mailer`: its commands, and how it ends.

Exit status 0: done. 1: a clear refusal, one sentence on stderr. 2: wrong usage.
"""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from mailer.cli import (
    check,
    decide,
    events,
    fake,
    prove,
    provider,
    read,
    reconcile,
    run,
    send,
    suppression,
    web,
)
from mailer.cli.session import say
from mailer.errors import MailerError


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """Run a command; what it refuses becomes its sentence and status 1."""
        try:
            return super().invoke(ctx)
        except MailerError as error:
            say(str(error))
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("migrate")(run.migrate)
app.command("check")(check.check)
app.command("settings")(check.settings)
app.command("worker")(run.worker)
app.command("web")(web.web)
app.command("demo")(run.demo)
app.command("fake-ses")(fake.fake_ses)
app.command("prove")(prove.prove)
app.command("send")(send.send)
app.command("status")(read.status)
app.command("list")(read.list_rows)
app.command("show")(read.show)
app.command("resolve")(decide.resolve)
app.command("requeue")(decide.requeue)
app.command("cancel")(decide.cancel)

_providers = typer.Typer(
    no_args_is_help=True, help="Look at the health of providers; stop and resume sending."
)
_providers.command("list")(provider.list_providers)
_providers.command("open")(provider.open_circuit)
_providers.command("close")(provider.close_circuit)
app.add_typer(_providers, name="provider")

_suppressions = typer.Typer(
    no_args_is_help=True, help="See who gets no mail and why; suppress, release, mirror."
)
_suppressions.command("list")(suppression.list_suppressions)
_suppressions.command("add")(suppression.add)
_suppressions.command("release")(suppression.release)
_suppressions.command("import")(suppression.import_file)
_suppressions.command("sync")(suppression.sync)
app.add_typer(_suppressions, name="suppression")

_events = typer.Typer(no_args_is_help=True, help="Take in what providers tell later.")
_events.command("consume")(events.consume)
_events.command("mail")(events.mail)
_events.command("rematch")(events.rematch)
app.add_typer(_events, name="events")

_evidence = typer.Typer(no_args_is_help=True, help="Settle what is in doubt by what others saw.")
_evidence.command("log")(reconcile.log)
app.add_typer(_evidence, name="reconcile")


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(version("mailer"))
        except PackageNotFoundError:
            typer.echo("not installed")
        raise typer.Exit


@app.callback()
def _mailer(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """A transactional-email outbox: send, look, settle what is in doubt.

    Settings come from the environment and from a .env file; `mailer settings` lists them.
    """


def main() -> None:
    """Run one command and end the process."""
    try:
        get_command(app)(prog_name="mailer")
    except Exception:  # noqa: BLE001 - the outermost place: what the interpreter would print may
        # hold a row's content, so a mistake of ours is told by its type and place.
        from mailer import log

        log.configure()
        log.get_logger("mailer.cli").critical("uncaught exception", exc_info=True)
        sys.exit(1)
