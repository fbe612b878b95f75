"""`enqueue` and `cancel`: what an application says, written in its own transaction."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from mailer import hints, outbox
from mailer.database import bound, connected
from mailer.errors import DedupConflict, InvalidEmail, Refused
from mailer.freeze import Freezer
from mailer.states import OnAmbiguous, RowState
from mailer.tables import Outbox

_RACES = 5
"""How often a key may be found taken and then free again, before the caller is told."""

_LANES = range(10)
_STREAM_CHARS = 64


class Enqueued(NamedTuple):
    """The row that stands for the key, and whether this call made it."""

    row: Outbox
    created: bool


class Intake:
    """Takes in intents by one configuration."""

    def __init__(self, freezer: Freezer, nudge: hints.Nudge) -> None:
        self._freezer = freezer
        self._nudge = nudge

    def enqueue(
        self,
        *,
        dedup_key: str,
        given: Mapping[str, Any],
        template: str | None,
        context: Mapping[str, Any] | None,
        stream: str,
        priority: int,
        send_at: datetime | None,
        expires_at: datetime | None,
        on_ambiguous: str,
    ) -> Enqueued:
        """Validate, freeze and insert; see `mailer.enqueue` for the rules."""
        _check_lane(stream, priority, on_ambiguous)
        _check_times(send_at=send_at, expires_at=expires_at)
        frozen = self._freezer.freeze(
            dedup_key=dedup_key, given=given, template=template, context=context
        )
        new = outbox.NewRow(
            dedup_key=dedup_key,
            fingerprint=frozen.fingerprint,
            message_id=frozen.message_id,
            columns=frozen.columns,
            recipients=frozen.recipients,
            template=template,
            template_version=frozen.template_version,
            context=context,
            stream=stream,
            priority=priority,
            on_ambiguous=on_ambiguous,
            send_at=send_at,
            expires_at=expires_at,
        )
        with connected():
            return self._write(new)

    def _write(self, new: outbox.NewRow) -> Enqueued:
        for _ in range(_RACES):
            row = outbox.insert(new)
            if row is not None:
                bound().after_commit(self._nudge)
                return Enqueued(row, created=True)
            existing = outbox.find(new.dedup_key)
            if existing is not None:
                self._check_same(existing, new)
                return Enqueued(existing, created=False)
        raise Refused("dedup_key: other writers keep taking and giving back this key; try again")

    def _check_same(self, row: Outbox, new: outbox.NewRow) -> None:
        stored = row.fingerprint or self._fingerprint_to_be(row)
        if stored != new.fingerprint:
            raise DedupConflict(row.id, stored, new.fingerprint)

    def _fingerprint_to_be(self, row: Outbox) -> str:
        """A row that came by plain INSERT has none before its first claim."""
        try:
            frozen = self._freezer.freeze(
                dedup_key=row.dedup_key,
                given=outbox.stored_fields(row),
                template=row.template,
                context=row.context,
            )
        except InvalidEmail:
            return "invalid"
        return frozen.fingerprint

    def cancel(self, dedup_key: str) -> bool:
        """Withdraw what has not started; True when the message will not be sent."""
        with connected():
            row = outbox.find(dedup_key)
            if row is None:
                return False
            state, _ = outbox.cancel(row.id)
            return state is RowState.CANCELLED


def _check_lane(stream: str, priority: int, on_ambiguous: str) -> None:
    if not stream or len(stream) > _STREAM_CHARS or not stream.isprintable():
        raise InvalidEmail("stream", f"must be a name of 1 to {_STREAM_CHARS} characters")
    if priority not in _LANES:
        raise InvalidEmail("priority", "must be a whole number from 0 (first) to 9 (last)")
    if on_ambiguous not in set(OnAmbiguous):
        raise InvalidEmail("on_ambiguous", f"must be one of {', '.join(OnAmbiguous)}")


def _check_times(**moments: datetime | None) -> None:
    for name, moment in moments.items():
        if moment is not None and moment.tzinfo is None:
            raise InvalidEmail(name, "needs a timezone, for example datetime.now(UTC)")
    send_at, expires_at = moments["send_at"], moments["expires_at"]
    if send_at is not None and expires_at is not None and expires_at <= send_at:
        raise InvalidEmail("expires_at", "must be later than send_at")
