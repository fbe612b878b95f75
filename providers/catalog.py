"""From a URL to a provider. A provider's SDK is imported when its scheme is built, not before."""

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast
from urllib.parse import urlsplit

from mailer.account_list import AccountList
from mailer.errors import SettingsError
from mailer.provider import Provider

_MODULES = {
    "smtp": "providers.smtp_settings",
    "smtps": "providers.smtp_settings",
    "ses": "providers.ses_settings",
    "file": "providers.capture",
}

_LISTS = {"ses": "providers.ses_suppression"}
"""Schemes whose accounts have a suppression list of their own."""


class _Build(Protocol):
    def __call__(
        self, url: str, *, connections: int, local_hostname: str | None, sender: str | None
    ) -> Provider: ...


def problems(url: str) -> list[str]:
    """List all that is wrong with a provider's URL; empty when it can be built.

    Each is one sentence that names the parameter and the mend; none holds a credential.
    """
    scheme = _scheme(url)
    if scheme not in _MODULES:
        return [f"scheme: unknown; use one of {', '.join(f'{each}://' for each in _MODULES)}"]
    check = cast("Callable[[str], list[str]]", import_module(_MODULES[scheme]).problems)
    return check(url)


def build(
    url: str, *, connections: int, local_hostname: str | None = None, sender: str | None = None
) -> Provider:
    """Make the provider that `url` names, with at most `connections` connections.

    `local_hostname` is what an SMTP client calls itself; without it the local address is used
    (RFC 5321 4.1.3). `sender` is the default sender, for a check that can ask about it. Raises
    `SettingsError` with every problem of the URL.
    """
    found = problems(url)
    if connections < 1:
        found.append("connections: must be at least 1")
    if found:
        raise SettingsError("; ".join(found))
    make = cast("_Build", import_module(_MODULES[_scheme(url)]).build)
    return make(url, connections=connections, local_hostname=local_hostname, sender=sender)


def suppression_list(url: str) -> AccountList | None:
    """Make the suppression list of the account that `url` sends through; None if it keeps none.

    URLs that share an account share its list: see its `name`. Raises `SettingsError` with every
    problem of the URL.
    """
    if found := problems(url):
        raise SettingsError("; ".join(found))
    if _scheme(url) not in _LISTS:
        return None
    make = cast(
        "Callable[[str], AccountList]", import_module(_LISTS[_scheme(url)]).suppression_list
    )
    return make(url)


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:
        return url.partition(":")[0].lower()
