"""The ordered table that judges what an SMTP conversation came to. Pure: it knows no socket."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from mailer.outcome import Blame, Outcome, Pressure, Scope


class Stage(StrEnum):
    """Where in the conversation something was observed; recorded on the attempt."""

    PREFLIGHT = "preflight"
    """Checks made here, against the envelope and what EHLO offered."""
    CONNECT = "connect"
    TLS = "tls"
    """The handshake of implicit TLS."""
    GREETING = "greeting"
    EHLO = "ehlo"
    STARTTLS = "starttls"
    """The STARTTLS command and the handshake after it."""
    AUTH = "auth"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    """The DATA command, until its 354 has been read."""
    BODY = "body"
    """Content is going out; the end-of-data line has not been handed over."""
    AFTER_DOT = "after_dot"
    """The end-of-data line was handed over: the commit point lies behind."""


class Kind(StrEnum):
    """What was observed."""

    REPLY = "reply"
    """A well-formed reply, whatever its code."""
    MALFORMED = "malformed"
    """Octets that are no reply (RFC 5321 4.2.1), or a reply that nothing asked for."""
    EOF = "eof"
    RESET = "reset"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    UNREACHABLE = "unreachable"
    """The connection could not be made: refused, no route, no descriptor left."""
    RESOLVER = "resolver"
    """The resolver gave no answer now (EAI_AGAIN and its kin)."""
    NO_SUCH_HOST = "no_such_host"
    """The resolver says that the name does not exist (EAI_NONAME)."""
    CERTIFICATE = "certificate"
    """The server's certificate was not accepted."""
    NOT_TLS = "not_tls"
    """The peer does not speak TLS at this point: the wrong port for the mode."""
    TLS_FAILURE = "tls_failure"
    NOT_OFFERED = "not_offered"
    """EHLO does not list what the settings require."""
    ADDRESS = "address"
    """A recipient address that cannot be put on this wire."""
    MESSAGE = "message"
    """A message that cannot be put on this wire."""
    UNEXPECTED = "unexpected"
    """An exception that no other kind names."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the driver saw, without an opinion.

    `committed` says that the end-of-data line was handed over. `text` is the reply's text without
    its code, or the name of the fact or exception. `willing_before` says that an earlier RCPT of
    the same transaction was accepted.
    """

    stage: Stage
    kind: Kind
    committed: bool = False
    code: int = 0
    text: str = ""
    willing_before: bool = False

    @property
    def past_commit(self) -> bool:
        """Whether the server may hold a complete message."""
        return self.committed or self.stage is Stage.AFTER_DOT

    @property
    def judged_at(self) -> Stage:
        """The stage whose rows apply: content with its end handed over counts as after the dot."""
        return Stage.AFTER_DOT if self.committed and self.stage is Stage.BODY else self.stage

    @property
    def digit(self) -> int:
        """First digit of a reply's code; 0 for everything else."""
        return self.code // 100 if self.kind is Kind.REPLY else 0

    @property
    def enhanced(self) -> str:
        """The enhanced status code (RFC 3463), or "" unless its class agrees with the reply's."""
        found = _ENHANCED.match(self.text)
        return found[1] if found and found[1][0] == str(self.digit) else ""

    @property
    def detail(self) -> str:
        """The enhanced code without its class: "7.26" of "5.7.26"."""
        return self.enhanced[2:]


Test = Callable[[Observation], bool]


@dataclass(frozen=True, slots=True)
class Row:
    """One row, and the verdict it gives: it matches at `stages` (empty: at all) if `test` holds."""

    rule: str
    stages: frozenset[Stage]
    test: Test
    outcome: Outcome
    scope: Scope
    why: str


_ENHANCED = re.compile(r"([245]\.\d{1,3}\.\d{1,3})(?!\S)")
_HINTS = re.compile(
    r"relay access|relay not|unable to relay|blocked using|block list|blacklist|listed|reputation"
    r"|not verified|quota|throttl|sending limit|sending rate|suspended|sending paused",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"\bquota\b|\bdaily\b|per day|sending limit", re.IGNORECASE)
_UNVERIFIED = re.compile("not verified", re.IGNORECASE)
_THROTTLED = re.compile(r"quota|throttl|\brate\b|sending limit", re.IGNORECASE)
_NO_VALID_RECIPIENTS = re.compile("no valid recipients", re.IGNORECASE)

_LOGIN_CODES = frozenset({530, 534, 535, 538})
_OUR_IDENTITY = frozenset({"5.4.5"}) | frozenset(
    f"5.7.{n}" for n in (8, 9, 10, 11, 13, 14, *range(20, 30))
)
"""RFC 3463, 4954, 7372, 7489 and the registry: our credentials, authentication or reputation."""
_OUR_SENDER = frozenset(f"5.7.{n}" for n in (20, 21, 22, 23, 24, 26, 27))
"""DKIM, SPF, DMARC and null MX (RFC 7372, 7489, 7505): about the sender's domain alone."""
_TOO_FAST = frozenset({"4.7.28"})
"""A flood, by the registry of enhanced codes."""
_OUR_LIMIT = frozenset({"5.4.5", "4.4.5"})
"""Congestion by RFC 3463; in use for a day's sending limit."""


def reply(*codes: int) -> Test:
    """Match a reply with one of these codes."""
    wanted = frozenset(codes)
    return lambda seen: seen.kind is Kind.REPLY and seen.code in wanted


def digit(*digits: int) -> Test:
    """Match a reply by the first digit of its code (RFC 5321 4.3.2)."""
    wanted = frozenset(digits)
    return lambda seen: seen.digit in wanted


def kind(*kinds: Kind) -> Test:
    """Match what was observed by its kind."""
    wanted = frozenset(kinds)
    return lambda seen: seen.kind in wanted


def is_not_handed_over(seen: Observation) -> bool:
    """Whether the end-of-data line never left us."""
    return not seen.past_commit


def is_committed_elsewhere(seen: Observation) -> bool:
    """Whether the stage contradicts the commit point; then no reply's meaning can be trusted."""
    return seen.committed and seen.judged_at is not Stage.AFTER_DOT


def always(_: Observation) -> bool:
    """Match everything."""
    return True


def is_account_sign(seen: Observation) -> bool:
    """Whether a 5yz is about us rather than about this mail.

    x.2.2 is the recipient's full mailbox (RFC 3463 3.3): the word quota there is not our quota.
    """
    if seen.digit != 5:  # noqa: PLR2004 - a first digit, RFC 5321 4.2.1
        return False
    if seen.code in _LOGIN_CODES or seen.enhanced in _OUR_IDENTITY:
        return True
    return seen.detail != "2.2" and bool(_HINTS.search(seen.text))


def is_too_many_recipients(seen: Observation) -> bool:
    """RFC 5321 4.5.3.1.10: a 552 may mean "too many"; text may not decide, structure may."""
    return seen.code == 552 and (  # noqa: PLR2004
        seen.enhanced == "5.5.3" or (not seen.enhanced and seen.willing_before)
    )


def is_sender_throttle(seen: Observation) -> bool:
    """Whether a 4yz after the dot slows the account down; x.2.z is about a mailbox."""
    if seen.code == 454:  # noqa: PLR2004
        return True
    return not seen.detail.startswith("2.") and bool(_THROTTLED.search(seen.text))


def pressure_of(seen: Observation) -> Pressure | None:
    """Say whether a refusal of account scope means "too much", and of what.

    The code alone says it for 454, which after the content is a throttle and nothing else.
    """
    if seen.kind is not Kind.REPLY or seen.detail.startswith("2."):
        return None
    if seen.enhanced in _OUR_LIMIT or _QUOTA.search(seen.text):
        return Pressure.QUOTA
    is_throttle = seen.past_commit and seen.code == 454  # noqa: PLR2004
    if is_throttle or seen.enhanced in _TOO_FAST or _THROTTLED.search(seen.text):
        return Pressure.THROTTLE
    return None


def blame_of(seen: Observation) -> Blame:
    """Say whether a refusal of account scope is about the sender identity alone.

    A 5yz to MAIL is, unless it is about logging in.
    """
    if seen.kind is not Kind.REPLY or seen.code in _LOGIN_CODES:
        return Blame.PROVIDER
    at_mail = seen.stage is Stage.MAIL and seen.digit == 5  # noqa: PLR2004
    is_unverified = seen.digit == 5 and bool(_UNVERIFIED.search(seen.text))  # noqa: PLR2004
    if at_mail or is_unverified or seen.enhanced in _OUR_SENDER:
        return Blame.SENDER
    return Blame.PROVIDER


def is_contradiction(seen: Observation) -> bool:
    """Whether DATA is answered as if the RCPT just accepted had not been."""
    return seen.code == 554 and (  # noqa: PLR2004
        seen.enhanced == "5.5.1" or bool(_NO_VALID_RECIPIENTS.search(seen.text))
    )


def both(*tests: Test) -> Test:
    """Match when every test holds."""
    return lambda seen: all(test(seen) for test in tests)


def either(*tests: Test) -> Test:
    """Match when one test holds."""
    return lambda seen: any(test(seen) for test in tests)


def detail(*details: str, prefix: str = "\0") -> Test:
    """Match an enhanced code by what follows its class."""
    return lambda seen: seen.detail in details or seen.detail.startswith(prefix)
