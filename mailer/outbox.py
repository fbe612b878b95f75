"""Putting intents into the outbox, finding them, withdrawing and requeueing them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mailer.database import is_postgresql, now, rows, transaction
from mailer.errors import Refused
from mailer.outbox_sql import POSTGRESQL_INSERT, SQLITE_INSERT_RECIPIENTS, SQLITE_INSERT_ROW
from mailer.settlement import LockedRow, apply_settlement, lock_row
from mailer.states import RecipientState, RowState, after_cancel
from mailer.tables import Attempt, Outbox, Recipient


@dataclass(frozen=True, slots=True)
class NewRow:
    """A frozen intent: `columns` are the message's stored fields."""

    dedup_key: str
    fingerprint: str
    message_id: str
    columns: Mapping[str, Any]
    recipients: Sequence[Mapping[str, str]]
    template: str | None = None
    template_version: str | None = None
    context: Mapping[str, Any] | None = None
    stream: str = "default"
    priority: int = 5
    on_ambiguous: str = "hold"
    send_at: datetime | None = None
    expires_at: datetime | None = None


def insert(new: NewRow) -> Outbox | None:
    """Insert an intent with its recipients into the transaction that is open.

    Returns its row, or None when the key is taken. A conflict never aborts the transaction: when
    two writers race for one key, the later one waits for the earlier and then finds it taken.
    """
    params = _params(new)
    if is_postgresql():
        found = rows(POSTGRESQL_INSERT, params)
        return _inserted(new, *found[0]) if found else None
    with transaction():
        found = rows(SQLITE_INSERT_ROW, params)
        if not found:
            return None
        rows(SQLITE_INSERT_RECIPIENTS, {"id": found[0][0], "recipients": params["recipients"]})
        return _inserted(new, *found[0])


def _inserted(new: NewRow, row_id: int, created_at: Any, next_attempt_at: Any) -> Outbox:
    moment = Outbox.created_at.python_value
    return Outbox(
        **new.columns,
        id=row_id,
        dedup_key=new.dedup_key,
        fingerprint=new.fingerprint,
        message_id=new.message_id,
        state=RowState.PENDING,
        template=new.template,
        template_version=new.template_version,
        context=new.context,
        stream=new.stream,
        priority=new.priority,
        on_ambiguous=new.on_ambiguous,
        created_at=moment(created_at),
        queued_at=moment(created_at),
        next_attempt_at=moment(next_attempt_at),
        expires_at=new.expires_at,
        attempts=0,
    )


_JSON = ("to", "cc", "bcc", "reply_to", "headers", "attachments")
_TEXT = ("sender", "subject", "text", "html")


def _params(new: NewRow) -> dict[str, Any]:
    return {
        **{name: new.columns[name] for name in _TEXT},
        **{name: json.dumps(new.columns[name]) for name in _JSON},
        "dedup_key": new.dedup_key,
        "fingerprint": new.fingerprint,
        "message_id": new.message_id,
        "template": new.template,
        "template_version": new.template_version,
        "context": None if new.context is None else json.dumps(dict(new.context)),
        "stream": new.stream,
        "priority": new.priority,
        "on_ambiguous": new.on_ambiguous,
        "send_at": _stored(new.send_at),
        "expires_at": _stored(new.expires_at),
        "recipients": json.dumps(list(new.recipients)),
    }


def _stored(moment: datetime | None) -> Any:
    return None if moment is None else Outbox.next_attempt_at.db_value(moment.astimezone(UTC))


def find(dedup_key: str) -> Outbox | None:
    """Return the row of a dedup key."""
    found: Outbox | None = Outbox.get_or_none(Outbox.dedup_key == dedup_key)
    return found


def stored_fields(row: Outbox) -> dict[str, Any]:
    """The message's fields of a row, by column name."""
    return {name: getattr(row, name) for name in (*_TEXT, *_JSON)}


def cancel(row_id: int) -> tuple[RowState, bool]:
    """Withdraw a row whose sending has not begun; return its state and whether this changed it.

    Where some recipients were accepted before, the others are withdrawn and the row is `submitted`.
    While an earlier attempt is in doubt the row is `ambiguous` again, and its policy `hold`.

    A row that cannot be cancelled is not left locked: the caller's transaction may stay open long,
    and the worker's result must not wait for it.
    """
    with transaction() as savepoint:
        row = lock_row(row_id)
        if _withdraw(row):
            return row.state, True
        savepoint.rollback()
        return row.state, False


def _withdraw(row: LockedRow) -> bool:
    if row.state is RowState.SENDING:
        attempt = Attempt.get(
            Attempt.outbox == row.outbox_id, Attempt.lease_token == row.lease_token
        )
        if not row.release_claim(attempt.id, "cancelled"):
            return False
    elif row.state is not RowState.PENDING:
        return False
    apply_settlement(row, after_cancel(row.recipients, in_doubt=row.in_doubt))
    # What is withdrawn while in doubt must not be sent again by its policy.
    row.hold()
    return True


def requeue(row_id: int) -> RowState:
    """Make a failed or suppressed row due again, with a fresh budget; return the state it left.

    Raises Refused for any other state: an ambiguous row is settled first.
    """
    with transaction():
        row = lock_row(row_id)
        if row.state not in (RowState.FAILED, RowState.SUPPRESSED):
            raise Refused(f"id: row {row_id} is {row.state}; {_REQUEUE_MEND[row.state]}")
        left = row.state
        Recipient.update(state=RecipientState.DUE, rule="requeued", updated_at=now()).where(
            (Recipient.outbox == row_id)
            & Recipient.state.in_([RecipientState.REFUSED, RecipientState.SUPPRESSED])
        ).execute()
        row.move(RowState.PENDING, "requeued", attempts=0, next_attempt_at=now(), queued_at=now())
        return left


_REQUEUE_MEND = {
    RowState.PENDING: "it is due already",
    RowState.SENDING: "wait for its attempt to end",
    RowState.AMBIGUOUS: "settle it with `mailer resolve ID --as not-accepted` to send it again",
    RowState.SUBMITTED: "it was accepted; send a new message under a new key",
    RowState.EXPIRED: "its time has passed; send a new message under a new key",
    RowState.CANCELLED: "it was withdrawn; send a new message under a new key",
}
