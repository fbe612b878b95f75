"""The commands about providers: `provider list`, `provider open`, `provider close`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mailer.cli.session import Actor, AsJson, Why, actor_or_user, at_work, print_json

if TYPE_CHECKING:
    from mailer.operations import Switched


OPEN_SECONDS = 3_600.0
"""How long a circuit that is opened by hand stays open, unless another time is given."""


def duration(given: str | float) -> float:
    """Read a length of time as the settings do; raises BadParameter, which is wrong usage."""
    from pydantic import TypeAdapter, ValidationError

    from mailer.settings_fields import PositiveDuration

    try:
        seconds: float = TypeAdapter(PositiveDuration).validate_python(given)
    except ValidationError:
        raise typer.BadParameter("give a length of time such as 45s, 90m, 12h or 3d") from None
    return seconds


Name = Annotated[str, typer.Argument(metavar="NAME", help="As `mailer provider list` has it.")]


def list_providers(*, as_json: AsJson = False) -> None:
    """List what workers know of each provider, and of senders at it: circuit, rate, quota."""
    from mailer import reports

    with at_work():
        found = reports.providers()
    if as_json:
        print_json(found)
        return
    from mailer.cli.show import show_providers

    show_providers(found)


def open_circuit(
    name: Name,
    *,
    why: Why,
    seconds: Annotated[
        float,
        typer.Option(
            "--for",
            parser=duration,
            metavar="TIME",
            show_default="1h",
            help="After that one message probes it; at most 30d.",
        ),
    ] = OPEN_SECONDS,
    actor: Actor = None,
) -> None:
    """Stop sending through a provider, or for one sender at it.

    A provider's mail takes the next one of its order, or waits; a sender's waits. Calls that are
    under way end as they will.
    """
    from mailer import operations
    from mailer.next_step import span

    who = actor_or_user(actor)
    with at_work():
        switched = operations.open_circuit(name, seconds=seconds, actor=who, why=why)
    typer.echo(f"{_told(switched)} for {span(seconds)}")


def close_circuit(name: Name, *, why: Why, actor: Actor = None) -> None:
    """Send through a provider again, or for one sender at it, without waiting for a probe."""
    from mailer import operations

    who = actor_or_user(actor)
    with at_work():
        switched = operations.close_circuit(name, actor=who, why=why)
    typer.echo(_told(switched))


def _told(switched: "Switched") -> str:
    return f"{switched.name}: {switched.before} -> {switched.after}"
