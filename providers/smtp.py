"""The SMTP provider: hands one call over in one transaction and reports what it came to."""

from aiosmtplib import SMTPException

from mailer.outcome import CallResult, Scope
from mailer.provider import Call, Finding, Limits
from providers.smtp_check import look
from providers.smtp_pool import Pool
from providers.smtp_progress import Fate, Progress, RefusedReply, Unfit, observe
from providers.smtp_result import conclude
from providers.smtp_rules import Kind, Observation, Stage
from providers.smtp_session import Session, is_positive, open_session, require, trust
from providers.smtp_settings import SmtpSettings
from providers.smtp_table import judge
from providers.smtp_transaction import transact
from providers.smtp_wire import MalformedReply

_RESET_SECONDS = 5.0
_BEFORE_CONTENT = frozenset({Stage.MAIL, Stage.RCPT, Stage.DATA})
_CLOSING = 421


class SmtpProvider:
    """A relay spoken to in lock-step over a bounded pool of connections.

    The commit point is the line with the final dot: `committed` is set before it is handed to
    the transport, and from there on only a complete, well-formed reply settles the call.
    """

    def __init__(self, settings: SmtpSettings) -> None:
        self._settings = settings
        self._context = trust(settings)
        self._pool = Pool(settings)

    @property
    def name(self) -> str:
        """Scheme, host and port."""
        return self._settings.name

    async def send(self, call: Call) -> CallResult:
        """Make the call once; every exception, cancellation included, becomes its result."""
        progress = Progress(call)
        try:
            return await self._send(call, progress)
        except BaseException as exc:  # noqa: BLE001 - only here is it known what was handed over
            return conclude(progress, observe(exc, progress))

    async def limits(self) -> Limits:
        """The `rate` of the URL; a relay tells none."""
        return Limits(rate_per_second=self._settings.rate)

    async def check(self) -> list[Finding]:
        """Connect, secure, log in and look at what is offered; send nothing."""
        return await look(self._settings, self._context)

    async def close(self) -> None:
        """Say QUIT on idle connections, for at most a few seconds."""
        await self._pool.close()

    async def _send(self, call: Call, progress: Progress) -> CallResult:
        if not call.recipients:
            progress.stage = Stage.PREFLIGHT
            raise Unfit(Kind.MESSAGE, "no recipients")
        session = await self._pool.take()
        try:
            if session is not None:
                result = await self._try_again_on(session, call, progress)
                if result is not None:
                    return result
            session = await open_session(self._settings, self._context, progress)
            return await transact(session, call, self._settings, progress)
        finally:
            self._pool.give_back(session, progress.wire, progress.fate)

    async def _try_again_on(
        self, session: Session, call: Call, progress: Progress
    ) -> CallResult | None:
        """Use an idle session; None when it turned out to have been closed meanwhile."""
        progress.wire = session.wire
        if session.needs_reset and not await self._reset(session):
            self._abandon(session, progress)
            return None
        try:
            return await transact(session, call, self._settings, progress)
        except (SMTPException, OSError, RefusedReply) as exc:
            if not _was_stale(observe(exc, progress)):
                raise
        self._abandon(session, progress)
        return None

    async def _reset(self, session: Session) -> bool:
        seconds = min(self._settings.timeout, _RESET_SECONDS)
        try:
            reply = await session.wire.ask(b"RSET", seconds)
            require(reply, holds=is_positive(reply) and not session.wire.heard)
        except (SMTPException, OSError, RefusedReply, MalformedReply):
            return False
        session.needs_reset = False
        return True

    def _abandon(self, session: Session, progress: Progress) -> None:
        session.wire.abort()
        progress.restart()
        progress.fate = Fate.DROP


def _was_stale(seen: Observation) -> bool:
    """Whether the server had ended an idle session by itself, before any content was asked for.

    RFC 5321 3.8 lets it say 421 or close at any time; a 421 about our account is no such thing.
    """
    if seen.stage not in _BEFORE_CONTENT:
        return False
    if seen.kind is Kind.REPLY:
        return seen.code == _CLOSING and judge(seen).scope is not Scope.ACCOUNT
    return seen.kind in {Kind.EOF, Kind.RESET}
