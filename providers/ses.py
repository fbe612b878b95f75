"""The Amazon SES provider: hands one call over in one HTTP request and reports what it came to."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from botocore.exceptions import NoCredentialsError

from mailer.errors import SettingsError
from mailer.log import get_logger
from mailer.outcome import CallResult
from mailer.provider import Call, Finding, Limits
from providers.ses_check import late, look, measure
from providers.ses_client import Clients, connect
from providers.ses_observe import Witness, has_repeated
from providers.ses_probe import Flight, aboard, is_counting
from providers.ses_request import Plan, Unfit, plan, unfit
from providers.ses_result import conclude, nobody_fit, withheld
from providers.ses_rules import Kind, Observation
from providers.ses_settings import SesSettings

_ASKING_SECONDS = 8.0
_CHECKING_SECONDS = 20.0
_CLOSING_SECONDS = 3.0

_log = get_logger("providers.ses")

T = TypeVar("T")


class SesProvider:
    """An account spoken to by blocking calls in threads of its own, one request an attempt.

    The commit point is the first byte of the request; `ses_probe` stands right before it. From
    there on only an answer that SES wrote settles the call.
    """

    def __init__(self, settings: SesSettings) -> None:
        is_counting()  # here, and not in a thread: the hook is to be there once
        self._settings = settings
        self._clients = connect(settings)
        self._threads: ThreadPoolExecutor | None = None
        self._jobs: set[Future[Any]] = set()
        self._flights: set[Flight] = set()

    @property
    def name(self) -> str:
        """Region, configuration set and endpoint."""
        return self._settings.name

    async def send(self, call: Call) -> CallResult:
        """Make the call once; every exception, cancellation included, becomes its result."""
        flight = Flight(call.may_commit, self._settings.timeout)
        prepared: Plan | None = None
        try:
            prepared = plan(call, self._settings)
            if not prepared.aboard:
                return nobody_fit(call, prepared)
            seen = await self._fly(call, prepared, flight)
        except Unfit as exc:
            seen = unfit(str(exc))
        except BaseException as exc:  # noqa: BLE001 - only here is it known what was handed over
            flight.abandon()
            seen = self._witness(call, flight).raised(exc)
        if flight.refusal:
            return withheld(call, prepared, flight.refusal)
        return conclude(call, prepared, seen)

    async def limits(self) -> Limits:
        """Ask the account for its rate and for what is left of its 24 hours.

        The `rate` of the URL goes before the account's.
        """
        try:
            found = await self._ask(lambda: measure(self._clients), _ASKING_SECONDS)
        except Exception as exc:  # noqa: BLE001 - what cannot be told is None
            _log.warning("limits not told", provider=self.name, error=type(exc).__name__)
            found = Limits()
        return Limits(self._settings.rate or found.rate_per_second, found.left_today)

    async def check(self) -> list[Finding]:
        """Look at credentials, account, sender and configuration set; send nothing."""
        try:
            return await self._ask(lambda: look(self._clients, self._settings), _CHECKING_SECONDS)
        except TimeoutError:
            return [late(self._clients, self._settings)]

    async def close(self) -> None:
        """Give back connections; a thread that still waits for an answer is woken."""
        for flight in tuple(self._flights):
            flight.abandon()
            flight.sever()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
            await asyncio.to_thread(wait, tuple(self._jobs), _CLOSING_SECONDS)
        self._clients.close()

    async def _fly(self, call: Call, prepared: Plan, flight: Flight) -> Observation:
        landed: list[Observation] = []
        job = self._submit(lambda: landed.append(self._attempt(call, prepared, flight)))
        self._flights.add(flight)
        job.add_done_callback(lambda _: self._flights.discard(flight))
        try:
            async with asyncio.timeout(self._settings.deadline_seconds):
                await asyncio.wrap_future(job)
        except TimeoutError:
            return self._give_up(call, flight, landed, Kind.DEADLINE)
        except asyncio.CancelledError:
            return self._give_up(call, flight, landed, Kind.CANCELLED)
        return landed[0]

    def _give_up(
        self, call: Call, flight: Flight, landed: list[Observation], why: Kind
    ) -> Observation:
        """Say what is known by now; an answer that we cut off ourselves says nothing."""
        flight.abandon()
        seen = landed[0] if landed else self._witness(call, flight).met(why)
        flight.sever()
        return seen

    def _attempt(self, call: Call, prepared: Plan, flight: Flight) -> Observation:
        clients = self._clients
        witness = self._witness(call, flight)
        with aboard(flight):
            try:
                response = clients.mail.send_email(**prepared.request)
                seen = witness.answered(response)
            except BaseException as exc:  # noqa: BLE001 - it belongs to the call, not to the thread
                response, seen = getattr(exc, "response", None), witness.raised(exc)
                if isinstance(exc, NoCredentialsError):
                    self._renew(clients)
        if flight.has_repeated or has_repeated(response):
            _log.error("the SDK repeated a request", outbox_id=call.outbox_id)
        return seen

    def _witness(self, call: Call, flight: Flight) -> Witness:
        return Witness(call, flight, self._clients.endpoint)

    def _renew(self, used: Clients) -> None:
        """Build the clients anew: they look for credentials only once."""
        if self._clients is used:
            try:
                self._clients = connect(self._settings)
            except SettingsError:
                return
            used.close()

    async def _ask(self, work: Callable[[], T], seconds: float) -> T:
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(self._submit(work))

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._settings.connections, "mailer-ses")
        job = self._threads.submit(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job
