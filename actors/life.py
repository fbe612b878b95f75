"""The life of a worker process, tied to dramatiq's: what starts with it, and how it stops."""

from dramatiq import Broker, Middleware, Worker

from actors.declare import Actors
from actors.poller import Poller
from mailer.log import get_logger
from mailer.wiring import Mailer

_log = get_logger("mailer.worker")

_JOIN_SECONDS = 2.0


class Life(Middleware):
    """Starts the poll with the worker; stops delivery before the worker waits for its threads."""

    def __init__(self, mailer: Mailer, actors: Actors) -> None:
        self._mailer = mailer
        settings = mailer.settings
        self._poller = Poller(
            actors,
            poll_seconds=settings.poll_seconds,
            lease_seconds=settings.lease_seconds,
        )

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """Have the event loop running before the first hint is taken."""
        self._mailer.start()
        self._mailer.limits.refresh(at_start=True)

    def after_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """Begin to work."""
        self._poller.start()
        _log.info("worker started", providers=list(self._mailer.providers))

    def before_worker_shutdown(self, broker: Broker, worker: Worker) -> None:
        """Claim no more; the run under way ends by the shutdown deadline."""
        self._poller.stop()
        self._mailer.delivery.stop()
        if not self._mailer.delivery.wait_until_idle():
            _log.warning("delivery still busy at the shutdown deadline")

    def after_worker_shutdown(self, broker: Broker, worker: Worker) -> None:
        """Give back connections."""
        self._poller.join(_JOIN_SECONDS)
        self._mailer.close()
        _log.info("worker stopped")
