"""Very many messages through two workers: memory stays flat, and nothing is left open."""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from mailer.prove.kit.fleet import Worker, process_environment
from mailer.prove.kit.intents import MARK
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.providers import read_log
from mailer.prove.kit.stage import Stage
from mailer.prove.kit.waiting import InVain

MESSAGES = 200_000
WORKERS = 2
_SAMPLE_SECONDS = 1.0
_STALL_SECONDS = 60.0
_MEGABYTE = 1024 * 1024
_GROWTH_SHARE, _GROWTH_MEGABYTES = 0.1, 10.0
"""How far the last quarter may lie above the second: caches fill, allocators round up."""

_MORE_DESCRIPTORS = 8

_QUEUE = """
INSERT INTO email_outbox (dedup_key, "to", subject, text, html)
SELECT 'soak-' || n, json_build_array('to-' || n || '@example.com'), 'News',
    repeat('A line of text.' || chr(10), 40), repeat('<p>A paragraph.</p>' || chr(10), 40)
FROM generate_series(1, %s) n
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the workers hold at one moment, added up over their processes."""

    taken: int
    megabytes: float
    descriptors: int
    connections: int


@dataclass(frozen=True, slots=True)
class Soak:
    """What a soak came to. `breaks` is empty where memory stayed flat and nothing leaked."""

    messages: int
    submitted: int
    accepted: int
    duplicates: int
    seconds: float
    samples: tuple[Sample, ...]
    breaks: tuple[str, ...]


def soak(
    stage: Stage, messages: int = MESSAGES, *, tell: Callable[[int], None] = lambda _: None
) -> Soak:
    """Queue so many messages, send all, and watch the workers meanwhile; `tell` hears how many."""
    ledger = Ledger(stage.postgres.create_database(stage.template))
    log = stage.folder / "soak.jsonl"
    try:
        ledger.ask("DROP TRIGGER kit_note_update ON email_outbox")
        ledger.ask(_QUEUE, messages)
        ledger.ask("ANALYZE")
        with _sink(log) as port, _working(_variables(stage, ledger, port), stage.folder) as workers:
            samples = _watch(workers, log, messages, tell)
            ledger.wait_settled(messages)
        return _verdict(ledger, log, messages, samples)
    finally:
        stage.postgres.drop_database(ledger.url)


@contextmanager
def _sink(log: Path) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-m", "mailer.prove.kit.smtp_sink", "--log", str(log)],
        env=process_environment({}),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield int(process.stdout.readline() if process.stdout else 0)
        finally:
            process.terminate()


def _variables(stage: Stage, ledger: Ledger, port: int) -> dict[str, str]:
    return {
        "DATABASE_URL": ledger.url,
        "REDIS_URL": stage.redis.url,
        "MAILER_PROVIDERS": f"smtp://127.0.0.1:{port}",
        "MAILER_FROM": f"{MARK}@example.com",
        "MAILER_SECRET": f"{MARK}-secret-of-the-soak",
    }


@contextmanager
def _working(variables: Mapping[str, str], folder: Path) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(variables, folder)) for _ in range(WORKERS)]
        for each in workers:
            each.wait_started()
        yield workers
        for each in workers:
            each.stop()


def _watch(
    workers: Sequence[Worker], log: Path, messages: int, tell: Callable[[int], None]
) -> list[Sample]:
    samples: list[Sample] = []
    pause, moved_at = threading.Event(), time.monotonic()
    while not samples or samples[-1].taken < messages:
        pause.wait(_SAMPLE_SECONDS)
        before = samples[-1].taken if samples else 0
        samples.append(_sample(log, workers))
        tell(samples[-1].taken)
        if samples[-1].taken > before:
            moved_at = time.monotonic()
        elif time.monotonic() - moved_at > _STALL_SECONDS:
            raise InVain(f"the workers go on; {samples[-1].taken} were taken")
    return samples


def _sample(log: Path, workers: Sequence[Worker]) -> Sample:
    held: Counter[str] = Counter()
    for pid in [pid for each in workers for pid in each.pids()]:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            held["octets"] += process.memory_info().rss
            held["descriptors"] += process.num_fds()
            held["connections"] += len(process.net_connections(kind="tcp"))
    taken = log.read_bytes().count(b"\n")
    return Sample(taken, held["octets"] / _MEGABYTE, held["descriptors"], held["connections"])


def _verdict(ledger: Ledger, log: Path, messages: int, samples: list[Sample]) -> Soak:
    times = Counter(each.outbox_id for each in read_log(log))
    submitted = ledger.states()["submitted"]
    twice = sum(1 for count in times.values() if count > 1)
    breaks = list(leaks(samples))
    if submitted != messages or len(times) != messages or twice:
        breaks.append(
            f"{messages} queued, {submitted} submitted, {len(times)} taken, {twice} twice"
        )
    seconds = len(samples) * _SAMPLE_SECONDS
    return Soak(messages, submitted, len(times), twice, seconds, tuple(samples), tuple(breaks))


def leaks(samples: Sequence[Sample]) -> Iterator[str]:
    """Hold the last quarter of the samples against the second; say what has grown."""
    quarter = len(samples) // 4
    if quarter == 0:
        return
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    before = max(each.megabytes for each in early)
    after = max(each.megabytes for each in late)
    if after > before * (1 + _GROWTH_SHARE) + _GROWTH_MEGABYTES:
        yield f"memory grew from {before:.0f} to {after:.0f} MB"
    for name in ("descriptors", "connections"):
        most = max(getattr(each, name) for each in early)
        least_late = min(getattr(each, name) for each in late)
        if least_late > most + _MORE_DESCRIPTORS:
            yield f"{name} grew from {most} to {least_late}"
