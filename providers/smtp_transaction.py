"""One mail transaction (RFC 5321 3.3), step by step, so that the stage is always known."""

from aiosmtplib import SMTPResponse, SMTPServerDisconnected

from mailer.outcome import CallResult
from mailer.provider import Call
from providers.smtp_envelope import Envelope, prepare, stuffed
from providers.smtp_progress import Fate, Progress, RefusedReply, replied
from providers.smtp_result import conclude, nobody_willing, settle, withheld
from providers.smtp_rules import Stage
from providers.smtp_session import PROCEED, Session, is_positive, require
from providers.smtp_settings import SmtpSettings
from providers.smtp_wire import CHUNK_BYTES, MalformedReply, Wire, parse_reply

_SESSION_CODES = frozenset({421, 500, 502, 503, 504})
"""Closing, or out of step: such a session is not worth another command."""


async def transact(
    session: Session, call: Call, settings: SmtpSettings, progress: Progress
) -> CallResult:
    """Hand `call` over on `session`; raise whatever ends it otherwise than by its own verdict."""
    progress.stage, progress.fate, progress.wire = Stage.PREFLIGHT, Fate.KEEP, session.wire
    envelope = prepare(call, session.offers, progress)
    if not envelope.rcpts:
        return nobody_willing(progress)
    progress.fate = Fate.DROP
    session.messages += 1
    await _address(session.wire, envelope, settings, progress)
    if not progress.willing:
        progress.fate = Fate.RESET
        return nobody_willing(progress)
    return await _hand_over(session.wire, call, settings, progress)


async def _address(
    wire: Wire, envelope: Envelope, settings: SmtpSettings, progress: Progress
) -> None:
    progress.stage = Stage.MAIL
    reply = await wire.ask(envelope.mail, settings.timeout)
    if not is_positive(reply):
        raise _refused(reply, progress)
    progress.stage = Stage.RCPT
    for addressee, command in envelope.rcpts:
        reply = await wire.ask(command, settings.timeout)
        if is_positive(reply):
            progress.willing.append(addressee)
        elif _is_refusal(reply):
            settle(progress, addressee, replied(reply, progress))
        else:
            raise RefusedReply(reply)


async def _hand_over(
    wire: Wire, call: Call, settings: SmtpSettings, progress: Progress
) -> CallResult:
    progress.stage = Stage.DATA
    if refusal := call.may_commit():
        return withheld(progress, refusal)
    reply = await wire.ask(b"DATA", settings.timeout)
    require(reply, holds=reply.code == PROCEED)
    if wire.heard:
        raise MalformedReply("another reply behind the 354")
    progress.stage = Stage.BODY
    content = stuffed(call.content)
    last = (len(content) - 1) // CHUNK_BYTES * CHUNK_BYTES
    await wire.upload(content, last, settings.timeout)
    if not await wire.listen():
        raise await _interrupted(wire, settings)
    if refusal := call.may_commit():
        return withheld(progress, refusal)
    progress.committed, progress.stage = True, Stage.AFTER_DOT
    wire.write(content[last:] + b".\r\n")
    return await _verdict(wire, settings, progress)


async def _interrupted(wire: Wire, settings: SmtpSettings) -> Exception:
    if wire.heard:
        return RefusedReply(await wire.read_response(settings.timeout))
    return SMTPServerDisconnected("the connection ended while content was going out")


async def _verdict(wire: Wire, settings: SmtpSettings, progress: Progress) -> CallResult:
    reply = await wire.read_response(settings.data_timeout)
    if wire.heard:
        _allow_only_closing(wire.heard)
    elif is_positive(reply):
        progress.fate = Fate.KEEP
    elif _is_refusal(reply):
        progress.fate = Fate.RESET
    return conclude(progress, replied(reply, progress))


def _allow_only_closing(octets: bytes) -> None:
    """A 421 may follow a verdict at any time (RFC 5321 3.8); anything else makes it doubtful."""
    if parse_reply(octets).code != 421:  # noqa: PLR2004
        raise MalformedReply("another reply behind the verdict")


def _is_refusal(reply: SMTPResponse) -> bool:
    return reply.code // 100 in {4, 5} and reply.code not in _SESSION_CODES


def _refused(reply: SMTPResponse, progress: Progress) -> RefusedReply:
    if _is_refusal(reply):
        progress.fate = Fate.RESET
    return RefusedReply(reply)
