"""How each fault is brought about, and how it is healed: each a block, healed at its end."""

import importlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from urllib.parse import urlsplit

import psycopg2

from mailer.hints import DELIVER
from mailer.prove.kit.binaries import find_faketime
from mailer.prove.kit.plan import Fault, Strike
from mailer.prove.kit.post import Post
from mailer.prove.kit.scene import LEASE_SECONDS, Scene
from mailer.prove.kit.talk import Point, refusal
from mailer.prove.kit.waiting import came_true
from mailer.prove.kit.wire import Phase, Snare, Wire

MEET_SECONDS = 3.0
"""How long a fault waits for its moment; then it comes as it may."""

_OUTAGE_SECONDS = 0.8
_PAST_LEASE_SECONDS = LEASE_SECONDS + 1.5
_HOUR_SECONDS = 3_600
_HUNDREDFOLD = 100

Bring = Callable[[Scene, Strike], AbstractContextManager[bool]]
"""Brings a fault about; gives whether it met its moment."""


def _post(scene: Scene, strike: Strike) -> Post:
    return scene.posts[strike.post]


def _provider(scene: Scene, strike: Strike) -> Wire:
    return scene.providers[int(strike.chance * len(scene.providers))]


def _rest(seconds: float) -> None:
    threading.Event().wait(seconds)


def _progress(scene: Scene, strike: Strike) -> bool:
    """Wait until some of the wave has been taken, or the wait is over."""
    before = scene.taken()
    scene.commit(strike.wave)
    more = 1 + int(strike.chance * 6)
    return came_true(lambda: scene.taken() >= before + more, patience_seconds=MEET_SECONDS)


Where = Callable[[Scene, Strike], Wire]


def _database(scene: Scene, _: Strike) -> Wire:
    return scene.database


Act = Callable[[Post, Snare], None]
"""What is done to that which was caught, or without anything caught when the wait is over."""


def _catch(
    scene: Scene, strike: Strike, wire: Wire, point: Point, phase: Phase
) -> tuple[Snare, Post, bool]:
    """Lay a snare, let the wave come, and give what was caught: whose it is, and whether it was."""
    snare = wire.snare(point, phase, strike.skip)
    scene.commit(strike.wave)
    met = snare.wait(MEET_SECONDS)
    owner = next((each for each in scene.posts if each.name == snare.caught_from), None)
    return snare, owner or _post(scene, strike), met


def _kill(post: Post, snare: Snare) -> None:
    post.kill()
    snare.cut()


def _cut(_: Post, snare: Snare) -> None:
    snare.cut()


def _refuse(sqlstate: str, text: str, _: Post, snare: Snare) -> None:
    snare.refuse(refusal(sqlstate, text))


def _snared(where: Where, point: Point, phase: Phase, act: Act) -> Bring:
    @contextmanager
    def bring(scene: Scene, strike: Strike) -> Iterator[bool]:
        wire = where(scene, strike)
        snare, post, met = _catch(scene, strike, wire, point, phase)
        act(post, snare)
        wire.lift(snare)
        yield met
        post.fill()

    return bring


@contextmanager
def _killed(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = _progress(scene, strike)
    _post(scene, strike).kill()
    yield met
    _post(scene, strike).fill()


@contextmanager
def _all_killed(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = _progress(scene, strike)
    for each in scene.posts:
        each.kill()
    yield met
    for each in scene.posts:
        each.fill()


@contextmanager
def _terminated(scene: Scene, strike: Strike) -> Iterator[bool]:
    wire = _provider(scene, strike)
    snare, post, met = _catch(scene, strike, wire, Point.DOT, Phase.AFTER)
    worker = post.worker
    if not worker.has_ended():
        worker.terminate()
    yield met
    wire.lift(snare)
    worker.wait_exit()
    post.fill()


@contextmanager
def _stopped(point: Point, phase: Phase, scene: Scene, strike: Strike) -> Iterator[bool]:
    """SIGSTOP all processes of a worker; they go on when their leases have run out."""
    wire = _provider(scene, strike)
    snare, post, met = _catch(scene, strike, wire, point, phase)
    worker = post.worker
    if not worker.has_ended():
        worker.pause()
    wire.lift(snare)
    yield met
    _rest(_PAST_LEASE_SECONDS)
    if not worker.has_ended():
        worker.resume()


@contextmanager
def _postgres_killed(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = _progress(scene, strike)
    scene.stage.postgres.shut_off()
    _rest(_OUTAGE_SECONDS * strike.chance)
    scene.stage.postgres.come_back()
    yield met


@contextmanager
def _connections_cut(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = _progress(scene, strike)
    scene.ledger.disconnect_others()
    yield met


@contextmanager
def _read_only(scene: Scene, strike: Strike) -> Iterator[bool]:
    """As in a failover: every session ends, and the next ones may read alone, for a while."""
    met = _progress(scene, strike)
    _set_read_only(scene, on=True)
    yield met
    _rest(_OUTAGE_SECONDS)
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
def _silent(where: Where, scene: Scene, strike: Strike) -> Iterator[bool]:
    """Nothing passes any more and nobody is told, until the leases have run out."""
    met = _progress(scene, strike)
    where(scene, strike).stall(_post(scene, strike).name)
    yield met
    _rest(_PAST_LEASE_SECONDS)
    where(scene, strike).mend()


@contextmanager
def _severed(where: Where, scene: Scene, strike: Strike) -> Iterator[bool]:
    met = _progress(scene, strike)
    where(scene, strike).sever(_post(scene, strike).name)
    yield met
    _rest(_OUTAGE_SECONDS)
    where(scene, strike).mend()


def _hints(scene: Scene, _: Strike) -> Wire:
    return scene.hints


@contextmanager
def _redis_killed(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = _progress(scene, strike)
    scene.stage.redis.shut_off()
    yield met
    scene.stage.redis.come_back()


@contextmanager
def _redis_flushed(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = _progress(scene, strike)
    with suppress(OSError):
        scene.stage.redis.flush()
    yield met


@contextmanager
def _redis_stalled(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = _progress(scene, strike)
    scene.hints.stall()
    yield met
    _rest(_OUTAGE_SECONDS)
    scene.hints.mend()


@contextmanager
def _hints_doubled(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = _progress(scene, strike)
    send = importlib.import_module("actors.connections").hint_sender(scene.stage.redis.url, DELIVER)
    with suppress(Exception):  # a hint is worth nothing; another fault may have taken Redis away
        for _ in range(_HUNDREDFOLD):
            send()
    yield met


@contextmanager
def _deployed(scene: Scene, strike: Strike) -> Iterator[bool]:
    """The next worker is at work before the last one is told to go."""
    met = _progress(scene, strike)
    post = _post(scene, strike)
    old = post.worker
    post.start()
    post.worker.wait_started()
    if not old.has_ended():
        old.terminate()
    yield met
    old.wait_exit()


@contextmanager
def _clock_off(scene: Scene, strike: Strike) -> Iterator[bool]:
    library = find_faketime()
    if library is None:
        scene.skipped.append(f"{Fault.CLOCK_OFF}: no libfaketime; install the package faketime")
        yield _progress(scene, strike)
        return
    post = _post(scene, strike)
    scene.commit(strike.wave)
    post.keep_clock(library, _HOUR_SECONDS if strike.chance > 1 / 2 else -_HOUR_SECONDS)
    post.kill()
    post.fill()
    post.worker.wait_started()
    yield True


def _killing(where: Where, point: Point, phase: Phase) -> Bring:
    return _snared(where, point, phase, _kill)


STRIKES: Mapping[Fault, Bring] = {
    Fault.KILL_AFTER_CLAIM: _killing(_database, Point.CLAIM, Phase.AFTER),
    Fault.KILL_BEFORE_BEGIN: _killing(_database, Point.BEGIN, Phase.BEFORE),
    Fault.KILL_AFTER_BEGIN: _killing(_database, Point.BEGIN_COMMIT, Phase.AFTER),
    Fault.KILL_IN_BODY: _killing(_provider, Point.BODY, Phase.HALF),
    Fault.KILL_AFTER_DOT: _killing(_provider, Point.DOT, Phase.AFTER),
    Fault.KILL_BEFORE_FINISH: _killing(_database, Point.FINISH, Phase.BEFORE),
    Fault.KILL_DURING_FINISH: _killing(_database, Point.FINISH_COMMIT, Phase.HALF),
    Fault.KILL_AFTER_FINISH: _killing(_database, Point.FINISH_COMMIT, Phase.AFTER),
    Fault.KILL_AT_RANDOM: _killed,
    Fault.KILL_BOTH: _all_killed,
    Fault.TERM_IN_SEND: _terminated,
    Fault.STOPPED_BEFORE_DOT: partial(_stopped, Point.BODY, Phase.HALF),
    Fault.STOPPED_AFTER_DOT: partial(_stopped, Point.DOT, Phase.AFTER),
    Fault.POSTGRES_KILLED: _postgres_killed,
    Fault.CONNECTIONS_CUT: _connections_cut,
    Fault.SERIALIZATION_FAILURE: _snared(
        _database,
        Point.FINISH,
        Phase.BEFORE,
        partial(_refuse, "40001", "could not serialize access due to concurrent update"),
    ),
    Fault.DISK_FULL: _snared(
        _database,
        Point.FINISH,
        Phase.BEFORE,
        partial(_refuse, "53100", "could not extend file: No space left on device"),
    ),
    Fault.BEGIN_ANSWER_LOST: _snared(_database, Point.BEGIN_COMMIT, Phase.AFTER, _cut),
    Fault.FINISH_ANSWER_LOST: _snared(_database, Point.FINISH_COMMIT, Phase.AFTER, _cut),
    Fault.READ_ONLY: _read_only,
    Fault.DATABASE_AWAY: partial(_severed, _database),
    Fault.DATABASE_SILENT: partial(_silent, _database),
    Fault.REDIS_KILLED: _redis_killed,
    Fault.REDIS_FLUSHED: _redis_flushed,
    Fault.REDIS_STALLED: _redis_stalled,
    Fault.HINTS_DOUBLED: _hints_doubled,
    Fault.PROVIDER_RESETS: _snared(_provider, Point.BODY, Phase.HALF, _cut),
    Fault.ANSWER_LOST: _snared(_provider, Point.DOT, Phase.AFTER, _cut),
    Fault.PROVIDER_STALLS: partial(_silent, _provider),
    Fault.PROVIDER_AWAY: partial(_severed, _provider),
    Fault.DEPLOY: _deployed,
    Fault.CLOCK_OFF: _clock_off,
}
