"""Which extra headers an application may set, and in what form."""

import re
from collections.abc import Mapping, Sequence

from mailer.errors import InvalidEmail
from mailer.lines import one_line

MAX_HEADERS = 50
MAX_NAME_CHARS = 126
MAX_VALUE_CHARS = 4000
MAX_TOKEN_OCTETS = 860
"""A token that cannot be folded must fit a line of 998 octets (RFC 5322 2.1.1) with its name."""

_NAME = re.compile(r"[!-9;-~]+")
_PRINTABLE = re.compile(r"[ -~]+")
_URI = re.compile(r"<(?:https://|mailto:)[!-;=?-~]+>", re.IGNORECASE)
_URI_SEPARATOR = re.compile(r"(?<=>) *, *(?=<)")
_ONE_CLICK = "List-Unsubscribe=One-Click"
_WRITTEN_HERE = "it is written for every message and cannot be set"
_RESERVED = {
    "from": "use the argument sender",
    "sender": "use the argument sender",
    "to": "use the argument to",
    "cc": "use the argument cc",
    "bcc": "use the argument bcc",
    "apparently-to": "use the argument to",
    "reply-to": "use the argument reply_to",
    "subject": "use the argument subject",
    "message-id": "it is derived from the argument dedup_key",
    "date": _WRITTEN_HERE,
    "mime-version": _WRITTEN_HERE,
    "return-path": "the receiving system writes it (RFC 5321 4.4)",
    "received": "relays write it (RFC 5321 4.4)",
    "received-spf": "the receiving system writes it",
    "authentication-results": "the receiving system writes it (RFC 8601)",
    "delivered-to": "the receiving system writes it",
    "dkim-signature": "the provider signs",
    "domainkey-signature": "the provider signs",
}
_RESERVED_PREFIXES = {
    "resent-": "a new message is not a resent one (RFC 5322 3.6.6)",
    "content-": "it follows from the arguments text, html and attachments",
    "x-outbox-": _WRITTEN_HERE,
    "x-ses-": "it would steer the provider; set this in MAILER_PROVIDERS",
    "arc-": "relays write it (RFC 8617)",
}
_REPEATABLE = frozenset({"comments", "keywords"})
"""RFC 5322 3.6: the only registered fields we let through that may occur more than once."""
_STRUCTURED = frozenset({"references", "in-reply-to"})


def checked_headers(
    headers: Mapping[str, str] | Sequence[Sequence[str]],
) -> tuple[tuple[str, str], ...]:
    """Return the headers, in order, if every one may be set and can be sent as given.

    Raises InvalidEmail, naming the header, for reserved names (with the argument to use instead),
    names outside RFC 5322 3.6.8, repeated headers (only Comments, Keywords and X- fields may
    repeat), values that are not one line, and unsubscribe headers against RFC 2369 or RFC 8058.
    """
    given = _pairs(headers)
    if len(given) > MAX_HEADERS:
        raise InvalidEmail("headers", f"are more than {MAX_HEADERS}")
    pairs = [_checked_pair(index, pair) for index, pair in enumerate(given)]
    _refuse_repeats(pairs)
    _check_one_click({name.lower(): value for name, value in pairs})
    return tuple(pairs)


def is_structured(name: str) -> bool:
    """Say whether a header's value is syntax, which encoding would break, and not free text."""
    lower = name.lower()
    return lower in _STRUCTURED or lower.startswith("list-")


def _pairs(headers: object) -> Sequence[object]:
    if isinstance(headers, Mapping):
        return list(headers.items())
    if isinstance(headers, list | tuple):
        return headers
    raise InvalidEmail("headers", "must be a mapping or a list of [name, value]")


def _checked_pair(index: int, pair: object) -> tuple[str, str]:
    match pair:
        case (str() as name, value) if _NAME.fullmatch(name) and len(name) <= MAX_NAME_CHARS:
            field = f"headers['{name}']"
            _refuse_reserved(name.lower(), field)
            return name, _checked_value(name, value, field)
    raise InvalidEmail(
        f"headers[{index}]",
        f"must be [name, value], the name of 1 to {MAX_NAME_CHARS} printable ASCII characters "
        "without space and colon (RFC 5322 3.6.8)",
    )


def _refuse_reserved(lower: str, field: str) -> None:
    mend = _RESERVED.get(lower)
    if mend is None:
        mend = next((m for p, m in _RESERVED_PREFIXES.items() if lower.startswith(p)), None)
    if mend is not None:
        raise InvalidEmail(field, f"is reserved: {mend}")


def _checked_value(name: str, value: object, field: str) -> str:
    line = one_line(value, field)
    if not line:
        raise InvalidEmail(field, "is empty; leave the header out")
    if len(line) > MAX_VALUE_CHARS:
        raise InvalidEmail(field, f"is longer than {MAX_VALUE_CHARS} characters")
    if name.lower() == "list-unsubscribe":
        return _checked_uris(line, field)
    if is_structured(name):
        return _checked_tokens(line, field)
    return line


def _checked_tokens(line: str, field: str) -> str:
    if not _PRINTABLE.fullmatch(line):
        raise InvalidEmail(field, "must be ASCII: its syntax knows no encoding")
    tokens = line.split()
    if max(map(len, tokens)) > MAX_TOKEN_OCTETS:
        raise InvalidEmail(field, f"holds a token longer than {MAX_TOKEN_OCTETS} characters")
    return " ".join(tokens)


def _checked_uris(line: str, field: str) -> str:
    found = _URI_SEPARATOR.split(line)
    if not all(_URI.fullmatch(uri) for uri in found):
        raise InvalidEmail(
            field,
            "must be <https://...> or <mailto:...> in ASCII, several separated by commas "
            "(RFC 2369 section 2)",
        )
    if max(map(len, found)) > MAX_TOKEN_OCTETS:
        raise InvalidEmail(field, f"holds a URI longer than {MAX_TOKEN_OCTETS} characters")
    return ", ".join(found)


def _refuse_repeats(pairs: list[tuple[str, str]]) -> None:
    seen = set()
    for name, _ in pairs:
        lower = name.lower()
        if lower in seen and lower not in _REPEATABLE and not lower.startswith("x-"):
            raise InvalidEmail(f"headers['{name}']", "is given twice; give it once")
        seen.add(lower)


def _check_one_click(values: Mapping[str, str]) -> None:
    post = values.get("list-unsubscribe-post")
    if post is None:
        return
    field = "headers['List-Unsubscribe-Post']"
    if post != _ONE_CLICK:
        raise InvalidEmail(field, f'must be exactly "{_ONE_CLICK}" (RFC 8058 3.1)')
    if "<https://" not in values.get("list-unsubscribe", "").lower():
        raise InvalidEmail(
            field, "needs a List-Unsubscribe header with an https URI beside it (RFC 8058 3.1)"
        )
