"""The queue ids of a log that are open, within a bounded memory."""

from collections import OrderedDict
from collections.abc import Iterator

from mailer.evidence import Sighting
from providers.relay_log_entry import Entry, Step
from providers.relay_log_life import Life

_PROCESS_LIMIT = 10_000

_Key = tuple[str, str, str]


class Queues:
    """Takes lines and gives sightings; remembers at most `limit` things, and forgets the oldest
    queue ids first, telling what is known of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._lives: OrderedDict[_Key, Life] = OrderedDict()
        self._last_of: OrderedDict[tuple[str, str], _Key] = OrderedDict()

    def add(self, entry: Entry) -> Iterator[Sighting]:
        """Note one line, and yield what is done with it."""
        key = self._key(entry)
        if key is not None:
            yield from self._add(key, entry)
        elif entry.step is Step.REFUSED:
            yield from Life(entry, refused=entry).sighting()

    def close(self) -> Iterator[Sighting]:
        """Yield what is known of all that is open still."""
        while self._lives:
            yield from self._close(next(iter(self._lives)))

    def _key(self, entry: Entry) -> _Key | None:
        if entry.step is Step.CUT:
            return self._cut_by(entry)
        if entry.queue_id is None:
            return None
        return entry.source, entry.scope, entry.queue_id

    def _cut_by(self, entry: Entry) -> _Key | None:
        """Return what the process had begun: the line names no queue id."""
        key = self._last_of.pop((entry.scope, entry.process or ""), None)
        life = self._lives.get(key) if key else None
        is_its = life is not None and life.began is not None and life.began.process == entry.process
        return key if is_its else None

    def _add(self, key: _Key, entry: Entry) -> Iterator[Sighting]:
        life = self._lives.get(key)
        if life is not None and not life.takes(entry):
            yield from self._close(key)
            life = None
        if life is None:
            life = self._lives[key] = Life(entry)
            self._held += life.weight
        before = life.weight
        life.add(entry)
        self._held += life.weight - before
        self._remember_process(key, entry)
        if life.is_over:
            yield from self._close(key)
        while self._held > self._limit:
            yield from self._close(next(iter(self._lives)))

    def _remember_process(self, key: _Key, entry: Entry) -> None:
        if entry.step is Step.BEGAN and entry.process:
            self._last_of[entry.scope, entry.process] = key
            if len(self._last_of) > _PROCESS_LIMIT:
                self._last_of.popitem(last=False)

    def _close(self, key: _Key) -> Iterator[Sighting]:
        life = self._lives.pop(key)
        self._held -= life.weight
        yield from life.sighting()
