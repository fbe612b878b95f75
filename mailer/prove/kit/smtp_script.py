"""The language in which one says what an SMTP server does, step by step."""

import ssl
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mailer.prove.kit.smtp_server import Conversation

EHLO_LINES = ("mx.example.test", "SIZE 52428800", "8BITMIME", "SMTPUTF8")


@dataclass(frozen=True, slots=True)
class Act:
    """One thing the server does: `say`, `garble` under TLS, `end`, `reset`, `stall`, `freeze`.

    A stalled server still reads; a frozen one does not, until it is asked what it saw.
    """

    name: str
    octets: bytes = b""
    hook: Callable[[], object] | None = None


END, RESET, STALL, FREEZE = Act("end"), Act("reset"), Act("stall"), Act("freeze")
GARBLE = Act("garble", b"\x17\x03\x03\x00\x20" + b"not a TLS record at all, really!")


def say(*lines: str) -> Act:
    """Reply with these lines, as they stand."""
    return Act("say", "".join(f"{line}\r\n" for line in lines).encode())


def ehlo(*lines: str) -> Act:
    """Reply 250 to EHLO with a name and these extensions."""
    return say(*(f"250-{line}" for line in lines[:-1]), f"250 {lines[-1]}")


def tell(hook: Callable[[], object]) -> Act:
    """Let the caller know, from the server's thread, that this step is reached."""
    return Act("tell", hook=hook)


Acts = Act | Sequence[Act]
"""What to do at one step; several acts are done in order."""


class Responder(Protocol):
    """What a conversation asks at each step."""

    def respond(self, step: str, line: bytes, talk: "Conversation") -> Acts: ...

    def does(self, step: str) -> bool: ...


DEFAULTS: Mapping[str, Acts] = {
    "greeting": say("220 mx.example.test ESMTP"),
    "ehlo": ehlo(*EHLO_LINES),
    "helo": say("250 mx.example.test"),
    "starttls": say("220 2.0.0 go ahead"),
    "auth": say("235 2.7.0 welcome"),
    "mail": say("250 2.1.0 ok"),
    "rcpt": say("250 2.1.5 ok"),
    "data": say("354 go ahead"),
    "dot": say("250 2.0.0 queued as 4F1AB2"),
    "rset": say("250 2.0.0 ok"),
    "quit": (say("221 2.0.0 bye"), END),
    "unknown": say("500 5.5.2 what?"),
}


class Script:
    """Acts by step; a list is used up occurrence by occurrence, its last entry then repeats.

    Steps: handshake (before TLS), greeting, ehlo, helo, starttls, auth, mail, rcpt, data, body
    (some content has been read), dot, rset, quit.
    """

    def __init__(self, **steps: Acts | list[Acts]) -> None:
        self._steps = steps
        self._seen: Counter[str] = Counter()

    def does(self, step: str) -> bool:
        """Whether something is scripted at a step that has no default."""
        return step in self._steps

    def respond(self, step: str, line: bytes, talk: "Conversation") -> Acts:
        """Return what to do now."""
        acts = self._steps.get(step, DEFAULTS.get(step, ()))
        count, self._seen[step] = self._seen[step], self._seen[step] + 1
        return acts[min(count, len(acts) - 1)] if isinstance(acts, list) else acts


@dataclass
class Record:
    """What one connection brought: command lines, and every octet after a 354."""

    commands: list[bytes] = field(default_factory=list)
    contents: list[bytearray] = field(default_factory=list)
    dots: int = 0
    after: bytes = b""
    secured: bool = False

    @property
    def verbs(self) -> list[str]:
        """The first word of each command."""
        return [line.split(b" ")[0].strip().decode("latin-1").upper() for line in self.commands]


@dataclass(frozen=True)
class Tls:
    """The server's certificate, and whether TLS begins before the greeting."""

    context: ssl.SSLContext
    implicit: bool = False
