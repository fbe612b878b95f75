"""What operators are told of circuits: the list, the status, and what a message waits for."""

import datetime as dt

import pytest

from mailer import health, lookups, operations, reports
from mailer.circuit import CircuitState, sender_key
from mailer.outcome import Outcome
from mailer.tables import Outbox, ProviderHealth
from tests.builders import (
    PAST,
    PROVIDER,
    SENDER,
    enqueue,
    finish,
    insert_plainly,
    make_due,
    pass_expiry,
    started,
)

OTHER = "scripted:other"
OF_SENDER = sender_key(PROVIDER, SENDER)


@pytest.fixture(autouse=True)
def known_provider(outbox: str) -> None:
    health.ensure(PROVIDER, PROVIDER)


def change(name: str = PROVIDER, **columns: object) -> None:
    ProviderHealth.update(**columns).where(ProviderHealth.name == name).execute()


def open_circuit(name: str = PROVIDER, *, seconds: float = 3_600.0) -> None:
    operations.open_circuit(name, seconds=seconds, actor="ann", why="the relay is being moved")


def open_sender() -> None:
    health.ensure(OF_SENDER, PROVIDER, SENDER)
    open_circuit(OF_SENDER)


def ago(seconds: float) -> dt.datetime:
    """Some moment in the past, by the database's clock."""
    return lookups.clock() - dt.timedelta(seconds=seconds)


class TestReports:
    def test_every_provider_is_listed_with_its_senders(self) -> None:
        open_sender()
        health.ensure(OTHER, OTHER)
        listed = reports.providers().providers
        assert [(each.name, each.about, each.provider, each.state) for each in listed] == [
            (OTHER, "provider", OTHER, "closed"),
            (PROVIDER, "provider", PROVIDER, "closed"),
            (OF_SENDER, "sender", PROVIDER, "open"),
        ]

    def test_a_circuit_whose_time_is_up_is_due_for_a_probe(self) -> None:
        open_circuit()
        assert [each.probe_due for each in reports.providers().providers] == [False]
        change(until=PAST)
        assert [each.probe_due for each in reports.providers().providers] == [True]

    def test_limits_are_as_the_provider_said(self) -> None:
        health.claim_limits(PROVIDER, every_seconds=0)
        health.set_limits(PROVIDER, rate=14.0, left_today=49_000)
        found = reports.providers()
        (only,) = found.providers
        assert (only.rate, only.slowed, only.left_today) == (14.0, 1.0, 49_000)
        assert only.limits_at is not None
        assert only.limits_at <= found.at

    def test_a_slowed_rate_is_told_as_it_has_recovered_since(self) -> None:
        change(rate=14.0, slowed=0.25, refilled_at=ago(15))
        (only,) = reports.providers().providers
        assert only.slowed == pytest.approx(0.5, abs=0.05)
        change(refilled_at=PAST)
        assert reports.providers().providers[0].slowed == 1.0

    def test_status_has_the_circuits_that_are_not_closed(self) -> None:
        health.ensure(OTHER, OTHER)
        assert reports.status().circuits == ()
        open_sender()
        open_circuit()
        change(state=CircuitState.HALF_OPEN)
        assert [(each.name, each.state) for each in reports.status().circuits] == [
            (PROVIDER, "half_open"),
            (OF_SENDER, "open"),
        ]


class TestNextStep:
    @staticmethod
    def of(row: int, **more: str) -> str:
        return reports.timeline(row, max_resends=1, **more).next_step

    @pytest.fixture
    def row(self) -> int:
        return int(enqueue()[0].id)

    def test_names_the_circuit_that_holds_a_message(self, row: int) -> None:
        open_circuit()
        change(since=ago(180))
        assert self.of(row) == f"held: circuit of {PROVIDER} is open since 3 min, probe in 60 min"

    def test_tells_how_far_the_probe_is(self, row: int) -> None:
        open_circuit()
        change(state=CircuitState.HALF_OPEN)
        assert self.of(row).endswith("its probe is out for at most 60 min more")
        change(until=PAST)
        assert self.of(row).endswith("probe due")

    def test_another_provider_that_is_in_use_would_take_it(self, row: int) -> None:
        health.ensure(OTHER, OTHER)
        open_circuit()
        assert self.of(row).startswith("due since ")
        open_circuit(OTHER, seconds=60)
        change(OTHER, since=ago(200))
        assert self.of(row).startswith(f"held: circuit of {OTHER} is open since 3 min, probe in ")

    def test_names_of_two_circuits_the_one_that_is_probed_first(self, row: int) -> None:
        health.ensure(OTHER, OTHER)
        open_circuit(OTHER, seconds=60)
        open_circuit(PROVIDER, seconds=30)
        assert self.of(row).startswith(f"held: circuit of {PROVIDER} ")
        open_circuit(PROVIDER, seconds=90)
        assert self.of(row).startswith(f"held: circuit of {OTHER} ")

    def test_a_provider_that_no_worker_has_any_more_takes_nothing(self, row: int) -> None:
        health.ensure(OTHER, OTHER)
        open_circuit()
        change(OTHER, limits_at=PAST)
        assert self.of(row).startswith(f"held: circuit of {PROVIDER} ")

    def test_a_senders_circuit_holds_its_messages_alone(self, row: int) -> None:
        news, _ = enqueue("news", sender="news@example.com")
        open_sender()
        assert self.of(row).startswith(f"held: circuit of {OF_SENDER} ")
        assert self.of(news.id).startswith("due since ")

    def test_a_row_without_a_sender_has_the_default_one(self) -> None:
        plain = insert_plainly("plain", ["ann@example.com"], subject="Hi", text="Hello")
        open_sender()
        assert self.of(plain).startswith("due since ")
        assert self.of(plain, default_sender=SENDER).startswith("held: ")

    def test_what_is_due_only_after_the_probe_is_not_held(self, row: int) -> None:
        open_circuit(PROVIDER, seconds=60)
        Outbox.update(next_attempt_at=ago(-300)).execute()
        assert self.of(row) == "due in 5 min"

    def test_a_message_that_expires_first_says_so(self, row: int) -> None:
        open_circuit()
        Outbox.update(expires_at=ago(-600)).execute()
        assert self.of(row).endswith("; expires in 10 min")
        pass_expiry(row)
        assert self.of(row) == "its time has passed: the next sweep expires it"

    def test_only_what_is_pending_is_held(self) -> None:
        claimed = started()
        open_circuit()
        assert "its call is under way" in self.of(claimed.outbox_id)
        finish(claimed, Outcome.RETRYABLE)
        make_due(claimed.outbox_id)
        assert self.of(claimed.outbox_id).startswith("held: ")
