"""The settings one by one: name, variable, default, meaning, and what each value must look like."""

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from mailer.errors import SettingsError

LONGEST_SECONDS = 366 * 86_400.0
"""No duration is longer: it would be a slip of the unit."""

SECRET_CHARS = 16
"""Fewer could be guessed from one Message-ID."""

STREAM_PREFIX = "MAILER_STREAM_"

STREAM_ORDERS = "MAILER_STREAM_NAME"
"""Stands for one variable a stream in messages and in the table."""

_UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([smhd]?)", re.ASCII)
_PROVIDER = re.compile(r"[a-z][a-z0-9+.-]*://\S+")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def _seconds(value: Any) -> Any:
    """Read a duration; a bare number is seconds, and s, m, h, d may follow."""
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value)
    seconds = float(found[1]) * _UNIT_SECONDS[found[2]] if found else math.nan
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise ValueError("must be a duration of at most 366 days, such as 45s, 90m, 12h or 3d")
    return seconds


def _count(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"\d{1,15}", value, re.ASCII):
        raise ValueError("must be a whole number")
    return value


def _split(url: str) -> SplitResult:
    # urlsplit's own errors repeat the URL, and with it the password.
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(
            "is not a URL; percent-encode special characters in its user and password"
        ) from None
    return parts


def _database_url(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    parts = _split(value)
    if parts.scheme == "sqlite":
        _require(value.startswith("sqlite:///") and len(parts.path) > 1, "must be sqlite:///file")
    else:
        _require(
            parts.scheme in ("postgres", "postgresql"),
            "must begin with postgres://, postgresql:// or sqlite:///",
        )
        _require(len(parts.path) > 1, "names no database; add /name after the host")
        _require(bool(parts.hostname) or "host=" in parts.query, "names no host")
    return value


def _redis_url(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    parts = _split(value)
    _require(parts.scheme in ("redis", "rediss"), "must begin with redis:// or rediss://")
    _require(bool(parts.hostname), "names no host")
    return value


def _providers(value: Any) -> Any:
    """Split the list at commas and blanks; in a URL both are percent-encoded (RFC 3986 2.1)."""
    if not isinstance(value, str):
        return value
    urls = [url for url in re.split(r"[,\s]+", value) if url]
    wrong = [str(number) for number, url in enumerate(urls, start=1) if not _is_provider(url)]
    _require(
        not wrong,
        f"no URL such as smtp://host:587 at entry {', '.join(wrong)}; "
        "percent-encode commas, blanks and other special characters in passwords",
    )
    return urls


def _orders(value: Any) -> Any:
    """Read the order of each stream; a mistake names the stream."""
    if not isinstance(value, dict):
        return value
    orders = {}
    for stream, urls in value.items():
        try:
            orders[stream] = _providers(urls)
        except ValueError as error:
            raise ValueError(f"{STREAM_PREFIX}{stream.upper()}: {error}") from None
    return orders


def _is_provider(url: str) -> bool:
    try:
        _split(url)
    except ValueError:
        return False
    return _PROVIDER.fullmatch(url) is not None


def _sender(value: Any) -> Any:
    if isinstance(value, str):
        _require(
            value.isprintable() and domain_of(value) is not None,
            "must be an address, or a name with the address in angle brackets",
        )
    return value


def _domain(value: Any) -> Any:
    if isinstance(value, str):
        _require(_a_labels(value) is not None, "must be a domain name such as mail.example.com")
        return _a_labels(value)
    return value


def _secret(value: Any) -> Any:
    if isinstance(value, str):
        _require(len(value) >= SECRET_CHARS, f"must have at least {SECRET_CHARS} characters")
    return value


def _folder(value: Any) -> Any:
    if isinstance(value, str):
        _require(Path(value).is_dir(), "must be a folder that exists")
    return value


def _require(holds: bool, mend: str) -> None:  # noqa: FBT001 - reads as an assertion
    if not holds:
        raise ValueError(mend)


def domain_of(sender: str) -> str | None:
    """Return the domain of an address or of `Name <address>`, in A-labels (RFC 5890 2.3.2.1)."""
    bracketed = re.fullmatch(r"[^<>]*<([^<>]+)>", sender)
    local, _, domain = (bracketed[1] if bracketed else sender).rpartition("@")
    if not local or re.search(r"[<>@]", local):
        return None
    return _a_labels(domain)


def _a_labels(domain: str) -> str | None:
    if domain.isascii():
        return domain.lower() if _DOMAIN.fullmatch(domain) else None
    import idna

    try:
        return idna.encode(domain, uts46=True).decode()
    except idna.IDNAError:
        return None


def _sender_domain(data: dict[str, Any]) -> str | None:
    sender = data.get("sender")
    return domain_of(sender) if sender else None


Duration = Annotated[float, BeforeValidator(_seconds)]
PositiveDuration = Annotated[float, Field(gt=0), BeforeValidator(_seconds)]
Count = Annotated[int, Field(ge=0), BeforeValidator(_count)]
PositiveCount = Annotated[int, Field(ge=1), BeforeValidator(_count)]


class Settings(BaseModel):
    """All that can be set, already checked. Made by `mailer.settings.load` alone.

    Durations are seconds. URLs and the secret are `SecretStr`, so that no repr shows them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False
    )

    database_url: Annotated[SecretStr | None, BeforeValidator(_database_url)] = Field(
        None,
        alias="DATABASE_URL",
        description="Where the outbox lives: `postgres://…`, `postgresql://…` or `sqlite:///file`. "
        "An application that binds its own database needs none.",
    )
    redis_url: Annotated[SecretStr | None, BeforeValidator(_redis_url)] = Field(
        None,
        alias="REDIS_URL",
        description="`redis://…` or `rediss://…`; unset: no hints, the poll alone finds the work.",
    )
    providers: Annotated[tuple[SecretStr, ...], BeforeValidator(_providers)] = Field(
        (),
        alias="MAILER_PROVIDERS",
        description="Provider URLs separated by commas or blanks, the preferred one first; "
        "passwords are percent-encoded. A worker needs one, an application none.",
    )
    stream_orders: Annotated[dict[str, tuple[SecretStr, ...]], BeforeValidator(_orders)] = Field(
        default_factory=dict,
        alias="MAILER_STREAM_NAME",
        description="Provider URLs for the rows of one stream (its name in capitals in place of "
        "`NAME`), instead of `MAILER_PROVIDERS`.",
    )
    sender: Annotated[str | None, BeforeValidator(_sender)] = Field(
        None,
        alias="MAILER_FROM",
        repr=False,
        description="The sender of messages that name none.",
    )
    message_id_domain: Annotated[str | None, BeforeValidator(_domain)] = Field(
        default_factory=_sender_domain,
        alias="MAILER_MESSAGE_ID_DOMAIN",
        description="The right side of every Message-ID; unset: the domain of `MAILER_FROM`.",
    )
    secret: Annotated[SecretStr | None, BeforeValidator(_secret)] = Field(
        None,
        alias="MAILER_SECRET",
        description="The key of Message-IDs, at least 16 characters, the same in every process.",
    )
    templates: Annotated[Path | None, BeforeValidator(_folder)] = Field(
        None, alias="MAILER_TEMPLATES", description="The folder of versioned templates."
    )
    lease_seconds: PositiveDuration = Field(
        60.0,
        alias="MAILER_LEASE_SECONDS",
        description="How long a claim holds without renewal; it is renewed at every third of it.",
    )
    max_attempts: PositiveCount = Field(
        10,
        alias="MAILER_MAX_ATTEMPTS",
        description="Temporary refusals of one message before it fails.",
    )
    max_age_seconds: PositiveDuration = Field(
        259_200.0,
        alias="MAILER_MAX_AGE",
        description="How long a message is tried, whatever the reason that it does not go out.",
    )
    batch: PositiveCount = Field(
        200, alias="MAILER_BATCH", description="Messages claimed by one statement."
    )
    concurrency: PositiveCount = Field(
        32,
        alias="MAILER_CONCURRENCY",
        description="Calls in flight, and provider connections, in one worker process.",
    )
    poll_seconds: PositiveDuration = Field(
        1.0,
        alias="MAILER_POLL_SECONDS",
        description="How often an idle worker process looks for due messages by itself.",
    )
    retry_base_seconds: PositiveDuration = Field(
        15.0,
        alias="MAILER_RETRY_BASE",
        description="The longest wait before the second attempt; it doubles with each further one.",
    )
    retry_cap_seconds: PositiveDuration = Field(
        3_600.0,
        alias="MAILER_RETRY_CAP",
        description="The longest wait between two attempts.",
    )
    ambiguous_wait_seconds: Duration = Field(
        900.0,
        alias="MAILER_AMBIGUOUS_WAIT",
        description="How long an ambiguous message waits for evidence before its policy applies.",
    )
    max_resends: Count = Field(
        1,
        alias="MAILER_MAX_RESENDS",
        description="How often a message with `on_ambiguous` `resend` is sent again on a doubt.",
    )
    shutdown_seconds: Annotated[Duration, Field(le=22)] = Field(
        20.0,
        alias="MAILER_SHUTDOWN_SECONDS",
        description="How long a stopping worker waits for calls in flight, at most 22; "
        "what is still open then is written down as ambiguous.",
    )
    max_message_bytes: Annotated[PositiveCount, Field(ge=1_024)] = Field(
        10 * 1024 * 1024,
        alias="MAILER_MAX_MESSAGE_BYTES",
        description="The largest message that is accepted, composed and encoded, in bytes.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto",
        alias="MAILER_LOG",
        description="`json`, `text`, or `auto`: text on a terminal, JSON elsewhere.",
    )

    @property
    def database_address(self) -> str:
        """The URL of the database, for roles that cannot do without one."""
        return _present(self.database_url)

    @property
    def renew_seconds(self) -> float:
        """How often the leases of calls in flight are renewed."""
        return self.lease_seconds / 3


def _present(secret: SecretStr | None) -> str:
    if secret is None:
        raise SettingsError("DATABASE_URL: is not set; give the URL of the outbox's database")
    return secret.get_secret_value()
