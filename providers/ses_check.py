"""What the account says of itself: its limits, and `mailer check` with a mend for each fault."""

import math
from collections.abc import Callable, Iterator, Mapping
from email.utils import parseaddr
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from mailer.provider import Finding, Limits
from providers.ses_client import Clients, has_credentials
from providers.ses_settings import SesSettings

_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_PARENTS_LIMIT = 5
"""Domains above a sender's that are asked for: a verified one covers all below it."""


def measure(clients: Clients) -> Limits:
    """Return what GetAccount says may be sent; raise what the SDK raises."""
    return _limits(clients.account.get_account())


def look(clients: Clients, settings: SesSettings) -> list[Finding]:
    """Ask step by step and stop where nothing further can be asked."""
    if not has_credentials(clients):
        mend = f"none found; set {_KEYS}, or give the machine a role"
        return [Finding("credentials", ok=False, detail=mend)]
    try:
        account = clients.account.get_account()
    except Exception as exc:  # noqa: BLE001 - a check reports, whatever it meets
        return [_unreachable(exc, clients, settings)]
    return [
        Finding("credentials", ok=True, detail="SES accepts them"),
        Finding("region", ok=True, detail=f"{settings.region}, {clients.endpoint} answers"),
        *_account(_mapping(account), settings),
        *_sender(clients, settings),
        *_configuration_set(clients, settings),
    ]


def late(clients: Clients, settings: SesSettings) -> Finding:
    """Say that the questions were not answered in time."""
    return _silent("no answer in time", clients, settings)


def _unreachable(exc: Exception, clients: Clients, settings: SesSettings) -> Finding:
    if isinstance(exc, ClientError):
        code = _code(exc)
        if code in {"AccessDenied", "AccessDeniedException"}:
            return Finding("account", ok=False, detail=f"{code}: allow ses:GetAccount in IAM")
        return Finding(
            "credentials", ok=False, detail=f"{code}: mend {_KEYS}, or this machine's clock"
        )
    name = type(exc).__name__
    if "Credential" in name or "Token" in name or "SSO" in name:
        return Finding("credentials", ok=False, detail=f"{name}: mend {_KEYS}, or the role")
    return _silent(name, clients, settings)


def _silent(why: str, clients: Clients, settings: SesSettings) -> Finding:
    return Finding(
        "region",
        ok=False,
        detail=f"{why}: {clients.endpoint} cannot be reached; check the region {settings.region} "
        "and endpoint_url in MAILER_PROVIDERS, and that a firewall lets this machine out",
    )


def _account(account: Mapping[str, Any], settings: SesSettings) -> Iterator[Finding]:
    where = f"in the SES console of {settings.region}"
    yield _finding(
        "sending", account.get("SendingEnabled"), "enabled", f"disabled; enable it {where}"
    )
    yield _finding(
        "sandbox",
        account.get("ProductionAccessEnabled"),
        "left; any recipient can be written to",
        f"only verified recipients can be written to; request production access {where}",
    )
    status = account.get("EnforcementStatus", "HEALTHY")
    yield _finding(
        "enforcement",
        status == "HEALTHY",
        "healthy",
        f"{_word(status)}: look at bounces and complaints {where}, and answer AWS",
    )
    limits = _limits(account)
    yield _finding(
        "quota",
        limits.left_today is None or limits.left_today > 0,
        f"{_number(limits.rate_per_second)} recipients a second, "
        f"{_number(limits.left_today)} left of these 24 hours",
        f"used up for these 24 hours; wait, or request more {where}",
    )


def _sender(clients: Clients, settings: SesSettings) -> Iterator[Finding]:
    address = parseaddr(settings.sender or "")[1]
    domain = address.rpartition("@")[2].lower()
    if not domain:
        return
    labels = domain.split(".")
    above = [".".join(labels[n:]) for n in range(len(labels) - 1)]
    try:
        found = [_identity(clients, each) for each in (address, *above[:_PARENTS_LIMIT])]
    except (BotoCoreError, ClientError) as exc:
        yield _not_asked("sender", exc, "ses:GetEmailIdentity")
        return
    yield _finding(
        "sender",
        any(each.get("VerifiedForSendingStatus") is True for each in found),
        f"{domain} is verified, or the address of MAILER_FROM is",
        f"{domain} is not verified in {settings.region}; verify it in the SES console, or change "
        "MAILER_FROM",
    )


def _identity(clients: Clients, identity: str) -> Mapping[str, Any]:
    return _found(lambda: clients.account.get_email_identity(EmailIdentity=identity))


def _configuration_set(clients: Clients, settings: SesSettings) -> Iterator[Finding]:
    name = settings.configuration_set
    if name is None:
        return
    ask = clients.account.get_configuration_set
    try:
        found = _found(lambda: ask(ConfigurationSetName=name))
    except (BotoCoreError, ClientError) as exc:
        yield _not_asked("configuration set", exc, "ses:GetConfigurationSet")
        return
    is_on = _mapping(found.get("SendingOptions")).get("SendingEnabled", True)
    mend = (
        f"sending is disabled for {name}; enable it"
        if found
        else f"{name} is not there in {settings.region}; create it, or mend configuration_set in "
        "MAILER_PROVIDERS"
    )
    yield _finding("configuration set", bool(found) and is_on, f"{name} is there", mend)


def _found(ask: Callable[[], Any]) -> Mapping[str, Any]:
    """Return the answer; empty when there is no such thing."""
    try:
        return _mapping(ask())
    except ClientError as exc:
        if _code(exc) != "NotFoundException":
            raise
        return {}


def _not_asked(subject: str, exc: Exception, permission: str) -> Finding:
    why = _code(exc) if isinstance(exc, ClientError) else type(exc).__name__
    return Finding(subject, ok=True, detail=f"not asked ({why}); allow {permission} to have it")


def _limits(account: Any) -> Limits:
    quota = _mapping(_mapping(account).get("SendQuota"))
    rate, most = _amount(quota.get("MaxSendRate")), _amount(quota.get("Max24HourSend"))
    sent = _amount(quota.get("SentLast24Hours")) or 0.0
    return Limits(rate or None, None if most is None else max(most - sent, 0.0))


def _amount(value: Any) -> float | None:
    """Return an amount; None for what is none, and for -1, which is "unlimited"."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and value >= 0 else None


def _finding(subject: str, holds: Any, good: str, bad: str) -> Finding:
    return Finding(subject, ok=holds is True, detail=good if holds is True else bad)


def _number(value: float | None) -> str:
    return "unlimited" if value is None else f"{value:g}"


def _word(value: Any) -> str:
    return value.lower() if isinstance(value, str) and value.isalpha() else "unknown"


def _code(exc: ClientError) -> str:
    code = _mapping(_mapping(exc.response).get("Error")).get("Code")
    return str(code) if code else "refused"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
