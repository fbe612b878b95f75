"""The event loop of a worker process, on a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """Runs coroutines for threads that must not run any themselves: Peewee stays out of here."""

    def __init__(self) -> None:
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name="mailer-loop", daemon=True)

    def start(self) -> None:
        """Start the thread; the loop is ready when this returns."""
        self._thread.start()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Run a plain function on the loop soon."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def spawn(self, coroutine: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        """Start a task; only for functions that already run on the loop."""
        return self._loop.create_task(coroutine)

    def run(self, coroutine: Coroutine[Any, Any, Result], *, timeout_seconds: float) -> Result:
        """Run a coroutine and wait for what it returns or raises."""
        future: Future[Result] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(timeout_seconds)

    def stop(self) -> None:
        """Cancel what still runs, let it end, and close the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(_end_tasks())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()


async def _end_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
