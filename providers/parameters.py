"""The parameters of a provider's URL that every scheme reads alike."""

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import parse_qsl

RATE_LIMIT = 100_000.0
_SHOWABLE = re.compile(r"[a-z_]{1,30}")


def read(query: str) -> dict[str, str]:
    """Return the parameters of a query; of one given twice, the last."""
    return dict(parse_qsl(query, keep_blank_values=True))


def unknown(query: str, scheme: str, known: Sequence[str], but: str = "") -> list[str]:
    """List the parameters that `scheme` does not know, but for one that is explained elsewhere."""
    names = sorted(set(read(query)) - {*known, but})
    return [f"{shown(name)}: unknown for {scheme}://; use {', '.join(known)}" for name in names]


def repeated(query: str, known: Iterable[str]) -> list[str]:
    """List the parameters that are given more than once."""
    names = [name for name, _ in parse_qsl(query, keep_blank_values=True)]
    counts = {name: names.count(name) for name in known}
    return [f"{name}: given {count} times; keep one" for name, count in counts.items() if count > 1]


def shown(name: str) -> str:
    """Return a parameter's name if it is one, and not a piece of a password."""
    return name if _SHOWABLE.fullmatch(name) else "a parameter"


def seconds_problems(given: Mapping[str, str], names: Iterable[str], limit: float) -> list[str]:
    """List those of `names` whose value is no number of seconds above 0 and up to `limit`."""
    return [
        f"{name}: must be seconds between 0 and {limit:.0f}, above 0"
        for name in names
        if name in given and not is_number_within(given[name], limit)
    ]


def rate_problems(given: Mapping[str, str]) -> list[str]:
    """Say whether `rate`, in recipients a second, cannot be used."""
    if "rate" not in given or is_number_within(given["rate"], RATE_LIMIT):
        return []
    return [f"rate: must be recipients a second, above 0 and at most {RATE_LIMIT:.0f}"]


def rate(given: Mapping[str, str]) -> float | None:
    """Return the `rate` of parameters without problems, in recipients a second."""
    return float(given["rate"]) if "rate" in given else None


def is_number_within(text: str, limit: float) -> bool:
    """Whether `text` is a plain decimal number above 0 and up to `limit`."""
    return bool(re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text, re.ASCII)) and 0 < float(text) <= limit
