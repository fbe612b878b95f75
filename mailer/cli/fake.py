"""The command `fake-ses`: a stand-in for Amazon SES, for trying out and for staging."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mailer.cli.signals import stop_signals

if TYPE_CHECKING:
    from mailer.fake_ses import Events, FakeSes

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
    events: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Post signed SNS events here; it delivers nothing still."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="ARN", help="With --events: the topic that they are from.")
    ] = None,
    certificates: Annotated[
        Path | None,
        typer.Option(help="With --events: the folder to write the signing certificate to."),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Post events once the subscription was confirmed.")
    ] = False,
) -> None:
    """Run a fake Amazon SES until SIGTERM or SIGINT; it delivers nothing."""
    from mailer import log as logs
    from mailer.fake_ses import running

    logs.configure(level=logging.WARNING)
    told = _events(events, topic, certificates, confirm=confirm)
    with stop_signals() as stop, running(log=log, host=host, port=port, events=told) as fake:
        typer.echo(f"A fake SES, which delivers nothing, listens on {fake.url}")
        typer.echo("To send through it, set:")
        typer.echo(f"  MAILER_PROVIDERS={fake.provider_url}")
        typer.echo("  AWS_ACCESS_KEY_ID=fake")
        typer.echo("  AWS_SECRET_ACCESS_KEY=fake")
        if told is not None:
            _say_events(told, fake)
        stop.wait()


def _events(
    url: str | None, topic: str | None, certificates: Path | None, *, confirm: bool
) -> "Events | None":
    from mailer.fake_ses import Events

    if url and topic and certificates:
        return Events(url, topic, certificates, confirm)
    if url or topic or certificates or confirm:
        raise typer.BadParameter("--events, --topic and --certificates go together")
    return None


def _say_events(events: "Events", fake: "FakeSes") -> None:
    typer.echo("To take its events, set:")
    typer.echo(f"  MAILER_SNS_TOPIC_ARNS={events.topic_arn}")
    typer.echo(f"  MAILER_SNS_CERTIFICATES={events.certificates.absolute()}")
    if events.confirm:
        typer.echo(f"  AWS_ENDPOINT_URL_SNS={fake.url}")
