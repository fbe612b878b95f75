"""A deploy in mid-send: what ends in time is written as it ended, what does not as in doubt."""

from pathlib import Path

from mailer.prove.kit.fleet import Worker
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.servers import RedisServer
from mailer.prove.kit.waiting import eventually
from tests.system.application import commit, welcome
from tests.system.conftest import settings
from tests.system.sink import SinkLog, gated_sink

STALLED = ["stall-a", "stall-b"]
ANSWERED = ["answered-a", "answered-b"]
WAITING = [f"waiting-{number}" for number in range(20)]


def test_a_worker_told_to_stop_writes_down_what_it_knows(
    ledger: Ledger, redis: RedisServer, sink_log: SinkLog, tmp_path: Path
) -> None:
    with gated_sink(sink_log, closed=["dot"]) as sink:
        variables = settings(ledger, sink.port, REDIS_URL=redis.url, MAILER_SHUTDOWN_SECONDS="7")
        commit(
            variables,
            tmp_path,
            [welcome(key, priority=0) for key in STALLED + ANSWERED]
            + [welcome(key) for key in WAITING],
        )
        with Worker(variables, tmp_path) as worker:
            sink.gates["dot"].wait_for(len(ANSWERED))
            sink_log.wait_for(len(STALLED + ANSWERED))
            eventually(lambda: ledger.held("claimed"), "more is claimed than has begun")
            worker.terminate()
            eventually(lambda: not ledger.held("claimed"), "what has not begun is given back")
            sink.gates["dot"].open()
            assert worker.wait_exit() == 0
        rows = {each.dedup_key: each for each in ledger.rows()}
        tries = {each.outbox_id: each for each in ledger.tries()}

    assert not any(each.is_leased for each in rows.values())
    assert all(each.attempts == 0 for each in rows.values())
    for key in STALLED:
        attempt = tries[rows[key].outbox_id]
        assert (rows[key].state, attempt.outcome, attempt.stage) == (
            "ambiguous",
            "ambiguous",
            "after_dot",
        )
    for key in ANSWERED:
        assert (rows[key].state, tries[rows[key].outbox_id].outcome) == ("submitted", "accepted")
    assert {rows[key].state for key in WAITING} == {"pending"}
    given_back = [tries[rows[key].outbox_id] for key in WAITING if rows[key].outbox_id in tries]
    assert {each.state for each in given_back} == {"released"}

    with gated_sink(sink_log) as sink, Worker(settings(ledger, sink.port), tmp_path):
        ledger.wait_states(submitted=len(ANSWERED + WAITING), ambiguous=len(STALLED))
    assert sorted(sink_log.times().values()) == [1] * len(rows)


def test_an_idle_worker_stops_and_leaves_no_connection(
    ledger: Ledger, redis: RedisServer, sink_log: SinkLog, tmp_path: Path
) -> None:
    with gated_sink(sink_log) as sink:
        variables = settings(ledger, sink.port, REDIS_URL=redis.url, MAILER_PROCESSES="2")
        with Worker(variables, tmp_path) as worker:
            worker.wait_started(2)
            assert worker.stop() == 0
            assert len(worker.events("worker stopped")) == 2
    ledger.wait_alone()


def test_a_worker_told_to_stop_while_it_starts_ends(
    ledger: Ledger, sink_log: SinkLog, tmp_path: Path
) -> None:
    with gated_sink(sink_log) as sink, Worker(settings(ledger, sink.port), tmp_path) as worker:
        eventually(worker.processes, "the first process has begun to start the others")
        assert worker.stop() == 0
