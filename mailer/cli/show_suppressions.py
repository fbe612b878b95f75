"""How suppressions look to a person, and where a provider's list says otherwise."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mailer.cli.show import _plain, _table, _time, console

if TYPE_CHECKING:
    from mailer.mirroring import Mirrored
    from mailer.suppression_reports import SuppressionListing, SuppressionView

_IN_FORCE = ("id", "recipient", "reason", "source", "since", "until")
_ENDED = ("released", "who", "why")


def show_suppressions(listing: "SuppressionListing", *, whole: bool) -> None:
    """Print one page and how to go on; `whole` with what became of those that ended."""
    out = console()
    if not listing.rows:
        out.print("nothing was ever held against it" if whole else "nobody is suppressed")
        return
    columns = (*_IN_FORCE, *_ENDED) if whole else _IN_FORCE
    lines = [_line(each)[: len(columns)] for each in listing.rows]
    out.print(_table(None, columns, lines))
    if listing.next_after is not None:
        out.print(f"there may be more: --after {listing.next_after}")


def _line(it: "SuppressionView") -> Sequence[object]:
    return (
        it.id,
        it.address_key,
        it.reason,
        it.source,
        _time(it.occurred_at),
        _time(it.expires_at),
        _time(it.released_at),
        it.released_by,
        it.release_reason,
    )


def show_mirrored(results: "Sequence[Mirrored]") -> None:
    """Print what came of each list, and whom the two sides disagree about."""
    out = console()
    for each in results:
        for line in _mirrored(each):
            out.print(_plain(line), soft_wrap=True)


def _mirrored(it: "Mirrored") -> Iterator[str]:
    since = "" if it.since is None else f" since {_time(it.since)}"
    pushed = f", {it.pushed} put on it" if it.pushed else ""
    yield f"{it.name}: {it.read} read{since}, {it.new} new{pushed}"
    for each in it.unlisted:
        yield f"  {each}: suppressed because of this list, and no longer on it"
    for each in it.released:
        yield f"  {each}: released here, and still on this list: what it is sent is not delivered"
