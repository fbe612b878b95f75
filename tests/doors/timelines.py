"""Records as the demo promises them, put together by hand."""

from datetime import UTC, datetime

from mailer.outcome import Outcome
from mailer.states import RowState
from mailer.views import AttemptView, MessageView

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def message(number: int, state: RowState) -> MessageView:
    """A message with nothing remarkable about it."""
    return MessageView(
        id=number,
        dedup_key=f"key-{number}",
        message_id=None,
        state=state,
        reason=None,
        stream="default",
        priority=5,
        subject=None,
        template=None,
        template_version=None,
        on_ambiguous="hold",
        attempts=0,
        resends=0,
        created_at=NOW,
        queued_at=NOW,
        next_attempt_at=NOW,
        expires_at=None,
        lease_expires_at=None,
        finished_at=NOW,
    )


def attempt(number: int, outcome: Outcome, *, request_tag: str, settled: bool) -> AttemptView:
    """A finished attempt; `settled` as accepted, afterwards."""
    return AttemptView(
        number=number,
        provider="smtp:127.0.0.1:25",
        request_tag=request_tag,
        state="finished",
        outcome=outcome,
        scope="message",
        stage="after_dot",
        rule="rule",
        code=None,
        reason=None,
        decision=None,
        provider_id=None,
        claimed_at=NOW,
        started_at=NOW,
        finished_at=NOW,
        resolution="accepted" if settled else None,
        resolved_at=None,
        resolved_by=None,
        evidence=None,
    )
