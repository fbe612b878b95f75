"""The command `fake-ses`: a stand-in for Amazon SES, for trying out and for staging."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from mailer.cli.signals import stop_signals

PORT = 8025


def fake_ses(
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")] = PORT,
    host: Annotated[str, typer.Option(help="Whoever reaches it can read all that it took.")] = (
        "127.0.0.1"
    ),
    log: Annotated[
        Path | None, typer.Option(help="Append a JSON line for each message that it accepts.")
    ] = None,
) -> None:
    """Run a fake Amazon SES until SIGTERM or SIGINT; it delivers nothing."""
    from mailer import log as logs
    from mailer.fake_ses import running

    logs.configure(level=logging.WARNING)
    with stop_signals() as stop, running(log=log, host=host, port=port) as fake:
        typer.echo(f"A fake SES, which delivers nothing, listens on {fake.url}")
        typer.echo("To send through it, set:")
        typer.echo(f"  MAILER_PROVIDERS={fake.provider_url}")
        typer.echo("  AWS_ACCESS_KEY_ID=fake")
        typer.echo("  AWS_SECRET_ACCESS_KEY=fake")
        stop.wait()
