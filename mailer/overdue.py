"""The end of leases, of messages that expired, and of waits: what a sweep finds by itself."""

from mailer import absence
from mailer.database import now, transaction
from mailer.outcome import CallResult, Outcome, Scope
from mailer.results import Written
from mailer.retry import Jitter, RetryPolicy
from mailer.settlement import (
    LockedRow,
    apply_settlement,
    end_attempt,
    lock_row,
    send_again,
    settle_doubt,
)
from mailer.states import OnAmbiguous, Resolution, RowState, after_expiry, after_outcome
from mailer.tables import Attempt, Outbox


def end_expired_leases(limit: int, policy: RetryPolicy, jitter: Jitter) -> list[Written]:
    """Give up leases that have run out, up to `limit` of them, each in its own transaction.

    An attempt still `claimed` was never sent: its row goes back to `pending` at no cost. One that
    is `started` may have been: it becomes ambiguous, unless what is on record already decides.
    """
    overdue = _overdue(limit)
    return [each for one in overdue if (each := _end_lease(one, policy, jitter)) is not None]


def _overdue(limit: int) -> list[int]:
    query = (
        Outbox.select(Outbox.id)
        .where((Outbox.state == RowState.SENDING) & (Outbox.lease_expires_at <= now()))
        .order_by(Outbox.lease_expires_at)
        .limit(limit)
    )
    return [each.id for each in query]


def _end_lease(outbox_id: int, policy: RetryPolicy, jitter: Jitter) -> Written | None:
    with transaction():
        row = lock_row(outbox_id)
        if row.state is not RowState.SENDING or not row.overdue:
            return None
        attempt = Attempt.get(Attempt.outbox == outbox_id, Attempt.lease_token == row.lease_token)
        if row.release_claim(attempt.id, "lease expired"):
            return Written(outbox_id, attempt.id, row.rederive("lease-expired"), "released")
        result = _unanswered(row, attempt)
        settled = after_outcome(row.message(attempt.number), result, policy, jitter=jitter())
        end_attempt(attempt.id, result, settled.decision)
        apply_settlement(row, settled)
        return Written(outbox_id, attempt.id, settled.state, settled.decision)


def _unanswered(row: LockedRow, attempt: Attempt) -> CallResult:
    """A call whose own evidence left nobody in doubt was accepted, though nobody heard its end."""
    is_proven = attempt.evidence is not None and not row.due_ids()
    return CallResult.alike(
        row.due_ids(),
        Outcome.ACCEPTED if is_proven else Outcome.AMBIGUOUS,
        Scope.CONNECTION,
        stage="started",
        rule="lease-expired-started",
        reason="the worker was lost after the call was about to start",
    )


def expire_due(limit: int) -> int:
    """Expire up to `limit` pending rows whose `expires_at` has passed; return how many ended."""
    query = (
        Outbox.select(Outbox.id)
        .where((Outbox.state == RowState.PENDING) & (Outbox.expires_at <= now()))
        .order_by(Outbox.expires_at)
        .limit(limit)
    )
    return sum(_expire(each.id) for each in query)


def _expire(outbox_id: int) -> int:
    with transaction():
        row = lock_row(outbox_id)
        if row.state is not RowState.PENDING:
            return 0
        apply_settlement(row, after_expiry(row.recipients, in_doubt=row.in_doubt))
        return 1


def apply_policies(limit: int, policy: RetryPolicy) -> list[tuple[int, str]]:
    """Do what the application chose for messages whose doubt has lasted its wait.

    Returns row ids with what was done. `hold` rows are never touched here.
    """
    query = (
        Outbox.select(Outbox.id)
        .where(
            (Outbox.state == RowState.AMBIGUOUS)
            & (Outbox.next_attempt_at <= now())
            & (
                (Outbox.on_ambiguous == OnAmbiguous.ASSUME_SENT)
                | (
                    (Outbox.on_ambiguous == OnAmbiguous.RESEND)
                    & (Outbox.resends < policy.max_resends)
                )
            )
        )
        .order_by(Outbox.next_attempt_at)
        .limit(limit)
    )
    return [(each.id, done) for each in query if (done := _apply_policy(each.id, policy))]


def _apply_policy(outbox_id: int, policy: RetryPolicy) -> str | None:
    with transaction():
        row = lock_row(outbox_id)
        if row.state is not RowState.AMBIGUOUS:
            return None
        if row.on_ambiguous is OnAmbiguous.ASSUME_SENT:
            settle_doubt(
                row, Resolution.ACCEPTED, by="policy assume_sent", evidence="none: chosen by policy"
            )
            return "assumed sent"
        silence = absence.silence_about(outbox_id)
        if silence.means_little and silence.seconds < 2 * policy.ambiguous_wait_seconds:
            row.wait(policy.ambiguous_wait_seconds)
            return "waits on: nothing else is heard either"
        send_again(row, silence.words)
        return "sent again"
