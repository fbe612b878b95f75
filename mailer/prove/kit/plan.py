"""What happens in one scenario: drawn from its seed alone, so that it can be had again."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mailer.prove.kit.intents import Intent, draw

WAVE = 14
"""Intents that are committed while a fault is awaited."""

LAST_WAVE = 10
MOST_FAULTS = 4


class Fault(StrEnum):
    """What befalls the system, in words."""

    KILL_AFTER_CLAIM = "kill -9 after claim"
    KILL_BEFORE_BEGIN = "kill -9 before begin"
    KILL_AFTER_BEGIN = "kill -9 after begin"
    KILL_IN_BODY = "kill -9 in mid-body"
    KILL_AFTER_DOT = "kill -9 after the final dot"
    KILL_BEFORE_FINISH = "kill -9 before finish"
    KILL_DURING_FINISH = "kill -9 during finish"
    KILL_AFTER_FINISH = "kill -9 after finish"
    KILL_AT_RANDOM = "kill -9 at any time"
    KILL_BOTH = "kill -9 of all workers"
    TERM_IN_SEND = "SIGTERM in mid-send"
    STOPPED_BEFORE_DOT = "SIGSTOP past the lease, before the dot"
    STOPPED_AFTER_DOT = "SIGSTOP past the lease, after the dot"
    POSTGRES_KILLED = "PostgreSQL killed"
    CONNECTIONS_CUT = "database connections cut"
    SERIALIZATION_FAILURE = "serialization failure at finish"
    DISK_FULL = "disk full at finish"
    BEGIN_ANSWER_LOST = "commit of begin unanswered"
    FINISH_ANSWER_LOST = "commit of finish unanswered"
    READ_ONLY = "read-only database"
    DATABASE_AWAY = "network cut to the database"
    DATABASE_SILENT = "network to the database silent past the lease"
    REDIS_KILLED = "Redis killed"
    REDIS_FLUSHED = "Redis flushed"
    REDIS_STALLED = "Redis stalled"
    HINTS_DOUBLED = "hints a hundredfold"
    PROVIDER_RESETS = "provider resets in mid-body"
    ANSWER_LOST = "answer lost after acceptance"
    PROVIDER_STALLS = "provider stalls"
    PROVIDER_AWAY = "network cut to the provider"
    DEPLOY = "deploy"
    CLOCK_OFF = "clock of one worker an hour off"


class Through(StrEnum):
    """Which providers a scenario sends through."""

    SMTP = "smtp"
    SES = "ses"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault: at which of the two workers, after how many chances, with which mail on its way.

    What waits for a moment befalls whoever comes to it, for the two are alike.

    With `overlaps` it is healed only after the next one has struck. `chance`, from 0 to 1, decides
    what else there is to be decided.
    """

    fault: Fault
    post: int
    skip: int
    overlaps: bool
    chance: float
    wave: tuple[Intent, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One scenario."""

    seed: int
    through: Through
    strikes: tuple[Strike, ...]
    last_wave: tuple[Intent, ...]

    @property
    def intents(self) -> tuple[Intent, ...]:
        """All that the application means to send, whether or not it thinks better of it."""
        return tuple(each for strike in self.strikes for each in strike.wave) + self.last_wave

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What befalls the system, in order."""
        return tuple(each.fault for each in self.strikes)

    def without(self, number: int) -> "Plan":
        """Return the plan with one fault less, and the same mail."""
        left = tuple(each for place, each in enumerate(self.strikes) if place != number)
        return Plan(self.seed, self.through, left, self.last_wave + self.strikes[number].wave)


def plan(seed: int, through: Through) -> Plan:
    """Draw a scenario. `Through.BOTH` lets the seed decide among one, the other and both."""
    dice = random.Random(seed)
    drawn = dice.choice(tuple(Through))
    count = dice.randint(1, MOST_FAULTS)
    strikes = tuple(_strike(dice, number) for number in range(count))
    return Plan(
        seed,
        drawn if through is Through.BOTH else through,
        strikes,
        tuple(draw(dice, count * WAVE, LAST_WAVE)),
    )


def _strike(dice: random.Random, number: int) -> Strike:
    return Strike(
        fault=dice.choice(tuple(Fault)),
        post=dice.randrange(2),
        skip=dice.randrange(2),
        overlaps=dice.random() < 1 / 3,
        chance=dice.random(),
        wave=tuple(draw(dice, number * WAVE, WAVE)),
    )


_ONE_WORKER, _BOTH_WORKERS = 1, 2

IN_DOUBT: Mapping[Fault, int] = {
    Fault.KILL_AFTER_BEGIN: _ONE_WORKER,
    Fault.KILL_IN_BODY: _ONE_WORKER,
    Fault.KILL_AFTER_DOT: _ONE_WORKER,
    Fault.KILL_BEFORE_FINISH: _ONE_WORKER,
    Fault.KILL_DURING_FINISH: _ONE_WORKER,
    Fault.KILL_AFTER_CLAIM: _ONE_WORKER,
    Fault.KILL_BEFORE_BEGIN: _ONE_WORKER,
    Fault.KILL_AFTER_FINISH: _ONE_WORKER,
    Fault.KILL_AT_RANDOM: _ONE_WORKER,
    Fault.KILL_BOTH: _BOTH_WORKERS,
    Fault.TERM_IN_SEND: _ONE_WORKER,
    Fault.PROVIDER_AWAY: _BOTH_WORKERS,
    Fault.PROVIDER_STALLS: _ONE_WORKER,
    Fault.CLOCK_OFF: _ONE_WORKER,
}
"""How many workers' calls in flight a fault may leave in doubt; every other fault leaves none,
but for the one answer that it takes away (`ONE_ANSWER`)."""

ONE_ANSWER = frozenset({Fault.ANSWER_LOST, Fault.PROVIDER_RESETS})
