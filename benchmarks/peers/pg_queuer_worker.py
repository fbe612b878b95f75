"""pgqueuer's side: `python -m benchmarks.peers.pg_queuer_worker prepare|fill|work`."""

import asyncio
import json
import os
import sys
from email import policy
from typing import Any

import aiosmtplib
import asyncpg  # type: ignore[import-not-found]
import uvloop
from pgqueuer import PgQueuer, Queries  # type: ignore[import-not-found]

from benchmarks.letter import ENVELOPE_SENDER, HTML, RECIPIENT, SUBJECT, TEXT, built

_ENTRYPOINT = "mail"
_CHUNK = 1_000
_READY = os.environ["BENCHMARK_READY"]


async def _connect() -> Any:
    return await asyncpg.connect(os.environ["BENCHMARK_DATABASE"])


async def _prepare() -> None:
    connection = await _connect()
    await Queries.from_asyncpg_connection(connection).install()
    await connection.close()


async def _fill() -> None:
    connection = await _connect()
    queries = Queries.from_asyncpg_connection(connection)
    payload = _payload()
    left = int(os.environ["BENCHMARK_ROWS"])
    while left > 0:
        some = min(left, _CHUNK)
        await queries.enqueue([_ENTRYPOINT] * some, [payload] * some, [0] * some)
        left -= some
    await connection.close()


def _payload() -> bytes:
    if _READY:
        return _READY.encode()
    return json.dumps([RECIPIENT, SUBJECT, TEXT, HTML]).encode()


async def _work() -> None:
    pool = await _pool()

    async def send(job: Any) -> None:
        client = await pool.get()
        try:
            if _READY:
                await client.sendmail(ENVELOPE_SENDER, [RECIPIENT], job.payload)
            else:
                content = built(*json.loads(job.payload)).as_bytes(policy=policy.SMTP)
                await client.sendmail(ENVELOPE_SENDER, [RECIPIENT], content)
        finally:
            pool.put_nowait(client)

    queuer = PgQueuer.from_asyncpg_connection(await _connect())
    queuer.qm.entrypoint(_ENTRYPOINT, accepts_context=False)(send)
    print("ready", flush=True)
    await queuer.qm.run(batch_size=int(os.environ["BENCHMARK_BATCH"]))


async def _pool() -> asyncio.Queue[aiosmtplib.SMTP]:
    pool: asyncio.Queue[aiosmtplib.SMTP] = asyncio.Queue()
    for _ in range(int(os.environ["BENCHMARK_CONNECTIONS"])):
        client = aiosmtplib.SMTP(
            hostname="127.0.0.1",
            port=int(os.environ["BENCHMARK_SINK"]),
            start_tls=False,
            use_tls=False,
        )
        await client.connect()
        pool.put_nowait(client)
    return pool


def main() -> None:
    """Do one of the three."""
    asked = {"prepare": _prepare, "fill": _fill, "work": _work}[sys.argv[1]]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asked())


if __name__ == "__main__":
    main()
