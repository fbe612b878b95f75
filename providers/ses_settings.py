"""What `ses://REGION?configuration_set=main` and its parameters say."""

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from mailer.provider import Provider
from providers import parameters

_PARAMETERS = ("configuration_set", "endpoint_url", "rate", "timeout", "connect_timeout")
_SECONDS_LIMIT = 60.0
"""A call that outlasts a lease by far keeps a row from everybody."""

_REGION = re.compile(r"[a-z]{2,4}(?:-[a-z]+)+-\d{1,2}")
_CONFIGURATION_SET = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class SesSettings:
    """One account in one region. Times in seconds, `rate` in recipients a second.

    `timeout` bounds the writing of a request, and each wait for a piece of its answer.
    `sender` is only looked at by the check.
    """

    region: str
    configuration_set: str | None = None
    endpoint_url: str | None = None
    rate: float | None = None
    timeout: float = 25.0
    connect_timeout: float = 5.0
    connections: int = 1
    sender: str | None = None

    @property
    def name(self) -> str:
        """What attempts record: the region, the configuration set, and an endpoint not AWS's."""
        within = f"/{self.configuration_set}" if self.configuration_set else ""
        at = f"+{urlsplit(self.endpoint_url).netloc}" if self.endpoint_url else ""
        return f"ses:{self.region}{within}{at}"

    @property
    def deadline_seconds(self) -> float:
        """What a whole call may take, however slowly its answer trickles in."""
        return self.connect_timeout + 2 * self.timeout


def problems(url: str) -> list[str]:
    """List all that is wrong with `url`, each a sentence with its mend and without a credential."""
    try:
        parts = urlsplit(url)
        has_port = parts.port is not None
    except ValueError:
        return ["url: region cannot be read; write ses://eu-west-1"]
    return [
        *_place_problems(parts, has_port=has_port),
        *parameters.unknown(parts.query, "ses", _PARAMETERS),
        *parameters.repeated(parts.query, _PARAMETERS),
        *_value_problems(parameters.read(parts.query)),
    ]


def build(
    url: str, *, connections: int, local_hostname: str | None, sender: str | None = None
) -> Provider:
    """Make the provider of a `url` that has no problems.

    Raises `SettingsError` when AWS's own settings (profile, configuration file, credentials in
    part) let no client be made.
    """
    del local_hostname
    from providers.ses import SesProvider

    return SesProvider(parse(url, connections=connections, sender=sender))


def parse(url: str, *, connections: int = 1, sender: str | None = None) -> SesSettings:
    """Read a `url` that has no problems."""
    parts = urlsplit(url)
    given = parameters.read(parts.query)
    return SesSettings(
        region=parts.netloc,
        configuration_set=given.get("configuration_set"),
        endpoint_url=given.get("endpoint_url"),
        rate=parameters.rate(given),
        timeout=float(given.get("timeout", 25)),
        connect_timeout=float(given.get("connect_timeout", 5)),
        connections=connections,
        sender=sender,
    )


def _place_problems(parts: SplitResult, *, has_port: bool) -> list[str]:
    found = []
    if "@" in parts.netloc:
        found.append(
            "user: credentials do not belong here; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or give the machine a role"
        )
    elif has_port or not _REGION.fullmatch(parts.netloc):
        found.append("region: missing or not a region's name; write ses://eu-west-1")
    if parts.path not in {"", "/"} or parts.fragment:
        found.append("url: something follows the region; remove it, parameters begin with ?")
    return found


def _value_problems(given: dict[str, str]) -> list[str]:
    found = []
    if not _CONFIGURATION_SET.fullmatch(given.get("configuration_set", "none")):
        found.append(
            "configuration_set: must be 1 to 64 letters, digits, _ or -; give its name in SES"
        )
    if "endpoint_url" in given and not _is_endpoint(given["endpoint_url"]):
        found.append("endpoint_url: must be http:// or https:// with a host, and nothing secret")
    found += parameters.rate_problems(given)
    found += parameters.seconds_problems(given, ("timeout", "connect_timeout"), _SECONDS_LIMIT)
    return found


def _is_endpoint(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    extras = parts.query or parts.fragment or "@" in parts.netloc
    return parts.scheme in {"http", "https"} and bool(host) and not extras
