"""One message under its queue id, put together from its lines.

A queue id stands for one message after another. Whatever begins a new one (a client, a second
Message-ID, an activity after the end) is not this one's any more, so that the name of one message
is never joined to the acceptance of another.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from mailer.evidence import Fate, RecipientFate, Sighting, SightingKind
from providers.relay_log_entry import Entry, Step

_CLOCK_STEP = timedelta(seconds=2)
"""Programs of one machine log in their order, but its clock may be set back a little."""


@dataclass(slots=True)
class Life:
    """What has been read of one message; `first` is the line that was read first."""

    first: Entry
    began: Entry | None = None
    named: Entry | None = None
    taken: Entry | None = None
    refused: Entry | None = None
    ended: Entry | None = None
    is_cut: bool = False
    is_whole: bool = False
    came_from: str | None = None
    passed_to: dict[str, None] = field(default_factory=dict)
    fates: dict[tuple[str, Fate], RecipientFate] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """How many things are remembered of it."""
        return 1 + len(self.fates) + len(self.passed_to)

    @property
    def is_over(self) -> bool:
        """Whether no more of it is to come.

        One whose end was read before its beginning comes from files in the wrong order, and goes
        on.
        """
        return self.is_whole or self.refused is not None or (self.is_cut and self.taken is None)

    def takes(self, entry: Entry) -> bool:
        """Whether a line can be about this message, and not about another one of its id."""
        match entry.step:
            case Step.BEGAN | Step.ARRIVED:
                return entry == self.began if self.began else _in_order(entry, self.first)
            case Step.NAMED if self.named:
                return entry.message_id == self.named.message_id and not self.ended
            case Step.NAMED:
                return _in_order(entry, self.taken) and _in_order(entry, self.ended)
            case Step.TAKEN:
                return _in_order(self.named, entry) and _in_order(entry, self.ended)
            case _:
                return _in_order(entry, self.ended)

    def add(self, entry: Entry) -> None:
        """Note one more line."""
        self.came_from = self.came_from or entry.came_from
        match entry.step:
            case Step.BEGAN:
                self.began = entry
            case Step.ARRIVED:
                self.began = self.named = self.taken = entry
            case Step.NAMED:
                self.named = entry
            case Step.TAKEN:
                self.taken = self.taken or entry
            case Step.REFUSED:
                self.refused = entry
            case Step.ENDED:
                self.ended = entry
                self.is_whole = self.began is not None or self.named is not None
            case Step.CUT:
                self.is_cut = True
            case Step.FATE | Step.EXPIRED:
                self._add_fates(entry)

    def sighting(self) -> Iterator[Sighting]:
        """Yield what is to be told of it: nothing where no line says whose message it was."""
        message_id = self.named.message_id if self.named else None
        proof = self.taken or self.refused
        sender = proof.sender if proof else None
        if message_id is None and sender is None:
            return
        at = (proof or self.first).at
        yield Sighting(
            kind=self._kind,
            source=self.first.source,
            queue_id=self.first.queue_id,
            message_id=message_id,
            sender=sender,
            at=at,
            recipients=tuple(self.fates.values()),
            came_from=self.came_from,
            passed_to=tuple(self.passed_to),
            note=f"{self.first.source} log, {self._queue}: {self._what}"
            + (f" at {at:%Y-%m-%dT%H:%M:%SZ}" if at else ""),
        )

    @property
    def _kind(self) -> SightingKind:
        if self.taken:
            return SightingKind.ACCEPTED
        return SightingKind.REFUSED if self.refused else SightingKind.NOTHING

    @property
    def _queue(self) -> str:
        return f"queue id {self.first.queue_id}" if self.first.queue_id else "no queue id"

    @property
    def _what(self) -> str:
        if self.taken:
            return "taken"
        if self.refused:
            return f"refused with {self.refused.code}" if self.refused.code else "refused"
        if self.is_cut:
            return "connection lost before the end of the message, which proves nothing yet"
        return "header read and no entry in the queue, which proves nothing"

    def _add_fates(self, entry: Entry) -> None:
        if entry.passed_to:
            self.passed_to[entry.passed_to] = None
        for address, fate, code in self._told(entry):
            self.fates[address, fate] = RecipientFate(address, fate, code, entry.at)

    def _told(self, entry: Entry) -> list[tuple[str, Fate, str | None]]:
        if entry.address and entry.fate:
            return [(entry.address, entry.fate, entry.code)]
        if entry.step is not Step.EXPIRED:
            return []
        ended = {each.address for each in self.fates.values() if each.fate is not Fate.DEFERRED}
        waiting = [each for each in self.fates.values() if each.address not in ended]
        return [(each.address, Fate.BOUNCED, each.code) for each in waiting]


def _in_order(earlier: Entry | None, later: Entry | None) -> bool:
    """Whether two lines were written in this order; one that is not there stands in no order."""
    if earlier is None or later is None:
        return True
    if earlier.at is None or later.at is None:
        return False
    return earlier.at <= later.at + _CLOCK_STEP
