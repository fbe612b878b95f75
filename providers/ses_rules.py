"""What can be seen of a call to Amazon SES, and the tests that the rule table is made of. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from mailer.outcome import Blame, Outcome, Pressure, Scope


class Stage(StrEnum):
    """How far a call had come; recorded on the attempt."""

    PREFLIGHT = "preflight"
    """Checks made here, against the fixed limits of SES."""
    PREPARE = "prepare"
    """Building and signing the request, fetching credentials for it included."""
    REQUEST = "request"
    """Connecting; no byte of the request has been written."""
    ANSWER = "answer"
    """The request was being written, or its answer awaited: the commit point lies behind."""


class Kind(StrEnum):
    """What was observed."""

    ANSWER = "answer"
    """An HTTP answer that could be read, whatever it says."""
    RECIPIENT = "recipient"
    """An address that SES cannot be given."""
    MESSAGE = "message"
    """A message that SES cannot be given."""
    INVALID = "invalid request"
    """The SDK would not build the request."""
    SETUP = "no usable credentials, region or endpoint"
    ELSEWHERE = "another service failed while credentials were fetched"
    UNREACHABLE = "could not connect"
    CONNECT_TIMEOUT = "connecting took too long"
    PROXY = "the proxy let nothing through"
    PROXY_LOGIN = "the proxy wants credentials"
    CERTIFICATE = "the certificate was not accepted"
    TLS_FAILURE = "TLS failed"
    TIMEOUT = "no answer in time"
    CLOSED = "the connection ended"
    CANCELLED = "cancelled"
    DEADLINE = "the whole call took too long"
    UNEXPECTED = "unexpected"
    """An exception that no other kind names."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the driver saw, without an opinion.

    `bytes_sent` counts what was written of the request; None says that nobody counted. `from_aws`
    says that the answer carries AWS's request id, `is_cut_short` that its body ended before the
    length that it stated. `names_sender` and `names_recipient` say whether an identity that the
    text lists is the call's sender, or one of its recipients.
    """

    stage: Stage
    kind: Kind
    bytes_sent: int | None = None
    status: int = 0
    code: str = ""
    text: str = ""
    message_id: str = ""
    from_aws: bool = False
    is_cut_short: bool = False
    names_sender: bool = False
    names_recipient: bool = False
    retry_after_seconds: float | None = None

    @property
    def digit(self) -> int:
        """First digit of an answer's status; 0 for everything else."""
        return self.status // 100 if self.kind is Kind.ANSWER else 0


Test = Callable[[Observation], bool]

_TEMPLATE = re.compile(r"\btemplate\b", re.IGNORECASE)
_CONFIGURATION = re.compile(r"\b(?:configuration set|tenant)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Row:
    """One row, and the verdict it gives when `test` holds."""

    rule: str
    test: Test
    outcome: Outcome
    scope: Scope
    why: str
    blame: Blame = Blame.PROVIDER
    pressure: Pressure | None = None


def kind(*kinds: Kind) -> Test:
    """Match what was observed by its kind."""
    wanted = frozenset(kinds)
    return lambda seen: seen.kind in wanted


def unsent(*kinds: Kind) -> Test:
    """Match a kind that arises only before a request is written, unless the count contradicts."""
    wanted = frozenset(kinds)
    return lambda seen: seen.kind in wanted and not seen.bytes_sent


def status(code: int) -> Test:
    """Match an answer with exactly this status."""
    return lambda seen: seen.kind is Kind.ANSWER and seen.status == code


def bare(code: int) -> Test:
    """Match an answer whose status is all it says; botocore then repeats it as the code."""
    return lambda seen: (
        seen.kind is Kind.ANSWER and seen.status == code and seen.code in {"", str(code)}
    )


def digit(*digits: int) -> Test:
    """Match an answer by the first digit of its status (RFC 9110 15)."""
    wanted = frozenset(digits)
    return lambda seen: seen.digit in wanted


def coded(*codes: str, digits: tuple[int, ...] = (4,)) -> Test:
    """Match an answer by its error code, where its status is of the class that fits."""
    wanted = frozenset(codes)
    return lambda seen: seen.code in wanted and seen.digit in digits


def says(pattern: str) -> Test:
    """Match the provider's text."""
    found = re.compile(pattern, re.IGNORECASE)
    return lambda seen: bool(found.search(seen.text))


def both(*tests: Test) -> Test:
    """Match when every test holds."""
    return lambda seen: all(test(seen) for test in tests)


def either(*tests: Test) -> Test:
    """Match when one test holds."""
    return lambda seen: any(test(seen) for test in tests)


def is_cut_short(seen: Observation) -> bool:
    """Whether a part of an answer is missing, perhaps the one that matters."""
    return seen.kind is Kind.ANSWER and seen.is_cut_short


def has_message_id(seen: Observation) -> bool:
    """Whether there is an id to store: without one there is no proof of acceptance."""
    return bool(seen.message_id)


def names_recipients_only(seen: Observation) -> bool:
    """Whether the unverified identities are recipients: that is the sandbox, not our sender."""
    return seen.names_recipient and not seen.names_sender


def names_a_template(seen: Observation) -> bool:
    """Whether what was not found belongs to the message, and not to our configuration."""
    return bool(_TEMPLATE.search(seen.text)) and not _CONFIGURATION.search(seen.text)


def is_from_aws(seen: Observation) -> bool:
    """Whether SES itself, and no front end or proxy, wrote the answer."""
    return seen.from_aws


def is_proven_unsent(seen: Observation) -> bool:
    """Whether the count proves that no byte of the request left."""
    return seen.bytes_sent == 0


def always(_: Observation) -> bool:
    """Match everything."""
    return True
