"""The environment, read once into one typed object; every mistake in it is told in one message."""

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from mailer.errors import SettingsError
from mailer.settings_fields import Settings
from mailer.settings_rules import RULES
from mailer.settings_values import STREAM_ORDERS, STREAM_PREFIX

Role = Literal["worker", "application", "operator", "web", "consumer"]
"""Who asks: a worker sends, an application enqueues, an operator (or `migrate`) looks and mends,
the web process and the consumer of a queue take events."""

PREFIX = "MAILER_"

FOREIGN = (
    "MAILER_ADMIN_PASSWORD",
    "MAILER_PROCESSES",
)
FOREIGN_PREFIXES = (STREAM_PREFIX, "MAILER_TESTS_")
"""Variables that belong to the Procfile, to the web process or to the tests: not read here."""

_FOLLOW_ON_ERROR = "default_factory_not_called"


class Problem(NamedTuple):
    """One line of the message: the variable, and what to do about it."""

    variable: str
    text: str


def load(
    environ: Mapping[str, str] | None = None,
    *,
    role: Role = "operator",
    provider_problems: Callable[[str], list[str]] | None = None,
    env_file: Path | None = None,
) -> Settings:
    """Return the settings that `environ` holds, fit for `role`.

    Without `environ` the process's environment is read, over a `.env` file in the working folder.
    With it, only `env_file` is read besides. A variable that is set to blanks counts as unset.
    `provider_problems` looks at one provider URL and says what is wrong with it; what it returns
    goes into the message and so must hold no credential.

    Raises SettingsError with one line for each mistake; no line repeats a value that may be secret.
    """
    given = _given(environ, env_file)
    settings, problems = _parse(given)
    wrong = {problem.variable for problem in problems}
    problems += _unknown(given)
    problems += _broken_rules(settings, role, wrong)
    if provider_problems is not None:
        problems += _provider_problems(settings, provider_problems)
    if problems:
        raise SettingsError(_message(problems))
    return settings


def table() -> list[tuple[str, str, str]]:
    """Return (variable, default, meaning) for every setting, in the order they are documented."""
    return [
        (variable, _default_text(name), Settings.model_fields[name].description or "")
        for variable, name in _variables().items()
    ]


def _variables() -> dict[str, str]:
    """Map each variable to the attribute that holds it."""
    return {str(field.alias): name for name, field in Settings.model_fields.items()}


def _default_text(name: str) -> str:
    field = Settings.model_fields[name]
    if isinstance(field.default, float):
        return f"{field.default:g}"
    return str(field.default) if isinstance(field.default, int | str) else ""


def _given(environ: Mapping[str, str] | None, env_file: Path | None) -> dict[str, str]:
    if environ is None:
        environ = os.environ
        env_file = env_file or Path(".env")
    merged = {**_read(env_file), **environ}
    return {name: text.strip() for name, text in merged.items() if text.strip()}


def _read(env_file: Path | None) -> dict[str, str]:
    if env_file is None or not env_file.is_file():
        return {}
    from dotenv import dotenv_values

    # A `$` in a password is a `$`: nothing is interpolated.
    lines = dotenv_values(env_file, interpolate=False)
    return {name: text for name, text in lines.items() if text is not None}


def _parse(given: Mapping[str, str]) -> tuple[Settings, list[Problem]]:
    """Return what could be read, with defaults where a value is wrong, and what is wrong."""
    values: dict[str, Any] = {name: given[name] for name in _variables() if name in given}
    values[STREAM_ORDERS] = {
        name.removeprefix(STREAM_PREFIX).lower(): given[name]
        for name in given
        if name.startswith(STREAM_PREFIX)
    }
    try:
        return Settings.model_validate(values), []
    except ValidationError as error:
        problems = [_problem(each) for each in error.errors() if each["type"] != _FOLLOW_ON_ERROR]
    for problem in problems:
        stream = problem.variable.startswith(STREAM_PREFIX)
        values.pop(STREAM_ORDERS if stream else problem.variable, None)
    return Settings.model_validate(values), problems


def _problem(error: Any) -> Problem:
    variable = str(error["loc"][0])
    cause = error.get("ctx", {}).get("error")
    text = str(cause) if cause is not None else str(error["msg"]).replace("Input should", "must")
    if variable == STREAM_ORDERS:
        variable, _, text = text.partition(": ")
    return Problem(variable, text)


def _unknown(given: Mapping[str, str]) -> Iterator[Problem]:
    known = {*_variables(), *FOREIGN}
    for name in sorted(given):
        if name.startswith(PREFIX) and name not in known and not name.startswith(FOREIGN_PREFIXES):
            yield Problem(name, f"is not a setting of mailer; {_likely_meant(name)}")


def _likely_meant(name: str) -> str:
    # The prefix that all share would make everything look alike.
    ours = [known.removeprefix(PREFIX) for known in _variables() if known.startswith(PREFIX)]
    close = difflib.get_close_matches(name.removeprefix(PREFIX), ours, n=1)
    return f"did you mean {PREFIX}{close[0]}?" if close else "remove it"


def _broken_rules(settings: Settings, role: Role, wrong: set[str]) -> Iterator[Problem]:
    for rule in RULES:
        if role in rule.roles and not wrong.intersection(rule.variables) and rule.broken(settings):
            yield Problem(rule.variables[0], rule.mend(settings))


def _provider_problems(
    settings: Settings, problems_of: Callable[[str], list[str]]
) -> Iterator[Problem]:
    for number, url in enumerate(settings.providers, start=1):
        for text in problems_of(url.get_secret_value()):
            yield Problem("MAILER_PROVIDERS", f"entry {number}: {text}")
    for stream, urls in settings.stream_orders.items():
        for number, url in enumerate(urls, start=1):
            for text in problems_of(url.get_secret_value()):
                yield Problem(f"{STREAM_PREFIX}{stream.upper()}", f"entry {number}: {text}")


def _message(problems: list[Problem]) -> str:
    count = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    lines = [f"  {problem.variable}: {problem.text}" for problem in problems]
    return "\n".join([f"the settings cannot work ({count}):", *lines])
