"""How a long-running command is told to stop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Set the event on SIGTERM and SIGINT; afterwards they do what they did before."""
    stop = threading.Event()
    earlier = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stop
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
