"""The judge: holds what was committed against what the providers logged and the rows say.

It shares no rule with the product: what is legal stands here once more, by the document.
"""

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mailer.prove.kit.intents import ASSUME_SENT, HOLD, LOST, MARK, REFUSED, Intent
from mailer.prove.kit.providers import Accepted

SETTLED = frozenset({"submitted", "failed", "ambiguous"})
"""Where a message of the kit may come to rest; nobody suppresses, cancels or expires one."""

_LEGAL: Mapping[str | None, frozenset[str]] = {
    None: frozenset({"pending"}),
    "pending": frozenset({"sending", "submitted", "failed"}),
    "sending": frozenset({"pending", "ambiguous", "submitted", "failed"}),
    "ambiguous": frozenset({"pending", "submitted", "failed"}),
    "failed": frozenset({"submitted"}),
    "submitted": frozenset(),
}

# However the mark is aligned in base64, one of these is in the result.
_ENCODED = [
    base64.b64encode(b"." * shift + MARK.encode())[shift and 4 : -4].decode() for shift in range(3)
]
_TRACE = re.compile("|".join([f"(?i:{MARK})", *map(re.escape, _ENCODED)]))


@dataclass(frozen=True, slots=True)
class Seen:
    """One message as the product's tables show it at the end."""

    outbox_id: int
    key: str
    state: str
    leased: bool
    recipients: Mapping[str, str]
    proven: bool
    """Whether an attempt was accepted, at once or by later evidence."""
    under_way: int = 0
    """Attempts that have neither ended nor been given back."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the judge is told."""

    intents: Sequence[Intent]
    seen: Sequence[Seen]
    accepted: Sequence[Accepted]
    history: Sequence[tuple[int, str | None, str]]
    logs: Mapping[str, str]
    may_doubt: int
    """How many messages the faults may have left in doubt, by the calls that were in flight."""


@dataclass(frozen=True, slots=True)
class Break:
    """One invariant that did not hold, and where."""

    invariant: str
    what: str


@dataclass(frozen=True, slots=True)
class Counts:
    """What a report adds up. `chosen` are duplicates that the application had allowed."""

    committed: int = 0
    accepted: int = 0
    submitted: int = 0
    failed: int = 0
    ambiguous: int = 0
    duplicates: int = 0
    chosen: int = 0
    lost: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, n) + getattr(other, n) for n in self.__slots__))


@dataclass
class Verdict:
    """What the judge found."""

    counts: Counts
    breaks: list[Break] = field(default_factory=list)


class _Case:
    def __init__(self, told: Evidence) -> None:
        self.told = told
        self.intents = {each.key: each for each in told.intents if each.commits}
        self.seen = {each.key: each for each in told.seen}
        self.keys = {each.outbox_id: each.key for each in told.seen}
        self.copies = Counter(
            (each.outbox_id, address) for each in told.accepted for address in each.recipients
        )
        self.logged = {each.outbox_id for each in told.accepted}

    def policy(self, outbox_id: int) -> str:
        intent = self.intents.get(self.keys.get(outbox_id, ""))
        return intent.on_ambiguous if intent else HOLD

    def twice(self, *, chosen: bool) -> list[tuple[int, str]]:
        """Return who got a message more than once, with the application's leave or without."""
        return [
            about
            for about, times in self.copies.items()
            if times > 1 and (self.policy(about[0]) == "resend") is chosen
        ]

    def lost(self) -> list[str]:
        """Return the keys that are gone, or said to be submitted and never were."""
        return sorted(
            key
            for key, intent in self.intents.items()
            if (seen := self.seen.get(key)) is None
            or (seen.state == "submitted" and self._missing(intent, seen))
        )

    def _missing(self, intent: Intent, seen: Seen) -> list[str]:
        if intent.on_ambiguous == ASSUME_SENT:
            return []
        return [
            address
            for address, state in seen.recipients.items()
            if state == "accepted" and not self.copies[seen.outbox_id, address]
        ]


def judge(told: Evidence) -> Verdict:
    """Find every invariant that does not hold, and count."""
    case = _Case(told)
    states = Counter(each.state for each in told.seen)
    counts = Counts(
        committed=len(case.intents),
        accepted=len(case.logged),
        submitted=states["submitted"],
        failed=states["failed"],
        ambiguous=states["ambiguous"],
        duplicates=len(case.twice(chosen=False)),
        chosen=len(case.twice(chosen=True)),
        lost=len(case.lost()),
    )
    rules = (_one_state, _never_twice, _true_words, _few_in_doubt, _legal_moves, _no_trace)
    return Verdict(counts, [found for rule in rules for found in rule(case)])


def _one_state(case: _Case) -> Iterator[Break]:
    for key in sorted(case.intents.keys() - case.seen.keys()):
        yield Break("I1", f"{key} was committed and is not there")
    for key in sorted(case.seen.keys() - case.intents.keys()):
        yield Break("I1", f"{key} was rolled back and is there")
    for each in case.told.seen:
        if each.state not in SETTLED or each.leased or each.under_way:
            yield Break("I1", f"{each.key} does not rest: {each.state}, leased {each.leased}")
        if each.state != _by_recipients(each.recipients.values()):
            yield Break("I1", f"{each.key} is {each.state}, its recipients {each.recipients}")
    for outbox_id in sorted(case.logged - case.keys.keys()):
        yield Break("I1", f"row {outbox_id} was sent and never committed")


def _by_recipients(states: Iterable[str]) -> str:
    found = set(states)
    for state, row in (("ambiguous", "ambiguous"), ("due", "pending"), ("accepted", "submitted")):
        if state in found:
            return row
    return "failed"


def _never_twice(case: _Case) -> Iterator[Break]:
    for outbox_id, _ in case.twice(chosen=False):
        yield Break("I2", f"{case.keys.get(outbox_id)} was accepted twice for one recipient")


def _true_words(case: _Case) -> Iterator[Break]:
    for key in case.lost():
        if key in case.seen:
            yield Break("I3", f"{key} is submitted and in no provider's log")
    for each in case.told.seen:
        intent = case.intents.get(each.key)
        if intent is None:
            continue
        if each.state == "submitted" and not each.proven and intent.on_ambiguous != ASSUME_SENT:
            yield Break("I3", f"{each.key} is submitted and no attempt says so")
        if each.state == "failed" and not intent.has_temper(REFUSED):
            yield Break("I3", f"{each.key} failed and nobody refused it")
        for address, state in each.recipients.items():
            taken = case.copies[each.outbox_id, address]
            if taken and state not in {"accepted", "ambiguous"}:
                yield Break("I3", f"{each.key} was accepted for a recipient who is {state}")


def _few_in_doubt(case: _Case) -> Iterator[Break]:
    doubtful = [
        each.key
        for each in case.told.seen
        if each.state == "ambiguous"
        and each.key in case.intents
        and not case.intents[each.key].has_temper(LOST)
    ]
    if len(doubtful) > case.told.may_doubt:
        yield Break("I4", f"{len(doubtful)} in doubt, {case.told.may_doubt} calls: {doubtful}")


def _legal_moves(case: _Case) -> Iterator[Break]:
    for outbox_id, was, became in case.told.history:
        if became not in _LEGAL.get(was, frozenset()):
            yield Break("I5", f"{case.keys.get(outbox_id)} went from {was} to {became}")


def _no_trace(case: _Case) -> Iterator[Break]:
    for name, text in case.told.logs.items():
        for number, line in enumerate(text.splitlines(), 1):
            if _TRACE.search(line):
                yield Break("I9", f"{name} line {number} shows what was sent")
