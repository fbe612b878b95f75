"""What each setting must look like: text in, the value out, or ValueError with the mend.

What is no text, such as a default, passes as it is. No message repeats what was given.
"""

import math
import re
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from mailer.returnpath import MAX_BASE_LOCAL_CHARS

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
_PLAIN_LOCAL = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_TOPIC = re.compile(r"arn:aws[a-z-]{0,20}:sns:[a-z0-9-]{4,40}:[0-9]{12}:[A-Za-z0-9_-]{1,256}")


def seconds(value: Any) -> Any:
    """Read a duration; a bare number is seconds, and s, m, h, d may follow."""
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value)
    seconds = float(found[1]) * _UNIT_SECONDS[found[2]] if found else math.nan
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise ValueError("must be a duration of at most 366 days, such as 45s, 90m, 12h or 3d")
    return seconds


def count(value: Any) -> Any:
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


def database_url(value: Any) -> Any:
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


def redis_url(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    parts = _split(value)
    _require(parts.scheme in ("redis", "rediss"), "must begin with redis:// or rediss://")
    _require(bool(parts.hostname), "names no host")
    return value


def providers(value: Any) -> Any:
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


def topics(value: Any) -> Any:
    """Split the list at commas and blanks; SES publishes to no FIFO topic."""
    if not isinstance(value, str):
        return value
    arns = [arn for arn in re.split(r"[,\s]+", value) if arn]
    wrong = [str(number) for number, arn in enumerate(arns, start=1) if not _TOPIC.fullmatch(arn)]
    _require(
        not wrong,
        f"no standard topic's ARN at entry {', '.join(wrong)}; "
        "write arn:aws:sns:<region>:<12 digits>:<name>",
    )
    return list(dict.fromkeys(arns))


def queue_url(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    parts = _split(value)
    _require(
        parts.scheme in ("https", "http") and bool(parts.hostname) and len(parts.path) > 1,
        "must be a queue's URL, such as https://sqs.<region>.amazonaws.com/<12 digits>/<name>",
    )
    _require("@" not in parts.netloc, "must hold no credentials; AWS's own chain has them")
    return value


def versions(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return ",".join(sorted({each for each in re.split(r"[,\s]+", value) if each}))


def orders(value: Any) -> Any:
    """Read the order of each stream; a mistake names the stream."""
    if not isinstance(value, dict):
        return value
    orders = {}
    for stream, urls in value.items():
        try:
            orders[stream] = providers(urls)
        except ValueError as error:
            raise ValueError(f"{STREAM_PREFIX}{stream.upper()}: {error}") from None
    return orders


def _is_provider(url: str) -> bool:
    try:
        _split(url)
    except ValueError:
        return False
    return _PROVIDER.fullmatch(url) is not None


def sender(value: Any) -> Any:
    if isinstance(value, str):
        _require(
            value.isprintable() and domain_of(value) is not None,
            "must be an address, or a name with the address in angle brackets",
        )
    return value


def return_path(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    local, _, domain = value.rpartition("@")
    labels = _a_labels(domain)
    _require(
        _PLAIN_LOCAL.fullmatch(local) is not None and labels is not None,
        "must be an address alone, such as bounces@mail.example.com",
    )
    _require(
        len(local) <= MAX_BASE_LOCAL_CHARS,
        f"must have at most {MAX_BASE_LOCAL_CHARS} characters before the @, "
        "because an attempt's own tag is added there",
    )
    return f"{local}@{labels}"


def domain(value: Any) -> Any:
    if isinstance(value, str):
        _require(_a_labels(value) is not None, "must be a domain name such as mail.example.com")
        return _a_labels(value)
    return value


def secret(value: Any) -> Any:
    if isinstance(value, str):
        _require(len(value) >= SECRET_CHARS, f"must have at least {SECRET_CHARS} characters")
    return value


def folder(value: Any) -> Any:
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
