"""Workers are killed in mid-send; then the sink's own log is held against the rows.

The sink logs what it takes before it answers: every kill leaves calls whose answer is lost.
"""

import os
import random
import signal
from pathlib import Path

import pytest

from mailer.prove.kit.application import Message
from mailer.prove.kit.fleet import Worker
from mailer.prove.kit.ledger import Ledger, Row
from mailer.prove.kit.servers import RedisServer
from tests.system.application import carry_out, commit, welcome
from tests.system.conftest import settings
from tests.system.sink import SinkLog, dawdling_sink

PROCESSES, CONCURRENCY, BATCH = 2, 8, 24
KILLS = 6
GROUP = 10
GROUPS = 36
EVERY_SIXTH = 6
"""Every sixth transaction is rolled back, which leaves 300 messages."""

Transactions = list[tuple[bool, list[Message]]]


def transactions() -> Transactions:
    """Messages in groups: most are taken at once, some refused for good, some at the second try."""
    return [(group % EVERY_SIXTH != 0, _group(group)) for group in range(GROUPS)]


def _group(group: int) -> list[Message]:
    keys = [f"{group}-{number}" for number in range(GROUP)]
    tempers = {0: "refuse-", 1: "greylist-"} if group % 3 == 1 else {}
    return [
        welcome(key, to=f"{tempers.get(number, 'to-')}{key}@example.com")
        for number, key in enumerate(keys)
    ]


@pytest.mark.parametrize("seed", [1999])
def test_killed_workers_lose_nothing_and_double_nothing(
    seed: int, ledger: Ledger, redis: RedisServer, sink_log: SinkLog, tmp_path: Path
) -> None:
    dice = random.Random(seed)
    started: set[int] = set()
    claimed: set[int] = set()
    with dawdling_sink(sink_log, seed) as port:
        variables = settings(
            ledger,
            port,
            REDIS_URL=redis.url,
            MAILER_PROCESSES=str(PROCESSES),
            MAILER_CONCURRENCY=str(CONCURRENCY),
            MAILER_BATCH=str(BATCH),
        )
        planned = transactions()
        carry_out(variables, tmp_path, planned[: GROUPS // 2])
        for kill in range(KILLS):
            with Worker(variables, tmp_path) as worker:
                if kill == KILLS // 2:
                    carry_out(variables, tmp_path, planned[GROUPS // 2 :])
                sink_log.wait_for(len(sink_log) + dice.randint(1, 30))
                worker.kill()
            ledger.wait_alone()
            in_doubt = ledger.held("started") - started
            assert len(in_doubt) <= PROCESSES * CONCURRENCY
            started |= in_doubt
            claimed |= ledger.held("claimed")
        with Worker(variables, tmp_path):
            ledger.wait_settled(sum(len(each) for commits, each in planned if commits))

    assert started, "no kill met a call in flight"
    assert claimed, "no kill met a claim that had not begun"
    rows = ledger.rows()
    _compare(rows, planned, sink_log)
    # Nobody is left to bring late evidence: in doubt is what was in flight, and nothing else.
    assert {each.outbox_id for each in rows if each.state == "ambiguous"} == started
    assert all(each.attempts == 0 for each in rows if "greylist" not in _temper(each, planned))
    assert all(each.attempts <= 1 for each in rows)


def _compare(rows: list[Row], planned: Transactions, log: SinkLog) -> None:
    """Hold the rows against what was committed and against what the sink took."""
    committed = {m["dedup_key"] for commits, messages in planned if commits for m in messages}
    assert {each.dedup_key for each in rows} == committed
    assert len(rows) == len(committed) == GROUP * GROUPS * 5 // 6

    taken = log.times()
    by_state = {
        state: {each.outbox_id for each in rows if each.state == state}
        for state in ("submitted", "ambiguous", "failed")
    }
    assert [each for each, times in taken.items() if times != 1] == []
    assert sum(len(ids) for ids in by_state.values()) == len(rows)
    assert by_state["submitted"] <= set(taken)
    assert set(taken) <= by_state["submitted"] | by_state["ambiguous"]
    assert by_state["failed"] <= {
        each.outbox_id for each in rows if "refuse" in _temper(each, planned)
    }
    assert not any(each.is_leased for each in rows)
    assert all((each.state == "submitted") == (each.recipients == ["accepted"]) for each in rows)


def _temper(row: Row, planned: Transactions) -> str:
    group, number = (int(part) for part in row.dedup_key.split("-"))
    return str(planned[group][1][number]["to"]).partition("-")[0]


def test_a_worker_process_that_dies_alone_takes_the_others_down_in_good_order(
    ledger: Ledger, redis: RedisServer, sink_log: SinkLog, tmp_path: Path
) -> None:
    with dawdling_sink(sink_log, seed=1) as port:
        variables = settings(
            ledger, port, REDIS_URL=redis.url, MAILER_PROCESSES="2", MAILER_SHUTDOWN_SECONDS="4"
        )
        with Worker(variables, tmp_path) as worker:
            worker.wait_started(2)
            commit(variables, tmp_path, [welcome(f"key-{number}") for number in range(80)])
            sink_log.wait_for(10)
            os.kill(worker.processes()[0].pid, signal.SIGKILL)
            assert worker.wait_exit() != 0
            assert len(worker.events("worker stopped")) == 1
        with Worker(variables, tmp_path):
            states = ledger.wait_settled(80)

    assert states["submitted"] + states["ambiguous"] == 80
    assert states["ambiguous"] <= 4
    assert set(sink_log.times().values()) == {1}
    assert {each.outbox_id for each in ledger.rows() if each.state == "submitted"} <= set(
        sink_log.times()
    )
