"""Providers in trouble: circuits, probes, failover, streams and rates, through a real delivery."""

import contextlib
from collections.abc import Iterator

import pytest

from mailer import health
from mailer.airspace import Airspace
from mailer.circuit import CircuitPolicy
from mailer.clock import awake_or_asleep
from mailer.delivery import Delivery, Pace
from mailer.loading import Loader
from mailer.loop import LoopThread
from mailer.outcome import Blame, CallResult, Outcome, Pressure, Scope
from mailer.provider import Call
from mailer.routing import Order, Router
from mailer.tables import Attempt, Outbox, ProviderHealth
from tests.builders import (
    PAST,
    POLICY,
    SENDER,
    attempt_of,
    claim_one,
    enqueue,
    finish,
    freezer,
    make_due,
    middle,
    row_of,
    started,
)
from tests.work.scripted import ScriptedProvider

CIRCUITS = CircuitPolicy(
    permanents_in_a_row=5, ambiguous_in_window=3, connection_failures_in_a_row=3
)


class Troubled(ScriptedProvider):
    """Answers every call alike, until told otherwise."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.answer: CallResult | None = None
        self.answers_only = ""

    async def send(self, call: Call) -> CallResult:
        if self.answer is None or not call.sender.startswith(self.answers_only):
            return await super().send(call)
        self.calls.append(call)
        due = call.recipient_ids
        return CallResult.alike(
            due,
            self.answer.outcome,
            self.answer.scope,
            stage="after_dot",
            rule=self.answer.rule,
            blame=self.answer.blame,
            pressure=self.answer.pressure,
        )


def answer(outcome: Outcome, scope: Scope, **more: object) -> CallResult:
    return CallResult.alike((), outcome, scope, stage="after_dot", rule="told", **more)  # type: ignore[arg-type]


ACCOUNT = answer(Outcome.RETRYABLE, Scope.ACCOUNT)
FAILURE = answer(Outcome.RETRYABLE, Scope.CONNECTION)
DOUBT = answer(Outcome.AMBIGUOUS, Scope.CONNECTION)


@contextlib.contextmanager
def delivering(
    *providers: Troubled, orders: list[Order] | None = None, concurrency: int = 2
) -> Iterator[Delivery]:
    """One process's delivery over these providers, the first preferred."""
    loop = LoopThread()
    loop.start()
    delivery = Delivery(
        airspace=Airspace(loop, {each.name: each for each in providers}),
        loader=Loader(freezer()),
        pace=Pace(20, concurrency, 60.0, 20.0, 0.05, 20.0),
        policy=POLICY,
        jitter=middle,
        router=Router(
            orders or [Order(tuple(each.name for each in providers))],
            SENDER,
            60.0,
            clock=awake_or_asleep,
            policy=CIRCUITS,
        ),
        unwritten=lambda _: True,
    )
    try:
        yield delivery
    finally:
        delivery.stop()
        loop.stop()


def all_due() -> None:
    """Let every wait be over: of rows and of circuits."""
    Outbox.update(next_attempt_at=PAST).where(Outbox.state == "pending").execute()
    ProviderHealth.update(until=PAST).where(ProviderHealth.until.is_null(is_null=False)).execute()


def states() -> dict[str, str]:
    return {row.dedup_key: row.state for row in Outbox.select()}


@pytest.fixture
def ten(outbox: str) -> None:
    """Ten messages that are due."""
    for number in range(10):
        enqueue(f"k{number}")


@pytest.mark.usefixtures("ten")
class TestCircuits:
    @pytest.mark.parametrize("trouble", [ACCOUNT, FAILURE])
    def test_trouble_opens_the_circuit_and_costs_nobody_anything(self, trouble: CallResult) -> None:
        provider = Troubled("one")
        provider.answer = trouble
        with delivering(provider) as delivery:
            delivery.deliver()
            calls = len(provider.calls)
            delivery.deliver()
        assert len(provider.calls) == calls < 10
        assert {row.state for row in Outbox.select()} == {"pending"}
        assert {row.attempts for row in Outbox.select()} == {0}
        assert Attempt.select().where(Attempt.state == "claimed").count() == 0

    def test_one_probe_goes_out_and_its_success_lets_the_rest_follow(self) -> None:
        provider = Troubled("one")
        provider.answer = ACCOUNT
        with delivering(provider) as delivery:
            delivery.deliver()
            before = len(provider.calls)
            all_due()
            delivery.deliver()
            assert len(provider.calls) == before + 1
            provider.answer = None
            all_due()
            delivery.deliver()
        assert set(states().values()) == {"submitted"}

    def test_doubts_stop_before_they_quarantine_the_queue(self) -> None:
        provider = Troubled("one")
        provider.answer = DOUBT
        with delivering(provider) as delivery:
            delivery.deliver()
        doubtful = [each for each in states().values() if each == "ambiguous"]
        assert 3 <= len(doubtful) <= 3 + 2

    def test_refusals_in_a_row_stop_before_they_eat_the_queue(self) -> None:
        provider = Troubled("one")
        provider.answer = answer(Outcome.PERMANENT, Scope.MESSAGE)
        with delivering(provider) as delivery:
            delivery.deliver()
        assert 5 <= list(states().values()).count("failed") < 10

    def test_a_senders_fault_holds_that_sender_alone(self) -> None:
        for number in range(3):
            enqueue(f"news{number}", sender="news@example.com", priority=9)
        provider = Troubled("one")
        provider.answer = answer(Outcome.RETRYABLE, Scope.ACCOUNT, blame=Blame.SENDER)
        provider.answers_only = "shop"
        with delivering(provider) as delivery:
            delivery.deliver()
            assert health.snapshot()[f"one sender {SENDER}"].state == "open"
            provider.answer = None
            all_rows_due()
            delivery.deliver()
            sent = [key for key, state in states().items() if state == "submitted"]
            assert sorted(sent) == ["news0", "news1", "news2"]
            all_due()
            delivery.deliver()
        assert health.snapshot()[f"one sender {SENDER}"].state == "closed"
        assert set(states().values()) == {"submitted"}

    def test_a_throttle_slows_the_provider_and_charges_nobody(self) -> None:
        provider = Troubled("one")
        health.ensure("one", "one")
        health.set_limits("one", rate=1000.0, left_today=None)
        provider.answer = answer(Outcome.RETRYABLE, Scope.ACCOUNT, pressure=Pressure.THROTTLE)
        with delivering(provider) as delivery:
            delivery.deliver()
        assert ProviderHealth.get().slowed < 1
        assert ProviderHealth.get().state == "closed"
        assert {row.attempts for row in Outbox.select()} == {0}

    def test_a_rate_is_kept_and_everything_goes_out(self) -> None:
        provider = Troubled("one")
        health.ensure("one", "one")
        health.set_limits("one", rate=100.0, left_today=None)
        with delivering(provider) as delivery:
            delivery.deliver()
        assert set(states().values()) == {"submitted"}
        assert ProviderHealth.get().tokens <= 10.0


@pytest.mark.usefixtures("ten")
class TestFailover:
    def test_the_second_provider_takes_over_while_the_first_is_open(self) -> None:
        first, second = Troubled("one"), Troubled("two")
        first.answer = ACCOUNT
        with delivering(first, second) as delivery:
            delivery.deliver()
            all_rows_due()
            delivery.deliver()
        assert set(states().values()) == {"submitted"}
        accepted = Attempt.select().where(Attempt.outcome == "accepted")
        assert {each.provider for each in accepted} == {"two"}

    def test_the_first_is_used_again_when_it_has_recovered(self) -> None:
        first, second = Troubled("one"), Troubled("two")
        first.answer = ACCOUNT
        with delivering(first, second) as delivery:
            delivery.deliver()
            first.answer = None
            all_due()
            delivery.deliver()
            all_rows_due()
            enqueue("after")
            delivery.deliver()
        assert states()["after"] == "submitted"
        assert Attempt.select().order_by(Attempt.id.desc()).get().provider == "one"

    def test_a_message_in_doubt_never_goes_to_another_provider(self) -> None:
        first, second = Troubled("one"), Troubled("two")
        first.answer = DOUBT
        with delivering(first, second) as delivery:
            delivery.deliver()
        doubtful = [each.id for each in Outbox.select().where(Outbox.state == "ambiguous")]
        assert doubtful
        assert all(call.outbox_id not in doubtful for call in second.calls)


def test_what_is_sent_again_in_doubt_stays_with_its_provider(outbox: str) -> None:
    from mailer import overdue

    claimed = started(on_ambiguous="resend")
    finish(claimed, Outcome.AMBIGUOUS)
    make_due(claimed.outbox_id)
    overdue.apply_policies(10, POLICY)
    first, second = Troubled("one"), Troubled("two")
    health.note("one", [(SENDER, ACCOUNT)], {}, CIRCUITS)
    with delivering(first, second) as delivery:
        delivery.deliver()
        assert row_of(claimed.outbox_id).state == "pending"
        assert second.calls == []
        all_due()
        delivery.deliver()
    assert row_of(claimed.outbox_id).state == "submitted"
    assert attempt_of(claimed).resolution is None


def test_streams_may_have_an_order_of_their_own(outbox: str) -> None:
    first, second = Troubled("one"), Troubled("two")
    enqueue("bulk", stream="bulk")
    enqueue("other")
    orders = [Order(("one",)), Order(("two",), streams=("bulk",))]
    with delivering(first, second, orders=orders) as delivery:
        delivery.deliver()
    used = {each.outbox.dedup_key: each.provider for each in Attempt.select()}
    assert used == {"bulk": "two", "other": "one"}


def test_switching_providers_leaves_rows_keys_and_message_ids_alone(outbox: str) -> None:
    for number in range(4):
        enqueue(f"k{number}", "later@example.com" if number % 2 else "ann@example.com")
    before = {row.dedup_key: row.message_id for row in Outbox.select()}
    with delivering(Troubled("smtp")) as delivery:
        delivery.deliver()
    all_rows_due()
    Outbox.update(attempts=0).execute()
    other = Troubled("ses")
    other.answer = answer(Outcome.ACCEPTED, Scope.MESSAGE)
    with delivering(other) as delivery:
        delivery.deliver()
    assert {row.dedup_key: row.message_id for row in Outbox.select()} == before
    assert set(states().values()) == {"submitted"}
    used = {each.provider for each in Attempt.select().where(Attempt.outcome == "accepted")}
    assert used == {"smtp", "ses"}


def all_rows_due() -> None:
    """Let the rows' waits be over, and the circuits' go on."""
    Outbox.update(next_attempt_at=PAST).where(Outbox.state == "pending").execute()


def test_a_probe_with_nothing_to_send_goes_back(outbox: str) -> None:
    provider = Troubled("one")
    health.note("one", [(SENDER, ACCOUNT)], {}, CIRCUITS)
    all_due()
    with delivering(provider) as delivery:
        delivery.deliver()
        assert health.snapshot()["one"].ready
        enqueue()
        delivery.deliver()
    assert claim_one_is_left() is False


def test_grants_that_were_not_used_do_not_keep(outbox: str) -> None:
    now = [0.0]
    router = Router([Order(("one",))], SENDER, 60.0, clock=lambda: now[0])
    health.ensure("one", "one")
    health.set_limits("one", rate=100.0, left_today=None)
    ProviderHealth.update(refilled_at=PAST).execute()
    router.refresh(at_once=True)
    assert router.grant("one", 1)
    ProviderHealth.update(tokens=-1000).execute()
    assert all(router.grant("one", 1) for _ in range(9))
    assert not router.grant("one", 1)
    ProviderHealth.update(tokens=0, refilled_at=PAST).execute()
    assert router.grant("one", 1)
    ProviderHealth.update(tokens=-1000).execute()
    now[0] += 2.0
    assert not router.grant("one", 1)


def claim_one_is_left() -> bool:
    try:
        claim_one()
    except ValueError:
        return False
    return True


def test_a_row_that_leaves_its_sender_to_the_settings_is_held_with_it(outbox: str) -> None:
    unverified = answer(Outcome.RETRYABLE, Scope.ACCOUNT, blame=Blame.SENDER)
    health.note("one", [(SENDER, unverified)], {}, CIRCUITS)
    router = Router([Order(("one",))], SENDER, 60.0, clock=awake_or_asleep)
    router.refresh(at_once=True)
    assert router.is_held("one", "")
    assert not router.is_held("one", "news@example.com")
