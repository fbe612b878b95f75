"""The composition root: settings in, a working mailer out. The only importer of providers."""

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from pydantic import SecretStr

from mailer import database
from mailer.account_list import AccountList
from mailer.airspace import Airspace
from mailer.clock import awake_or_asleep
from mailer.delivery import Delivery, Pace, Unwritten
from mailer.errors import SettingsError
from mailer.evidence import Evidence
from mailer.feed import Channel, Interpret
from mailer.feedback import Feedback
from mailer.freeze import Freezer
from mailer.hearing import Bench
from mailer.limits import LimitsKeeper
from mailer.loading import Loader
from mailer.loop import LoopThread
from mailer.provider import Provider
from mailer.reconcile import Sweeper
from mailer.record import Recorder
from mailer.results import Ended
from mailer.retry import RetryPolicy
from mailer.returnpath import ReturnPath
from mailer.routing import Order, Router
from mailer.settings import load
from mailer.settings_fields import Settings
from providers import catalog
from providers.dsn import BounceMails
from providers.ses_events import SesEvents

WORKER_CONNECTIONS = 5
"""Database connections of one worker process: delivery, sweep, events, late results, one spare."""

_CLOSE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Mailer:
    """One worker process's parts, put together."""

    settings: Settings
    loop: LoopThread
    providers: Mapping[str, Provider]
    delivery: Delivery
    sweeper: Sweeper
    limits: LimitsKeeper
    recorder: Recorder
    feedback: Feedback

    def start(self) -> None:
        """Start what runs beside the worker's threads."""
        self.loop.start()

    def sweep(self) -> None:
        """Settle what time alone brings about, and learn what providers allow."""
        self.sweeper.sweep()
        self.feedback.rematch()
        self.limits.refresh()

    def interpret(self) -> None:
        """Interpret the events that have come."""
        self.feedback.interpret()

    def close(self) -> None:
        """Give everything back; delivery has been stopped before."""
        self.loop.run(_close_all(self.providers.values()), timeout_seconds=_CLOSE_SECONDS)
        self.loop.stop()


def settings_for_worker() -> Settings:
    """Read the settings of a worker; every mistake in one error, the providers' included."""
    return load(role="worker", provider_problems=catalog.problems)


def assemble(settings: Settings, *, unwritten: Unwritten | None = None) -> Mailer:
    """Put a worker process together; nothing is connected or started yet.

    `unwritten` takes a copy of results that the database would not take.
    """
    policy = retry_policy(settings)
    jitter = random.SystemRandom().random
    database.bind(
        database.connect_worker(settings.database_address, connections=WORKER_CONNECTIONS)
    )
    loop = LoopThread()
    orders, providers = build_providers(settings)
    delivery = Delivery(
        airspace=Airspace(loop, providers),
        loader=Loader(Freezer.from_settings(settings), return_path(settings)),
        pace=pace(settings),
        policy=policy,
        jitter=jitter,
        router=Router(orders, settings.sender or "", settings.lease_seconds, clock=awake_or_asleep),
        unwritten=unwritten or _nowhere,
    )
    return Mailer(
        settings,
        loop,
        providers,
        delivery,
        Sweeper(policy, jitter),
        LimitsKeeper(providers, loop),
        Recorder(policy, jitter),
        Feedback(readers(settings)),
    )


def readers(settings: Settings | None = None) -> dict[Channel, Interpret]:
    """Build what reads the events of each channel; without settings no mail can prove itself."""
    ses = SesEvents()
    mails = BounceMails(None if settings is None else return_path(settings))
    return {Channel.HTTPS: ses, Channel.SQS: ses, Channel.MAIL: mails}


def relay_log(lines: Iterable[str], zone: tzinfo) -> Evidence:
    """Build the witness that a relay's log is; `zone` is its own where its times name none."""
    from providers.relay_log import RelayLog

    return RelayLog(lines, zone=zone)


def bench(settings: Settings, *, actor: str) -> Bench:
    """Build what a witness is heard with."""
    return Bench(actor, return_path(settings), retry_policy(settings), random.SystemRandom().random)


def build_providers(settings: Settings) -> tuple[list[Order], dict[str, Provider]]:
    """Build every provider that an order names, once, and the orders by their names."""
    orders: dict[str | None, tuple[SecretStr, ...]] = {None: settings.providers}
    orders.update(settings.stream_orders)
    urls = dict.fromkeys(url for order in orders.values() for url in order)
    built = {url: build_provider(url, settings) for url in urls}
    return [
        Order(
            tuple(dict.fromkeys(built[url].name for url in order)),
            streams=None if stream is None else (stream,),
        )
        for stream, order in orders.items()
    ], {each.name: each for each in built.values()}


def build_provider(url: SecretStr, settings: Settings) -> Provider:
    """Build the provider of one URL."""
    return catalog.build(
        url.get_secret_value(), connections=settings.concurrency, sender=settings.sender
    )


def account_lists(settings: Settings) -> list[AccountList]:
    """Build the suppression list behind every provider that an order names, each list once.

    Raises SettingsError for a URL that cannot work, and where AWS's own settings cannot.
    """
    from providers.ses_suppression import suppression_list

    orders = (settings.providers, *settings.stream_orders.values())
    urls = dict.fromkeys(url.get_secret_value() for order in orders for url in order)
    if found := [problem for url in urls for problem in catalog.problems(url)]:
        raise SettingsError(f"MAILER_PROVIDERS: {'; '.join(found)}")
    lists = [each for each in map(suppression_list, urls) if each is not None]
    return list({each.name: each for each in lists}.values())


async def _close_all(providers: Iterable[Provider]) -> None:
    await asyncio.gather(*(each.close() for each in providers))


def return_path(settings: Settings) -> ReturnPath | None:
    """Where bounces are to come back to; None where the settings name no address for them."""
    if settings.return_path is None or settings.secret is None:
        return None
    return ReturnPath(settings.return_path, settings.secret.get_secret_value())


def retry_policy(settings: Settings) -> RetryPolicy:
    """The retry rules that the settings ask for."""
    return RetryPolicy(
        max_attempts=settings.max_attempts,
        max_age_seconds=settings.max_age_seconds,
        base_seconds=settings.retry_base_seconds,
        cap_seconds=settings.retry_cap_seconds,
        ambiguous_wait_seconds=settings.ambiguous_wait_seconds,
        max_resends=settings.max_resends,
    )


def pace(settings: Settings) -> Pace:
    """How a worker process works."""
    return Pace(
        batch=settings.batch,
        concurrency=settings.concurrency,
        lease_seconds=settings.lease_seconds,
        renew_seconds=settings.renew_seconds,
        poll_seconds=settings.poll_seconds,
        shutdown_seconds=settings.shutdown_seconds,
    )


def _nowhere(_: Sequence[Ended]) -> bool:
    return False
