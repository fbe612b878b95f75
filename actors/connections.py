"""Brokers and their Redis clients, each built for what it is used for."""

from collections.abc import Callable
from typing import Any

import redis
from dramatiq import Broker, Message
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from redis.backoff import NoBackoff
from redis.retry import Retry

QUEUE = "mailer"
NAMESPACE = "mailer"

_HEARTBEAT_MS = 15_000
"""A worker silent for this long is dead; its unacknowledged hints go to others."""

_MAINTENANCE_CHANCE = 100_000
"""Of a million: every tenth fetch looks for dead workers. The default takes minutes to find one."""


def worker_broker(redis_url: str | None) -> Broker:
    """Build a worker's broker; without Redis one in memory, fed by the poll alone."""
    if redis_url is None:
        return StubBroker()
    return _redis_broker(redis_url, connect_seconds=1.0, answer_seconds=5.0)


def hint_sender(redis_url: str, actor: str) -> Callable[[], None]:
    """Build what sends hints to `actor` from outside a worker: short timeouts, no retry."""
    broker = _redis_broker(redis_url, connect_seconds=0.25, answer_seconds=0.5)
    broker.declare_queue(QUEUE)

    def send() -> None:
        broker.enqueue(Message(queue_name=QUEUE, actor_name=actor, args=(), kwargs={}, options={}))

    return send


def _redis_broker(redis_url: str, *, connect_seconds: float, answer_seconds: float) -> Broker:
    # RedisBroker(url=...) drops every other option, so the client is built here.
    client = redis.Redis.from_url(
        redis_url,
        socket_connect_timeout=connect_seconds,
        socket_timeout=answer_seconds,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=30,
        **_tls_options(redis_url),
    )
    return RedisBroker(  # type: ignore[no-untyped-call]
        client=client,
        namespace=NAMESPACE,
        heartbeat_timeout=_HEARTBEAT_MS,
        maintenance_chance=_MAINTENANCE_CHANCE,
    )


def _tls_options(redis_url: str) -> dict[str, Any]:
    # Platforms offer rediss:// with a self-signed chain; hints carry nothing worth reading.
    return {"ssl_cert_reqs": None} if redis_url.startswith("rediss:") else {}
