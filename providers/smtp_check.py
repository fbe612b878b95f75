"""`mailer check` for a relay: everything up to the envelope, each step one line with its mend."""

import ssl

from mailer.outcome import clean
from mailer.provider import Finding
from providers.smtp_progress import Progress, observe
from providers.smtp_rules import Kind, Observation, Stage
from providers.smtp_session import Offers, Session, open_session
from providers.smtp_settings import SmtpSettings, TlsMode

_MENDS = {
    Stage.CONNECT: "check host and port of the URL, and that a firewall lets this machine out",
    Stage.GREETING: "ask the relay's operator whether it takes mail from this machine",
    Stage.TLS: "use the port that is for TLS from the start, or smtp:// with tls=starttls",
    Stage.STARTTLS: "check that the relay offers STARTTLS on this port, or use smtps://",
    Stage.EHLO: "set the worker's host name to a full name that the relay accepts",
    Stage.AUTH: "check user and password, and that the mechanism is allowed for this account",
}
_CERTIFICATE_MEND = (
    "use the name in the relay's certificate as host, or give its authority's PEM file with ca="
)
_SUBJECTS = {
    Stage.CONNECT: "connect",
    Stage.TLS: "TLS",
    Stage.GREETING: "greeting",
    Stage.EHLO: "EHLO",
    Stage.STARTTLS: "TLS",
    Stage.AUTH: "AUTH",
}
_QUIT_SECONDS = 2.0


async def look(settings: SmtpSettings, context: ssl.SSLContext | None) -> list[Finding]:
    """Open one session and describe it; what fails is described instead."""
    progress = Progress()
    try:
        session = await open_session(settings, context, progress)
        findings = _describe(settings, session)
        await session.wire.quit(_QUIT_SECONDS)
    except Exception as exc:  # noqa: BLE001 - a check reports, whatever it meets
        findings = _explain(observe(exc, progress))
    finally:
        if progress.wire and progress.wire.transport:
            progress.wire.abort()
            await progress.wire.gone
    return findings


def _explain(seen: Observation) -> list[Finding]:
    reached = [Finding("connect", ok=True, detail="the relay answers")]
    mend = _CERTIFICATE_MEND if seen.kind is Kind.CERTIFICATE else _MENDS[seen.stage]
    said = f"{seen.code} {clean(seen.text)}" if seen.kind is Kind.REPLY else clean(seen.text)
    failed = Finding(_SUBJECTS[seen.stage], ok=False, detail=f"{said}: {mend}")
    return [failed] if seen.stage is Stage.CONNECT else [*reached, failed]


def _describe(settings: SmtpSettings, session: Session) -> list[Finding]:
    return [
        Finding("connect", ok=True, detail="the relay answers"),
        Finding("TLS", ok=True, detail=_tls(settings, session)),
        Finding("AUTH", ok=True, detail=_auth(settings, session.offers)),
        Finding("SIZE", ok=True, detail=_size(session.offers)),
        Finding("SMTPUTF8", ok=True, detail=_utf8(session.offers)),
    ]


def _tls(settings: SmtpSettings, session: Session) -> str:
    transport = session.wire.transport
    connection = transport.get_extra_info("ssl_object") if transport else None
    if settings.tls is TlsMode.NONE or connection is None:
        return "none, as the settings say; use tls=starttls or smtps:// if the relay has it"
    return f"{connection.version()}, certificate verified"


def _auth(settings: SmtpSettings, offers: Offers) -> str:
    if settings.user:
        return "the relay accepted the credentials"
    if offers.mechanisms:
        return "offered and not used; add user and password if the relay asks for them"
    return "not offered and not used"


def _size(offers: Offers) -> str:
    if offers.size_limit:
        return f"messages up to {offers.size_limit} octets"
    return "no limit stated"


def _utf8(offers: Offers) -> str:
    if offers.utf8:
        return "offered; local parts may be non-ASCII"
    return "not offered; an address with a non-ASCII local part will be refused"
