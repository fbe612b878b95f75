"""For processes under libfaketime alone: the interpreter loads this before anything else.

`time.sleep` asks for an absolute deadline of the monotonic clock (CPython 3.11), which libfaketime
0.9 refuses where that clock is left as it is; waiting on no file at all is the same sleep.
"""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep  # type: ignore[assignment]
