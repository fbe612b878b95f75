"""What faults have in common: at whom, at which wire, and after how much progress."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from mailer.prove.kit.plan import Strike
from mailer.prove.kit.post import Post
from mailer.prove.kit.scene import LEASE_SECONDS, Scene
from mailer.prove.kit.waiting import came_true
from mailer.prove.kit.wire import Wire

MEET_SECONDS = 3.0
"""How long a fault waits for its moment; then it comes as it may."""


OUTAGE_SECONDS = 0.8


PAST_LEASE_SECONDS = LEASE_SECONDS + 1.5


Bring = Callable[[Scene, Strike], AbstractContextManager[bool]]
"""Brings a fault about; gives whether it met its moment."""


Where = Callable[[Scene, Strike], Wire]


def post_of(scene: Scene, strike: Strike) -> Post:
    return scene.posts[strike.post]


def provider_of(scene: Scene, strike: Strike) -> Wire:
    return scene.providers[int(strike.chance * len(scene.providers))]


def database_of(scene: Scene, _: Strike) -> Wire:
    return scene.database


def rest(seconds: float) -> None:
    threading.Event().wait(seconds)


def progress(scene: Scene, strike: Strike) -> bool:
    """Wait until some of the wave has been taken, or the wait is over."""
    before = scene.taken()
    scene.commit(strike.wave)
    more = 1 + int(strike.chance * 6)
    return came_true(lambda: scene.taken() >= before + more, patience_seconds=MEET_SECONDS)
