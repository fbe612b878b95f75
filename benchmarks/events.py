"""Signed events per second through `mailer web`: one process, PostgreSQL with durable commits.

`python -m benchmarks.events --events 20000`: once undisturbed, and once while PostgreSQL is killed
and started again in the middle. What is not answered with 200 is posted again, as SNS does it. At
the end every event is on record exactly once, or the run fails.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg2
import uvloop

from benchmarks.crew import cpu_seconds
from benchmarks.report import Mark, close, parser
from mailer.prove.kit.servers import PostgresServer
from tests import sns_kit
from tests.builders import prepare
from tests.ses_payloads import payload
from tests.sns_kit import TOPIC, CertificateHost

MARK = 500
"""Events a second that one process has to reach."""

_REPEAT_SECONDS = 1.0
"""SNS's first repetitions can be set to follow this closely."""

_PATIENCE_SECONDS = 15.0
"""SNS takes no answer within this time for a failure."""


@dataclass(frozen=True)
class Load:
    """What the load process saw: `repeated` are posts that had to be made again."""

    seconds: float
    repeated: int
    refused: int


@dataclass(frozen=True)
class Round:
    """One measured run; CPU time is microseconds an event, `away_seconds` PostgreSQL's absence."""

    events_per_second: float
    web_us: float
    repeated: int
    away_seconds: float = 0.0


def main() -> None:
    """Measure both and report; or be the load."""
    options = _options()
    if options.load:
        posting = _post_all(options.load, options.port, options.connections)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print(json.dumps(asdict(runner.run(posting))))
        return
    with tempfile.TemporaryDirectory() as name, PostgresServer(durable=True) as server:
        folder = Path(name)
        CertificateHost().write(folder)
        ids = _write_events(folder / "events.jsonl", options.events)
        rounds = {
            title: _measure(server, folder, ids, options, cut=cut)
            for title, cut in (("undisturbed", False), ("PostgreSQL killed once", True))
        }
    _report(rounds, options)


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--events", type=int, default=20_000)
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--port", type=int, help=argparse.SUPPRESS)
    return options.parse_args()


def _measure(
    server: PostgresServer,
    folder: Path,
    ids: set[str],
    options: argparse.Namespace,
    *,
    cut: bool,
) -> Round:
    url = server.create_database()
    prepare(url)
    with _web(url, folder) as (pid, port):
        cpu = cpu_seconds(pid)
        loading = threading.Thread(target=lambda: loads.append(_load(folder, port, options)))
        loads: list[Load] = []
        loading.start()
        away = _power_cut(server, url, options.events // 2) if cut else 0.0
        loading.join()
        used = cpu_seconds(pid) - cpu
    (load,) = loads
    _check(url, ids, load)
    server.drop_database(url)
    return Round(options.events / load.seconds, used / options.events * 1e6, load.repeated, away)


def _write_events(file: Path, number: int) -> set[str]:
    """Sign events of SES, one a line, and return their ids."""
    ids = set()
    with file.open("wb") as lines:
        for each in range(number):
            text = json.dumps(payload("Delivery", [f"u{each}@example.com"], tag=f"tag-{each}"))
            envelope = sns_kit.signed(text)
            ids.add(envelope["MessageId"])
            lines.write(sns_kit.body(envelope) + b"\n")
    return ids


@contextmanager
def _web(url: str, folder: Path) -> Iterator[tuple[int, int]]:
    """Run `mailer web`; yields its process id and its port."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MAILER_", "REDIS_"))}
    environ = {
        **kept,
        "DATABASE_URL": url,
        "PORT": "0",
        "MAILER_SNS_TOPIC_ARNS": TOPIC,
        "MAILER_SNS_CERTIFICATES": str(folder),
        "MAILER_LOG": "json",
    }
    command = [sys.executable, "-c", "from mailer.cli import main; main()", "web"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        port = int(json.loads(process.stderr.readline())["port"])
        silence = threading.Thread(target=process.stderr.read)
        silence.start()
        try:
            yield process.pid, port
        finally:
            process.terminate()
            process.wait()
            silence.join()


def _load(folder: Path, port: int, options: argparse.Namespace) -> Load:
    given = ("--load", folder / "events.jsonl", "--port", port)
    command = [sys.executable, "-m", "benchmarks.events", *map(str, given)]
    command += ["--connections", str(options.connections)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Load(**json.loads(done.stdout))


def _power_cut(server: PostgresServer, url: str, events: int) -> float:
    """Kill the server once it has so many events; return how long it was away."""
    while _ask(url, "SELECT count(*) FROM email_event") < events:
        time.sleep(0.02)
    began = time.perf_counter()
    server.kill()
    server.restart()
    return time.perf_counter() - began


def _check(url: str, ids: set[str], load: Load) -> None:
    """Every event is there once; the database's own constraint sees to it that none is twice."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT sns_message_id FROM email_event")
        found = [row[0] for row in cursor.fetchall()]
    if load.refused or len(found) != len(ids) or set(found) != ids:
        raise SystemExit(f"of {len(ids)} events {len(found)} are stored; {load.refused} refused")


def _ask(url: str, question: str) -> int:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(question)
        return int((cursor.fetchone() or (0,))[0])


async def _post_all(file: Path, port: int, connections: int) -> Load:
    bodies = iter(await asyncio.to_thread(lambda: file.read_bytes().splitlines()))
    posters = [_Poster(port, bodies) for _ in range(connections)]
    began = time.perf_counter()
    await asyncio.gather(*(each.run() for each in posters))
    took = time.perf_counter() - began
    return Load(took, sum(e.repeated for e in posters), sum(e.refused for e in posters))


class _Poster:
    """One of SNS's connections: posts, and posts again after a while."""

    def __init__(self, port: int, bodies: Iterator[bytes]) -> None:
        self._port = port
        self._bodies = bodies
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.repeated = self.refused = 0

    async def run(self) -> None:
        for body in self._bodies:
            while (status := await self._post(body)) >= 500:
                self.repeated += 1
                await asyncio.sleep(_REPEAT_SECONDS)
            self.refused += status != 200
        self._hang_up()

    async def _post(self, body: bytes) -> int:
        """Return the status; 599 for no answer."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await self._exchange(body)
        except (OSError, EOFError, TimeoutError):
            self._hang_up()
            return 599

    async def _exchange(self, body: bytes) -> int:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(
            b"POST /events/sns HTTP/1.1\r\nHost: door\r\n"
            b"Content-Type: text/plain; charset=UTF-8\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        size = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(size)
        if b"connection: close" in head:
            self._hang_up()
        return int(head.split()[1])

    def _hang_up(self) -> None:
        if self._streams is not None:
            with suppress(OSError):
                self._streams[1].close()
        self._streams = None


def _report(rounds: Mapping[str, Round], options: argparse.Namespace) -> None:
    lines = [
        f"{options.events} signed events, {options.connections} connections, one web process: "
        "all on record exactly once",
        *(_line(name, each) for name, each in rounds.items()),
    ]
    marks = [
        Mark(f"signed events, {name}", each.events_per_second, MARK, "events/s", at_least=True)
        for name, each in rounds.items()
    ]
    close(options, {"rounds": {name: asdict(each) for name, each in rounds.items()}}, lines, marks)


def _line(name: str, each: Round) -> str:
    away = f", PostgreSQL away for {each.away_seconds:.1f} s" if each.away_seconds else ""
    return (
        f"{name:22} {each.events_per_second:6.0f} events/s   CPU an event: {each.web_us:4.0f} µs"
        f"   {each.repeated} posts repeated{away}"
    )


if __name__ == "__main__":
    main()
