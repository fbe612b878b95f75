"""The port that every provider implements, and what is handed through it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from mailer.outcome import CallResult


class Refusal(StrEnum):
    """Why the commit point may not be passed; the value is the rule recorded on the attempt."""

    LEASE_EXPIRED = "lease-expired"
    MESSAGE_EXPIRED = "message-expired"


@dataclass(frozen=True, slots=True)
class Addressee:
    """One recipient of a call: the row it stands for and its envelope address."""

    recipient_id: int
    address: str


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt, ready to go out.

    `content` is the whole message with CRLF line ends and no line over 998 octets; it is sent
    octet for octet. `may_commit` is asked right before the step that cannot be undone (the final
    dot, the first byte of an HTTP request): anything but None means that nothing may be handed
    over and the call ends as proven not sent. `return_path` is where this attempt's bounces are to
    go, None for the sender's own address, and `envelope_id` what they are to carry (RFC 3461 4.4);
    providers without an envelope of their own leave both out.
    """

    outbox_id: int
    attempt_id: int
    request_tag: str
    sender: str
    recipients: tuple[Addressee, ...]
    content: bytes
    may_commit: Callable[[], Refusal | None]
    return_path: str | None = None
    envelope_id: str | None = None

    @property
    def recipient_ids(self) -> tuple[int, ...]:
        """The ids of all recipients, in envelope order."""
        return tuple(each.recipient_id for each in self.recipients)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `mailer check`: what was looked at, whether it holds, and the mend if not."""

    subject: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What an account may send: recipients a second, and recipients still free today.

    None means that the provider sets, or tells, no such limit.
    """

    rate_per_second: float | None = None
    left_today: float | None = None


class Provider(Protocol):
    """A way to hand over mail.

    Implementations live on the worker's event loop and translate what they observe through an
    ordered rule table; see `providers/__init__.py` for what else they owe.
    """

    @property
    def name(self) -> str:
        """What attempts record: scheme and host, never a credential."""

    async def send(self, call: Call) -> CallResult:
        """Make the call once and say what it came to.

        Never raises: whatever happens, cancellation included, becomes a result, because only the
        provider knows whether the commit point had been passed.
        """

    async def limits(self) -> Limits:
        """Ask what the account may send; never raises: what cannot be told is None."""

    async def check(self) -> list[Finding]:
        """Look at the provider without sending."""

    async def close(self) -> None:
        """Give back connections; open calls have ended before."""
