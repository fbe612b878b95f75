"""The composition root of the processes that take events: the web door and the queue's consumer."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mailer import database, hints
from mailer.consume import Consumer
from mailer.ingest import Ingest
from mailer.settings_fields import Settings
from mailer.storing import Storage
from providers.sns import SnsVerifier
from providers.sns_certificates import Certificates, Fetch
from providers.sns_fetch import NotFetched, fetch_certificate, from_folder
from providers.sns_subscription import SnsSubscriptions

EVENTS_CONNECTIONS = 3
"""Database connections of a process that takes events: storing, looking, and one to spare."""


@dataclass(frozen=True, slots=True)
class WebParts:
    """What the web process works with."""

    ingest: Ingest
    has_topics: bool


def assemble_web(settings: Settings) -> WebParts:
    """Put the web process together; nothing is connected or started yet."""
    return WebParts(_ingest(settings), bool(settings.sns_topic_arns))


def assemble_consumer(settings: Settings) -> Consumer:
    """Put the consumer of the queue together; nothing is connected or started yet.

    Raises SettingsError when AWS's own settings cannot work.
    """
    from providers.sqs import SqsQueue

    return Consumer(SqsQueue(settings.sqs_queue_address), _ingest(settings))


def _ingest(settings: Settings) -> Ingest:
    database.bind(
        database.connect_worker(settings.database_address, connections=EVENTS_CONNECTIONS)
    )
    verifier = SnsVerifier(
        settings.sns_topic_arns,
        Certificates(_fetch(settings.sns_certificates)),
        versions=frozenset(settings.sns_signature_versions.split(",")),
        max_age_seconds=settings.event_max_age_seconds,
    )
    return Ingest(verifier, Storage(_nudge(settings)), SnsSubscriptions())


def _fetch(folder: Path | None) -> Fetch:
    return fetch_certificate if folder is None else from_folder(folder, _fetch_nothing)


def _fetch_nothing(_: str) -> bytes:
    raise NotFetched("not in the folder")


def _nudge(settings: Settings) -> Callable[[], None]:
    if settings.redis_url is None:
        return hints.silent
    return hints.Hinter(settings.redis_url.get_secret_value(), hints.INTERPRET).nudge
