"""Whom providers do not send to, mirrored from their account lists. It never releases anybody.

Events tell first; the lists tell of what events missed, and of what was entered elsewhere. Where
the two sides disagree that is reported and left to a person.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

from mailer import audit, lookups, suppressions
from mailer.account_list import AccountList, AccountListError, ListedAddress
from mailer.database import connected, transaction
from mailer.errors import Refused
from mailer.facts import SuppressionReason
from mailer.operations import check_actor
from mailer.suppressions import Barred

MARGIN = timedelta(hours=1)
"""How far before the latest run a run looks back: clocks differ, and lists lag."""

BATCH = 500
"""Entries written in one transaction."""

MAX_FAILURES = 5
"""After so many failures in a row the list is at fault and not an address."""

_VERB = "suppression sync"
_COMPLETE, _INCOMPLETE = "complete", "incomplete"
_SOURCE_CHARS = 255

Told = Callable[[str, int], None]
"""Hears which list is read, and how many of its entries were so far."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What came of one list.

    `since` is from when on its changes were read, None for all of it. `new` are addresses that
    were not suppressed before. Drift: `unlisted` are suppressed because of this list and no longer
    on it, which only reading all of it tells; `released` are on it and were released here since, so
    that the provider takes their mail and does not send it. `pushed` were put on it. `problem`
    says what went wrong, and the mend; the rest is true all the same.
    """

    name: str
    since: datetime | None
    read: int
    new: int
    unlisted: tuple[str, ...]
    released: tuple[str, ...]
    pushed: int
    problem: str | None

    @property
    def drift(self) -> int:
        """How many addresses the two sides disagree about."""
        return len(self.unlisted) + len(self.released)


def sync(
    lists: Sequence[AccountList],
    *,
    actor: str,
    full: bool = False,
    push: bool = False,
    told: Told | None = None,
) -> list[Mirrored]:
    """Suppress whom the lists name; tell what came of each.

    What changed since an hour before the latest run is read, or all with `full`, at the first run,
    and with `push`: that also puts on each list whom people suppressed here for good. A list that
    fails does not keep the others from being read. Raises Refused where there is no list, and
    where the actor is missing.
    """
    check_actor(actor)
    if not lists:
        raise Refused(
            "MAILER_PROVIDERS: names no provider with a suppression list of its own; add ses://..."
        )
    with connected():
        return [_mirror(each, actor, full=full or push, push=push, told=told) for each in lists]


def _mirror(
    account: AccountList, actor: str, *, full: bool, push: bool, told: Told | None
) -> Mirrored:
    at = lookups.clock()
    since = None if full else _since(account.name)
    run = _Run(account, at, since, suppressions.by_people() if push else {})
    problem = None
    try:
        run.read(told)
        run.push()
    except AccountListError as error:
        problem = str(error)
    return _noted(run.result(problem), actor, at)


def _since(name: str) -> datetime | None:
    latest = audit.latest(_VERB, about=name, after=_COMPLETE)
    return None if latest is None else latest - MARGIN


def _noted(result: Mirrored, actor: str, at: datetime) -> Mirrored:
    """The line stands at the time of the beginning, so that the next run looks back far enough."""
    with transaction():
        audit.record(
            actor=actor,
            verb=_VERB,
            outbox_id=None,
            before=None,
            after=_INCOMPLETE if result.problem else _COMPLETE,
            why=f"{result.name}: {result.read} read, {result.new} new, {result.pushed} pushed, "
            f"{result.drift} in drift",
            at=at,
        )
    return result


class _Run:
    """One run over one list, and what it has found so far.

    `unpushed` are those who are to be put on the list, as far as it does not name them.
    """

    def __init__(
        self,
        account: AccountList,
        at: datetime,
        since: datetime | None,
        unpushed: dict[str, SuppressionReason],
    ) -> None:
        self._account = account
        self._at = at
        self._since = since
        self._unpushed = unpushed
        self._source = account.name[:_SOURCE_CHARS]
        # Taken before the list is read: whom another run adds meanwhile is not missing from it.
        self._unseen = suppressions.from_source(self._source) if since is None else set()
        self._read_whole = False
        self._released: dict[str, None] = {}
        self._read = self._new = self._pushed = 0

    def read(self, told: Told | None) -> None:
        """Mirror the list."""
        for batch in _batches(self._account.entries(self._since)):
            self._take(batch)
            if told is not None:
                told(self._account.name, self._read)
        self._read_whole = self._since is None

    def push(self) -> None:
        """Put on the list whom it does not name; an address that it does not take is passed over.

        Raises AccountListError in the end, or when the list itself seems to be at fault.
        """
        failed: list[AccountListError] = []
        in_a_row = 0
        for key in sorted(self._unpushed):
            try:
                self._account.add(key, self._unpushed[key])
            except AccountListError as error:
                failed.append(error)
                in_a_row += 1
                if in_a_row == MAX_FAILURES:
                    break
            else:
                self._pushed += 1
                in_a_row = 0
        if failed:
            raise AccountListError(f"{len(failed)} not put on it; the last: {failed[-1]}")

    def result(self, problem: str | None) -> Mirrored:
        """Sum up."""
        return Mirrored(
            name=self._account.name,
            since=self._since,
            read=self._read,
            new=self._new,
            unlisted=tuple(self._unlisted()) if self._read_whole else (),
            released=tuple(self._released),
            pushed=self._pushed,
            problem=problem,
        )

    def _take(self, batch: Sequence[ListedAddress]) -> None:
        keys = [each.key for each in batch]
        with transaction():
            before = suppressions.in_force(keys)
            suppressions.bar(self._barred(each) for each in batch)
            after = suppressions.in_force(keys)
        self._read += len(batch)
        self._new += len(after.keys() - before.keys())
        self._released.update(dict.fromkeys(each for each in keys if each not in after))
        self._unseen.difference_update(keys)
        for each in keys:
            self._unpushed.pop(each, None)

    def _barred(self, entry: ListedAddress) -> Barred:
        """What claims to come from the future would come back after every release."""
        at = min(entry.updated_at, self._at)
        return Barred(entry.key, entry.reason, self._source, at)

    def _unlisted(self) -> Iterable[str]:
        """Whom this list alone keeps suppressed, of those that it has not named."""
        for keys in _batches(sorted(self._unseen)):
            found = suppressions.in_force(keys)
            yield from (each for each in keys if each in found)


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(items)
    while batch := list(islice(remaining, BATCH)):
        yield batch
