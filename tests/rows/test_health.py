"""The shared health of providers: circuits, probes and rates, on both databases."""

import multiprocessing
import time

import pytest

from mailer import claims, database, health
from mailer.circuit import CircuitPolicy, CircuitState
from mailer.claims import Scope as ClaimScope
from mailer.outcome import Blame, CallResult, Outcome, Pressure, Scope
from mailer.tables import ProviderHealth
from tests.builders import PAST, PROVIDER, bound_to, claim, enqueue

POLICY = CircuitPolicy(permanents_in_a_row=3, ambiguous_in_window=3, connection_failures_in_a_row=3)
SENDER = "Shop <shop@example.com>"


def result(outcome: Outcome, scope: Scope, **more: object) -> CallResult:
    return CallResult.alike((1,), outcome, scope, stage="after_dot", rule="r", **more)  # type: ignore[arg-type]


ACCOUNT = result(Outcome.RETRYABLE, Scope.ACCOUNT)
ACCEPTED = result(Outcome.ACCEPTED, Scope.MESSAGE)
UNVERIFIED = result(Outcome.RETRYABLE, Scope.ACCOUNT, blame=Blame.SENDER)
THROTTLED = result(Outcome.RETRYABLE, Scope.ACCOUNT, pressure=Pressure.THROTTLE)


def note(*results: CallResult) -> list[health.Change]:
    return health.note(PROVIDER, [(SENDER, each) for each in results], health.snapshot(), POLICY)


def time_is_up(name: str = PROVIDER) -> None:
    ProviderHealth.update(until=PAST).where(ProviderHealth.name == name).execute()


@pytest.mark.usefixtures("outbox")
class TestCircuits:
    def test_a_healthy_provider_costs_no_row(self) -> None:
        assert note(ACCEPTED, ACCEPTED) == []
        assert health.snapshot() == {}

    def test_an_accounts_refusal_opens_it_for_all_workers(self) -> None:
        (change,) = note(ACCOUNT)
        assert (change.state, change.sender) == ("open", None)
        known = health.snapshot()[PROVIDER]
        assert (known.state, known.ready) == ("open", False)

    def test_a_senders_fault_opens_no_more_than_the_sender(self) -> None:
        (change,) = note(UNVERIFIED)
        assert change.sender == SENDER
        known = health.snapshot()
        assert PROVIDER not in known
        assert known[f"{PROVIDER} sender {SENDER}"].sender == SENDER

    def test_one_worker_gets_the_probe(self) -> None:
        note(ACCOUNT)
        assert not health.claim_probe(PROVIDER, seconds=60)
        time_is_up()
        assert health.snapshot()[PROVIDER].ready
        assert health.claim_probe(PROVIDER, seconds=60)
        assert not health.claim_probe(PROVIDER, seconds=60)
        assert health.snapshot()[PROVIDER].state == "half_open"

    def test_a_probe_that_was_lost_is_given_out_again(self) -> None:
        note(ACCOUNT)
        time_is_up()
        health.claim_probe(PROVIDER, seconds=60)
        time_is_up()
        assert health.claim_probe(PROVIDER, seconds=60)

    def test_a_probe_that_found_nothing_to_send_goes_back(self) -> None:
        note(ACCOUNT)
        time_is_up()
        health.claim_probe(PROVIDER, seconds=60)
        health.give_back_probe(PROVIDER)
        assert health.claim_probe(PROVIDER, seconds=60)

    @pytest.mark.parametrize("sign", [ACCEPTED, result(Outcome.PERMANENT, Scope.RECIPIENT)])
    def test_any_definite_answer_closes_it(self, sign: CallResult) -> None:
        note(ACCOUNT)
        time_is_up()
        health.claim_probe(PROVIDER, seconds=60)
        (change,) = note(sign)
        assert change.state == "closed"
        row = ProviderHealth.get()
        assert (row.state, row.until, row.reason) == ("closed", None, None)

    def test_a_call_that_was_in_flight_neither_ends_nor_cuts_an_open_circuit(self) -> None:
        health.set_circuit(PROVIDER, CircuitState.OPEN, reason="by hand", seconds=3600)
        before = ProviderHealth.get().__data__
        assert note(ACCEPTED) == []
        assert note(ACCOUNT) == []
        assert not health.pause(PROVIDER, reason="quota", seconds=60)
        after = ProviderHealth.get().__data__
        kept = ("state", "reason", "since", "until", "openings")
        assert [after[name] for name in kept] == [before[name] for name in kept]

    def test_a_pause_opens_a_circuit_in_use(self) -> None:
        assert health.pause(PROVIDER, reason="quota used up", seconds=60)
        assert health.snapshot()[PROVIDER].state == "open"

    def test_a_failed_probe_opens_it_for_longer(self) -> None:
        note(ACCOUNT)
        time_is_up()
        health.claim_probe(PROVIDER, seconds=60)
        (change,) = note(ACCOUNT)
        assert (change.state, ProviderHealth.get().openings) == ("open", 2)

    def test_counts_are_kept_across_workers_and_wiped_by_an_acceptance(self) -> None:
        failure = result(Outcome.RETRYABLE, Scope.CONNECTION)
        note(failure)
        note(failure)
        note(ACCEPTED)
        assert note(failure, failure) == []
        (change,) = note(failure)
        assert change.reason == "connection: r"

    def test_a_throttle_slows_a_known_rate_and_pauses_an_unknown_one(self) -> None:
        (change,) = note(THROTTLED)
        assert (change.state, change.reason) == ("open", "throttled")
        health.set_circuit(PROVIDER, CircuitState.CLOSED, reason="", seconds=0)
        health.set_limits(PROVIDER, rate=100.0, left_today=None)
        assert note(THROTTLED) == []
        assert ProviderHealth.get().slowed == 0.5

    def test_operators_open_and_close(self) -> None:
        assert health.set_circuit(PROVIDER, CircuitState.OPEN, reason="x", seconds=60) == "closed"
        assert not health.claim_probe(PROVIDER, seconds=60)
        assert health.set_circuit(PROVIDER, CircuitState.CLOSED, reason="", seconds=0) == "open"
        assert health.snapshot()[PROVIDER].is_clean


@pytest.mark.usefixtures("outbox")
class TestClaimScopes:
    def test_held_senders_are_left_alone(self) -> None:
        enqueue("shop")
        enqueue("news", sender="news@example.com")
        taken = claims.claim_due(
            9, provider=PROVIDER, lease_seconds=60, scope=ClaimScope(held_senders=(SENDER,))
        )
        assert [each.dedup_key for each in taken] == ["news"]

    def test_a_row_without_a_sender_has_the_default_one(self) -> None:
        from tests.builders import insert_plainly

        insert_plainly("plain", ["a@example.com"], subject="Hi", text="Hello")
        held = ClaimScope(held_senders=(SENDER,), default_sender=SENDER)
        assert not claims.claim_due(9, provider=PROVIDER, lease_seconds=60, scope=held)
        only = ClaimScope(only_sender=SENDER, default_sender=SENDER)
        assert claims.claim_due(9, provider=PROVIDER, lease_seconds=60, scope=only)

    def test_streams_are_told_apart(self) -> None:
        enqueue("bulk", stream="bulk")
        enqueue("other")
        bulk = ClaimScope(streams=("bulk",))
        rest = ClaimScope(other_streams=("bulk",))
        taken = [
            [each.dedup_key for each in
             claims.claim_due(9, provider=PROVIDER, lease_seconds=60, scope=scope)]
            for scope in (rest, bulk)
        ]  # fmt: skip
        assert taken == [["other"], ["bulk"]]
        assert claim() == []


@pytest.mark.usefixtures("outbox")
class TestRates:
    def test_no_limit_grants_everything(self) -> None:
        assert health.take(PROVIDER, 500) == 500
        health.ensure(PROVIDER, PROVIDER)
        assert health.take(PROVIDER, 500) == 500

    def test_the_bucket_starts_empty_and_holds_a_tenth_of_a_second(self) -> None:
        health.ensure(PROVIDER, PROVIDER)
        health.set_limits(PROVIDER, rate=200.0, left_today=None)
        ProviderHealth.update(refilled_at=PAST).execute()
        assert health.take(PROVIDER, 15) == 15
        assert health.take(PROVIDER, 500) <= 20

    def test_a_large_message_is_let_through_and_leaves_a_debt(self) -> None:
        health.ensure(PROVIDER, PROVIDER)
        health.set_limits(PROVIDER, rate=10.0, left_today=None)
        ProviderHealth.update(refilled_at=PAST).execute()
        assert health.take(PROVIDER, 50) == 50
        assert ProviderHealth.get().tokens < -40
        assert health.take(PROVIDER, 1) == 0


def _pull(url: str, stop_after: float, grants: "multiprocessing.Queue[tuple[float, int]]") -> None:
    with bound_to(url):
        end = time.monotonic() + stop_after
        while time.monotonic() < end:
            asked = database.rows("SELECT extract(epoch FROM clock_timestamp())", {})[0][0]
            granted = health.take(PROVIDER, 7)
            if granted:
                grants.put((float(asked), granted))


def test_four_processes_together_never_exceed_the_rate(postgres_outbox: str) -> None:
    """By the database's clock; each grant counts from before it was asked for."""
    rate = 60.0
    health.ensure(PROVIDER, PROVIDER)
    health.set_limits(PROVIDER, rate=rate, left_today=None)
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[tuple[float, int]] = context.Queue()
    pullers = [context.Process(target=_pull, args=(postgres_outbox, 2.5, queue)) for _ in range(4)]
    for each in pullers:
        each.start()
    grants: list[tuple[float, int]] = []
    while any(each.is_alive() for each in pullers) or not queue.empty():
        if not queue.empty():
            grants.append(queue.get())
    for each in pullers:
        each.join()
    queue.close()
    burst = max(1.0, rate / 10)
    assert len(grants) > 10
    for at, _ in grants:
        within = sum(count for when, count in grants if at <= when < at + 1.0)
        # One more burst for what was asked for before the second and granted within it.
        assert within <= rate + 2 * burst + 1
