"""What operators do to suppressions: a change and its audit line, in one transaction.

Audit lines name the address, as the suppressions beside them do: without it they would say nothing.
No log line and no refusal does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mailer import audit, lookups, suppression_lines, suppressions
from mailer.account_list import AccountList, AccountListError
from mailer.addresses import Mailbox, address_key
from mailer.database import connected, transaction
from mailer.errors import Refused
from mailer.facts import SuppressionReason
from mailer.operations import check_note
from mailer.suppression_lines import BadLine, Line
from mailer.suppressions import BY_PEOPLE, Barred
from mailer.tables import Suppression

MAX_SECONDS = 366 * 86_400.0
"""What is to hold for longer is to hold for good."""

BATCH = 500
"""Addresses written in one transaction of an import: workers suppress addresses meanwhile."""

# Whoever adds an address after its release has seen the release; the clock of SQLite, in
# milliseconds, may give both the same moment.
_TICK = timedelta(microseconds=1)

Told = Callable[[int], None]
"""Hears how many are done so far."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a verb made of an address: what was in force before, and what is now (None: nothing)."""

    address_key: str = field(repr=False)
    before: SuppressionReason | None
    after: SuppressionReason | None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import came to, in addresses.

    `left_released` are those that were released after what the file tells had happened.
    """

    new: int = 0
    known: int = 0
    left_released: int = 0


@dataclass(frozen=True, slots=True)
class Delisted:
    """What became of an address on one account list; `problem` names the mend."""

    name: str
    removed: bool = False
    problem: str | None = None


def add(
    addresses: Sequence[str],
    *,
    actor: str,
    why: str,
    reason: SuppressionReason = SuppressionReason.MANUAL,
    seconds: float | None = None,
) -> list[Change]:
    """Suppress addresses, for `seconds` (at most 366 days) or for good: all of them or none.

    One that is suppressed already keeps the graver reason and the later end. Raises InvalidEmail,
    with its place in the order, for what is no address, and Refused for a time that cannot be and
    where actor or why are missing.
    """
    check_note(actor, why)
    if seconds is not None and not 0 < seconds <= MAX_SECONDS:
        raise Refused("for: must be more than 0 s and at most 366 days; without it, it is for good")
    keys = _keys(addresses)
    with connected(), transaction():
        at = lookups.clock() + _TICK
        expires_at = None if seconds is None else at + timedelta(seconds=seconds)
        before = suppressions.in_force(keys)
        suppressions.bar(Barred(each, reason, _source(actor), at, expires_at) for each in keys)
        after = suppressions.in_force(keys)
        return [_added(each, before, after, actor, why) for each in keys]


def release(address: str, *, actor: str, why: str) -> Change:
    """Let an address have mail again, whatever happened before now.

    Provider's lists are another matter: see `delist`. Raises InvalidEmail for what is no address,
    Refused where nothing is held against it, and where actor or why are missing.
    """
    check_note(actor, why)
    key = address_key(address)
    with connected(), transaction():
        released = suppressions.release(key, by=actor, why=why)
        if released is None:
            raise Refused(
                "address: is not suppressed; `mailer suppression list ADDRESS` shows its history"
            )
        _record("suppression release", actor, released.reason, "released", f"{key}: {why}")
        return Change(key, SuppressionReason(released.reason), None)


def delist(address: str, lists: Sequence[AccountList], *, actor: str, why: str) -> list[Delisted]:
    """Take an address that is not suppressed here off every account list; tell of each.

    A list that fails does not keep the others from being asked. Raises InvalidEmail for what is no
    address, Refused for one that is suppressed, and where actor or why are missing.
    """
    check_note(actor, why)
    key = address_key(address)
    with connected():
        if suppressions.in_force([key]):
            raise Refused("address: is suppressed; release it first")
        return [_delisted(each, address, actor, f"{key}: {why}") for each in lists]


def import_lines(
    lines: Iterable[bytes],
    *,
    actor: str,
    why: str,
    reason: SuppressionReason = SuppressionReason.MANUAL,
    told: Told | None = None,
) -> Imported:
    """Suppress for good whom a file names (see `suppression_lines`); again changes nothing.

    Raises Refused with every bad line's number, before anything is written, and where actor or why
    are missing.
    """
    check_note(actor, why)
    with connected():
        at = lookups.clock()
        good, bad = suppression_lines.read(lines, reason=reason, now=at)
        if bad:
            raise Refused(_told(bad))
        return _import(good, at + _TICK, actor, why, told)


def _keys(addresses: Sequence[str]) -> list[str]:
    """Return the canonical keys, each once."""
    several = len(addresses) > 1
    checked = (
        Mailbox.parse(each, field=f"address {number}" if several else "address").key
        for number, each in enumerate(addresses, start=1)
    )
    return list(dict.fromkeys(checked))


def _source(actor: str) -> str:
    return f"{BY_PEOPLE}{actor}"


def _record(verb: str, actor: str, before: str | None, after: str, why: str) -> None:
    audit.record(actor=actor, verb=verb, outbox_id=None, before=before, after=after, why=why)


def _added(
    key: str,
    before: Mapping[str, Suppression],
    after: Mapping[str, Suppression],
    actor: str,
    why: str,
) -> Change:
    earlier = before[key].reason if key in before else None
    row = after[key]
    _record("suppression add", actor, earlier, row.reason, f"{key}: {why}")
    return Change(
        key,
        None if earlier is None else SuppressionReason(earlier),
        SuppressionReason(row.reason),
        row.expires_at,
    )


def _delisted(account: AccountList, address: str, actor: str, why: str) -> Delisted:
    try:
        done = Delisted(account.name, removed=account.remove(address))
    except AccountListError as error:
        done = Delisted(account.name, problem=str(error))
    after = "failed" if done.problem else "removed" if done.removed else "not listed"
    _record("suppression delist", actor, None, after, f"{account.name}: {why}")
    return done


def _import(
    lines: Sequence[Line], at: datetime, actor: str, why: str, told: Told | None
) -> Imported:
    """Write the lines in the order of their addresses, as everybody does who suppresses several."""
    total = Imported()
    addresses = len({each.key for each in lines})
    done = 0
    for number, batch in enumerate(_batches(sorted(lines, key=lambda each: each.key))):
        with transaction():
            if number == 0:
                _record("suppression import", actor, None, f"{addresses} addresses", why)
            total = _sum(total, _import_batch(batch, at, _source(actor)))
        done += len(batch)
        if told is not None:
            told(done)
    return total


def _import_batch(batch: Sequence[Line], at: datetime, source: str) -> Imported:
    keys = list(dict.fromkeys(each.key for each in batch))
    before = suppressions.in_force(keys)
    suppressions.bar(
        Barred(each.key, each.reason, source, each.occurred_at or _undated(before, each.key, at))
        for each in batch
    )
    after = suppressions.in_force(keys)
    return Imported(
        new=len(after.keys() - before.keys()),
        known=len(before),
        left_released=len(keys) - len(after),
    )


def _undated(before: Mapping[str, Suppression], key: str, at: datetime) -> datetime:
    """What has no time of its own is not news about an address that is suppressed already."""
    found = before.get(key)
    return at if found is None else found.occurred_at


def _batches(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Cut after `BATCH` lines or a few more: one address's lines stay together."""
    start = 0
    while start < len(lines):
        end = min(start + BATCH, len(lines))
        while end < len(lines) and lines[end].key == lines[end - 1].key:
            end += 1
        yield lines[start:end]
        start = end


def _sum(one: Imported, other: Imported) -> Imported:
    return Imported(
        one.new + other.new,
        one.known + other.known,
        one.left_released + other.left_released,
    )


def _told(bad: Sequence[BadLine]) -> str:
    count = "1 line" if len(bad) == 1 else f"{len(bad)} lines"
    lines = [f"  line {each.number}: {each.problem}" for each in bad]
    return "\n".join([f"file: {count} cannot be read, and nothing was imported:", *lines])
