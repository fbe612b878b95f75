"""The local clock that leases are counted on."""

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Returns seconds on a monotonic clock."""

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def awake_or_asleep() -> float:
    """Seconds on a clock that also runs while the machine sleeps, where the system has one.

    CLOCK_MONOTONIC stands still during suspend on Linux, so a worker that slept past its lease
    would still believe in it.
    """
    if _BOOTTIME is None:
        return time.monotonic()
    return time.clock_gettime(_BOOTTIME)
