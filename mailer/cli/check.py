"""`check` looks whether a worker could work here; `settings` tells what is set."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from mailer.cli.session import AsJson, print_json
from mailer.errors import MailerError, SettingsError
from mailer.provider import Finding

if TYPE_CHECKING:
    from pydantic import SecretStr

    from mailer.settings_fields import Settings

CHECK_SECONDS = 60.0
"""A provider that has not answered by then is not of use to a worker either."""

_CLOSE_SECONDS = 5.0
_HIDDEN = "(set, not shown)"


def check(*, as_json: AsJson = False) -> None:
    """Check the settings, the database and each provider, without sending anything."""
    findings = list(_look())
    ok = all(each.ok for each in findings)
    if as_json:
        print_json({"ok": ok, "findings": findings})
    else:
        from mailer.cli.show import show_findings

        show_findings(findings)
    if not ok:
        raise typer.Exit(1)


def _look() -> Iterator[Finding]:
    from mailer.wiring import settings_for_worker

    try:
        settings = settings_for_worker()
    except SettingsError as error:
        yield from _mistakes(error)
        return
    yield Finding("settings", ok=True, detail="a worker can start with them")
    yield _database(settings)
    orders = (settings.providers, *settings.stream_orders.values())
    for url in dict.fromkeys(url for urls in orders for url in urls):
        yield from _provider(settings, url)


def _mistakes(error: SettingsError) -> Iterator[Finding]:
    """The first line only counts the others."""
    for line in str(error).splitlines()[1:]:
        variable, _, text = line.strip().partition(": ")
        yield Finding(variable, ok=False, detail=text)


def _database(settings: "Settings") -> Finding:
    from mailer.database import is_postgresql
    from mailer.session import sitting

    try:
        with sitting(settings.database_address):
            kind = "PostgreSQL" if is_postgresql() else "SQLite"
            return Finding("database", ok=True, detail=f"{kind}, all migrations applied")
    except MailerError as error:
        return Finding("database", ok=False, detail=str(error))


def _provider(settings: "Settings", url: "SecretStr") -> Iterator[Finding]:
    from mailer.loop import LoopThread
    from mailer.wiring import build_provider

    try:
        provider = build_provider(url, settings)
    except SettingsError as error:
        yield Finding("MAILER_PROVIDERS", ok=False, detail=str(error))
        return
    loop = LoopThread()
    loop.start()
    try:
        for each in loop.run(provider.check(), timeout_seconds=CHECK_SECONDS):
            yield Finding(f"{provider.name} {each.subject}", ok=each.ok, detail=each.detail)
        loop.run(provider.close(), timeout_seconds=_CLOSE_SECONDS)
    except TimeoutError:
        detail = f"no answer within {CHECK_SECONDS:.0f} s; check host, port and firewall"
        yield Finding(provider.name, ok=False, detail=detail)
    finally:
        loop.stop()


def settings(*, as_json: AsJson = False) -> None:
    """Show every setting with its value, default and meaning; secrets are not shown."""
    from mailer.settings import load, table
    from mailer.settings_fields import Settings

    found = load()
    attributes = {str(field.alias): name for name, field in Settings.model_fields.items()}
    lines = [
        (variable, _shown(getattr(found, attributes[variable])), default, meaning)
        for variable, default, meaning in table()
    ]
    if as_json:
        names = ("variable", "value", "default", "meaning")
        print_json({"settings": [dict(zip(names, line, strict=True)) for line in lines]})
        return
    from mailer.cli.show import show_settings

    show_settings(lines)


def _shown(value: Any) -> str:
    """Of a secret not even a part is shown: a URL may be split in the wrong place."""
    if value is None or value in ((), {}):
        return ""
    if isinstance(value, tuple) and all(isinstance(each, str) for each in value):
        return " ".join(value)
    if isinstance(value, tuple | dict) or hasattr(value, "get_secret_value"):
        return _HIDDEN
    return f"{value:.10g}" if isinstance(value, float) else str(value)
