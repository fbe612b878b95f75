"""Redis only makes things faster: without it, or with its data gone, mail still flows."""

from pathlib import Path

from mailer.prove.kit.application import Message
from mailer.prove.kit.fleet import Worker
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.servers import RedisServer
from tests.system.application import commit, welcome
from tests.system.conftest import settings
from tests.system.sink import SinkLog, dawdling_sink, gated_sink


def welcomes(word: str, count: int) -> list[Message]:
    return [welcome(f"{word}-{number}") for number in range(count)]


def test_redis_is_killed_in_mid_run(
    ledger: Ledger, redis: RedisServer, sink_log: SinkLog, tmp_path: Path
) -> None:
    with dawdling_sink(sink_log, seed=3) as port:
        variables = settings(ledger, port, REDIS_URL=redis.url)
        with Worker(variables, tmp_path):
            commit(variables, tmp_path, welcomes("with", 30))
            sink_log.wait_for(5)
            redis.kill()
            commit(variables, tmp_path, welcomes("without", 30))
            ledger.wait_states(submitted=60)
            redis.restart()
            commit(variables, tmp_path, welcomes("again", 5))
            ledger.wait_states(submitted=65)
    assert sorted(sink_log.times().values()) == [1] * 65


def test_a_worker_starts_and_stops_while_redis_is_down(
    ledger: Ledger, redis: RedisServer, sink_log: SinkLog, tmp_path: Path
) -> None:
    redis.kill()
    with gated_sink(sink_log) as sink:
        variables = settings(ledger, sink.port, REDIS_URL=redis.url)
        commit(variables, tmp_path, welcomes("without", 5))
        with Worker(variables, tmp_path) as worker:
            ledger.wait_states(submitted=5)
            assert worker.stop() == 0
    assert sorted(sink_log.times().values()) == [1] * 5


def test_no_redis_is_configured(ledger: Ledger, sink_log: SinkLog, tmp_path: Path) -> None:
    with dawdling_sink(sink_log, seed=4) as port:
        variables = settings(ledger, port, MAILER_PROCESSES="2")
        with Worker(variables, tmp_path):
            commit(variables, tmp_path, welcomes("before", 20))
            sink_log.wait_for(1)
            commit(variables, tmp_path, welcomes("after", 20))
            ledger.wait_states(submitted=40)
    assert sorted(sink_log.times().values()) == [1] * 40


def test_redis_is_flushed_while_rows_are_due(
    ledger: Ledger, redis: RedisServer, sink_log: SinkLog, tmp_path: Path
) -> None:
    with gated_sink(sink_log, closed=["dot"]) as sink:
        variables = settings(ledger, sink.port, REDIS_URL=redis.url)
        commit(variables, tmp_path, welcomes("hinted", 20))
        redis.flush()
        with Worker(variables, tmp_path):
            sink.gates["dot"].wait_for(4)
            redis.flush()
            sink.gates["dot"].open()
            ledger.wait_states(submitted=20)
    assert sorted(sink_log.times().values()) == [1] * 20
