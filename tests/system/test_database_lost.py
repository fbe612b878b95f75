"""PostgreSQL is lost after the provider has answered: the answers outlive it."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mailer.prove.kit.fleet import Worker
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.servers import PostgresServer, RedisServer
from mailer.prove.kit.waiting import eventually
from tests.system.application import commit, welcome
from tests.system.conftest import power_cut, settings
from tests.system.sink import SinkLog, dawdling_sink, gated_sink

IN_FLIGHT = 1
HANDED = "results handed to the broker"


class Outage:
    """A worker whose calls are all answered while PostgreSQL is down."""

    def __init__(self, ledger: Ledger, server: PostgresServer, log: SinkLog, folder: Path) -> None:
        self._ledger, self._server, self._log, self._folder = ledger, server, log, folder

    @contextmanager
    def during(
        self, *, meanwhile: Callable[[], None] = lambda: None, **more: str
    ) -> Iterator[Worker]:
        """Give the worker once it has the answers; PostgreSQL is back after the block.

        Leases hold longer than that, and nothing waits for the end of one. The answers come when
        the worker has already missed its database, and its next poll is overdue.
        """
        with gated_sink(self._log, closed=["dot"]) as sink:
            variables = settings(
                self._ledger,
                sink.port,
                MAILER_LEASE_SECONDS="60",
                MAILER_POLL_SECONDS="0.001",
                MAILER_BATCH="4",
                **more,
            )
            keys = [f"key-{number}" for number in range(IN_FLIGHT)]
            commit(_without_hints(variables), self._folder, [welcome(key) for key in keys])
            with Worker(variables, self._folder) as worker:
                sink.gates["dot"].wait_for(IN_FLIGHT)
                with power_cut(self._server):
                    _misses_its_database(worker)
                    meanwhile()
                    sink.gates["dot"].open()
                    _misses_its_database(worker)
                    yield worker
                self._check(variables, worker)

    def _check(self, variables: dict[str, str], worker: Worker) -> None:
        """The answers are written down, and new mail flows."""
        if worker.has_ended():
            with Worker(variables, self._folder) as successor:
                self._check(variables, successor)
            return
        commit(variables, self._folder, [welcome("afterwards")])
        self._ledger.wait_states(submitted=IN_FLIGHT + 1)
        assert sorted(self._log.times().values()) == [1] * (IN_FLIGHT + 1)
        assert {(each.number, each.outcome) for each in self._ledger.tries()} == {(1, "accepted")}
        assert {each.attempts for each in self._ledger.rows()} == {0}


def _without_hints(variables: dict[str, str]) -> dict[str, str]:
    """The poll alone finds the work then, and nothing but the provider wakes it from its waits."""
    return {name: variables[name] for name in variables if name != "REDIS_URL"}


def _misses_its_database(worker: Worker) -> None:
    """Return once the worker has found its database away, or found so again."""
    before = len(worker.events("database away"))
    eventually(
        lambda: len(worker.events("database away")) > before, "the worker misses its database"
    )


@pytest.fixture
def outage(
    ledger: Ledger, durable_postgres: PostgresServer, sink_log: SinkLog, tmp_path: Path
) -> Outage:
    return Outage(ledger, durable_postgres, sink_log, tmp_path)


def test_answers_are_written_when_the_database_is_back(outage: Outage, redis: RedisServer) -> None:
    with outage.during(REDIS_URL=redis.url):
        pass


def test_answers_are_written_later_where_no_redis_is_configured(outage: Outage) -> None:
    with outage.during():
        pass


def test_answers_are_written_later_when_redis_is_lost_as_well(
    outage: Outage, redis: RedisServer
) -> None:
    with outage.during(meanwhile=redis.kill, REDIS_URL=redis.url):
        pass


def test_a_worker_killed_while_the_database_is_away_has_handed_its_answers_to_redis(
    outage: Outage, redis: RedisServer
) -> None:
    with outage.during(REDIS_URL=redis.url) as worker:
        eventually(
            lambda: sum(each["results"] for each in worker.events(HANDED)) == IN_FLIGHT,
            "the answers are handed to the broker",
            patience_seconds=5,
        )
        worker.kill()


def test_a_worker_told_to_stop_while_the_database_is_away_hands_its_answers_to_redis(
    outage: Outage, redis: RedisServer
) -> None:
    with outage.during(REDIS_URL=redis.url, MAILER_SHUTDOWN_SECONDS="4") as worker:
        assert worker.stop() == 0


@pytest.mark.parametrize("seed", [5])
def test_all_connections_are_cut_again_and_again(
    seed: int, ledger: Ledger, redis: RedisServer, sink_log: SinkLog, tmp_path: Path
) -> None:
    dice = random.Random(seed)
    with dawdling_sink(sink_log, seed) as port:
        variables = settings(ledger, port, REDIS_URL=redis.url, MAILER_PROCESSES="2")
        commit(variables, tmp_path, [welcome(f"key-{number}") for number in range(80)])
        with Worker(variables, tmp_path):
            cut = 0
            for _ in range(5):
                sink_log.wait_for(len(sink_log) + dice.randint(1, 12))
                cut += ledger.disconnect_others()
            ledger.wait_states(submitted=80)
    assert cut, "no connection was there to be cut"
    assert sorted(sink_log.times().values()) == [1] * 80
    assert {each.attempts for each in ledger.rows()} == {0}
