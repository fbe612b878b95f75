"""A connection made ready for mail: connected, secured, greeted, introduced, logged in."""

import asyncio
import ssl
from dataclasses import dataclass

from aiosmtplib import SMTPResponse
from aiosmtplib.auth import auth_crammd5_verify, auth_login_encode, auth_plain_encode
from aiosmtplib.esmtp import parse_esmtp_extensions

from providers.smtp_progress import Progress, RefusedReply, Unfit
from providers.smtp_rules import Kind, Stage
from providers.smtp_settings import Mechanism, SmtpSettings, TlsMode
from providers.smtp_wire import MalformedReply, Wire

READY, PROCEED, CHALLENGE = 220, 354, 334


@dataclass(frozen=True, slots=True)
class Offers:
    """What the server's EHLO lists. `size_limit` is in octets, 0 for none stated (RFC 1870)."""

    size: bool = False
    size_limit: int = 0
    eight_bit: bool = False
    utf8: bool = False
    dsn: bool = False
    starttls: bool = False
    mechanisms: tuple[str, ...] = ()


@dataclass(slots=True)
class Session:
    """One ready connection; `messages` counts the transactions begun on it."""

    wire: Wire
    offers: Offers
    messages: int = 0
    idle_since: float = 0.0
    needs_reset: bool = False


def is_positive(reply: SMTPResponse) -> bool:
    """Whether the command was carried out; any 2yz says so (RFC 5321 4.3.2)."""
    return reply.code // 100 == 2  # noqa: PLR2004


def require(reply: SMTPResponse, *, holds: bool) -> SMTPResponse:
    """Return `reply` if it `holds`, else raise `RefusedReply`."""
    if not holds:
        raise RefusedReply(reply)
    return reply


def trust(settings: SmtpSettings) -> ssl.SSLContext | None:
    """Return what certificates are verified with; None only where the URL says clear text."""
    if settings.tls is TlsMode.NONE:
        return None
    return ssl.create_default_context(cafile=settings.ca)


async def open_session(
    settings: SmtpSettings, context: ssl.SSLContext | None, progress: Progress
) -> Session:
    """Make a session, keeping `progress` at the stage reached; raise what ends it."""
    wire = await _connect(settings, progress)
    if settings.tls is TlsMode.IMPLICIT and context:
        progress.stage = Stage.TLS
        await _secure(wire, context, settings)
    progress.stage = Stage.GREETING
    greeting = await wire.read_response(settings.timeout)
    require(greeting, holds=greeting.code == READY)
    offers = await _introduce(wire, settings, progress)
    if settings.tls is TlsMode.STARTTLS and context:
        await _upgrade(wire, context, settings, offers, progress)
        offers = await _introduce(wire, settings, progress)
    if settings.user:
        progress.stage = Stage.AUTH
        await _log_in(wire, settings, offers)
    return Session(wire, offers)


async def _connect(settings: SmtpSettings, progress: Progress) -> Wire:
    progress.stage = Stage.CONNECT
    loop = asyncio.get_running_loop()

    def make() -> Wire:
        # Known before the await returns: a call cancelled right then must still abort it.
        progress.wire = Wire(loop)
        return progress.wire

    async with asyncio.timeout(settings.timeout):
        _, wire = await loop.create_connection(make, settings.host, settings.port)
    return wire


async def _secure(wire: Wire, context: ssl.SSLContext, settings: SmtpSettings) -> None:
    async with asyncio.timeout(settings.timeout):
        await wire.secure(context, settings.host, settings.timeout)


async def _introduce(wire: Wire, settings: SmtpSettings, progress: Progress) -> Offers:
    """Say EHLO. A 4yz ends it; HELO is tried after a 5yz, where no extension is needed."""
    progress.stage = Stage.EHLO
    name = settings.local_hostname or _address_literal(wire)
    reply = await wire.ask(b"EHLO " + name.encode("ascii"), settings.timeout)
    plain_will_do = settings.tls is not TlsMode.STARTTLS and not settings.user
    if reply.code // 100 == 5 and plain_will_do:  # noqa: PLR2004
        helo = await wire.ask(b"HELO " + name.encode("ascii"), settings.timeout)
        require(helo, holds=is_positive(helo))
        return Offers()
    return _offers(require(reply, holds=is_positive(reply)))


def _address_literal(wire: Wire) -> str:
    """RFC 5321 4.1.3: what a client without a name of its own says."""
    transport = wire.transport
    host = str(transport.get_extra_info("sockname")[0]) if transport else ""
    return f"[IPv6:{host.partition('%')[0]}]" if ":" in host else f"[{host}]"


def _offers(reply: SMTPResponse) -> Offers:
    listed, mechanisms = parse_esmtp_extensions(reply.message)
    limit = listed.get("size", "").strip()
    return Offers(
        size="size" in listed,
        size_limit=int(limit) if limit.isascii() and limit.isdigit() else 0,
        eight_bit="8bitmime" in listed,
        utf8="smtputf8" in listed,
        dsn="dsn" in listed,
        starttls="starttls" in listed,
        mechanisms=tuple(mechanisms),
    )


async def _upgrade(
    wire: Wire,
    context: ssl.SSLContext,
    settings: SmtpSettings,
    offers: Offers,
    progress: Progress,
) -> None:
    progress.stage = Stage.STARTTLS
    if not offers.starttls:
        raise Unfit(Kind.NOT_OFFERED, "STARTTLS is required by the settings and not offered")
    reply = await wire.ask(b"STARTTLS", settings.timeout)
    require(reply, holds=reply.code == READY)
    if wire.heard:
        # RFC 3207 4.2: clear text injected here must not be read as part of the secured session.
        raise MalformedReply("octets in clear text behind the reply to STARTTLS")
    await _secure(wire, context, settings)


async def _log_in(wire: Wire, settings: SmtpSettings, offers: Offers) -> None:
    mechanism = _choose(settings, offers)
    exchange = {
        Mechanism.PLAIN: _plain,
        Mechanism.LOGIN: _login,
        Mechanism.CRAM_MD5: _cram_md5,
    }[mechanism]
    reply = await exchange(wire, settings)
    require(reply, holds=is_positive(reply))


def _choose(settings: SmtpSettings, offers: Offers) -> Mechanism:
    wanted = (settings.auth,) if settings.auth else tuple(Mechanism)
    for mechanism in wanted:
        if mechanism in offers.mechanisms:
            return mechanism
    raise Unfit(Kind.NOT_OFFERED, "no AUTH mechanism that the settings allow is offered")


async def _plain(wire: Wire, settings: SmtpSettings) -> SMTPResponse:
    secret = auth_plain_encode(settings.user, settings.password)
    return await wire.ask(b"AUTH PLAIN " + secret, settings.timeout)


async def _login(wire: Wire, settings: SmtpSettings) -> SMTPResponse:
    reply = await wire.ask(b"AUTH LOGIN", settings.timeout)
    user, password = auth_login_encode(settings.user, settings.password)
    for answer in (user, password):
        require(reply, holds=reply.code == CHALLENGE)
        reply = await wire.ask(answer, settings.timeout)
    return reply


async def _cram_md5(wire: Wire, settings: SmtpSettings) -> SMTPResponse:
    reply = await wire.ask(b"AUTH CRAM-MD5", settings.timeout)
    require(reply, holds=reply.code == CHALLENGE)
    answer = auth_crammd5_verify(settings.user, settings.password, reply.message)
    return await wire.ask(answer, settings.timeout)
