"""What providers tell later: stored, matched to its attempt, turned into facts and what follows.

An event is interpreted after it is stored, by any worker, any number of times: facts are written
once, suppressions do not depend on the order, and a proof that is on record changes nothing.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from mailer import events, fact_rows, matching, suppressions
from mailer.database import AWAY, DatabaseError, connected, transaction
from mailer.errors import Refused
from mailer.events import Incoming, Reading, Stored
from mailer.facts import EventState, Fact, Notice
from mailer.feed import Channel, Interpret
from mailer.log import get_logger
from mailer.proofs import Proof, Proven, apply_proof
from mailer.suppressions import Barred

BATCH = 200
"""Events interpreted in one transaction."""

RECENT_SECONDS = 3_600.0
"""How long the sweep looks again for the attempts of unmatched events.

Whoever writes a provider's id wakes the events that wait for it; the sweep is for those that were
being written at that very moment. `mailer events rematch` looks through all of them.
"""

UNWRITABLE = (DatabaseError, ValueError)
"""What is raised for a value that the database, or its driver, does not take."""

_log = get_logger("mailer.feedback")


def store(batch: Sequence[Incoming]) -> int:
    """Store verified events; return how many were new. Raises what the database raises."""
    with connected():
        return events.insert(batch)


class Feedback:
    """Interprets stored events, each with the reader of its channel."""

    def __init__(self, readers: Mapping[Channel, Interpret]) -> None:
        self._readers = readers
        self._running = threading.Lock()
        self._wanted = threading.Event()

    def interpret(self) -> int:
        """Interpret all that is stored and not interpreted yet; return how many events.

        One run at a time in a process: a call during another's run has it look once more. A
        database that is away is left to the next call.
        """
        done = 0
        self._wanted.set()
        while self._wanted.is_set() and self._running.acquire(blocking=False):
            try:
                self._wanted.clear()
                done += self._interpret_all()
            finally:
                self._running.release()
        return done

    def _interpret_all(self) -> int:
        done = 0
        try:
            with connected():
                while step := self._interpret_batch():
                    done += step
        except AWAY as error:
            _log.warning("database away", error=type(error).__name__)
        return done

    def rematch(self, *, seconds: float | None = RECENT_SECONDS) -> int:
        """Interpret unmatched events again whose attempt is known by now; return how many.

        `seconds` is how long ago they were received at most; None for all.
        """
        try:
            with connected():
                found = events.reawaken(seconds=seconds)
        except AWAY as error:
            _log.warning("database away", error=type(error).__name__)
            return 0
        if found:
            self.interpret()
        return found

    def interpret_only(self, event_id: int) -> None:
        """Interpret one event, unless somebody else does or did that.

        A database that is away leaves it to the workers.
        """
        try:
            with connected():
                with transaction():
                    readings = self._read(events.take(1, event_id=event_id))
                for each in readings:
                    self._interpret_one(each)
        except AWAY as error:
            _log.warning("database away", error=type(error).__name__)

    def _interpret_batch(self) -> int:
        try:
            with transaction():
                readings = self._read(events.take(BATCH))
                simple = [each for each in readings if not _needs_proof(each)]
                _write(simple)
        except AWAY:
            raise
        except UNWRITABLE:
            return self._interpret_singly()
        proven = [each for each in readings if _needs_proof(each) and self._interpret_one(each)]
        return len(simple) + len(proven)

    def _interpret_singly(self) -> int:
        """One event that cannot be written must not hold up the others."""
        with transaction():
            readings = self._read(events.take(BATCH))
        return sum(self._interpret_one(each) for each in readings)

    def _interpret_one(self, seen: Reading) -> bool:
        """Interpret one event under the lock of its row; False when somebody else does."""
        try:
            return self._interpret_locked(seen)
        except AWAY:
            raise
        except (*UNWRITABLE, Refused) as error:
            _log.error(
                "event cannot be interpreted",
                event_id=seen.stored.event_id,
                error=type(error).__name__,
            )
            with transaction():
                events.mark([_given_up(seen)])
            return True

    def _interpret_locked(self, seen: Reading) -> bool:
        with transaction():
            # What was interpreted meanwhile may have settled the same attempt.
            (match,) = matching.match([seen.notice])
            present = replace(seen, match=match)
            # The row's lock goes before the event's, as everywhere.
            proven = _prove(present) if _needs_proof(present) else None
            if not events.take_one(seen.stored.event_id):
                return False
            _write([present])
        if proven is not None:
            _report(seen, proven)
        return True

    def _read(self, batch: Sequence[Stored]) -> list[Reading]:
        notices = [self._readers[each.channel](each.body, each.published_at) for each in batch]
        matches = matching.match(notices)
        return [Reading(*each) for each in zip(batch, notices, matches, strict=True)]


def _needs_proof(reading: Reading) -> bool:
    return reading.match is not None and reading.match.needs_proof


def _prove(reading: Reading) -> Proven | None:
    notice, match = reading.notice, reading.match
    if match is None:
        return None
    if match.twice:
        events.mark_double(match.attempt_id)
    named = notice.destinations or tuple(each.address for each in notice.facts if each.address)
    proof = Proof(
        by=f"event {notice.kind}",
        evidence=f"event {reading.stored.event_id} ({notice.kind}), found by {match.matched_by}",
        provider_id=notice.provider_id,
        named=named,
        # SES takes a request for all its recipients or for none.
        whole=reading.stored.channel is not Channel.MAIL,
    )
    return apply_proof(match.outbox_id, match.attempt_id, proof)


def _write(readings: Sequence[Reading]) -> None:
    suppressions.bar(
        _barred(reading, fact)
        for reading, fact in fact_rows.write(readings)
        if fact.suppress is not None and reading.notice.trusted
    )
    events.mark(readings)


def _barred(reading: Reading, fact: Fact) -> Barred:
    if fact.suppress is None or fact.address is None:
        raise ValueError("this fact suppresses nobody")
    seconds = fact.suppress.seconds
    return Barred(
        address_key=fact.address,
        reason=fact.suppress.reason,
        source=f"event {reading.notice.kind} {fact.rule}".strip()[:255],
        occurred_at=fact.occurred_at,
        expires_at=None if seconds is None else fact.occurred_at + timedelta(seconds=seconds),
        event_id=reading.stored.event_id,
    )


def _given_up(reading: Reading) -> Reading:
    return Reading(reading.stored, Notice(reading.notice.kind, EventState.UNPARSED), None)


def _report(reading: Reading, proven: Proven) -> None:
    if proven.settled or proven.duplicate:
        _log.info(
            "acceptance proven",
            outbox_id=proven.outbox_id,
            attempt_id=proven.attempt_id,
            event_id=reading.stored.event_id,
            kind=reading.notice.kind,
            before=proven.before.value,
            state=proven.after.value,
            duplicate=proven.duplicate,
        )
