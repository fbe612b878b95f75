"""Waiting for something to become true, with a deadline that only a fault meets."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

PATIENCE_SECONDS = 30.0
_STEP_SECONDS = 0.01


class InVain(AssertionError):
    """What was waited for never came true."""


def eventually(
    ask: Callable[[], Answer], what: str, *, patience_seconds: float = PATIENCE_SECONDS
) -> Answer:
    """Return the first answer of `ask` that is true; raises InVain, naming `what`, if none comes.

    A thread waits, so nothing but the deadline depends on the wall clock.
    """
    deadline = time.monotonic() + patience_seconds
    pause = threading.Event()
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise InVain(f"this never came true: {what}; the last answer was {answer!r}")
        pause.wait(_STEP_SECONDS)


def until(condition: Callable[[], object], *, seconds: float = 20.0) -> None:
    """Return once `condition` holds; raises InVain when it never does."""
    eventually(condition, "a condition", patience_seconds=seconds)


def came_true(ask: Callable[[], object], *, patience_seconds: float) -> bool:
    """Tell whether `ask` answered with something true within that time."""
    try:
        eventually(ask, "", patience_seconds=patience_seconds)
    except InVain:
        return False
    return True
