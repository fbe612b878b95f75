"""A relay's own log as evidence: which messages it took, and what became of them.

Postfix and Exim, several instances and hosts in one log, lines of many messages in between one
another. Files are best read oldest first; read in another order they may tell less, and never tell
of an acceptance that was none.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, tzinfo

from mailer.evidence import Carried, Sighting
from providers import relay_log_exim, relay_log_postfix
from providers.relay_log_entry import MAX_LINE_CHARS, Calendar, Entry
from providers.relay_log_queue import Queues

QUEUE_LIMIT = 200_000
"""Queue ids, with the fates of their recipients, that are remembered while they are open."""


def read(
    lines: Iterable[str],
    *,
    before: datetime | None = None,
    zone: tzinfo = UTC,
    limit: int = QUEUE_LIMIT,
) -> Iterator[Sighting]:
    """Yield what a log tells of every message in it, ours or not, each when its queue id is done.

    Memory is bounded by `limit`: what stays open too long is told as far as it is known, the oldest
    first. `before` is a moment with time zone that no line is later than (None: now); it tells the
    year, which traditional syslog leaves out. `zone` is the log's own, where its times name none.
    Never raises for what a line holds.
    """
    calendar = Calendar(before or datetime.now(UTC), zone)
    queues = Queues(limit)
    for line in lines:
        entry = _parse(line.rstrip("\r\n"), calendar)
        if entry is not None:
            yield from queues.add(entry)
    yield from queues.close()


class RelayLog:
    """The `Evidence` of a log, read through once for each `look_up`; for times see `read`."""

    def __init__(
        self, lines: Iterable[str], *, before: datetime | None = None, zone: tzinfo = UTC
    ) -> None:
        self._lines = lines
        self._before = before
        self._zone = zone

    def look_up(self, carried: Collection[Carried]) -> Iterator[Sighting]:
        """Yield the sightings that share a Message-ID or a sender with one of the attempts."""
        message_ids = {each.message_id for each in carried} - {None}
        senders = {each.sender for each in carried} - {None}
        for seen in read(self._lines, before=self._before, zone=self._zone):
            if seen.message_id in message_ids or seen.sender in senders:
                yield seen


def _parse(line: str, calendar: Calendar) -> Entry | None:
    if len(line) > MAX_LINE_CHARS:
        return None
    return relay_log_postfix.parse(line, calendar) or relay_log_exim.parse(line, calendar)
