"""The kinds of steps there are, and what a step is."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from mailer.prove.world import World


class Kind(StrEnum):
    """What kind of step it is."""

    CLAIM = "claim"
    RELEASE = "release"
    RENEW = "renew"
    BEGIN = "begin"
    BEGIN_UNHEARD = "begin, unheard"
    ASK = "ask the clock"
    HAND_OVER = "hand over"
    HOLD_BACK = "hold back"
    ANSWER = "answer"
    NO_ANSWER = "no answer"
    FINISH = "finish"
    FINISH_UNHEARD = "finish, unheard"
    CRASH = "crash"
    PROVIDER = "provider decides"
    EVENT = "event"
    DEADLINE = "deadline passes"
    LEASE_ENDS = "lease runs out"
    EXPIRES = "message expires"
    SUPPRESSED = "recipient is suppressed"
    WITHHOLD = "withhold"
    SWEEP = "sweep"
    POLICY = "policy"
    CANCEL = "cancel"
    LOOK = "look"
    RESOLVE = "resolve"
    REQUEUE = "requeue"


OUTSIDE = frozenset({Kind.CANCEL, Kind.LOOK, Kind.RESOLVE, Kind.REQUEUE})
"""What applications and people do, who may as well never come."""


class Step(NamedTuple):
    """One thing that happened: what kind, which worker and attempt (0 for none), and in words."""

    kind: Kind
    words: str
    after: World
    attempt: int = 0


Steps = Iterator[Step]
