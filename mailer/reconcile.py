"""What time alone brings about: leases that ran out, messages that expired, waits that ended."""

from mailer import overdue
from mailer.database import AWAY, connected
from mailer.log import get_logger
from mailer.retry import Jitter, RetryPolicy

SWEEP_ROWS = 500
"""Rows a sweep settles of each kind; the next sweep goes on."""

_log = get_logger("mailer.reconcile")


class Sweeper:
    """Settles overdue rows; any number of them may sweep at once."""

    def __init__(self, policy: RetryPolicy, jitter: Jitter) -> None:
        self._policy = policy
        self._jitter = jitter

    def sweep(self) -> None:
        """Settle what is overdue; a database that is away is left to the next sweep."""
        try:
            with connected():
                self._end_leases()
                self._expire()
                self._apply_policies()
        except AWAY as error:
            _log.warning("database away", error=type(error).__name__)

    def _end_leases(self) -> None:
        for each in overdue.end_expired_leases(SWEEP_ROWS, self._policy, self._jitter):
            _log.warning(
                "lease expired",
                outbox_id=each.outbox_id,
                attempt_id=each.attempt_id,
                state=each.state.value,
                decision=each.decision,
            )

    def _expire(self) -> None:
        expired = overdue.expire_due(SWEEP_ROWS)
        if expired:
            _log.warning("messages expired", rows=expired)

    def _apply_policies(self) -> None:
        for outbox_id, done in overdue.apply_policies(SWEEP_ROWS, self._policy):
            _log.warning("policy applied", outbox_id=outbox_id, decision=done)
