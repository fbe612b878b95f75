"""Taking due rows, marking calls as about to start, keeping and giving back leases.

Every statement that moves a row names the lease token in its WHERE. Locks are always taken on the
outbox row before its attempt; `begin` and `release` skip what somebody else holds, so that one
application's open transaction cannot hold up a batch.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from mailer.claims_sql import POSTGRESQL, SQLITE, Statements
from mailer.database import is_postgresql, rows, transaction
from mailer.states import RecipientState


@dataclass(frozen=True, slots=True)
class KnownRecipient:
    """A recipient as it stood when its row was claimed; `suppressed` means: due, and barred."""

    recipient_id: int
    address: str
    state: RecipientState
    suppressed: bool = False


@dataclass(frozen=True, slots=True)
class Claimed:
    """A row under lease, with what is needed to send it.

    `columns` are the stored fields of the message; attachments are left in the database until the
    message is composed, because a batch of them would not fit in memory. `message_id` is None on a
    row that came by plain INSERT and is still to be frozen. `evidence` counts what others have
    proven about the row; a result is written in bulk only while it stands still.
    """

    outbox_id: int
    attempt_id: int
    number: int
    provider: str
    lease_token: str
    request_tag: str
    dedup_key: str
    message_id: str | None
    created_at: datetime
    age_seconds: float
    expires_in_seconds: float | None
    attempts: int
    evidence: int
    resends: int
    has_attachments: bool
    template: str | None
    context: Mapping[str, Any] | None
    columns: Mapping[str, Any]
    recipients: tuple[KnownRecipient, ...]
    priority: int
    due_at: datetime

    @property
    def due(self) -> tuple[KnownRecipient, ...]:
        """The recipients that this attempt is for."""
        return tuple(each for each in self.recipients if each.state is RecipientState.DUE)

    @property
    def sender(self) -> str:
        """The sender as stored, or nothing on a row that leaves it to the settings."""
        return self.columns["sender"] or ""

    @property
    def is_barred(self) -> bool:
        """Whether a recipient that this attempt is for was suppressed at the claim."""
        return any(each.suppressed for each in self.recipients)

    def recipient_count(self) -> int:
        """How many recipients the call is for; before the row is frozen, how many it names."""
        if self.recipients:
            return len(self.due)
        named = (self.columns[role] for role in ("to", "cc", "bcc"))
        return max(1, sum(len(each) if isinstance(each, list) else 1 for each in named))

    def known_states(self) -> dict[int, RecipientState]:
        """All recipients' states by id."""
        return {each.recipient_id: each.state for each in self.recipients}


@dataclass(frozen=True, slots=True)
class Scope:
    """Which due rows may be claimed.

    `streams` names those to take (None: all but `other_streams`). Rows of `held_senders` are left
    alone; `only_sender` takes that one's alone. A row without a sender has `default_sender`.
    `first_sends` leaves out what is sent again although it is in doubt.
    """

    streams: tuple[str, ...] | None = None
    other_streams: tuple[str, ...] = ()
    held_senders: tuple[str, ...] = ()
    only_sender: str | None = None
    default_sender: str = ""
    first_sends: bool = False


EVERYTHING = Scope()

PRIORITIES = range(10)


@dataclass(slots=True)
class Frontier:
    """How far a worker has claimed, by priority: whatever is due before that has left the queue.

    A claim that begins there does not walk over the index entries of rows that were claimed
    before, which stay as long as any transaction anywhere is open that is older than they are.
    Something may still lie behind it: what was locked, held or given back. So it is a help for
    claims in quick succession, and no more.
    """

    marks: dict[int, tuple[datetime, int]] = field(default_factory=dict)

    def advance(self, claimed: Sequence[Claimed]) -> None:
        """Move beyond these rows."""
        for each in claimed:
            mark = (each.due_at, each.outbox_id)
            if mark > self.marks.get(each.priority, (_LONG_AGO, 0)):
                self.marks[each.priority] = mark

    def params(self) -> dict[str, Any]:
        """The statement's parameters, one for each priority."""
        marks = [self.marks.get(priority, (_LONG_AGO, 0)) for priority in PRIORITIES]
        return {"moments": [moment for moment, _ in marks], "marks": [mark for _, mark in marks]}


_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


def claim_due(
    limit: int,
    *,
    provider: str,
    lease_seconds: float,
    scope: Scope = EVERYTHING,
    beyond: Frontier | None = None,
) -> list[Claimed]:
    """Lease up to `limit` due rows, most urgent first, and write an attempt for each.

    Rows that another transaction holds are passed over. Rows past `expires_at` are left for the
    sweep. With `beyond` only rows that come after it; SQLite, which has no such trouble, looks at
    all.
    """
    token = secrets.token_hex(16)
    params = {
        "limit": limit,
        "provider": provider,
        "token": token,
        "lease": _span(lease_seconds),
        "only_sender": scope.only_sender,
        "default_sender": scope.default_sender,
        "first_sends": scope.first_sends,
        "streams": _names(scope.streams),
        "other_streams": _names(scope.other_streams),
        "held_senders": _names(scope.held_senders),
    }
    if is_postgresql():
        taken = rows(POSTGRESQL.claim, params | (beyond or Frontier()).params())
    else:
        with transaction():
            taken = _claim_in_steps(params)
    decoded = _decoder()
    return [_claimed(each, token, provider, decoded) for each in taken]


def _claim_in_steps(params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    due = rows(SQLITE.claim_rows, params)
    ids = json.dumps([each[0] for each in due])
    rows(SQLITE.claim_attempts, {**params, "ids": ids})
    return rows(SQLITE.claimed, {**params, "ids": ids})


def freeze(
    claimed: Claimed,
    *,
    columns: Mapping[str, Any],
    message_id: str,
    fingerprint: str,
    template_version: str | None,
    recipients: Sequence[Mapping[str, str]],
) -> Claimed | None:
    """Write what a plain INSERT left to be computed, and return the row as it now stands.

    None means that the lease was lost: nothing was written.
    """
    statements = _statements()
    params = {
        "id": claimed.outbox_id,
        "token": claimed.lease_token,
        "message_id": message_id,
        "fingerprint": fingerprint,
        "template_version": template_version,
        "columns": json.dumps(dict(columns)),
        "recipients": json.dumps(list(recipients)),
    }
    with transaction():
        if not rows(statements.freeze_row, params):
            return None
        written = rows(statements.freeze_recipients, params)
    known = tuple(KnownRecipient(each[0], each[1], RecipientState.DUE) for each in written)
    light = {name: value for name, value in columns.items() if name != "attachments"}
    return replace(claimed, message_id=message_id, columns=light, recipients=known)


def stored_attachments(outbox_id: int) -> list[dict[str, Any]]:
    """Read the attachments that a claim leaves behind."""
    found = rows(_statements().attachments, {"id": outbox_id})
    return _decoder()(found[0][0]) if found else []


def begin(claims: Sequence[Claimed]) -> set[int]:
    """Mark the attempts whose calls are about to be made; return the ids of those that may be.

    Committed before the first byte. An attempt is left out when its lease is gone or has run out,
    when it was cancelled, when its message has expired, when one of its due recipients is
    suppressed, or when somebody holds its row.
    """
    if not claims:
        return set()
    return {each[0] for each in rows(_statements().begin, begin_params(claims))}


def begin_params(claims: Sequence[Claimed]) -> dict[str, Any]:
    """The parameters of the statement that begins."""
    return _pairs((each.attempt_id, each.lease_token) for each in claims)


def renew(held: Sequence[Claimed], *, lease_seconds: float) -> set[int]:
    """Extend the leases still held and return the ids of their attempts.

    A row that is missing from the answer was lost or is locked: its old deadline stands.
    """
    if not held:
        return set()
    params = _pairs((each.outbox_id, each.lease_token) for each in held)
    params["lease"] = _span(lease_seconds)
    renewed = {each[0] for each in rows(_statements().renew, params)}
    return {each.attempt_id for each in held if each.outbox_id in renewed}


def release(claims: Sequence[Claimed]) -> int:
    """Give back what was claimed and not begun, at no cost; return how many went back."""
    if not claims:
        return 0
    params = _pairs((each.attempt_id, each.lease_token) for each in claims)
    if is_postgresql():
        return len(rows(POSTGRESQL.release, params))
    with transaction():
        freed = rows(SQLITE.release_attempts, params)
        rows(SQLITE.release_rows, _pairs((each[0], each[1]) for each in freed))
    return len(freed)


def _statements() -> Statements:
    return POSTGRESQL if is_postgresql() else SQLITE


def _names(names: tuple[str, ...] | None) -> Any:
    if names is None:
        return None
    return list(names) if is_postgresql() else json.dumps(names)


def _pairs(leases: Iterable[tuple[int, str]]) -> dict[str, Any]:
    """Ids with their lease tokens; as arrays, PostgreSQL's planner knows how many there are."""
    pairs = list(leases)
    if is_postgresql():
        return {"ids": [each for each, _ in pairs], "tokens": [token for _, token in pairs]}
    return {"ids": json.dumps(pairs)}


def _span(seconds: float) -> float | str:
    return seconds if is_postgresql() else f"{seconds:+.3f} seconds"


def _decoder() -> Callable[[Any], Any]:
    """SQLite keeps JSON as text; from PostgreSQL it comes decoded, and may itself be a text."""
    if is_postgresql():
        return lambda value: value
    return lambda value: None if value is None else json.loads(value)


def _moment(value: Any) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


_COLUMNS = ("sender", "to", "cc", "bcc", "reply_to", "subject", "text", "html", "headers")
_JSON_COLUMNS = frozenset({"to", "cc", "bcc", "reply_to", "headers"})


def _claimed(
    row: tuple[Any, ...], token: str, provider: str, decoded: Callable[[Any], Any]
) -> Claimed:
    (outbox_id, attempt_id, number, request_tag, dedup_key, message_id, created_at, age,
     expires_in, attempts, evidence, resends, has_attachments, template, context, recipients,
     *stored, priority, due_at) = row  # fmt: skip
    columns = {
        name: decoded(value) if name in _JSON_COLUMNS else value
        for name, value in zip(_COLUMNS, stored, strict=True)
    }
    return Claimed(
        outbox_id=outbox_id,
        attempt_id=attempt_id,
        number=number,
        provider=provider,
        lease_token=token,
        request_tag=request_tag,
        dedup_key=dedup_key,
        message_id=message_id,
        created_at=_moment(created_at),
        age_seconds=float(age),
        expires_in_seconds=None if expires_in is None else float(expires_in),
        attempts=attempts,
        evidence=evidence,
        resends=resends,
        has_attachments=bool(has_attachments),
        template=template,
        context=decoded(context),
        columns=columns,
        recipients=tuple(
            KnownRecipient(each[0], each[1], RecipientState(each[2]), bool(each[3]))
            for each in decoded(recipients) or ()
        ),
        priority=priority,
        due_at=_moment(due_at),
    )
