"""A witness heard on the attempts in doubt: a relay's log, for one. Absence proves nothing."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mailer import audit, doubts
from mailer.database import connected, transaction
from mailer.doubts import Doubt
from mailer.errors import Refused
from mailer.evidence import Carried, Evidence, Sighting
from mailer.operations import MAX_WHY_CHARS, check_actor
from mailer.retry import Jitter, RetryPolicy
from mailer.returnpath import ReturnPath
from mailer.states import RowState
from mailer.testimony import Finding, Seen, Verdict, weigh

_WITNESS = "relay log"
_VERB = "reconcile log"
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_BRACKETED = re.compile(r"<([^<>]*)>\Z")


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was made of one attempt, and of its row from `before` to `after`.

    `duplicate` tells that its message was taken more than once.
    """

    outbox_id: int
    attempt_id: int
    verdict: Verdict
    before: RowState
    after: RowState
    duplicate: bool
    grounds: str


@dataclass(frozen=True, slots=True)
class Hearing:
    """What a witness had to say.

    `doubts` attempts were looked up; of `silent` ones nothing was told that proves anything, and
    they are in doubt as before. `elsewhere` counts sightings of our messages under somebody else's
    sender, which prove nothing. `fates` counts what the witness saw become of recipients of the
    messages it told of: it is shown, and not on record. With `is_trial` nothing was changed.
    """

    doubts: int
    rulings: tuple[Ruling, ...]
    silent: int
    elsewhere: int
    fates: Mapping[str, int]
    is_trial: bool

    @property
    def settled(self) -> int:
        """How many attempts are settled."""
        return sum(each.verdict is not Verdict.UNCLEAR for each in self.rulings)


@dataclass(frozen=True, slots=True)
class Bench:
    """What a hearing is held with: who holds it, and the rules that a refusal is judged by."""

    actor: str
    return_path: ReturnPath | None
    policy: RetryPolicy
    jitter: Jitter


def hear(witness: Evidence, bench: Bench, *, seconds: float, trial: bool = False) -> Hearing:
    """Look up the attempts of the last `seconds` that are in doubt, and settle what is proven.

    Each message is settled in a transaction of its own, with an audit line for each attempt, and
    hearing the same again changes nothing more. With `trial` all is done and taken back. Raises
    Refused where the actor is missing, and whatever the witness raises, before anything is settled.
    """
    check_actor(bench.actor)
    with connected():
        docket = _Docket(doubts.recent(seconds), bench.return_path)
        seen = docket.hear(witness)
        rulings = [
            ruling
            for outbox_id, sightings in sorted(seen.items())
            for ruling in _rule_on(outbox_id, sightings, bench, trial=trial)
        ]
    told = {each.attempt_id for each in rulings}
    return Hearing(
        doubts=len(docket.doubts),
        rulings=tuple(rulings),
        silent=sum(each.attempt_id not in told for each in docket.doubts),
        elsewhere=docket.elsewhere,
        fates=_fates(seen),
        is_trial=trial,
    )


class _Docket:
    """The attempts in doubt, by what they can be told by."""

    def __init__(self, in_doubt: Sequence[Doubt], return_path: ReturnPath | None) -> None:
        self.doubts = in_doubt
        self.elsewhere = 0
        self._return_path = return_path
        self._by_tag = {each.request_tag: each for each in in_doubt}
        self._by_message = {each.message_id: each for each in in_doubt if each.message_id}

    def hear(self, witness: Evidence) -> dict[int, list[Seen]]:
        """Return what is told of each row."""
        told: dict[int, list[Seen]] = {}
        if self.doubts:
            for sighting in witness.look_up([self._carried(each) for each in self.doubts]):
                if whose := self._attribute(sighting):
                    told.setdefault(whose.outbox_id, []).append(
                        Seen(sighting, self._tag_of(sighting.sender))
                    )
        return told

    def _carried(self, doubt: Doubt) -> Carried:
        """A sender that all attempts share would find them all."""
        return Carried(doubt.message_id, self._own_sender(doubt.request_tag))

    def _own_sender(self, tag: str) -> str | None:
        try:
            return self._return_path.address(tag) if self._return_path else None
        except ValueError:
            return None

    def _attribute(self, sighting: Sighting) -> Doubt | None:
        """Say whose a sighting is: where it names both message and sender, both must fit."""
        tag = self._tag_of(sighting.sender)
        doubt = self._by_tag.get(tag or "") or self._by_message.get(sighting.message_id or "")
        if doubt is None:
            return None
        is_its_message = sighting.message_id in (None, doubt.message_id)
        if is_its_message and (tag or _is_sender_of(sighting.sender, doubt)):
            return doubt
        self.elsewhere += 1
        return None

    def _tag_of(self, sender: str | None) -> str | None:
        return self._return_path.tag_of(sender) if self._return_path and sender else None


def _is_sender_of(sender: str | None, doubt: Doubt) -> bool:
    found = _BRACKETED.search(doubt.sender)
    own = found[1] if found else doubt.sender
    return bool(sender) and (sender or "").casefold() == own.casefold()


def _rule_on(outbox_id: int, seen: Sequence[Seen], bench: Bench, *, trial: bool) -> list[Ruling]:
    """Settle one message under its lock; what was settled meanwhile is not settled again."""
    try:
        with transaction() as block:
            found = weigh(doubts.tried(outbox_id), seen)
            rulings = [_apply(outbox_id, each, bench) for each in found]
            if trial:
                block.rollback()
            return rulings
    except Refused:
        # Purged since it was looked up.
        return []


def _apply(outbox_id: int, found: Finding, bench: Bench) -> Ruling:
    before = doubts.state_of(outbox_id)
    after, duplicate = _VERBS[found.verdict](outbox_id, found, bench, _by(found))
    ruling = Ruling(
        outbox_id, found.attempt_id, found.verdict, before, after, duplicate, found.grounds
    )
    if found.verdict is not Verdict.UNCLEAR:
        _record(ruling, bench.actor)
    return ruling


def _accept(outbox_id: int, found: Finding, _: Bench, by: str) -> tuple[RowState, bool]:
    proven = doubts.accept(
        outbox_id,
        found.attempt_id,
        by=by,
        grounds=found.grounds,
        named=found.named,
        twice=found.twice,
    )
    return proven.after, proven.duplicate or found.twice


def _refuse(outbox_id: int, found: Finding, bench: Bench, by: str) -> tuple[RowState, bool]:
    state = doubts.refuse(
        outbox_id, found.attempt_id, bench.policy, bench.jitter(), by=by, grounds=found.grounds
    )
    return state, False


def _note(outbox_id: int, found: Finding, _: Bench, by: str) -> tuple[RowState, bool]:
    doubts.note(found.attempt_id, f"{by}: taken, by which attempt is not told: {found.grounds}")
    return doubts.state_of(outbox_id), False


_VERBS: Mapping[Verdict, Callable[[int, Finding, Bench, str], tuple[RowState, bool]]] = {
    Verdict.ACCEPTED: _accept,
    Verdict.NOT_ACCEPTED: _refuse,
    Verdict.UNCLEAR: _note,
}


def _by(found: Finding) -> str:
    sources = sorted({each.source for each in found.sightings})
    return f"{_WITNESS} ({', '.join(sources)})"


def _record(ruling: Ruling, actor: str) -> None:
    why = f"attempt {ruling.attempt_id} {ruling.verdict}: {ruling.grounds}"
    audit.record(
        actor=actor,
        verb=_VERB,
        outbox_id=ruling.outbox_id,
        before=ruling.before,
        after=ruling.after,
        why=why[:MAX_WHY_CHARS],
    )


def _fates(seen: Mapping[int, Sequence[Seen]]) -> dict[str, int]:
    """Count recipients by their latest fate, each once a message."""
    told = [
        (outbox_id, fate)
        for outbox_id, sightings in seen.items()
        for each in sightings
        for fate in each.sighting.recipients
    ]
    told.sort(key=lambda each: each[1].at or _LONG_AGO)
    latest = {(outbox_id, fate.address): fate.fate.value for outbox_id, fate in told}
    return dict(sorted(Counter(latest.values()).items()))
