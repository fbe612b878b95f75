"""The command `web`: the door for events over HTTP, and the health of this process."""

from typing import Annotated

import typer

from mailer.cli.signals import stop_signals


def web(
    *,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; default: all of them.")
    ] = None,
) -> None:
    """Take events over HTTP on PORT until SIGTERM or SIGINT; requests under way are answered."""
    from contextlib import closing

    from mailer import log
    from mailer.settings import load
    from mailer.web.app import application
    from mailer.web.server import Server, listen
    from mailer.wiring_events import assemble_web

    settings = load(role="web")
    log.configure(settings.log_format)
    with stop_signals() as stop, closing(listen(host, settings.port)) as listener:
        app = application(assemble_web(settings))
        logger = log.get_logger("mailer.web")
        logger.info("web started", port=listener.getsockname()[1])
        Server(app, stop).run([listener])
        logger.info("web stopped")
