"""One process of bare aiosmtplib, called with PORT MESSAGES CONNECTIONS.

It connects, says `ready`, and sends when SIGCONT reaches it.
"""

import asyncio
import signal
import sys
from collections.abc import Sequence

import aiosmtplib
import uvloop

from benchmarks.letter import ENVELOPE_SENDER, RECIPIENT
from benchmarks.messages import content


async def _connected(port: int, connections: int) -> list[aiosmtplib.SMTP]:
    clients = [
        aiosmtplib.SMTP(hostname="127.0.0.1", port=port, start_tls=False, use_tls=False)
        for _ in range(connections)
    ]
    await asyncio.gather(*(each.connect() for each in clients))
    return clients


async def _send(clients: Sequence[aiosmtplib.SMTP], messages: int) -> None:
    ready = content(1)
    left = iter(range(messages))

    async def work(client: aiosmtplib.SMTP) -> None:
        for _ in left:
            await client.sendmail(ENVELOPE_SENDER, [RECIPIENT], ready)

    await asyncio.gather(*(work(each) for each in clients))


def main() -> None:
    """Connect, wait, send, and stay to be weighed."""
    port, messages, connections = (int(each) for each in sys.argv[1:4])
    # Blocked, the signal stays pending until it is asked for, and none is missed.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        clients = runner.run(_connected(port, connections))
        print("ready", flush=True)
        signal.sigwait({signal.SIGCONT})
        runner.run(_send(clients, messages))
        signal.pause()


if __name__ == "__main__":
    main()
