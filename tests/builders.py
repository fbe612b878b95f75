"""Rows in the states that tests begin with, brought about by the product's own functions."""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mailer import claims, database, overdue, results
from mailer.claims import Claimed
from mailer.freeze import Freezer
from mailer.intake import Enqueued, Intake
from mailer.migrations import migrate
from mailer.outcome import CallResult, Outcome, RecipientVerdict, Scope
from mailer.results import Ended, Written
from mailer.retry import RetryPolicy
from mailer.settlement import lock_row, settle_doubt
from mailer.states import Resolution
from mailer.tables import Attempt, Outbox, Recipient

SECRET = "a secret of the tests"
POLICY = RetryPolicy(max_attempts=3, base_seconds=10, cap_seconds=100, max_resends=1)
SENDER = "Shop <shop@example.com>"
PROVIDER = "scripted:test"


def middle() -> float:
    """A jitter that draws the middle of every window."""
    return 0.5


def prepare(url: str) -> None:
    """Migrate the database at `url` and leave nothing open."""
    with bound_to(url):
        migrate()


@contextmanager
def bound_to(url: str) -> Iterator[None]:
    """Have the outbox bound to a connected application database for the block."""
    opened = database.bind(database.connect(url))
    opened.connect()
    try:
        yield
    finally:
        opened.close()
        database.proxy.initialize(None)


def freezer(**changes: Any) -> Freezer:
    """A freezer by the tests' configuration."""
    options: dict[str, Any] = {
        "secret": SECRET,
        "domain": "mail.example.com",
        "sender": SENDER,
        "templates": None,
        "max_bytes": 1_000_000,
    }
    return Freezer(**{**options, **changes})


def enqueue(key: str = "key", to: Any = "ann@example.com", **changes: Any) -> Enqueued:
    """Enqueue a small message."""
    lanes = {
        "template": None,
        "context": None,
        "stream": "default",
        "priority": 5,
        "send_at": None,
        "expires_at": None,
        "on_ambiguous": "hold",
    }
    fields = {"to": to, "subject": "Welcome", "text": "Hello"}
    lane = {name: changes.pop(name, default) for name, default in lanes.items()}
    intake = Intake(changes.pop("freezer", None) or freezer(), changes.pop("nudge", _no_nudge))
    return intake.enqueue(dedup_key=key, given={**fields, **changes}, **lane)


def _no_nudge() -> None:
    """Tests of rows need no broker."""


def insert_plainly(key: str, to: Any, **fields: Any) -> int:
    """Insert a row as another program would, with one plain INSERT."""
    row = Outbox.create(dedup_key=key, to=to, **fields)
    return int(row.id)


def claim(limit: int = 100, *, lease_seconds: float = 60.0) -> list[Claimed]:
    """Claim what is due."""
    return claims.claim_due(limit, provider=PROVIDER, lease_seconds=lease_seconds)


def claim_one(**changes: Any) -> Claimed:
    """Claim the one row that is due."""
    (claimed,) = claim(**changes)
    return claimed


def started(key: str = "key", to: Any = "ann@example.com", **changes: Any) -> Claimed:
    """Enqueue, claim and begin one message."""
    enqueue(key, to, **changes)
    claimed = claim_one()
    assert claims.begin([claimed]) == {claimed.attempt_id}
    return claimed


def result_of(
    claimed: Claimed,
    *outcomes: Outcome,
    scope: Scope = Scope.MESSAGE,
    rule: str = "scripted",
    retry_after_seconds: float | None = None,
) -> CallResult:
    """A call's result, with one outcome for each due recipient (the last one repeats)."""
    due = claimed.due
    padded = [*outcomes, *[outcomes[-1]] * (len(due) - len(outcomes))]
    verdicts = tuple(
        RecipientVerdict(each.recipient_id, outcome, scope, rule, "250", "as scripted")
        for each, outcome in zip(due, padded, strict=True)
    )
    return CallResult(
        outcomes[0],
        scope,
        "after_dot",
        rule,
        verdicts,
        "250",
        "as scripted",
        "id-1" if outcomes[0] is Outcome.ACCEPTED else None,
        retry_after_seconds,
    )


def ended(claimed: Claimed, result: CallResult, *, carried: bool = False) -> Ended:
    """A result under its claim; `carried` as one that went through the broker."""
    return Ended(
        claimed.outbox_id,
        claimed.attempt_id,
        claimed.lease_token,
        result,
        None if carried else claimed,
    )


def finish(claimed: Claimed, *outcomes: Outcome, **changes: Any) -> Written:
    """Write one scripted result down."""
    policy = changes.pop("policy", POLICY)
    carried = changes.pop("carried", False)
    result = result_of(claimed, *outcomes, **changes)
    (written,) = results.finish([ended(claimed, result, carried=carried)], policy, middle)
    return written


def row_of(row_id: int) -> Outbox:
    """Read a row."""
    return Outbox.get_by_id(row_id)


def attempt_of(claimed: Claimed) -> Attempt:
    """Read an attempt."""
    return Attempt.get_by_id(claimed.attempt_id)


def recipient_states(row_id: int) -> list[str]:
    """The states of a row's recipients, in envelope order."""
    query = Recipient.select().where(Recipient.outbox == row_id).order_by(Recipient.id)
    return [each.state for each in query]


PAST = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


def run_out(row_id: int) -> None:
    """Let the lease of a row have run out."""
    Outbox.update(lease_expires_at=PAST).where(Outbox.id == row_id).execute()


def lose_lease(claimed: Claimed) -> Written:
    """Let a lease run out and be swept."""
    run_out(claimed.outbox_id)
    (written,) = overdue.end_expired_leases(10, POLICY, middle)
    return written


def take_for_unsent(row_id: int) -> None:
    """Settle a row in doubt as an operator who looked and found nothing."""
    with database.transaction():
        settle_doubt(lock_row(row_id), Resolution.NOT_ACCEPTED, by="operator", evidence="looked")


def make_due(row_id: int) -> None:
    """Let a row's next attempt, or the end of its wait, have come."""
    Outbox.update(next_attempt_at=PAST).where(Outbox.id == row_id).execute()


def pass_expiry(row_id: int) -> None:
    """Let a row's `expires_at` have passed."""
    Outbox.update(expires_at=PAST).where(Outbox.id == row_id).execute()


def wait_out_the_doubt() -> None:
    """Let the policies of all messages in doubt apply now."""
    Outbox.update(next_attempt_at=database.now()).where(Outbox.state == "ambiguous").execute()
    overdue.apply_policies(100, POLICY)
