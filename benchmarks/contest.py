"""Rows per second from all queued to all done, beside peers, in turns on this machine.

Two classes: `composed`, where each contestant builds text and HTML of about 4 KB in the run as its
users do (bare aiosmtplib has them ready in both: it is the limit), and `raw`, where all hand over
the same ready octets. A run starts with idle workers held still (SIGSTOP), a queue filled, and the
clock started as they are let go; it ends when the sink has counted every message and the
contestant's own table says so. CPU time is that of all processes of a part, between the two.

`python -m benchmarks.contest --rows 20000 --rounds 3`
"""

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from benchmarks.contestant import Bout, Contestant, Ring, execute
from benchmarks.crew import Crew, Failed, cpu_seconds
from benchmarks.environments import python_for
from benchmarks.messages import ready
from benchmarks.peers.bare import Bare
from benchmarks.peers.ours import Ours
from benchmarks.peers.pg_queuer import PgQueuer
from benchmarks.peers.plain_dramatiq import PlainDramatiq
from benchmarks.peers.post_office import PostOffice
from benchmarks.report import Mark, close, parser, table
from benchmarks.sink import Sink, smtp_sink
from mailer.prove.kit.servers import PostgresServer, RedisServer

CONTESTANTS: tuple[Contestant, ...] = (Ours(), Bare(), PostOffice(), PgQueuer(), PlainDramatiq())
OURS, BARE = Ours.name, Bare.name
CLASSES = ("composed", "raw")
DURABLE_PEERS = frozenset(each.name for each in CONTESTANTS if each.is_durable) - {OURS}

OF_BEST_PEER = {"composed": 1.6, "raw": 0.8}
OF_BARE = {"composed": 0.42}
"""What the product's rate has to be, at least, of others' in the same run."""

_WORKERS_US, _POSTGRESQL_US = 350, 150

_LOOK_SECONDS = 0.01
_WEIGH_SECONDS = 0.25
_LIMIT_SECONDS = 600.0


@dataclass(frozen=True)
class Round:
    """One run of one contestant; CPU times are microseconds a row."""

    rows_per_second: float
    workers_us: float
    postgresql_us: float
    sink_us: float
    redis_us: float
    largest_megabytes: float


Rounds = dict[str, list[Round]]


@dataclass
class Arena:
    """The servers that all share, and who cannot take part, with the reason."""

    postgres: PostgresServer
    redis: RedisServer
    sink: Sink
    missing: dict[str, str]

    def run(self, contestant: Contestant, bout: Bout) -> Round | None:
        """Run one bout; None, and a reason among the missing, when it does not get through."""
        url = self.postgres.create_database()
        self.redis.flush()
        try:
            python = python_for(contestant.requirements)
            ring = Ring(url, self.redis.url, self.sink.port, python)
            contestant.prepare(ring, bout)
            with Crew() as crew:
                contestant.start(ring, bout, crew)
                crew.hold()
                contestant.fill(ring, bout)
                execute(url, "ANALYZE")
                return self._measured(contestant, ring, bout, crew)
        except Failed as failure:
            self.missing[contestant.name] = str(failure)
            print(f"{contestant.name}: {failure}", file=sys.stderr, flush=True)
            return None
        finally:
            self.postgres.drop_database(url)

    def _measured(self, contestant: Contestant, ring: Ring, bout: Bout, crew: Crew) -> Round:
        arrived, before = self.sink.count(), self._used(crew)
        began = time.perf_counter()
        crew.release()
        largest = self._wait(crew, until=arrived + bout.rows)
        while not contestant.is_done(ring):
            _still_in_time(began, crew)
            time.sleep(_LOOK_SECONDS)
        took, after = time.perf_counter() - began, self._used(crew)
        spent = {part: (after[part] - before[part]) / bout.rows * 1e6 for part in after}
        return Round(bout.rows / took, **spent, largest_megabytes=largest)

    def _wait(self, crew: Crew, *, until: int) -> float:
        """Wait for the sink; return the memory of the largest process seen meanwhile."""
        began = time.perf_counter()
        largest, weigh_at = 0.0, began
        while self.sink.count() < until:
            if time.perf_counter() >= weigh_at:
                largest = max(largest, crew.largest_megabytes())
                weigh_at = time.perf_counter() + _WEIGH_SECONDS
            _still_in_time(began, crew)
            time.sleep(_LOOK_SECONDS)
        return max(largest, crew.largest_megabytes())

    def _used(self, crew: Crew) -> dict[str, float]:
        return {
            "workers_us": crew.cpu_seconds(),
            "postgresql_us": cpu_seconds(self.postgres.pid),
            "sink_us": cpu_seconds(self.sink.pid),
            "redis_us": cpu_seconds(self.redis.pid),
        }


def _still_in_time(began: float, crew: Crew) -> None:
    crew.check()
    if time.perf_counter() - began > _LIMIT_SECONDS:
        raise Failed(f"not done after {_LIMIT_SECONDS:.0f} s")


def main() -> None:
    """Measure in turns and report."""
    options = _options()
    chosen = [each for each in CONTESTANTS if each.name in options.only]
    with PostgresServer(durable=True) as postgres, RedisServer() as redis, smtp_sink() as sink:
        arena = Arena(postgres, redis, sink, {})
        classes = {name: _rounds(arena, chosen, name, options) for name in options.classes}
    medians = {name: median_rounds(rounds) for name, rounds in classes.items()}
    figures = {
        "octets": len(ready()),
        "missing": arena.missing,
        "classes": {
            name: {
                each: {"median": medians[name][each], "rounds": [asdict(one) for one in rounds]}
                for each, rounds in by_name.items()
            }
            for name, by_name in classes.items()
        },
    }
    close(options, figures, _lines(medians, arena.missing, options), marks(medians))


def _options() -> argparse.Namespace:
    names = [each.name for each in CONTESTANTS]
    made = parser(__doc__)
    made.add_argument("--rows", type=int, default=20_000)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--processes", type=int, default=2)
    made.add_argument("--connections", type=int, default=32, help="a process, where it can be set")
    made.add_argument("--batch", type=int, default=500, help="claimed at once, where it can be set")
    made.add_argument("--classes", nargs="+", choices=CLASSES, default=list(CLASSES))
    made.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME",
                      help=", ".join(names))  # fmt: skip
    return made.parse_args()


def _rounds(
    arena: Arena, chosen: Sequence[Contestant], name: str, options: argparse.Namespace
) -> Rounds:
    octets = ready() if name == "raw" else None
    bout = Bout(options.rows, options.processes, options.connections, options.batch, octets)
    found: Rounds = {}
    for number in range(options.rounds):
        # Whoever goes first in one round goes last in the next.
        turn = number % len(chosen)
        for each in [*chosen[turn:], *chosen[:turn]]:
            if each.name in arena.missing:
                continue
            measured = arena.run(each, bout)
            if measured is not None:
                found.setdefault(each.name, []).append(measured)
                print(f"{name} {number + 1}: {each.name} {measured.rows_per_second:,.0f} rows/s",
                      file=sys.stderr, flush=True)  # fmt: skip
    return found


def median_rounds(rounds: Mapping[str, Sequence[Round]]) -> dict[str, dict[str, float]]:
    """Each contestant's figures, the median of each over its rounds."""
    return {
        name: {
            each.name: statistics.median(getattr(one, each.name) for one in of)
            for each in fields(Round)
        }
        for name, of in rounds.items()
    }


_HEAD = ("", "rows/s", "/ mailer", "/ bare", "CPU µs a row: workers", "PostgreSQL", "sink", "Redis",
         "largest MB")  # fmt: skip


def class_table(medians: Mapping[str, Mapping[str, float]]) -> list[str]:
    """One class as a table, the fastest first."""
    rates = {name: each["rows_per_second"] for name, each in medians.items()}

    def ratio(name: str, to: str) -> str:
        return f"{rates[name] / rates[to]:.2f}" if to in rates else "-"

    rows = [
        (
            name,
            f"{rates[name]:,.0f}",
            ratio(name, OURS),
            ratio(name, BARE),
            *(f"{value:,.0f}" for key, value in medians[name].items() if key.endswith("_us")),
            f"{medians[name]['largest_megabytes']:.0f}",
        )
        for name in sorted(rates, key=lambda name: -rates[name])
    ]
    return table(_HEAD, rows)


def _lines(
    medians: Mapping[str, Mapping[str, Mapping[str, float]]],
    missing: Mapping[str, str],
    options: argparse.Namespace,
) -> list[str]:
    lines = [
        f"{options.rows:,} rows of {len(ready()):,} octets, {options.processes} processes, "
        f"{options.connections} connections each, medians of {options.rounds}"
    ]
    for name, of in medians.items():
        lines += ["", name, *class_table(of)]
    lines += [f"not measured: {name}: {why}" for name, why in missing.items()]
    return [*lines, ""]


def marks(medians: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[Mark]:
    """What this product has to reach beside the others."""
    found = []
    for name, of in medians.items():
        if OURS not in of:
            continue
        rates = {each: values["rows_per_second"] for each, values in of.items()}
        best = max(DURABLE_PEERS & rates.keys(), key=lambda each: rates[each], default=None)
        if best is not None:
            ratio = rates[OURS] / rates[best]
            what = f"{name}: rows/s, of the best durable peer ({best})"
            found.append(Mark(what, ratio, OF_BEST_PEER[name], at_least=True))
        if BARE in rates and name in OF_BARE:
            ratio = rates[OURS] / rates[BARE]
            what = f"{name}: rows/s, of bare aiosmtplib"
            found.append(Mark(what, ratio, OF_BARE[name], at_least=True))
        if name == "composed":
            workers, postgresql = of[OURS]["workers_us"], of[OURS]["postgresql_us"]
            found.append(Mark("CPU a row, workers", workers, _WORKERS_US, "µs"))
            found.append(Mark("CPU a row, PostgreSQL", postgresql, _POSTGRESQL_US, "µs"))
    return found


if __name__ == "__main__":
    main()
