"""The commands that change a row: `resolve`, `requeue`, `cancel`. Each leaves an audit line."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from mailer.cli.session import Actor, RowArguments, Why, actor_or_user, at_work, on_terminal, row_id
from mailer.errors import Refused

if TYPE_CHECKING:
    from mailer.operations import Decided

Verb = Callable[[int], "Decided"]


class Verdict(StrEnum):
    """What a person found out about a message in doubt."""

    ACCEPTED = "accepted"
    NOT_ACCEPTED = "not-accepted"


def resolve(
    ids: RowArguments,
    *,
    verdict: Annotated[
        Verdict,
        typer.Option("--as", help="accepted: it is sent. not-accepted: it is sent again at once."),
    ],
    why: Why,
    attempt: Annotated[
        int | None,
        typer.Option(min=1, help="The latest attempt that you looked into, if there are several."),
    ] = None,
    actor: Actor = None,
) -> None:
    """Settle ambiguous messages, because you know what became of them.

    Look ten minutes after the attempt at the earliest: a relay may take that long for a message.
    """
    from mailer import operations
    from mailer.states import Resolution

    resolution = Resolution[verdict.name]
    who = actor_or_user(actor)
    with at_work():
        _each(
            ids,
            lambda one: operations.resolve(one, resolution, actor=who, why=why, attempt=attempt),
        )


def requeue(ids: RowArguments, *, why: Why, actor: Actor = None) -> None:
    """Make failed or suppressed messages due again, with a fresh budget."""
    from mailer import operations

    who = actor_or_user(actor)
    with at_work():
        _each(ids, lambda one: operations.requeue(one, actor=who, why=why))


def cancel(ids: RowArguments, *, why: Why, actor: Actor = None) -> None:
    """Withdraw messages whose sending has not begun."""
    from mailer import operations

    who = actor_or_user(actor)
    with at_work():
        _each(ids, lambda one: operations.cancel(one, actor=who, why=why))


def _each(references: Sequence[str], verb: Verb) -> None:
    """Decide each row by itself: one refusal does not keep the others from being done."""
    refused = 0
    with _progress(references) as steps:
        for reference in steps:
            try:
                decided = verb(row_id(reference))
            except Refused as refusal:
                refused += 1
                typer.echo(str(refusal), err=True)
            else:
                typer.echo(f"{decided.outbox_id}: {decided.before} -> {decided.after}")
    if refused:
        raise typer.Exit(1)


@contextmanager
def _progress(references: Sequence[str]) -> Iterator[Iterator[str]]:
    if len(references) == 1 or not on_terminal():
        yield iter(references)
        return
    from rich.console import Console
    from rich.progress import Progress

    # Lines on stdout go above the bar where both are the same terminal, and stay apart elsewhere.
    bar = Progress(
        console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()
    )
    with bar:
        yield iter(bar.track(references, description="deciding"))
