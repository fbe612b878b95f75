"""Blocking work beside the event loop."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


async def aside(work: Callable[[], Result]) -> Result:
    """Run `work` on a thread of its own and return, or raise, what it does.

    The end of the process does not wait for that thread, as it would for one of the loop's own
    pool: a database or a queue that does not answer must not keep a stopping process alive.
    """
    future: Future[Result] = Future()
    thread = threading.Thread(target=_run, args=(future, work), name="mailer-aside", daemon=True)
    thread.start()
    return await asyncio.wrap_future(future)


def _run(future: Future[Result], work: Callable[[], Result]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits
        future.set_exception(error)
    else:
        future.set_result(result)
