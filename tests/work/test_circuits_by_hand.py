"""Circuits set by hand: what it does, one audit line a change, or neither."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from mailer import database, health, lookups, operations
from mailer.circuit import CircuitState, sender_key
from mailer.clock import awake_or_asleep
from mailer.errors import Refused
from mailer.operations import Switched
from mailer.routing import Order, Router
from mailer.tables import Audit, ProviderHealth
from tests.builders import (
    PROVIDER,
    SENDER,
)

WHY = "the relay is being moved"
OF_SENDER = sender_key(PROVIDER, SENDER)
HOUR = 3_600.0

VERBS: dict[str, Callable[[str], Switched]] = {
    "open": lambda name: operations.open_circuit(name, seconds=HOUR, actor="ann", why=WHY),
    "close": lambda name: operations.close_circuit(name, actor="ann", why=WHY),
}


@pytest.fixture(autouse=True)
def known_provider(outbox: str) -> None:
    health.ensure(PROVIDER, PROVIDER)


def audit_lines() -> list[tuple[Any, ...]]:
    columns = (Audit.actor, Audit.verb, Audit.outbox_id, Audit.before, Audit.after, Audit.why)
    lines: Any = Audit.select(*columns).order_by(Audit.id).tuples()
    return list(lines)


def circuit(name: str = PROVIDER) -> Any:
    return ProviderHealth.get(ProviderHealth.name == name)


def open_sender() -> None:
    health.ensure(OF_SENDER, PROVIDER, SENDER)
    VERBS["open"](OF_SENDER)


class TestVerbs:
    def test_opening_stops_claims_and_closing_resumes_them(self) -> None:
        router = Router([Order((PROVIDER,))], SENDER, 60.0, awake_or_asleep)
        assert len(router.errands(10)) == 1
        assert VERBS["open"](PROVIDER).before == "closed"
        assert router.errands(10) == []
        assert VERBS["close"](PROVIDER).before == "open"
        assert len(router.errands(10)) == 1

    def test_each_change_leaves_an_audit_line_that_names_the_circuit(self) -> None:
        VERBS["open"](PROVIDER)
        VERBS["close"](PROVIDER)
        why = f"{PROVIDER}: {WHY}"
        assert audit_lines() == [
            ("ann", "provider open", None, "closed", "open", why),
            ("ann", "provider close", None, "open", "closed", why),
        ]

    def test_the_circuit_says_who_opened_it_until_when(self) -> None:
        VERBS["open"](PROVIDER)
        row = circuit()
        assert row.reason == f"operator ann: {WHY}"
        assert (row.until - row.since).total_seconds() == pytest.approx(HOUR, abs=0.01)

    def test_an_open_circuit_can_be_given_another_end(self) -> None:
        VERBS["open"](PROVIDER)
        again = operations.open_circuit(PROVIDER, seconds=60, actor="bea", why="nearly there")
        assert (again.before, again.after) == ("open", "open")
        row = circuit()
        assert (row.until - row.since).total_seconds() == pytest.approx(60, abs=0.01)

    def test_a_circuit_that_is_being_probed_can_be_closed(self) -> None:
        VERBS["open"](PROVIDER)
        ProviderHealth.update(state=CircuitState.HALF_OPEN).execute()
        assert VERBS["close"](PROVIDER).before == "half_open"
        assert health.snapshot()[PROVIDER].is_clean

    def test_a_senders_circuit_stays_the_senders(self) -> None:
        open_sender()
        row = circuit(OF_SENDER)
        assert (row.provider, row.sender, row.state) == (PROVIDER, SENDER, "open")
        assert circuit().state == "closed"

    def test_closing_what_is_closed_is_refused_and_changes_nothing(self) -> None:
        ProviderHealth.update(permanents=7, permanent_rule="r").execute()
        with pytest.raises(Refused, match=r"^name: this circuit is closed"):
            VERBS["close"](PROVIDER)
        assert circuit().permanents == 7
        assert audit_lines() == []

    @pytest.mark.parametrize("verb", VERBS)
    def test_an_unknown_name_is_refused_with_the_known_ones_and_makes_no_row(
        self, verb: str
    ) -> None:
        health.ensure(OF_SENDER, PROVIDER, SENDER)
        with pytest.raises(Refused, match=r"^name: ") as refusal:
            VERBS[verb]("scripted:tset")
        assert str(refusal.value).endswith(f"known: {PROVIDER}, {OF_SENDER}")
        assert [each.name for each in lookups.circuits()] == [PROVIDER, OF_SENDER]
        assert audit_lines() == []

    def test_of_very_many_names_a_refusal_lists_some(self) -> None:
        for number in range(operations.MAX_NAMED):
            health.ensure(f"scripted:{number:02}", f"scripted:{number:02}")
        with pytest.raises(Refused, match=r"scripted:18, scripted:19 and 1 more$"):
            VERBS["open"]("scripted:tset")

    def test_a_refusal_cannot_steer_the_terminal(self) -> None:
        health.ensure("scripted:\x1b[2J", "scripted:\x1b[2J")
        with pytest.raises(Refused) as refusal:
            VERBS["open"]("scripted:tset")
        assert str(refusal.value).endswith(f"known: {PROVIDER} and 1 more")

    @pytest.mark.parametrize("verb", VERBS)
    def test_where_no_worker_has_run_it_says_so(self, verb: str) -> None:
        ProviderHealth.delete().execute()
        with pytest.raises(Refused, match="no provider is known yet; a worker"):
            VERBS[verb](PROVIDER)

    @pytest.mark.parametrize("seconds", [0.0, -1.0, 30 * 86_400.0 + 1, float("nan")])
    def test_a_circuit_is_open_for_a_while(self, seconds: float) -> None:
        with pytest.raises(Refused, match=r"^for: "):
            operations.open_circuit(PROVIDER, seconds=seconds, actor="ann", why=WHY)
        assert circuit().state == "closed"

    @pytest.mark.parametrize(("field", "actor", "why"), [("why", "ann", " "), ("actor", "", WHY)])
    def test_who_and_why_are_asked_for(self, field: str, actor: str, why: str) -> None:
        with pytest.raises(Refused, match=f"^{field}: "):
            operations.open_circuit(PROVIDER, seconds=HOUR, actor=actor, why=why)
        with pytest.raises(Refused, match=f"^{field}: "):
            operations.close_circuit(PROVIDER, actor=actor, why=why)
        assert circuit().state == "closed"

    @pytest.mark.parametrize(("verb", "state"), [("open", "closed"), ("close", "open")])
    def test_a_change_that_cannot_be_audited_is_not_made(self, verb: str, state: str) -> None:
        if state == "open":
            VERBS["open"](PROVIDER)
        execute: Any = database.bound().execute_sql
        execute("DROP TABLE email_audit")
        with pytest.raises(Exception, match="email_audit"):
            VERBS[verb](PROVIDER)
        assert circuit().state == state

    def test_of_two_operators_who_close_it_the_second_is_refused(self) -> None:
        """The first has not committed when the second asks: it waits, and then looks again."""
        VERBS["open"](PROVIDER)
        asking, answers = threading.Event(), []

        def close_too() -> None:
            asking.set()
            try:
                operations.close_circuit(PROVIDER, actor="bea", why=WHY)
            except Refused as refusal:
                answers.append(str(refusal))

        second = threading.Thread(target=close_too)
        with database.transaction():
            VERBS["close"](PROVIDER)
            second.start()
            assert asking.wait(10)
        second.join(20)
        assert answers == ["name: this circuit is closed; there is nothing to close"]
        assert [line[:2] for line in audit_lines()] == [
            ("ann", "provider open"),
            ("ann", "provider close"),
        ]
