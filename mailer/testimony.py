"""What a witness's sightings prove about the attempts of one message. Pure.

The rule is one of counting, because an attempt is one transaction, and a transaction is taken at
most once. A sighting under an attempt's own sender is about that attempt. Any other is about the
message: such acceptances prove the attempts behind them only when there are no fewer of them than
there are attempts that may have been taken, so that with a single attempt one is enough.
Otherwise they are kept on record, and settle nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mailer.evidence import Sighting, SightingKind


class Standing(StrEnum):
    """What is known of an attempt that was begun."""

    IN_DOUBT = "in_doubt"
    DECIDED_AGAINST = "decided_against"
    """It was in doubt, and somebody decided that it was not taken; that is no proof."""
    TAKEN = "taken"
    NOT_TAKEN = "not_taken"
    """The provider refused it."""
    UNDER_WAY = "under_way"


_MAY_HAVE_BEEN_TAKEN = frozenset(set(Standing) - {Standing.NOT_TAKEN})
_OPEN = frozenset({Standing.IN_DOUBT, Standing.DECIDED_AGAINST})


class Verdict(StrEnum):
    """What sightings say of an attempt."""

    ACCEPTED = "accepted"
    NOT_ACCEPTED = "not_accepted"
    """This attempt ended in the relay's refusal, and nothing of its message was taken."""
    UNCLEAR = "unclear"
    """The message was taken, and which attempt of it is not told."""


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt that was begun, and what is known of it."""

    attempt_id: int
    request_tag: str
    standing: Standing


@dataclass(frozen=True, slots=True)
class Seen:
    """A sighting of a message; `request_tag` is the attempt's that its sender names, if any."""

    sighting: Sighting
    request_tag: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What is found about one attempt, and from what.

    `twice` tells that there are more acceptances than attempts: somebody got the message twice.
    """

    attempt_id: int
    verdict: Verdict
    sightings: tuple[Sighting, ...]
    twice: bool = False

    @property
    def grounds(self) -> str:
        """One line for the record."""
        return "; ".join(dict.fromkeys(each.note for each in self.sightings if each.note))

    @property
    def named(self) -> tuple[str, ...]:
        """Whom the witness saw the relay send to: it had agreed to them."""
        return tuple(
            dict.fromkeys(fate.address for each in self.sightings for fate in each.recipients)
        )


def weigh(tried: Sequence[Tried], seen: Sequence[Seen]) -> list[Finding]:
    """Say what sightings of one message prove about its attempts, acceptances first.

    Attempts about which nothing is said are not in the answer: absence proves nothing.
    """
    taken = {each.request_tag: _taken(seen, each.request_tag) for each in tried}
    found = [
        Finding(each.attempt_id, Verdict.ACCEPTED, own, twice=len(own) > 1)
        for each in tried
        if each.standing in _OPEN and (own := taken[each.request_tag])
    ]
    unnamed = _taken(seen, None)
    found += _shared(
        [
            each
            for each in tried
            if each.standing in _MAY_HAVE_BEEN_TAKEN and not taken[each.request_tag]
        ],
        unnamed,
    )
    if not unnamed:
        found += [
            Finding(each.attempt_id, Verdict.NOT_ACCEPTED, refused)
            for each in tried
            if each.standing is Standing.IN_DOUBT
            and not taken[each.request_tag]
            and (refused := _refused(seen, each.request_tag))
        ]
    return found


def _shared(behind: Sequence[Tried], acceptances: tuple[Sighting, ...]) -> list[Finding]:
    """Divide acceptances that name no attempt among those that may be behind them."""
    if not acceptances:
        return []
    enough = len(acceptances) >= len(behind)
    verdict = Verdict.ACCEPTED if enough else Verdict.UNCLEAR
    return [
        Finding(each.attempt_id, verdict, acceptances, twice=len(acceptances) > len(behind))
        for each in behind
        if each.standing in _OPEN
    ]


def _taken(seen: Iterable[Seen], tag: str | None) -> tuple[Sighting, ...]:
    """Return the acceptances under one sender, each queue id once, without those that continue
    another one of them."""
    every = _of_kind(seen, tag, SightingKind.ACCEPTED)
    first = {(each.source, each.queue_id): each for each in reversed(every)}
    onward = {next_id for each in every for next_id in each.passed_to}
    ids = {each.queue_id for each in every}
    heads = tuple(
        each
        for each in reversed(first.values())
        if each.queue_id not in onward and each.came_from not in ids - {None, each.queue_id}
    )
    # A circle has no beginning, and is one acceptance all the same.
    return heads or tuple(every[:1])


def _refused(seen: Iterable[Seen], tag: str) -> tuple[Sighting, ...]:
    return tuple(_of_kind(seen, tag, SightingKind.REFUSED))


def _of_kind(seen: Iterable[Seen], tag: str | None, kind: SightingKind) -> list[Sighting]:
    return [
        each.sighting for each in seen if each.request_tag == tag and each.sighting.kind is kind
    ]
