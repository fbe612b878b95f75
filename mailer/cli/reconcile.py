"""The command `reconcile log`: what a relay's own log proves about messages in doubt."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import tzinfo
from typing import TYPE_CHECKING, Annotated

import typer

from mailer.cli.provider import duration
from mailer.cli.session import Actor, AsJson, actor_or_user, at_work, on_terminal, print_json

if TYPE_CHECKING:
    from mailer.hearing import Hearing, Ruling

WITHIN_SECONDS = 30 * 86_400.0
"""How far back attempts in doubt are looked up, unless another time is given."""


def zone(given: str | tzinfo) -> tzinfo:
    """Return the time zone of a name such as Europe/Berlin; raises BadParameter."""
    from zoneinfo import ZoneInfo

    if isinstance(given, tzinfo):
        return given
    try:
        return ZoneInfo(given)
    except (ValueError, LookupError, OSError):
        raise typer.BadParameter("give a time zone such as UTC or Europe/Berlin") from None


def log(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Oldest first; .gz as it is; - reads stdin."),
    ],
    *,
    log_zone: Annotated[
        tzinfo,
        typer.Option("--zone", parser=zone, metavar="ZONE", help="Of times that name none."),
    ] = "UTC",  # type: ignore[assignment]  # the parser reads it
    seconds: Annotated[
        float,
        typer.Option(
            "--within",
            parser=duration,
            metavar="TIME",
            show_default="30d",
            help="How far back attempts in doubt are looked up.",
        ),
    ] = WITHIN_SECONDS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be settled; change nothing.")
    ] = False,
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Settle messages in doubt by what a relay's log (Postfix, Exim) proves.

    What it does not mention stays in doubt: absence is never proof.
    """
    from mailer import hearing
    from mailer.cli.log_lines import LogFiles
    from mailer.wiring import bench, relay_log

    who = actor_or_user(actor)
    with at_work() as settings, _counting() as told, LogFiles(files, told) as lines:
        found = hearing.hear(
            relay_log(lines, log_zone),
            bench(settings, actor=who),
            seconds=seconds,
            trial=dry_run,
        )
    if as_json:
        print_json(found)
    else:
        _show(found)


def _show(found: "Hearing") -> None:
    for each in found.rulings:
        typer.echo(_ruling(each))
    settled = "would be settled" if found.is_trial else "settled"
    typer.echo(f"{found.settled} of {found.doubts} attempts in doubt {settled}")
    if found.silent:
        typer.echo(
            f"{found.silent} in doubt as before: the log proves nothing of them, "
            "and its silence is no proof either"
        )
    if found.elsewhere:
        typer.echo(f"{found.elsewhere} entries name a message of ours under another sender")
    if found.fates:
        seen = ", ".join(f"{count} {fate}" for fate, count in found.fates.items())
        typer.echo(f"recipients in the log: {seen}")


def _ruling(each: "Ruling") -> str:
    twice = ", taken twice" if each.duplicate else ""
    return (
        f"{each.outbox_id}: {each.before} -> {each.after}, "
        f"attempt {each.attempt_id} {each.verdict}{twice}; {each.grounds}"
    )


@contextmanager
def _counting() -> Iterator[Callable[[str, int], None]]:
    """Show a person how far the reading has come."""
    from rich.console import Console

    console = Console(stderr=True, quiet=not on_terminal(), markup=False)
    with console.status("reading") as status:
        yield lambda name, count: status.update(f"{name}: {count:,} lines")
