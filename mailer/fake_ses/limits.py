"""What an account may send: recipients a second, and recipients in a day."""

from collections import deque
from collections.abc import Callable

DAY_SECONDS = 86_400.0

Clock = Callable[[], float]


class Bucket:
    """A token bucket, counted in recipients, that holds one second's worth and at least one.

    A message with more recipients than the bucket holds passes when it is full, and what it took
    beyond is owed: over time the rate is kept.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._missing = 0.0
        self._at = clock()

    def take(self, recipients: int, rate_per_second: float) -> bool:
        """Take the tokens of a message, or none at all."""
        now = self._clock()
        self._missing = max(0.0, self._missing - (now - self._at) * rate_per_second)
        self._at = now
        capacity = max(1.0, rate_per_second)
        if self._missing + min(recipients, capacity) > capacity:
            return False
        self._missing += recipients
        return True


class Day:
    """Counts the recipients of the last 24 hours."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: deque[tuple[float, int]] = deque()
        self._sent = 0

    @property
    def sent(self) -> int:
        """How many recipients were taken within the last 24 hours."""
        since = self._clock() - DAY_SECONDS
        while self._entries and self._entries[0][0] <= since:
            self._sent -= self._entries.popleft()[1]
        return self._sent

    def add(self, recipients: int) -> None:
        """Count a message that was taken."""
        self._entries.append((self._clock(), recipients))
        self._sent += recipients
