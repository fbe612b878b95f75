"""A worker that stood still past its lease: it hands nothing over, and what it learns is evidence.

Two workers are started one after the other, so that it is known who holds the call.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mailer.prove.kit.fleet import Worker
from mailer.prove.kit.ledger import Ledger, Try
from mailer.prove.kit.waiting import eventually
from tests.system.application import commit, welcome
from tests.system.conftest import settings
from tests.system.sink import GatedSink, SinkLog, gated_sink

IN_FLIGHT, NOT_BEGUN = 4, 8


@contextmanager
def overtaken(
    ledger: Ledger, sink: GatedSink, folder: Path, *, at: str, messages: int
) -> Iterator[Worker]:
    """Stop a worker whose calls wait `at` a gate; another one starts and finds its leases run out.

    Gives the one that sleeps.
    """
    variables = settings(ledger, sink.port)
    commit(variables, folder, [welcome(f"key-{number}") for number in range(messages)])
    in_flight = min(messages, IN_FLIGHT)
    with Worker(variables, folder) as sleeper:
        sink.gates[at].wait_for(in_flight)
        eventually(
            lambda: len(ledger.held("claimed")) == messages - in_flight, "the others are claimed"
        )
        sleeper.pause()
        if at == "data":
            sink.gates[at].open()
        with Worker(variables, folder):
            ledger.wait_states(
                **{"submitted": messages - in_flight} if messages > in_flight else {},
                ambiguous=in_flight,
            )
            yield sleeper


def first_tries(ledger: Ledger, state: str) -> list[Try]:
    """Return the first attempts that are in this state."""
    return [each for each in ledger.tries() if (each.number, each.state) == (1, state)]


def test_stopped_before_the_dot_it_hands_nothing_over(
    ledger: Ledger, sink_log: SinkLog, tmp_path: Path
) -> None:
    messages = IN_FLIGHT + NOT_BEGUN
    with (
        gated_sink(sink_log, closed=["data"]) as sink,
        overtaken(ledger, sink, tmp_path, at="data", messages=messages) as sleeper,
    ):
        expired = first_tries(ledger, "finished")
        assert {(each.outcome, each.rule, each.resolution) for each in expired} == {
            ("ambiguous", "lease-expired-started", None)
        }
        assert not {each.outbox_id for each in expired} & set(sink_log.times())
        sleeper.resume()
        ledger.wait_states(submitted=messages)

    settled = first_tries(ledger, "finished")
    assert [each.outbox_id for each in settled] == [each.outbox_id for each in expired]
    assert {(each.resolution, each.resolved_by) for each in settled} == {
        ("not_accepted", "late reply")
    }
    assert len(first_tries(ledger, "released")) == NOT_BEGUN
    assert {each.attempts for each in ledger.rows()} == {0}
    assert sorted(sink_log.times().values()) == [1] * messages
    assert {each.attempt for each in sink_log.accepted()} == {2}


def test_stopped_after_the_dot_its_late_reply_settles_the_doubt(
    ledger: Ledger, sink_log: SinkLog, tmp_path: Path
) -> None:
    with (
        gated_sink(sink_log, closed=["dot"]) as sink,
        overtaken(ledger, sink, tmp_path, at="dot", messages=IN_FLIGHT) as sleeper,
    ):
        assert {each.resolution for each in first_tries(ledger, "finished")} == {None}
        sink.gates["dot"].open()
        sleeper.resume()
        ledger.wait_states(submitted=IN_FLIGHT)
        assert sleeper.stop() == 0

    tries = ledger.tries()
    assert {(each.number, each.resolution, each.resolved_by) for each in tries} == {
        (1, "accepted", "late reply")
    }
    assert sorted(sink_log.times().values()) == [1] * IN_FLIGHT
