"""One claimed message on its way: its lease on the local clock, and the call made of it."""

from dataclasses import dataclass

from mailer.claims import Claimed
from mailer.clock import Clock
from mailer.outcome import CallResult, Outcome, Scope
from mailer.provider import Addressee, Call, Refusal
from mailer.returnpath import ReturnPath


@dataclass(slots=True, eq=False)
class Flight:
    """A claim under a lease that ends, for this worker, at `lease_deadline` on its own clock.

    The deadline is counted from before the claim or the renewal was asked for, so it never lies
    after the database's. A `probe` finds out whether a circuit may close.
    """

    claimed: Claimed
    clock: Clock
    lease_deadline: float
    expires_deadline: float | None
    probe: bool = False
    call: Call | None = None

    @classmethod
    def under_lease(
        cls,
        claimed: Claimed,
        clock: Clock,
        *,
        asked_at: float,
        lease_seconds: float,
        probe: bool = False,
    ) -> "Flight":
        """Start a flight whose claim was asked for at `asked_at`."""
        expires_in = claimed.expires_in_seconds
        return cls(
            claimed,
            clock,
            asked_at + lease_seconds,
            None if expires_in is None else asked_at + expires_in,
            probe,
        )

    def refusal(self) -> Refusal | None:
        """Say whether the commit point may be passed now; asked right before it."""
        now = self.clock()
        if now >= self.lease_deadline:
            return Refusal.LEASE_EXPIRED
        if self.expires_deadline is not None and now >= self.expires_deadline:
            return Refusal.MESSAGE_EXPIRED
        return None

    def load(self, sender: str, content: bytes, return_path: ReturnPath | None = None) -> None:
        """Give the flight its call, for the recipients that are due.

        Raises ValueError for a tag that `return_path` cannot carry.
        """
        claimed = self.claimed
        marks = return_path.marks(claimed.request_tag) if return_path else None
        self.call = Call(
            outbox_id=claimed.outbox_id,
            attempt_id=claimed.attempt_id,
            request_tag=claimed.request_tag,
            sender=sender,
            recipients=tuple(Addressee(each.recipient_id, each.address) for each in claimed.due),
            content=content,
            may_commit=self.refusal,
            return_path=marks.address if marks else None,
            envelope_id=marks.envelope_id if marks else None,
        )

    def never_sent(
        self, outcome: Outcome, scope: Scope, *, stage: str, rule: str, reason: str
    ) -> CallResult:
        """Build the result of a call that was not made."""
        due = tuple(each.recipient_id for each in self.claimed.due)
        return CallResult.alike(due, outcome, scope, stage=stage, rule=rule, reason=reason)
