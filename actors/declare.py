"""The actors: send what is due; write late results; sweep; interpret events. One line each."""

from dataclasses import dataclass
from typing import Any

import dramatiq
from dramatiq import Broker
from dramatiq.actor import Actor

from actors.connections import QUEUE
from mailer.wiring import Mailer

_NO_LIMIT = float("inf")
_RECORD_RETRIES = 100
_RECORD_BACKOFF_MS = 1_000
_RECORD_BACKOFF_MOST_MS = 60_000


@dataclass(frozen=True, slots=True)
class Actors:
    """The declared actors of one worker process."""

    deliver: Actor[[], None]
    sweep: Actor[[], None]
    record: Actor[[list[dict[str, Any]]], None]
    interpret: Actor[[], None]


def declare(broker: Broker, mailer: Mailer) -> Actors:
    """Declare the actors on `broker`, each working through `mailer`.

    Nothing is retried by the broker but `record`: the tables hold the retries. There is no time
    limit: an interrupt inside a call would leave its outcome unknown, and every wait has its own
    deadline.
    """

    @dramatiq.actor(broker=broker, queue_name=QUEUE, max_retries=0, time_limit=_NO_LIMIT)
    def deliver() -> None:
        mailer.delivery.deliver()

    @dramatiq.actor(broker=broker, queue_name=QUEUE, max_retries=0, time_limit=_NO_LIMIT)
    def sweep() -> None:
        mailer.sweep()

    @dramatiq.actor(
        broker=broker,
        queue_name=QUEUE,
        max_retries=_RECORD_RETRIES,
        min_backoff=_RECORD_BACKOFF_MS,
        max_backoff=_RECORD_BACKOFF_MOST_MS,
    )
    def record(carried: list[dict[str, Any]]) -> None:
        mailer.recorder.record(carried)

    @dramatiq.actor(broker=broker, queue_name=QUEUE, max_retries=0, time_limit=_NO_LIMIT)
    def interpret() -> None:
        mailer.interpret()

    return Actors(deliver, sweep, record, interpret)
