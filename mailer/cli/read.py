"""The commands that only look: `status`, `list`, `show`."""

from typing import Annotated

import typer

from mailer.cli.session import AsJson, RowArgument, at_work, print_json, row_id
from mailer.states import RowState


def status(*, as_json: AsJson = False) -> None:
    """Show the outbox in numbers: states, circuits, what is due or in doubt, recent attempts."""
    from mailer import reports

    with at_work():
        found = reports.status()
    if as_json:
        print_json(found)
        return
    from mailer.cli.show import show_status

    show_status(found)


def list_rows(
    *,
    state: Annotated[RowState, typer.Option(help="Which rows.")] = RowState.AMBIGUOUS,
    stream: Annotated[str | None, typer.Option(help="Those of one stream.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at once.")] = 50,
    after: Annotated[int, typer.Option(min=0, help="Go on beyond this row's number.")] = 0,
    as_json: AsJson = False,
) -> None:
    """List the rows of one state, oldest first; without --state those that wait for you."""
    from mailer import reports

    with at_work() as settings:
        found = reports.listing(
            state,
            stream=stream,
            after_id=after,
            limit=limit,
            max_resends=settings.max_resends,
        )
    if as_json:
        print_json(found)
        return
    from mailer.cli.show import show_listing

    show_listing(found)


def show(row: RowArgument, *, as_json: AsJson = False) -> None:
    """Show one message's timeline: recipients, attempts, decisions, and what happens next."""
    from mailer import reports

    with at_work() as settings:
        found = reports.timeline(
            row_id(row), max_resends=settings.max_resends, default_sender=settings.sender or ""
        )
    if as_json:
        print_json(found)
        return
    from mailer.cli.show import show_timeline

    show_timeline(found)
