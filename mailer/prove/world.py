"""Everything there is in the model: one message, its attempts, two workers, a provider, a person.

Time is abstract: a lease runs out, and a worker's own deadline passes, at any moment.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from mailer.outcome import Outcome
from mailer.states import (
    TRANSITIONS,
    AttemptState,
    OnAmbiguous,
    RecipientState,
    Resolution,
    RowState,
)


class Wire(StrEnum):
    """What became of an attempt's request outside: the truth that nobody here sees at once."""

    NOTHING = "nothing"
    """Nothing was handed over."""
    UNDER_WAY = "under way"
    """Handed over, and the provider has not decided."""
    TAKEN = "taken"
    REFUSED = "refused"
    """For good."""
    DEFERRED = "deferred"
    """Refused for now."""
    LOST = "lost"
    """It never arrived."""


class Reply(StrEnum):
    """What a worker knows of its call."""

    NONE = ""
    ANSWERED = "answered"
    """It has read what the provider decided."""
    SILENCE = "silence"
    """Handed over, and no answer came."""
    NOT_SENT = "not sent"
    """Nothing was handed over."""
    TOO_LATE = "too late"
    """Nothing was handed over, because the message had expired."""
    NEVER = "never"
    """What a sweep finds: the worker was lost, and knows nothing any more."""
    PROVEN = "proven"
    """The same, where evidence has settled everything while the call was open."""


class Phase(StrEnum):
    """Where a worker stands."""

    IDLE = "idle"
    HOLDING = "holding"
    """It has claimed the row."""
    BEGUN = "begun"
    """Its attempt is marked as started, as far as it knows."""
    ASKED = "asked"
    """Its clock has let it pass, and nothing is handed over yet."""
    CALLING = "calling"
    """It has handed over and waits."""
    LANDED = "landed"
    """Its call has ended and is to be written down."""


class Attempt(NamedTuple):
    """An attempt as recorded; `agreed`, `proven` and `wire` are the judge's own.

    `to` is whom the call is for. `counted` says that the worker itself wrote down that no answer
    came, and whom the provider had not agreed to. `agreed` is to whom it had when the content was
    handed over, `proven` for whom acceptance has been put on record.
    """

    state: AttemptState
    to: tuple[int, ...]
    outcome: Outcome | None = None
    resolution: Resolution | None = None
    doubtful: tuple[int, ...] = ()
    counted: bool = False
    duplicate: bool = False
    proven: tuple[int, ...] = ()
    wire: Wire = Wire.NOTHING
    agreed: tuple[int, ...] = ()

    @property
    def taken(self) -> tuple[int, ...]:
        """Whom the provider accepted: all whom it had agreed to, or nobody."""
        return self.agreed if self.wire is Wire.TAKEN else ()

    @property
    def in_doubt(self) -> bool:
        """Whether its fate is recorded as unknown."""
        return self.outcome is Outcome.AMBIGUOUS and self.resolution is None


class Worker(NamedTuple):
    """A worker process with what it read when it claimed."""

    phase: Phase = Phase.IDLE
    attempt: int = 0
    past_deadline: bool = False
    reply: Reply = Reply.NONE
    known: tuple[RecipientState, ...] = ()
    spent: int = 0
    resends: int = 0


IDLE = Worker()


class World(NamedTuple):
    """One state of everything.

    `token` is the number of the attempt that holds the lease, 0 for none. `told` says that
    something was proven since the row was claimed. `held` says that it was withdrawn in doubt.
    `seen` is whom a person saw accepted at the provider while the row was in doubt, and `stale`
    that an attempt was begun since.
    """

    state: RowState
    recipients: tuple[RecipientState, ...]
    token: int = 0
    overdue: bool = False
    spent: int = 0
    told: bool = False
    resends: int = 0
    attempts: tuple[Attempt, ...] = ()
    workers: tuple[Worker, ...] = (IDLE, IDLE)
    seen: tuple[int, ...] | None = None
    stale: bool = False
    held: bool = False
    expired: bool = False
    barred: bool = False

    def attempt(self, number: int) -> Attempt:
        """The attempt of this number, counted from 1."""
        return self.attempts[number - 1]

    def with_attempt(self, number: int, changed: Attempt) -> "World":
        """The same world with one attempt changed."""
        attempts = list(self.attempts)
        attempts[number - 1] = changed
        return self._replace(attempts=tuple(attempts))

    def with_worker(self, index: int, changed: Worker) -> "World":
        """The same world with one worker changed."""
        workers = list(self.workers)
        workers[index] = changed
        return self._replace(workers=tuple(workers))

    def due(self) -> tuple[int, ...]:
        """The recipients still to be sent to."""
        return self.all_in(RecipientState.DUE)

    def all_in(self, state: RecipientState) -> tuple[int, ...]:
        """The recipients in a state."""
        return tuple(i for i, each in enumerate(self.recipients) if each is state)

    def in_doubt(self, *, without: int = 0) -> bool:
        """Whether an attempt, other than `without`, is recorded as in doubt."""
        return any(
            each.in_doubt for number, each in enumerate(self.attempts, 1) if number != without
        )

    def doubtful(self) -> tuple[int, ...]:
        """Everybody whom an attempt leaves in doubt."""
        return tuple(i for each in self.attempts if each.in_doubt for i in each.doubtful)

    def taken(self) -> tuple[int, ...]:
        """Everybody whom the provider accepted, once for each time."""
        return tuple(i for each in self.attempts for i in each.taken)


def canonical(world: World) -> World:
    """The same world without what makes no difference to anything that may follow.

    Which worker is which does not matter, nor what a worker read at a claim that is lost, nor what
    became of a request that was not taken once nobody waits for its answer, nor whom a call was for
    that has ended, nor what a person saw of a message that has ended for good.
    """
    token, told = world.token, world.told and world.token > 0
    one, other = (
        each if each.attempt == token and not told else _outrun(each) for each in world.workers
    )
    held = (one.attempt, other.attempt)
    slim = world._replace(
        attempts=tuple(
            each if number in held else _left(each) for number, each in enumerate(world.attempts, 1)
        ),
        workers=(other, one) if one > other else (one, other),
        told=told,
    )
    return slim._replace(seen=None, stale=False, spent=0) if world.state in _OVER else slim


_OVER = frozenset(state for state, following in TRANSITIONS.items() if not following)


@cache
def _outrun(worker: Worker) -> Worker:
    """A worker whose result is written singly, whatever it read."""
    return worker._replace(known=(), spent=0, resends=0)


@cache
def _left(attempt: Attempt) -> Attempt:
    """An attempt that no worker is at any more."""
    if attempt.state is AttemptState.RELEASED and attempt.wire is Wire.NOTHING:
        return _GIVEN_BACK
    if attempt.state is not AttemptState.FINISHED:
        return attempt
    if attempt.wire not in (Wire.TAKEN, Wire.UNDER_WAY):
        attempt = attempt._replace(wire=Wire.LOST, agreed=())
    if attempt.resolution is Resolution.ACCEPTED:
        return attempt._replace(to=(), doubtful=(), counted=False)
    return attempt._replace(to=())


_GIVEN_BACK = Attempt(AttemptState.RELEASED, ())


@dataclass(frozen=True, slots=True)
class Scenario:
    """Which world is walked, and its bounds.

    `partly` lets the provider agree to some recipients and defer the others; `bulk` writes results
    first in bulk, as PostgreSQL does, and not only singly; `may_expire` gives the message an
    `expires_at`; `may_bar` lets its recipients be suppressed. `attempts` bounds how often it is
    claimed, `resends` how often its policy has it sent again.
    """

    name: str
    recipients: int = 1
    on_ambiguous: OnAmbiguous = OnAmbiguous.HOLD
    attempts: int = 2
    partly: bool = False
    bulk: bool = True
    may_expire: bool = False
    may_bar: bool = False
    resends: int = 1

    def agreed(self, to: tuple[int, ...]) -> list[tuple[int, ...]]:
        """To whom of these the provider may agree."""
        return [to, *alone(to)] if self.partly else [to]

    def whom(self, recipients: tuple[int, ...]) -> str:
        """For whom something is, where that needs saying."""
        if self.recipients == 1:
            return ""
        return " for " + " and ".join(f"r{each + 1}" for each in recipients)

    def start(self) -> World:
        """The message as it was committed."""
        return World(RowState.PENDING, (RecipientState.DUE,) * self.recipients)


def alone(recipients: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Each of several by itself."""
    return [(each,) for each in recipients] if len(recipients) > 1 else []
