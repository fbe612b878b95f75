"""What the application of one seed commits: drawn from the seed, and marked all over."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MARK = "kolibri"
"""Stands in every address, subject, body and key, and in every secret: no log may show it."""

HOLD, RESEND, ASSUME_SENT = "hold", "resend", "assume_sent"

_STREAMS = ("default", "bulk", "receipts")
_PRIORITIES = (0, 5, 5, 5, 9)

_TEMPERS = (*("to",) * 25, "greylist", "throttleonce", "slow")
"""First words of addresses: most are taken at once; the others are not at the first time."""

REFUSED = ("refuse", "reject", "badrequest")
"""Refused for good by one of the two providers, and taken like any other by the other."""

LOST = ("drop", "close", "servererrorlost")
"""Taken, and the answer withheld, by one of the two providers."""


@dataclass(frozen=True, slots=True)
class Intent:
    """One message that the application means to send, if `commits`; it may think better of it."""

    key: str
    to: tuple[str, ...]
    cc: tuple[str, ...] = ()
    stream: str = "default"
    priority: int = 5
    on_ambiguous: str = HOLD
    plain: bool = False
    commits: bool = True

    @property
    def recipients(self) -> tuple[str, ...]:
        """Everybody who is to get it."""
        return self.to + self.cc

    def has_temper(self, tempers: Sequence[str]) -> bool:
        """Tell whether one of the recipients is of that kind."""
        return any(each.partition("-")[0] in tempers for each in self.recipients)

    def arguments(self) -> Mapping[str, Any]:
        """Return what `enqueue` is given."""
        return {
            "dedup_key": self.key,
            "to": list(self.to),
            "cc": list(self.cc),
            "subject": f"{MARK} has news",
            "text": f"Dear {MARK},\n.\nit is good to have you here.\n",
            "html": f"<p>Dear {MARK}, it is good to have you here.</p>\n",
            "stream": self.stream,
            "priority": self.priority,
            "on_ambiguous": self.on_ambiguous,
        }

    def values(self) -> tuple[object, ...]:
        """Return what `INSERT_PLAIN` is given."""
        given = self.arguments()
        return (
            self.key,
            json.dumps(given["to"]),
            json.dumps(given["cc"]),
            given["subject"],
            given["text"],
            self.stream,
            self.priority,
            self.on_ambiguous,
        )


INSERT_PLAIN = """
INSERT INTO email_outbox (dedup_key, "to", cc, subject, text, stream, priority, on_ambiguous)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (dedup_key) DO NOTHING
"""


def draw(dice: random.Random, first: int, count: int) -> list[Intent]:
    """Draw `count` intents, numbered from `first`."""
    return [_one(dice, number) for number in range(first, first + count)]


def _one(dice: random.Random, number: int) -> Intent:
    key = f"{MARK}-{number}"
    people = dice.choices((1, 2, 4), (8, 2, 1))[0]
    addresses = [f"{_temper(dice)}-{key}-{who}@example.com" for who in range(people)]
    copied = 1 if people > 1 and dice.random() < 1 / 2 else 0
    return Intent(
        key,
        to=tuple(addresses[copied:]),
        cc=tuple(addresses[:copied]),
        stream=dice.choice(_STREAMS),
        priority=dice.choice(_PRIORITIES),
        on_ambiguous=dice.choices((HOLD, RESEND, ASSUME_SENT), (20, 1, 1))[0],
        plain=dice.random() < 1 / 5,
        commits=dice.random() > 1 / 15,
    )


def _temper(dice: random.Random) -> str:
    kind = dice.random()
    if kind < 1 / 40:
        return dice.choice(REFUSED)
    if kind < 1 / 20:
        return dice.choice(LOST)
    return dice.choice(_TEMPERS)
