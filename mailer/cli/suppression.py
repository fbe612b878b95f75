"""The commands about whom nothing is sent to: `suppression list|add|release|import|sync`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from mailer.cli.provider import duration
from mailer.cli.session import (
    Actor,
    AsJson,
    Why,
    actor_or_user,
    at_work,
    on_terminal,
    print_json,
    say,
)
from mailer.facts import SuppressionReason

if TYPE_CHECKING:
    from mailer.account_list import AccountList
    from mailer.suppressing import Change, Delisted

Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="In any spelling.")]
Reason = Annotated[SuppressionReason, typer.Option(help="Why they get no mail.")]


def list_suppressions(
    address: Annotated[
        str | None,
        typer.Argument(metavar="[ADDRESS]", help="All that was ever held against this one."),
    ] = None,
    *,
    reason: Annotated[SuppressionReason | None, typer.Option(help="Those of one reason.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at once.")] = 50,
    after: Annotated[int, typer.Option(min=0, help="Go on beyond this number.")] = 0,
    ended: Annotated[bool, typer.Option("--all", help="Also the released and expired.")] = False,
    as_json: AsJson = False,
) -> None:
    """List who gets no mail, oldest first; or one address's whole history."""
    if address is not None and (reason or after or ended):
        raise typer.BadParameter("ADDRESS: has its whole history listed; give no --reason, --after")
    from mailer import suppression_reports

    with at_work():
        found = (
            suppression_reports.listing(reason=reason, after_id=after, limit=limit, ended=ended)
            if address is None
            else suppression_reports.history(address)
        )
    if as_json:
        print_json(found)
        return
    from mailer.cli.show_suppressions import show_suppressions

    show_suppressions(found, whole=ended or address is not None)


def add(
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS", help="One or several.")],
    *,
    why: Why,
    reason: Reason = SuppressionReason.MANUAL,
    seconds: Annotated[
        float | None,
        typer.Option("--for", parser=duration, metavar="TIME", help="At most 366d; else for good."),
    ] = None,
    actor: Actor = None,
) -> None:
    """Send nothing more to these addresses: to all of them, or none is changed."""
    from mailer import suppressing

    who = actor_or_user(actor)
    with at_work():
        done = suppressing.add(addresses, reason=reason, seconds=seconds, actor=who, why=why)
    for each in done:
        typer.echo(_told(each))


def release(
    address: Address,
    *,
    why: Why,
    lists_only: Annotated[
        bool, typer.Option("--lists-only", help="It is released here; ask the providers again.")
    ] = False,
    actor: Actor = None,
) -> None:
    """Send to an address again, and take it off the lists of all providers.

    What happened before cannot suppress it again; what happens from now on does. A list that fails
    does not undo the release.
    """
    from mailer import suppressing
    from mailer.wiring import account_lists

    who = actor_or_user(actor)
    with at_work() as settings, _closing(account_lists(settings)) as lists:
        if not lists_only:
            typer.echo(_told(suppressing.release(address, actor=who, why=why)))
        results = suppressing.delist(address, lists, actor=who, why=why)
    _tell_lists(results)


def import_file(
    file: Annotated[
        typer.FileBinaryRead,
        typer.Argument(metavar="FILE", help="UTF-8; - reads stdin."),
    ],
    *,
    why: Why,
    reason: Reason = SuppressionReason.MANUAL,
    actor: Actor = None,
) -> None:
    """Suppress for good whom a file names: an address a line, or address,reason,occurred_at.

    Every line is looked at before anything is written. Importing it again changes nothing.
    """
    from mailer import suppressing

    who = actor_or_user(actor)
    with at_work(), _counting("addresses") as told:
        done = suppressing.import_lines(
            file, reason=reason, actor=who, why=why, told=lambda count: told("imported", count)
        )
    typer.echo(
        f"{done.new} suppressed, {done.known} were already, "
        f"{done.left_released} left as they were released since"
    )


def sync(
    *,
    full: Annotated[bool, typer.Option("--full", help="Read all of each list.")] = False,
    push: Annotated[
        bool, typer.Option("--push", help="Put on each list whom people suppressed for good.")
    ] = False,
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Suppress whom the providers' own lists name, and report where the two disagree.

    For every hour; with --full, which alone sees what is gone from a list, for every week. It
    releases nobody.
    """
    from mailer import mirroring
    from mailer.wiring import account_lists

    who = actor_or_user(actor)
    with (
        at_work() as settings,
        _closing(account_lists(settings)) as lists,
        _counting("entries") as told,
    ):
        results = mirroring.sync(lists, actor=who, full=full, push=push, told=told)
    if as_json:
        print_json({"lists": results})
    else:
        from mailer.cli.show_suppressions import show_mirrored

        show_mirrored(results)
    _fail_for([each.problem for each in results])


def _told(change: "Change") -> str:
    before = change.before or "not suppressed"
    until = "" if change.expires_at is None else f" until {change.expires_at:%Y-%m-%d %H:%M:%S}Z"
    return f"{change.address_key}: {before} -> {change.after or 'released'}{until}"


def _tell_lists(results: "Sequence[Delisted]") -> None:
    for each in results:
        if each.problem is None:
            typer.echo(f"{each.name}: {'removed' if each.removed else 'was not on it'}")
    problems = [each.problem for each in results]
    if any(problems):
        say("released here, not on every list; mend this, then repeat with --lists-only:")
    _fail_for(problems)


def _fail_for(problems: Sequence[str | None]) -> None:
    told = [each for each in problems if each is not None]
    for each in told:
        say(each)
    if told:
        raise typer.Exit(1)


@contextmanager
def _closing(lists: "list[AccountList]") -> "Iterator[list[AccountList]]":
    try:
        yield lists
    finally:
        for each in lists:
            each.close()


@contextmanager
def _counting(what: str) -> Iterator[Callable[[str, int], None]]:
    """Show a person how far long work has come."""
    from rich.console import Console

    console = Console(stderr=True, quiet=not on_terminal(), markup=False)
    with console.status(f"reading {what}") as status:
        yield lambda name, count: status.update(f"{name}: {count:,} {what}")
