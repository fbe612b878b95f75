"""Waiting for a condition: by asking for it, with an end."""

import threading
import time
from collections.abc import Callable


def until(condition: Callable[[], object], *, seconds: float = 20.0) -> None:
    """Return once `condition` holds; AssertionError when it never does."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain for a condition")
        pause.wait(0.01)
