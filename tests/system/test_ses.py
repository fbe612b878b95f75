"""Amazon SES on a bad day, by a fake: real workers, and its own log held against the rows."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mailer import operations
from mailer.circuit import CircuitState
from mailer.errors import Refused
from mailer.prove.kit.fleet import Worker
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.servers import RedisServer
from mailer.prove.kit.waiting import eventually
from mailer.states import Resolution
from tests.builders import bound_to
from tests.system.application import commit, welcome
from tests.system.ses import NO_LIMIT, SECRET, FakeSes, fake_ses, ses_settings
from tests.system.sink import SinkLog, dawdling_sink
from tests.system.test_canary import MARK, marked, traces

PROCESSES, CONCURRENCY, BATCH = 2, 16, 48
ROWS, GROUP = 1_000, 50
OPERATOR = "a test"
SETTLED = {"submitted", "ambiguous", "failed"}

TAGS = """
SELECT a.request_tag, a.outbox_id, o.state, a.outcome, a.resolution, a.started_at IS NOT NULL
FROM email_attempt a JOIN email_outbox o ON o.id = a.outbox_id ORDER BY a.id
"""

CIRCUIT = "SELECT name, state FROM email_provider WHERE sender IS NULL"

IDENTITIES = "SELECT id, dedup_key, message_id, fingerprint FROM email_outbox ORDER BY id"

PROVIDERS_USED = """
SELECT outbox_id, provider, outcome FROM email_attempt
WHERE state = 'finished' ORDER BY outbox_id, number
"""


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeSes]:
    """A fake whose account may send as fast as it is asked to."""
    with fake_ses(tmp_path) as running:
        running.set_state(**NO_LIMIT)
        yield running


def circuit(ledger: Ledger) -> str:
    """Return the state of the one provider's circuit."""
    ((_, state),) = ledger.ask(CIRCUIT)
    return str(state)


def close_circuit(ledger: Ledger) -> None:
    """Do as an operator does who has mended the account, if the circuit is not closed."""
    ((name, state),) = ledger.ask(CIRCUIT)
    if state != CircuitState.CLOSED:
        with bound_to(ledger.url), suppress(Refused):  # a probe may have closed it meanwhile
            operations.close_circuit(name, actor=OPERATOR, why="the account is mended")


def settle_as_mended(ledger: Ledger) -> Counter[str]:
    """Have an operator keep the circuit closed until nothing is due.

    A call that was under way when the account was mended may open it once more.
    """

    def settled() -> Counter[str]:
        close_circuit(ledger)
        states = ledger.states()
        return states if set(states) <= SETTLED else Counter()

    return eventually(settled, "all messages settle", patience_seconds=60)


def resolve_by_log(ledger: Ledger, fake: FakeSes) -> Counter[Resolution]:
    """Settle what is in doubt as an operator does who believes nothing but the fake's log."""
    logged = {each.tag for each in fake.taken()}
    told: Counter[Resolution] = Counter()
    with bound_to(ledger.url):
        for tag, outbox_id, state, outcome, *_ in ledger.ask(TAGS):
            if (state, outcome) == ("ambiguous", "ambiguous"):
                truth = Resolution.ACCEPTED if tag in logged else Resolution.NOT_ACCEPTED
                operations.resolve(outbox_id, truth, actor=OPERATOR, why=f"log: {tag}")
                told[truth] += 1
    return told


def compare(ledger: Ledger, fake: FakeSes) -> None:
    """Hold attempts against the fake's log and against its count of requests."""
    tries = ledger.ask(TAGS)
    proven = [tag for tag, _, _, *ends, _ in tries if "accepted" in ends]
    assert sorted(proven) == sorted(each.tag for each in fake.taken())
    assert set(fake.times().values()) == {1}
    assert set(fake.times()) == {each.outbox_id for each in ledger.rows()}
    assert fake.calls() == sum(started for *_, started in tries)


def test_a_thousand_rows_through_throttles_lost_answers_and_expired_credentials(
    ledger: Ledger, redis: RedisServer, fake: FakeSes, tmp_path: Path
) -> None:
    fake.set_state(throttle_share=0.3, close_share=0.01, seed=7)
    variables = ses_settings(
        ledger,
        fake,
        REDIS_URL=redis.url,
        MAILER_PROCESSES=str(PROCESSES),
        MAILER_CONCURRENCY=str(CONCURRENCY),
        MAILER_BATCH=str(BATCH),
    )
    keys = [f"key-{number}" for number in range(ROWS)]
    groups = [keys[begin : begin + GROUP] for begin in range(0, ROWS, GROUP)]
    commit(variables, tmp_path, *[[welcome(key) for key in group] for group in groups])
    with Worker(variables, tmp_path) as worker:
        fake.wait_for(ROWS // 3)
        fake.set_state(expired=True)
        eventually(lambda: circuit(ledger) == CircuitState.OPEN, "the circuit opens")
        eventually(lambda: not ledger.held("started"), "no call is under way")
        waiting = ledger.states()["pending"]
        fake.set_state(expired=False)
        states = settle_as_mended(ledger)
        told = resolve_by_log(ledger, fake)
        ledger.wait_states(submitted=ROWS)
        assert worker.stop() == 0

    assert waiting, "the credentials expired when all was done"
    assert states["failed"] == 0
    assert told == Counter({Resolution.ACCEPTED: states["ambiguous"]})
    assert states["ambiguous"], "no answer was lost"
    compare(ledger, fake)
    assert {each.attempts for each in ledger.rows()} == {0}
    rules = Counter(each.rule for each in ledger.tries() if each.outcome == "retryable")
    assert set(rules) == {"ses-throttled", "ses-denied"}
    assert rules["ses-throttled"] > ROWS // 5
    assert 0 < rules["ses-denied"] < 2 * PROCESSES * CONCURRENCY
    assert {each["reason"] for each in worker.events("circuit opened")} == {"account: ses-denied"}


def test_a_suspended_account_loses_nothing(
    ledger: Ledger, redis: RedisServer, fake: FakeSes, tmp_path: Path
) -> None:
    fake.set_state(suspended=True)
    variables = ses_settings(ledger, fake, REDIS_URL=redis.url)
    with Worker(variables, tmp_path) as worker:
        worker.wait_started()
        commit(variables, tmp_path, [welcome(f"key-{number}") for number in range(40)])
        eventually(lambda: circuit(ledger) == CircuitState.OPEN, "the circuit opens")
        ledger.wait_states(pending=40)
        assert 1 <= fake.calls() <= 4
        assert fake.taken() == []
        fake.set_state(suspended=False)
        states = settle_as_mended(ledger)
        assert worker.stop() == 0

    assert states == {"submitted": 40}
    compare(ledger, fake)
    assert {each.attempts for each in ledger.rows()} == {0}
    opened = worker.events("circuit opened")
    assert [(each["about"], each["reason"]) for each in opened] == [
        ("provider", "account: ses-stopped")
    ]


def test_a_queue_in_progress_goes_on_through_another_provider(
    ledger: Ledger, redis: RedisServer, fake: FakeSes, sink_log: SinkLog, tmp_path: Path
) -> None:
    tempers = ["drop", "refuse", "greylist", *["to"] * 57]
    messages = [
        welcome(f"key-{number}", to=f"{temper}-{number}@example.com")
        for number, temper in enumerate(tempers)
    ]
    through_ses = ses_settings(ledger, fake, REDIS_URL=redis.url)
    with dawdling_sink(sink_log, seed=3) as port:
        through_smtp = {
            **through_ses,
            "MAILER_PROVIDERS": f"smtp://127.0.0.1:{port}",
            "MAILER_RETRY_BASE": "600",
            "MAILER_RETRY_CAP": "600",
        }
        commit(through_smtp, tmp_path, messages)
        before = ledger.ask(IDENTITIES)
        with Worker(through_smtp, tmp_path) as worker:
            sink_log.wait_for(20)
            assert worker.stop() == 0
        queued = ledger.states()["pending"]
        ledger.ask("UPDATE email_outbox SET next_attempt_at = now() WHERE state = 'pending'")
        with Worker(through_ses, tmp_path) as worker:
            ledger.wait_states(submitted=58, ambiguous=1, failed=1)
            assert worker.stop() == 0

    assert queued > 10, "SMTP had sent nearly all"
    assert ledger.ask(IDENTITIES) == before
    taken = sink_log.times() + fake.times()
    ids = {key: outbox_id for outbox_id, key, *_ in before}
    assert taken == Counter({i: 1 for key, i in ids.items() if key != "key-1"})
    assert len(fake.times()) == queued
    used = [(i, name.partition(":")[0], end) for i, name, end in ledger.ask(PROVIDERS_USED)]
    assert used.count((ids["key-0"], "smtp", "ambiguous")) == 1
    assert [each for each in used if each[0] == ids["key-2"]] == [
        (ids["key-2"], "smtp", "retryable"),
        (ids["key-2"], "ses", "accepted"),
    ]


def test_a_whole_send_through_ses_leaves_no_trace(
    ledger: Ledger, redis: RedisServer, fake: FakeSes, tmp_path: Path
) -> None:
    words = ["to", "throttleonce", "reject", "badrequest", "servererrorlost", "close"]
    variables = ses_settings(
        ledger,
        fake,
        REDIS_URL=redis.url,
        MAILER_FROM=f"{MARK} <{MARK}@example.com>",
        AWS_ACCESS_KEY_ID=f"AKID{MARK.upper()}",
        AWS_SECRET_ACCESS_KEY=f"{MARK}/{SECRET}",
        AWS_SESSION_TOKEN=f"{MARK}-token",
    )
    with Worker(variables, tmp_path) as worker:
        worker.wait_started()
        commit(variables, tmp_path, *[[marked(word)] for word in words])
        ledger.wait_states(submitted=2, failed=2, ambiguous=2)
        fake.set_state(identities={})
        commit(variables, tmp_path, [marked("refused")])
        eventually(lambda: worker.events("circuit opened"), "the sender's circuit opens")
        assert worker.stop() == 0

    ((said,),) = ledger.ask("SELECT reason FROM email_attempt WHERE rule = 'ses-not-verified'")
    assert MARK in said
    assert [each["about"] for each in worker.events("circuit opened")] == ["sender"]
    assert len(worker.events("attempt finished")) == len(words) + 2
    assert traces(worker.log) == []
    assert SECRET not in worker.log
