"""Faults of the servers and of the network, and too many hints: each a block, healed at its end."""

import importlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from urllib.parse import urlsplit

import psycopg2

from mailer.hints import DELIVER
from mailer.prove.kit.meeting import (
    OUTAGE_SECONDS,
    PAST_LEASE_SECONDS,
    Where,
    post_of,
    progress,
    rest,
)
from mailer.prove.kit.plan import Strike
from mailer.prove.kit.scene import Scene
from mailer.prove.kit.wire import Wire

_HUNDREDFOLD = 100


@contextmanager
def postgres_killed(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = progress(scene, strike)
    scene.stage.postgres.shut_off()
    rest(OUTAGE_SECONDS * strike.chance)
    scene.stage.postgres.come_back()
    yield met


@contextmanager
def connections_cut(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = progress(scene, strike)
    scene.ledger.disconnect_others()
    yield met


@contextmanager
def read_only(scene: Scene, strike: Strike) -> Iterator[bool]:
    """As in a failover: every session ends, and the next ones may read alone, for a while."""
    met = progress(scene, strike)
    _set_read_only(scene, on=True)
    yield met
    rest(OUTAGE_SECONDS)
    _set_read_only(scene, on=False)


def _set_read_only(scene: Scene, *, on: bool) -> None:
    name = urlsplit(scene.ledger.url).path[1:]
    word = "on" if on else "off"
    with closing(psycopg2.connect(scene.stage.postgres.url())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {word}')
    scene.ledger.disconnect_others()


@contextmanager
def silent(where: Where, scene: Scene, strike: Strike) -> Iterator[bool]:
    """Nothing passes any more and nobody is told, until the leases have run out."""
    met = progress(scene, strike)
    where(scene, strike).stall(post_of(scene, strike).name)
    yield met
    rest(PAST_LEASE_SECONDS)
    where(scene, strike).mend()


@contextmanager
def severed(where: Where, scene: Scene, strike: Strike) -> Iterator[bool]:
    """Connections end and new ones are refused, for both workers."""
    met = progress(scene, strike)
    where(scene, strike).sever()
    yield met
    rest(OUTAGE_SECONDS)
    where(scene, strike).mend()


def _hints(scene: Scene, _: Strike) -> Wire:
    return scene.hints


@contextmanager
def redis_killed(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = progress(scene, strike)
    scene.stage.redis.shut_off()
    yield met
    scene.stage.redis.come_back()


@contextmanager
def redis_flushed(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = progress(scene, strike)
    with suppress(OSError):
        scene.stage.redis.flush()
    yield met


@contextmanager
def redis_stalled(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = progress(scene, strike)
    scene.hints.stall()
    yield met
    rest(OUTAGE_SECONDS)
    scene.hints.mend()


@contextmanager
def hints_doubled(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = progress(scene, strike)
    send = importlib.import_module("actors.connections").hint_sender(scene.stage.redis.url, DELIVER)
    with suppress(Exception):  # a hint is worth nothing; another fault may have taken Redis away
        for _ in range(_HUNDREDFOLD):
            send()
    yield met
