"""Stored events read again: those that wait for their attempt, and those nobody could read."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mailer import events, lookups
from mailer.database import connected
from mailer.facts import EventState
from mailer.feedback import BATCH, Feedback

_UNMATCHED = (EventState.UNMATCHED,)
_UNREAD = (EventState.UNPARSED, EventState.UNKNOWN_TYPE)

Told = Callable[[int], None]
"""Hears how many were read so far."""


@dataclass(frozen=True, slots=True)
class Rematched:
    """How many events were read again, and in which states they are now.

    One that is `received` still is left to a worker, which had it in hand or will have it.
    """

    read: int
    states: Mapping[str, int]


def rematch(feedback: Feedback, *, unparsed: bool = False, told: Told | None = None) -> Rematched:
    """Read all unmatched events again, and with `unparsed` those that could not be read as well.

    Raises what the database raises; what was done by then is done.
    """
    states = _UNMATCHED + (_UNREAD if unparsed else ())
    ended: Counter[str] = Counter()
    last = 0
    with connected():
        while ids := events.reread(states, after_id=last, limit=BATCH):
            last = ids[-1]
            feedback.interpret()
            ended.update(lookups.event_states(ids))
            if told is not None:
                told(ended.total())
    return Rematched(ended.total(), dict(sorted(ended.items())))
