"""Bare aiosmtplib: ready bytes over reused connections, no outbox. The library's own limit.

Run as `python -m benchmarks.bare PORT MESSAGES CONNECTIONS`; prints the seconds it took.
"""

import asyncio
import sys
import time

import aiosmtplib
import uvloop

from benchmarks.messages import content


async def _send(port: int, messages: int, connections: int) -> float:
    ready = content(1)
    clients = [
        aiosmtplib.SMTP(hostname="127.0.0.1", port=port, start_tls=False, use_tls=False)
        for _ in range(connections)
    ]
    await asyncio.gather(*(each.connect() for each in clients))
    left = iter(range(messages))

    async def work(client: aiosmtplib.SMTP) -> None:
        for number in left:
            await client.sendmail("shop@example.com", [f"u{number}@example.com"], ready)

    began = time.perf_counter()
    await asyncio.gather(*(work(each) for each in clients))
    took = time.perf_counter() - began
    await asyncio.gather(*(each.quit() for each in clients))
    return took


def main() -> None:
    """Send and print the time taken."""
    port, messages, connections = (int(each) for each in sys.argv[1:4])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(_send(port, messages, connections)))


if __name__ == "__main__":
    main()
