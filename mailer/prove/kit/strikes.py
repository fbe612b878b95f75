"""How each fault is brought about, and how it is healed: each a block, healed at its end.

Here are those of the workers; those of what they rely on are `outages`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from mailer.prove.kit.binaries import find_faketime
from mailer.prove.kit.meeting import (
    MEET_SECONDS,
    PAST_LEASE_SECONDS,
    Bring,
    Where,
    database_of,
    post_of,
    progress,
    provider_of,
    rest,
)
from mailer.prove.kit.outages import (
    connections_cut,
    hints_doubled,
    postgres_killed,
    read_only,
    redis_flushed,
    redis_killed,
    redis_stalled,
    severed,
    silent,
)
from mailer.prove.kit.plan import Fault, Strike
from mailer.prove.kit.post import Post
from mailer.prove.kit.scene import Scene
from mailer.prove.kit.talk import Point, refusal
from mailer.prove.kit.wire import Phase, Snare, Wire

_HOUR_SECONDS = 3_600


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
    return snare, owner or post_of(scene, strike), met


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
    met = progress(scene, strike)
    post_of(scene, strike).kill()
    yield met
    post_of(scene, strike).fill()


@contextmanager
def _all_killed(scene: Scene, strike: Strike) -> Iterator[bool]:
    met = progress(scene, strike)
    for each in scene.posts:
        each.kill()
    yield met
    for each in scene.posts:
        each.fill()


@contextmanager
def _terminated(scene: Scene, strike: Strike) -> Iterator[bool]:
    wire = provider_of(scene, strike)
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
    wire = provider_of(scene, strike)
    snare, post, met = _catch(scene, strike, wire, point, phase)
    worker = post.worker
    if not worker.has_ended():
        worker.pause()
    wire.lift(snare)
    yield met
    rest(PAST_LEASE_SECONDS)
    if not worker.has_ended():
        worker.resume()


@contextmanager
def _deployed(scene: Scene, strike: Strike) -> Iterator[bool]:
    """The next worker is at work before the last one is told to go."""
    met = progress(scene, strike)
    post = post_of(scene, strike)
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
        yield progress(scene, strike)
        return
    post = post_of(scene, strike)
    scene.commit(strike.wave)
    post.keep_clock(library, _HOUR_SECONDS if strike.chance > 1 / 2 else -_HOUR_SECONDS)
    post.kill()
    post.fill()
    post.worker.wait_started()
    yield True


def _killing(where: Where, point: Point, phase: Phase) -> Bring:
    return _snared(where, point, phase, _kill)


STRIKES: Mapping[Fault, Bring] = {
    Fault.KILL_AFTER_CLAIM: _killing(database_of, Point.CLAIM, Phase.AFTER),
    Fault.KILL_BEFORE_BEGIN: _killing(database_of, Point.BEGIN, Phase.BEFORE),
    Fault.KILL_AFTER_BEGIN: _killing(database_of, Point.BEGIN_COMMIT, Phase.AFTER),
    Fault.KILL_IN_BODY: _killing(provider_of, Point.BODY, Phase.HALF),
    Fault.KILL_AFTER_DOT: _killing(provider_of, Point.DOT, Phase.AFTER),
    Fault.KILL_BEFORE_FINISH: _killing(database_of, Point.FINISH, Phase.BEFORE),
    Fault.KILL_DURING_FINISH: _killing(database_of, Point.FINISH_COMMIT, Phase.HALF),
    Fault.KILL_AFTER_FINISH: _killing(database_of, Point.FINISH_COMMIT, Phase.AFTER),
    Fault.KILL_AT_RANDOM: _killed,
    Fault.KILL_BOTH: _all_killed,
    Fault.TERM_IN_SEND: _terminated,
    Fault.STOPPED_BEFORE_DOT: partial(_stopped, Point.BODY, Phase.HALF),
    Fault.STOPPED_AFTER_DOT: partial(_stopped, Point.DOT, Phase.AFTER),
    Fault.POSTGRES_KILLED: postgres_killed,
    Fault.CONNECTIONS_CUT: connections_cut,
    Fault.SERIALIZATION_FAILURE: _snared(
        database_of,
        Point.FINISH,
        Phase.BEFORE,
        partial(_refuse, "40001", "could not serialize access due to concurrent update"),
    ),
    Fault.DISK_FULL: _snared(
        database_of,
        Point.FINISH,
        Phase.BEFORE,
        partial(_refuse, "53100", "could not extend file: No space left on device"),
    ),
    Fault.BEGIN_ANSWER_LOST: _snared(database_of, Point.BEGIN_COMMIT, Phase.AFTER, _cut),
    Fault.FINISH_ANSWER_LOST: _snared(database_of, Point.FINISH_COMMIT, Phase.AFTER, _cut),
    Fault.READ_ONLY: read_only,
    Fault.DATABASE_AWAY: partial(severed, database_of),
    Fault.DATABASE_SILENT: partial(silent, database_of),
    Fault.REDIS_KILLED: redis_killed,
    Fault.REDIS_FLUSHED: redis_flushed,
    Fault.REDIS_STALLED: redis_stalled,
    Fault.HINTS_DOUBLED: hints_doubled,
    Fault.PROVIDER_RESETS: _snared(provider_of, Point.BODY, Phase.HALF, _cut),
    Fault.ANSWER_LOST: _snared(provider_of, Point.DOT, Phase.AFTER, _cut),
    Fault.PROVIDER_STALLS: partial(silent, provider_of),
    Fault.PROVIDER_AWAY: partial(severed, provider_of),
    Fault.DEPLOY: _deployed,
    Fault.CLOCK_OFF: _clock_off,
}
