"""What a relay's URL says: `smtp://user:password@host:port?tls=starttls` and its parameters."""

import ipaddress
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from mailer.errors import SettingsError
from mailer.provider import Provider
from providers import parameters

DEFAULT_PORTS = {"implicit": 465, "starttls": 587, "none": 25}
_SECONDS_LIMIT = 3600.0
_MESSAGES_LIMIT = 1_000_000
_TIMES = ("timeout", "data_timeout", "idle_timeout")
_PARAMETERS = ("tls", "auth", "ca", *_TIMES, "max_messages", "rate")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,253})|[0-9A-Fa-f:.]+")
_CLIENT_NAME = re.compile(r"[!-~]{1,255}")


class TlsMode(StrEnum):
    """How the connection is secured; never changed by what a server offers."""

    IMPLICIT = "implicit"
    STARTTLS = "starttls"
    NONE = "none"


class Mechanism(StrEnum):
    """AUTH mechanisms (RFC 4954), in order of preference; one is tried, never several."""

    PLAIN = "plain"
    LOGIN = "login"
    CRAM_MD5 = "cram-md5"


@dataclass(frozen=True, slots=True)
class SmtpSettings:
    """One relay. Times in seconds, `rate` in recipients a second.

    `timeout` bounds each step before and each chunk of the content, `data_timeout` the wait after
    the final dot (RFC 5321 4.5.3.2.6 asks for ten minutes).
    """

    host: str
    port: int
    tls: TlsMode
    user: str = ""
    password: str = field(default="", repr=False)
    auth: Mechanism | None = None
    ca: str | None = None
    timeout: float = 30.0
    data_timeout: float = 600.0
    idle_timeout: float = 30.0
    max_messages: int = 100
    rate: float | None = None
    connections: int = 1
    local_hostname: str | None = None

    @property
    def name(self) -> str:
        """What attempts record: scheme, host and port."""
        scheme = "smtps" if self.tls is TlsMode.IMPLICIT else "smtp"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}:{host}:{self.port}"


def problems(url: str) -> list[str]:
    """List all that is wrong with `url`, each a sentence with its mend and without a credential."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return [
            "url: host or port cannot be read; write smtp://host:port and percent-encode special "
            "characters of user and password"
        ]
    found = [*_host_problems(parts, host, port), *_parameter_problems(parts)]
    found += _security_problems(parts, host, parameters.read(parts.query))
    return found


def build(
    url: str, *, connections: int, local_hostname: str | None, sender: str | None = None
) -> Provider:
    """Make the provider of a `url` that has no problems.

    Raises `SettingsError` for a client name that cannot stand on the EHLO line.
    """
    del sender
    if local_hostname is not None and not _CLIENT_NAME.fullmatch(local_hostname):
        raise SettingsError(
            "local_hostname: not a host name; use the worker's full name in printable ASCII"
        )
    from providers.smtp import SmtpProvider

    return SmtpProvider(parse(url, connections=connections, local_hostname=local_hostname))


def parse(url: str, *, connections: int = 1, local_hostname: str | None = None) -> SmtpSettings:
    """Read a `url` that has no problems."""
    parts = urlsplit(url)
    given = parameters.read(parts.query)
    tls = _tls_mode(parts, given)
    return SmtpSettings(
        host=parts.hostname or "",
        port=parts.port or DEFAULT_PORTS[tls],
        tls=tls,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        auth=Mechanism(given["auth"]) if "auth" in given else None,
        ca=given.get("ca"),
        timeout=float(given.get("timeout", 30)),
        data_timeout=float(given.get("data_timeout", 600)),
        idle_timeout=float(given.get("idle_timeout", 30)),
        max_messages=int(given.get("max_messages", 100)),
        rate=parameters.rate(given),
        connections=connections,
        local_hostname=local_hostname,
    )


def is_loopback(host: str) -> bool:
    """Whether `host` never leaves this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _tls_mode(parts: SplitResult, given: dict[str, str]) -> TlsMode:
    if parts.scheme == "smtps":
        return TlsMode.IMPLICIT
    return TlsMode(given.get("tls", TlsMode.NONE))


def _host_problems(parts: SplitResult, host: str, port: int | None) -> list[str]:
    found = []
    if not host:
        found.append("host: missing; write smtp://host:port")
    elif not _HOST.fullmatch(host):
        found.append("host: not a host name; write it in ASCII (A-labels) or as an IP address")
    if port == 0:
        found.append("port: 0 cannot be connected to; give 1 to 65535 or leave it out")
    if parts.path not in {"", "/"} or parts.fragment:
        found.append(
            "url: something follows the host; remove it, and percent-encode / ? # in user and "
            "password"
        )
    return found


def _parameter_problems(parts: SplitResult) -> list[str]:
    given = parameters.read(parts.query)
    known = [name for name in _PARAMETERS if name != "tls" or parts.scheme == "smtp"]
    found = []
    if "tls" in given and "tls" not in known:
        found.append("tls: smtps:// is TLS from the first octet; remove it")
    found += parameters.unknown(parts.query, parts.scheme, known, but="tls")
    found += parameters.repeated(parts.query, known)
    return found + _value_problems(given)


def _value_problems(given: dict[str, str]) -> list[str]:
    found = []
    if given.get("tls", "none") not in {"starttls", "none"}:
        found.append("tls: must be starttls or none (smtps:// for TLS from the first octet)")
    if given.get("auth", "plain") not in set(Mechanism):
        found.append(f"auth: must be one of {', '.join(Mechanism)}")
    if "ca" in given and not Path(given["ca"]).is_file():
        found.append("ca: no such file; give the path of a PEM file with the trusted certificates")
    found += parameters.seconds_problems(given, _TIMES, _SECONDS_LIMIT)
    found += parameters.rate_problems(given)
    messages = given.get("max_messages", "1")
    if not (messages.isascii() and messages.isdigit() and 0 < int(messages) <= _MESSAGES_LIMIT):
        found.append(f"max_messages: must be a whole number from 1 to {_MESSAGES_LIMIT}")
    return found


def _security_problems(parts: SplitResult, host: str, given: dict[str, str]) -> list[str]:
    found = []
    user, password = parts.username or "", parts.password or ""
    if password and not user:
        found.append("user: missing although a password is given; add it or remove the password")
    if user and not password:
        found.append("password: missing although a user is given; add it or remove the user")
    if "auth" in given and not user:
        found.append("auth: useless without user and password; add them or remove it")
    if parts.scheme == "smtp" and not is_loopback(host):
        found += _clear_text_problems(given, has_credentials=bool(user or password))
    return found


def _clear_text_problems(given: dict[str, str], *, has_credentials: bool) -> list[str]:
    if "tls" not in given:
        return ["tls: missing; add tls=starttls, or tls=none for a relay that has no TLS"]
    if given["tls"] == "none" and has_credentials:
        return ["tls: none would send the password in clear text; use tls=starttls or smtps://"]
    return []
