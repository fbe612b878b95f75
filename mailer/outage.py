"""Something that is away for a while: told when it goes, and when it is back."""

from structlog.stdlib import BoundLogger


class Outage:
    """Logs changes alone: one line when `what` goes away or its reason changes, one at its end."""

    def __init__(self, what: str, log: BoundLogger) -> None:
        self._what = what
        self._log = log
        self._reason: str | None = None

    def begins(self, reason: str) -> None:
        """It is away, for a classified reason."""
        if reason != self._reason:
            self._log.warning(f"{self._what} away", error=reason)
        self._reason = reason

    def ends(self) -> None:
        """It is there."""
        if self._reason is not None:
            self._log.info(f"{self._what} back")
        self._reason = None
