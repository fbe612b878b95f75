"""How far one call has come, and how what happened is written down as an observation."""

import asyncio
import socket
import ssl
from dataclasses import dataclass, field
from enum import Enum, auto

from aiosmtplib import SMTPResponse, SMTPResponseException, SMTPServerDisconnected

from mailer.outcome import RecipientVerdict
from mailer.provider import Addressee, Call
from providers.smtp_rules import Kind, Observation, Stage
from providers.smtp_wire import MalformedReply, Wire


class Fate(Enum):
    """What may become of the connection once the call has ended."""

    DROP = auto()
    """The default: after any doubt a connection is aborted."""
    RESET = auto()
    """A refusal was read in full; RSET must succeed before anything else."""
    KEEP = auto()


@dataclass(slots=True)
class Progress:
    """One call on its way. `committed` is set before the end-of-data line is handed over."""

    call: Call | None = None
    stage: Stage = Stage.CONNECT
    committed: bool = False
    fate: Fate = Fate.DROP
    wire: Wire | None = None
    willing: list[Addressee] = field(default_factory=list)
    settled: dict[int, RecipientVerdict] = field(default_factory=dict)
    hints: list[float] = field(default_factory=list)
    accused: Observation | None = None
    """The first refusal of a recipient that is about our account."""

    def restart(self) -> None:
        """Forget a connection that had gone stale before anything was handed over."""
        self.stage, self.wire = Stage.CONNECT, None
        self.willing.clear()
        self.settled.clear()
        self.hints.clear()
        self.accused = None


class RefusedReply(Exception):
    """A well-formed reply that does not let the conversation go on."""

    def __init__(self, reply: SMTPResponse) -> None:
        super().__init__("the server's reply does not let the conversation go on")
        self.reply = reply


class Unfit(Exception):
    """Something that the settings or this message need cannot be had on this wire."""

    def __init__(self, kind: Kind, fact: str) -> None:
        super().__init__(fact)
        self.kind = kind


_NOT_TLS_REASONS = frozenset({"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"})

_KINDS: tuple[tuple[type[BaseException], Kind], ...] = (
    (asyncio.CancelledError, Kind.CANCELLED),
    (MalformedReply, Kind.MALFORMED),
    (SMTPResponseException, Kind.MALFORMED),
    (ssl.SSLCertVerificationError, Kind.CERTIFICATE),
    (ssl.SSLEOFError, Kind.EOF),
    (ssl.SSLError, Kind.TLS_FAILURE),
    (TimeoutError, Kind.TIMEOUT),
    (ConnectionAbortedError, Kind.TIMEOUT),
    (ConnectionRefusedError, Kind.UNREACHABLE),
    (socket.gaierror, Kind.RESOLVER),
    (ConnectionError, Kind.RESET),
    (OSError, Kind.UNREACHABLE),
)
"""First match wins, subclasses before bases. asyncio aborts a handshake that took too long."""


def observe(exc: BaseException, progress: Progress) -> Observation:
    """Write down what `exc` shows about the call, without judging it."""
    if isinstance(exc, RefusedReply):
        return replied(exc.reply, progress)
    kind = _kind_of(exc, progress.wire)
    return Observation(progress.stage, kind, committed=progress.committed, text=_name(exc, kind))


def replied(reply: SMTPResponse, progress: Progress) -> Observation:
    """Write down a well-formed reply at the present stage."""
    return Observation(
        progress.stage,
        Kind.REPLY,
        committed=progress.committed,
        code=reply.code,
        text=reply.message,
        willing_before=bool(progress.willing),
    )


def _name(exc: BaseException, kind: Kind) -> str:
    """Name what happened without the exception's own text, which may hold an address."""
    if isinstance(exc, Unfit | MalformedReply):
        return str(exc)
    return type(exc).__name__ if kind is Kind.UNEXPECTED else kind.value.replace("_", " ")


def _kind_of(exc: BaseException, wire: Wire | None) -> Kind:
    if isinstance(exc, Unfit):
        return exc.kind
    if isinstance(exc, SMTPServerDisconnected):
        return (wire and wire.ending) or Kind.EOF
    if isinstance(exc, socket.gaierror) and exc.errno == socket.EAI_NONAME:
        return Kind.NO_SUCH_HOST
    if isinstance(exc, ssl.SSLError) and exc.reason in _NOT_TLS_REASONS:
        return Kind.NOT_TLS
    return next((kind for known, kind in _KINDS if isinstance(exc, known)), Kind.UNEXPECTED)
