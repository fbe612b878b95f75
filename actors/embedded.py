"""The worker in one process, without a broker: for SQLite, the demo, and one small machine."""

from collections.abc import Iterator
from contextlib import contextmanager

import dramatiq
from dramatiq import Worker

from actors.worker import build
from mailer.settings_fields import Settings

_THREADS = 4
_QUEUE_POLL_MS = 100


@contextmanager
def running(settings: Settings) -> Iterator[None]:
    """Run the same actors as a worker process, in this one, for the length of the block."""
    broker = build(settings)
    dramatiq.set_broker(broker)
    # dramatiq's own command emits this; its time-limit thread starts with it.
    broker.emit_after("process_boot")
    worker = Worker(broker, worker_threads=_THREADS, worker_timeout=_QUEUE_POLL_MS)
    worker.start()
    try:
        yield
    finally:
        worker.stop(timeout=int(settings.shutdown_seconds * 1000))
        broker.close()
