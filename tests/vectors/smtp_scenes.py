"""From one SMTP vector to a scene: a server's script, a relay's URL and a message."""

import asyncio
import builtins
import errno
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiosmtplib

from mailer.outcome import CallResult
from mailer.prove.kit.smtp_server import (
    EHLO_LINES,
    END,
    FREEZE,
    GARBLE,
    RESET,
    STALL,
    Act,
    Acts,
    Tls,
    ehlo,
    say,
    tell,
)
from mailer.provider import Call
from tests.certificates import Authority
from tests.providers.calls import CONTENT, LARGE, a_call

Case = dict[str, Any]

HOST = "relay.example.test"

STEPS = {"after_dot": "dot", "tls": "handshake"}
ENDINGS = {"eof": END, "reset": RESET, "timeout": STALL}
CONNECT_FAULTS: dict[str, BaseException | None] = {
    "dns_tempfail": socket.gaierror(socket.EAI_AGAIN, "temporary failure"),
    "dns_nxdomain": socket.gaierror(socket.EAI_NONAME, "unknown"),
    "unreachable": OSError(errno.ENETUNREACH, "network unreachable"),
    "emfile": OSError(errno.EMFILE, "too many open files"),
    "reset": ConnectionResetError(errno.ECONNRESET, "reset"),
    "timeout": None,
    "cancelled": None,
}
QUICK_SECONDS = 0.5
"""Long enough for loopback, short enough to be waited for: only stalls run into it."""


class FaultyLoop(asyncio.SelectorEventLoop):
    """Resolves one made-up host to loopback and fails, or hangs, where a network would."""

    def __init__(self, fault: str | None, hanging: Callable[[], object]) -> None:
        super().__init__()
        self._fault = fault
        self._hanging = hanging

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        if self._fault and self._fault.startswith("dns"):
            await self._fail(self._fault)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def sock_connect(self, sock: Any, address: Any) -> None:
        if self._fault in CONNECT_FAULTS:
            await self._fail(self._fault)
        await super().sock_connect(sock, address)

    async def _fail(self, fault: str) -> None:
        if exc := CONNECT_FAULTS[fault]:
            raise exc
        if fault == "cancelled":
            self._hanging()
        await self.create_future()


@dataclass
class Scene:
    """What one case needs: the server's script and TLS, the client's URL, the message."""

    steps: dict[str, Acts | list[Acts]] = field(default_factory=dict)
    tls: Tls | None = None
    scheme: str = "smtp"
    userinfo: str = ""
    query: dict[str, str] = field(default_factory=dict)
    call: Call = field(default_factory=a_call)
    fault: str | None = None
    task: "asyncio.Task[CallResult] | None" = None
    explode: str | None = None

    def cancel(self) -> None:
        """Cancel the call, from whatever thread."""
        assert self.task
        self.task.get_loop().call_soon_threadsafe(self.task.cancel)

    def url(self, port: int) -> str:
        """The relay's URL; credentials in clear text are allowed to a loopback address alone."""
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        host = "127.0.0.1" if self.userinfo and not self.tls else HOST
        return f"{self.scheme}://{self.userinfo}{host}:{port}?{query}"

    def extensions(self) -> list[str]:
        """What the server offers for this scene to get as far as its phase."""
        lines = list(EHLO_LINES)
        if self.query.get("tls") == "starttls":
            lines.append("STARTTLS")
        if self.userinfo:
            lines.append("AUTH PLAIN LOGIN")
        return lines


def set_the_scene(case: Case, authority: Authority, stranger: Authority) -> Scene:
    """Build what the case needs from its phase, its event and its extras."""
    scene = Scene(query={"timeout": "10", "data_timeout": "10"})
    phase, event = case["phase"], case["event"]
    if phase == "tls" or (event == "tls_error" and phase != "starttls"):
        scene.scheme, scene.tls = "smtps", authority.server(HOST, implicit=True)
    if phase == "starttls" or (event == "starttls_not_offered"):
        scene.query["tls"] = "starttls"
        scene.scheme, scene.tls = "smtp", authority.server(HOST)
    if scene.tls is None:
        scene.query["tls"] = "none"
    else:
        scene.query["ca"] = str(authority.ca)
    if phase == "auth" or case.get("auth_required"):
        scene.userinfo = "user:pass@"
    prepare_message(scene, case)
    prepare_event(scene, case, authority, stranger)
    prepare_extras(scene, case)
    return scene


def prepare_message(scene: Scene, case: Case) -> None:
    """The message and its envelope."""
    content, event = CONTENT, case["event"]
    addresses = [case.get("rcpt", "someone@there.example")]
    if "recipients" in case:
        addresses = [f"someone{n}@there.example" for n in range(len(case["recipients"]))]
        scene.steps["rcpt"] = [say(*each.split("\r\n")) for each in case["recipients"]]
    if "message_size" in case:
        content = CONTENT + b"x" * (case["message_size"] - len(CONTENT) - 2) + b"\r\n"
    elif event.startswith("local:eightbit"):
        content = CONTENT + "é\r\n".encode()
    elif case["phase"] == "body" and not case.get("terminator_sent"):
        content = LARGE
    if re.match(r"local:.*(crlf|cr_lf|newline|injection|control)", event) and "rcpt" not in case:
        addresses = ["a@there.example>\r\nRCPT TO:<b@there.example"]
    scene.call = a_call(*addresses, content=content)
    if event.startswith("local:no_recipients"):
        scene.call = Call(1, 2, "tag-0123", "app@our.example", (), content, lambda: None)


def prepare_event(scene: Scene, case: Case, authority: Authority, stranger: Authority) -> None:
    """What goes wrong, where."""
    phase: str = case["phase"]
    event: str = case["event"]
    step = STEPS.get(phase, phase)
    if phase == "body" and case.get("terminator_sent"):
        step = "dot"
    if phase in {"connect", "preflight"} or event == "after_last_rcpt":
        scene.fault = event if phase == "connect" else None
        scene.query["timeout"] = str(QUICK_SECONDS) if event == "timeout" else "10"
    elif phase == "post":
        prepare_aftermath(scene, event)
    elif event.startswith("cert_"):
        signer = stranger if event == "cert_untrusted" else authority
        host = "other.example.test" if event == "cert_wrong_name" else HOST
        days = -1 if event == "cert_expired" else 1
        scene.tls = signer.server(host, days=days, implicit=phase == "tls")
    elif event == "wrong_version_number":
        scene.steps["handshake"] = (say("220 mx.example.test ESMTP"), STALL)
    elif not event.endswith("_not_offered"):
        if event == "tls_error" and phase == "starttls":
            step = "handshake"
        scene.steps[step] = without_reading(acts_of(scene, event), step)
        if step == "ehlo" and "then" not in case:
            scene.steps["helo"] = scene.steps[step]


def without_reading(acts: Acts, step: str) -> Acts:
    """In the middle of content a stall means that the server takes no more of it."""
    if step != "body":
        return acts
    every = (acts,) if isinstance(acts, Act) else acts
    return tuple(FREEZE if act == STALL else act for act in every)


def prepare_aftermath(scene: Scene, event: str) -> None:
    """A verdict, and then trouble at QUIT or RSET."""
    found = re.fullmatch(r"verdict (.*), then (QUIT|RSET) (.*)", event)
    assert found, event
    scene.steps["dot"] = [say(found[1]), say("250 2.0.0 ok")]
    scene.steps[found[2].lower()] = acts_of(scene, found[3])


def acts_of(scene: Scene, event: str) -> Acts:
    """The server's side of an event."""
    if found := re.fullmatch(r"(.*), then (eof|reset|timeout)", event, re.DOTALL):
        return (say(*found[1].split("\r\n")), ENDINGS[found[2]])
    if event in ENDINGS:
        if event == "timeout":
            scene.query |= {"timeout": str(QUICK_SECONDS), "data_timeout": str(QUICK_SECONDS)}
        return ENDINGS[event]
    if event == "cancelled":
        return (tell(scene.cancel), STALL)
    if event == "tls_error":
        return GARBLE
    if event.startswith("exception:"):
        return explosion(scene, event.partition(":")[2])
    line = event.removeprefix("malformed:")
    if re.match(r"\d{3}-", line.split("\r\n")[-1]):
        scene.query |= {"timeout": str(QUICK_SECONDS), "data_timeout": str(QUICK_SECONDS)}
    assert line != event or re.match(r"\d{3}", event), f"an event of no known form: {event}"
    return (say(*line.split("\r\n")), STALL) if line != event else say(*line.split("\r\n"))


def explosion(scene: Scene, name: str) -> Acts:
    """A failure within our own code as the reply to this step is read."""

    def light() -> None:
        scene.explode = name

    return (tell(light), say("250 2.0.0 ok"), STALL)


def exception_named(name: str) -> BaseException:
    """An exception of aiosmtplib or Python, or one that nobody knows."""
    bare = name.partition("(")[0]
    kind = getattr(aiosmtplib, bare, None) or getattr(builtins, bare, None) or RuntimeError
    arguments = (-1, "bad") if issubclass(kind, aiosmtplib.SMTPResponseException) else ("bad",)
    return kind(*arguments)


def prepare_extras(scene: Scene, case: Case) -> None:
    """What the rest of the conversation says."""
    if "then" in case:
        scene.steps["dot"] = say(*case["then"].split("\r\n"))
    lines = ["mx.example.test", *case["ehlo"]] if "ehlo" in case else scene.extensions()
    if case["event"].endswith("_not_offered"):
        missing = case["event"].removesuffix("_not_offered").upper()
        lines = [each for each in lines if not each.startswith(missing)]
    scene.steps.setdefault("ehlo", ehlo(*lines))
