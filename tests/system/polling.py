"""Waiting for something to become true, with a deadline that only a failing test meets."""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

PATIENCE_SECONDS = 30.0
_STEP_SECONDS = 0.02


def eventually(
    ask: Callable[[], Answer], what: str, *, patience_seconds: float = PATIENCE_SECONDS
) -> Answer:
    """Return the first answer of `ask` that is true; fail with `what` when none comes in time."""
    deadline = time.monotonic() + patience_seconds
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"this never came true: {what}; the last answer was {answer!r}")
        time.sleep(_STEP_SECONDS)
