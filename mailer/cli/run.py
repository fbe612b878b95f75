"""The commands that set up and run: `migrate`, `worker`, `demo`."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mailer.cli.signals import stop_signals

if TYPE_CHECKING:
    from mailer.settings_fields import Settings

_IDLE_POLL_MS = "50"
"""How often an idle worker thread looks into its queue; dramatiq's default is a second."""

_STOP_MS = "25000"


def migrate() -> None:
    """Create or update mailer's tables; any number may run at once."""
    from mailer import migrations
    from mailer.session import sitting
    from mailer.settings import load

    with sitting(load().database_address, migrated=False):
        applied = migrations.migrate()
    for name in applied:
        typer.echo(f"applied {name}")
    if not applied:
        typer.echo("nothing to apply")


def worker(
    *,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="All in this one process, without a broker.")
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, envvar="MAILER_PROCESSES", help="Without --embedded.")
    ] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Of each process; without --embedded.")] = 4,
) -> None:
    """Deliver until SIGTERM or SIGINT; what is in flight is then waited for."""
    from mailer.session import sitting
    from mailer.wiring import settings_for_worker

    settings = settings_for_worker()
    with sitting(settings.database_address):
        pass
    if embedded:
        _run_embedded(settings)
    else:
        _become_dramatiq(processes, threads)


def _run_embedded(settings: "Settings") -> None:
    # The one door that starts actors itself; nothing may import their package.
    import importlib

    from mailer import log

    log.configure(settings.log_format)
    running = importlib.import_module("actors.embedded").running
    with stop_signals() as stop, running(settings):
        stop.wait()


def dramatiq_options(processes: int, threads: int) -> list[str]:
    """Return the words after `dramatiq` with which the Procfile starts a worker."""
    return [
        "actors.worker:broker",
        *("--processes", str(processes), "--threads", str(threads)),
        *("--skip-logging", "--worker-shutdown-timeout", _STOP_MS),
    ]


def _become_dramatiq(processes: int, threads: int) -> None:
    """Go on as dramatiq under this process's id, so that signals reach it."""
    os.execve(  # noqa: S606 - no shell, and no argument from elsewhere
        sys.executable,
        [sys.executable, "-m", "dramatiq", *dramatiq_options(processes, threads)],
        {**os.environ, "dramatiq_worker_timeout": _IDLE_POLL_MS},
    )


def demo(
    *,
    provider: Annotated[
        Literal["smtp", "ses"], typer.Option(help="A scripted relay, or a fake Amazon SES.")
    ] = "smtp",
    seconds: Annotated[
        float | None, typer.Option(min=1, help="How long its worker may take.")
    ] = None,
) -> None:
    """Send mail without any server, break it, and settle what is in doubt."""
    from mailer.demo import main

    raise typer.Exit(main(provider=provider, seconds=seconds))
