"""The command `prove`: the crash kit against this very installation, on private servers."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mailer.cli.session import AsJson, on_terminal, print_json, say
from mailer.errors import MailerError

if TYPE_CHECKING:
    from mailer.prove.kit.play import Result
    from mailer.prove.kit.stage import Stage

SEEDS = 20

_PROVIDERS = ("smtp", "ses", "both")


def _provider(given: str) -> str:
    if given not in _PROVIDERS:
        raise typer.BadParameter(f"is one of {', '.join(_PROVIDERS)}")
    return given


def prove(
    *,
    seeds: Annotated[int | None, typer.Option(min=1, help=f"So many; default {SEEDS}.")] = None,
    seed: Annotated[
        list[int] | None, typer.Option(min=0, help="This one alone; may be repeated.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="As many as fit in.")] = None,
    provider: Annotated[
        str, typer.Option(parser=_provider, metavar="smtp|ses|both", help="both: the seed decides.")
    ] = "both",
    pgbouncer: Annotated[
        bool, typer.Option("--pgbouncer", help="Behind PgBouncer in transaction mode.")
    ] = False,
    soak: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Send N messages (a night: 200000), and watch for leaks."
        ),
    ] = None,
    model: Annotated[
        bool, typer.Option("--model", help="Walk the protocol's model, whole and mutated.")
    ] = False,
    keep: Annotated[Path | None, typer.Option(help="Keep all logs here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Try to make this product lose or double a message, with real workers on private servers.

    Each seed is one scenario of faults: kills, cuts, stalls, outages. What the providers' own logs
    say is held against the rows. Exit status 1 with the first seed that breaks an invariant.
    """
    if sum(bool(each) for each in (seeds, seed, minutes)) > 1:
        raise typer.BadParameter("--seeds, --seed and --minutes exclude each other")
    if model:
        _walk(as_json=as_json)
        return
    with _stage(keep, pgbouncer=pgbouncer) as stage:
        if soak is not None:
            _soak(stage, soak, as_json=as_json)
        else:
            chosen = sorted(seed) if seed else _numbers(seeds, minutes)
            _run(stage, chosen, provider, as_json=as_json)


@contextmanager
def _stage(keep: Path | None, *, pgbouncer: bool) -> "Iterator[Stage]":
    try:
        from mailer.prove.kit.processes import StartFailed
        from mailer.prove.kit.stage import stage
    except ModuleNotFoundError as missing:
        raise MailerError(
            f"prove: the package {missing.name} is missing; pip install 'mailer[prove]'"
        ) from None
    folder = Path(tempfile.mkdtemp(prefix="mailer-prove-")) if keep is None else keep.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with stage(folder, pgbouncer=pgbouncer) as built:
            yield built
    except StartFailed as failure:
        raise MailerError(f"prove: a server did not start: {failure}") from None
    except OSError as error:
        raise MailerError(f"prove: {error.strerror or type(error).__name__}") from None
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _numbers(count: int | None, minutes: float | None) -> Iterator[int]:
    from mailer.prove.kit.campaign import numbers

    many = SEEDS if count is None and minutes is None else count
    return numbers(first=0, count=many, minutes=minutes)


def _run(
    stage: "Stage",
    seeds: Iterable[int],
    provider: str,
    *,
    as_json: bool,
) -> None:
    from mailer.prove.kit.campaign import campaign
    from mailer.prove.kit.plan import Through
    from mailer.prove.kit.words import document, lines

    report = campaign(stage, seeds, Through(provider), tell=_tell, done=_done)
    _show(document(report) if as_json else lines(report), as_json=as_json)
    if report.broken is not None:
        raise typer.Exit(1)


def _tell(seed: int, words: str) -> None:
    if on_terminal():
        typer.echo(f"\r\x1b[2Kseed {seed}: {words} ...", err=True, nl=False)


def _done(result: "Result") -> None:
    from mailer.prove.kit.words import line

    if on_terminal():
        typer.echo("\r\x1b[2K", err=True, nl=False)
    say(line(result))


def _soak(stage: "Stage", messages: int, *, as_json: bool) -> None:
    from dataclasses import asdict

    from mailer.prove.kit.soak import soak
    from mailer.prove.kit.words import soak_lines

    def tell(taken: int) -> None:
        if on_terminal():
            typer.echo(f"\r\x1b[2K{taken:,} of {messages:,} ...", err=True, nl=False)

    came_to = soak(stage, messages, tell=tell)
    if on_terminal():
        typer.echo("\r\x1b[2K", err=True, nl=False)
    _show(
        {"ok": not came_to.breaks, **asdict(came_to)} if as_json else soak_lines(came_to),
        as_json=as_json,
    )
    if came_to.breaks:
        raise typer.Exit(1)


def _walk(*, as_json: bool) -> None:
    from mailer.prove.report import lines

    told = []
    for each in lines():
        told.append(each)
        if not as_json:
            typer.echo(each)
    ok = not any("BROKEN" in each or "NOT CAUGHT" in each for each in told)
    if as_json:
        print_json({"ok": ok, "lines": told})
    if not ok:
        raise typer.Exit(1)


def _show(told: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    for each in told:
        typer.echo(each)
