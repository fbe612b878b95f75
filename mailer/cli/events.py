"""The commands about events: `events consume`, `events mail`, `events rematch`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import IO, TYPE_CHECKING, Annotated

import typer

from mailer.cli.session import AsJson, at_work, on_terminal, print_json, say
from mailer.cli.signals import stop_signals
from mailer.errors import MailerError, Refused

if TYPE_CHECKING:
    from mailer.returned_mail import TakenIn

EX_TEMPFAIL = 75
"""What has an MTA keep a mail and try again (sysexits.h; Postfix's pipe(8), Exim's pipe)."""

_STDIN = "-"
_CHUNK_BYTES = 1024 * 1024

Mail = tuple[bytes, datetime]
"""A mail, or its beginning, and when it came."""


def consume() -> None:
    """Take events from the SQS queue until SIGTERM or SIGINT; those in hand are finished."""
    import asyncio

    from mailer import log
    from mailer.settings import load
    from mailer.wiring_events import assemble_consumer

    settings = load(role="consumer")
    log.configure(settings.log_format)
    consumer = assemble_consumer(settings)
    logger = log.get_logger("mailer.events")
    with stop_signals() as stop:
        logger.info("consumer started")
        asyncio.run(consumer.run(stop))
    logger.info("consumer stopped")


def mail(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="Files of one mail each; without any, stdin."),
    ] = None,
    *,
    recipients: Annotated[
        list[str] | None,
        typer.Option("--recipient", metavar="ADDRESS", help="Whom the envelope named."),
    ] = None,
) -> None:
    """Take in a mail that came to the return path: a bounce, a complaint, a reply.

    For an MTA's pipe transport, and for whoever polls a mailbox. Exit status 0: it is on record.
    75: it is not, whatever the reason, and has to come again. 1: it can never be taken.
    """
    mails = _mails(files or [_STDIN])
    try:
        with at_work() as settings:
            from mailer.feedback import Feedback
            from mailer.returned_mail import take_in
            from mailer.wiring import readers

            feedback = Feedback(readers(settings))
            for content, came_at in mails:
                found = take_in(content, feedback, recipients=recipients or (), came_at=came_at)
                typer.echo(_told(found))
    except Refused:
        raise
    except MailerError as error:
        say(str(error))
        raise typer.Exit(EX_TEMPFAIL) from None


def rematch(
    *,
    unparsed: Annotated[
        bool, typer.Option("--unparsed", help="Also those that could not be read so far.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look once more for the attempts of all events that have none.

    With --unparsed, for after an upgrade, bodies are read again that an older version could not
    read.
    """
    with at_work() as settings, _counting() as told:
        from mailer import rematching
        from mailer.feedback import Feedback
        from mailer.wiring import readers

        found = rematching.rematch(Feedback(readers(settings)), unparsed=unparsed, told=told)
    if as_json:
        print_json(found)
        return
    counts = ", ".join(f"{count} {state}" for state, count in found.states.items())
    typer.echo(f"{found.read} events read again" + (f": {counts}" if counts else ""))


def _mails(names: Sequence[str]) -> Iterator[Mail]:
    from datetime import UTC

    for name in names:
        if name == _STDIN:
            yield _beginning("stdin", typer.get_binary_stream("stdin")), datetime.now(UTC)
        else:
            yield _from_file(name)


def _from_file(name: str) -> Mail:
    import os
    from datetime import UTC

    try:
        with open(name, "rb") as file:
            came_at = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
            return _beginning(name, file), min(came_at, datetime.now(UTC))
    except (OSError, ValueError, OverflowError) as error:
        told = error.strerror if isinstance(error, OSError) and error.strerror else "no file"
        raise Refused(f"file: {name} cannot be read: {told.lower()}") from None


def _beginning(name: str, stream: IO[bytes]) -> bytes:
    """Return as much as is kept, and read the rest too: whoever writes it may mind if nobody does.

    Raises Refused where there is nothing.
    """
    from mailer.feed import MAX_BODY_BYTES

    content = stream.read(MAX_BODY_BYTES)
    while stream.read(_CHUNK_BYTES):
        pass
    if not content:
        raise Refused(f"{name}: is empty, and no mail is")
    return content


def _told(found: "TakenIn") -> str:
    what = f"event {found.event_id}: {found.kind or 'mail'}, {found.state}"
    if found.outbox_id is None:
        return what
    return f"{what}, row {found.outbox_id}, attempt {found.attempt_id} by {found.matched_by}"


@contextmanager
def _counting() -> Iterator[Callable[[int], None]]:
    """Show a person how far long work has come."""
    from rich.console import Console

    console = Console(stderr=True, quiet=not on_terminal(), markup=False)
    with console.status("reading events") as status:
        yield lambda count: status.update(f"{count:,} events read again")
