"""What the Procfile's worker loads: `dramatiq actors.worker:broker`."""

import sys

import dramatiq
from dramatiq import Broker

from actors.connections import worker_broker
from actors.declare import declare
from actors.life import Life
from actors.unwritten import through
from mailer import log
from mailer.errors import MailerError
from mailer.settings_fields import Settings
from mailer.wiring import assemble, settings_for_worker


def broker() -> None:
    """Build this process's broker and make it dramatiq's; called by dramatiq itself."""
    try:
        settings = settings_for_worker()
        log.configure(settings.log_format)
        dramatiq.set_broker(build(settings))
    except MailerError as error:
        sys.exit(str(error))


def build(settings: Settings) -> Broker:
    """Put one worker process together around a broker."""
    redis_url = settings.redis_url.get_secret_value() if settings.redis_url else None
    built = worker_broker(redis_url)
    mailer = assemble(settings, unwritten=through(built))
    built.add_middleware(Life(mailer, declare(built, mailer)))
    return built
