"""`provider list`, `open`, `close`, and where else a circuit that is not closed is told of."""

import datetime as dt
import json
from typing import Any

import pytest

from mailer import health, lookups
from mailer.circuit import sender_key
from mailer.tables import Audit, ProviderHealth
from tests.builders import PAST, PROVIDER, SENDER, enqueue, insert_plainly
from tests.doors.conftest import Console

SOON = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
OF_SENDER = sender_key(PROVIDER, SENDER)


@pytest.fixture(autouse=True)
def known_providers(console: Console) -> None:
    health.ensure(PROVIDER, PROVIDER)
    health.ensure(OF_SENDER, PROVIDER, SENDER)


def parsed(console: Console, *arguments: object) -> Any:
    return json.loads(console.done(*arguments, "--json"))


def circuit(name: str = PROVIDER) -> Any:
    return ProviderHealth.get(ProviderHealth.name == name)


def audit_lines() -> list[tuple[Any, ...]]:
    columns = (Audit.actor, Audit.verb, Audit.outbox_id, Audit.before, Audit.after, Audit.why)
    lines: Any = Audit.select(*columns).order_by(Audit.id).tuples()
    return list(lines)


class TestList:
    def test_for_programs(self, console: Console) -> None:
        console.done("provider", "open", OF_SENDER, "--why", "not verified")
        found = parsed(console, "provider", "list")
        assert list(found) == ["at", "providers"]
        provider, sender = found["providers"]
        assert list(provider) == list(sender)
        assert list(provider) == [
            "name",
            "about",
            "provider",
            "state",
            "reason",
            "since",
            "until",
            "probe_due",
            "rate",
            "slowed",
            "left_today",
            "limits_at",
        ]
        assert (provider["name"], provider["about"]) == (PROVIDER, "provider")
        assert (provider["state"], provider["until"], provider["rate"]) == ("closed", None, None)
        assert (sender["name"], sender["about"]) == (OF_SENDER, "sender")
        assert (sender["state"], sender["probe_due"]) == ("open", False)
        assert sender["reason"] == "operator ann: not verified"
        assert sender["until"].endswith("+00:00")

    def test_for_people(self, console: Console) -> None:
        health.claim_limits(PROVIDER, every_seconds=0)
        health.set_limits(PROVIDER, rate=14.0, left_today=49_000)
        console.done("provider", "open", PROVIDER, "--why", "relay moves")
        ProviderHealth.update(since=lookups.clock() - dt.timedelta(minutes=3)).execute()
        lines = [each.split() for each in console.done("provider", "list").splitlines()]
        assert [" ".join(each) for each in lines] == [
            "circuits",
            "name about state reason since until",
            f"{PROVIDER} provider open operator ann: relay moves 3 min in 60 min",
            f"{OF_SENDER} sender closed 3 min",
            "limits",
            "name rate slowed to left today asked at",
            f"{PROVIDER} 14/s 49,000 {circuit().limits_at:%Y-%m-%d %H:%M:%S}Z",
        ]

    def test_tells_that_a_probe_is_due_and_how_far_a_rate_is_slowed(self, console: Console) -> None:
        console.done("provider", "open", PROVIDER, "--why", "x")
        health.claim_limits(PROVIDER, every_seconds=0)
        ProviderHealth.update(rate=10.0, slowed=0.01, refilled_at=SOON, until=PAST).where(
            ProviderHealth.name == PROVIDER
        ).execute()
        printed = console.done("provider", "list")
        assert " probe due\n" in printed
        assert "10/s  1%" in printed

    def test_fits_a_terminal_of_eighty_columns(
        self, console: Console, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        console.done("provider", "open", OF_SENDER, "--why", "not verified by the account")
        monkeypatch.setenv("COLUMNS", "80")
        printed = console.done("provider", "list")
        assert max(map(len, printed.splitlines())) <= 80
        for whole in ("provider", "sender", "closed", "open", "in 60 min"):
            assert whole in printed

    def test_says_that_there_are_none(self, console: Console) -> None:
        ProviderHealth.delete().execute()
        assert console.done("provider", "list").startswith("no provider is known yet; a worker ")

    def test_stored_text_cannot_steer_the_terminal(self, console: Console) -> None:
        health.ensure("p\x1b[2J[red]", "p")
        printed = console.done("provider", "list")
        assert "\x1b" not in printed
        assert "[red]" in printed


class TestOpenAndClose:
    def test_are_done_and_on_record(self, console: Console) -> None:
        opened = console.done("provider", "open", PROVIDER, "--why", "relay moves")
        assert opened == f"{PROVIDER}: closed -> open for 60 min\n"
        closed = console.done(
            "provider", "close", PROVIDER, "--why", "moved", "--actor", "bea on call"
        )
        assert closed == f"{PROVIDER}: open -> closed\n"
        assert audit_lines() == [
            ("ann", "provider open", None, "closed", "open", f"{PROVIDER}: relay moves"),
            ("bea on call", "provider close", None, "open", "closed", f"{PROVIDER}: moved"),
        ]

    @pytest.mark.parametrize(
        ("given", "told", "seconds"),
        [((), "60 min", 3_600), (("--for", "2d"), "2 d", 172_800), (("--for", "45"), "45 s", 45)],
    )
    def test_open_lasts_as_long_as_is_said(
        self, console: Console, given: tuple[str, ...], told: str, seconds: int
    ) -> None:
        printed = console.done("provider", "open", PROVIDER, "--why", "x", *given)
        assert printed.endswith(f" for {told}\n")
        row = circuit()
        assert (row.until - row.since).total_seconds() == pytest.approx(seconds, abs=0.01)

    def test_a_senders_circuit_is_named_as_it_is_listed(self, console: Console) -> None:
        name = parsed(console, "provider", "list")["providers"][1]["name"]
        console.done("provider", "open", name, "--why", "not verified")
        row = circuit(name)
        assert (row.state, row.provider, row.sender) == ("open", PROVIDER, SENDER)

    @pytest.mark.parametrize("verb", ["open", "close"])
    def test_an_unknown_name_is_refused_with_the_known_ones(
        self, console: Console, verb: str
    ) -> None:
        line = console.refused("provider", verb, "scripted:tset", "--why", "x")
        assert line.endswith(f"known: {PROVIDER}, {OF_SENDER}\n")
        assert line.count("\n") == 1
        assert ProviderHealth.select().count() == 2

    @pytest.mark.parametrize(
        ("arguments", "mend"),
        [
            (("close", PROVIDER, "--why", "x"), "name: this circuit is closed"),
            (("open", PROVIDER, "--why", " "), "why: is empty"),
            (("open", PROVIDER, "--why", "x", "--for", "31d"), "for: must be"),
        ],
    )
    def test_what_does_not_apply_is_refused_in_one_line(
        self, console: Console, arguments: tuple[str, ...], mend: str
    ) -> None:
        line = console.refused("provider", *arguments)
        assert line.startswith(mend)
        assert line.count("\n") == 1
        assert circuit().state == "closed"
        assert audit_lines() == []

    @pytest.mark.parametrize(
        "arguments",
        [
            ("open", PROVIDER),
            ("open", "--why", "x"),
            ("open", PROVIDER, "--why", "x", "--for", "an hour"),
            ("open", PROVIDER, "--why", "x", "--for", "0"),
            ("open", PROVIDER, "--why", "x", "--for", "-5m"),
            ("close", PROVIDER, "--why", "x", "--for", "5m"),
            ("mend", PROVIDER),
        ],
    )
    def test_wrong_usage(self, console: Console, arguments: tuple[str, ...]) -> None:
        assert console.run("provider", *arguments).exit_code == 2
        assert circuit().state == "closed"


class TestElsewhere:
    def test_status_tells_of_circuits_that_are_not_closed(self, console: Console) -> None:
        assert parsed(console, "status")["circuits"] == []
        assert "circuits" not in console.done("status")
        console.done("provider", "open", PROVIDER, "--why", "relay moves")
        (only,) = parsed(console, "status")["circuits"]
        assert only == parsed(console, "provider", "list")["providers"][0]
        printed = console.done("status")
        assert "circuits that are not closed" in printed
        assert "operator ann: relay moves" in printed
        assert OF_SENDER not in printed
        assert "to see all: mailer provider list" in printed

    def test_show_tells_what_a_pending_message_waits_for(self, console: Console) -> None:
        row, _ = enqueue()
        console.done("provider", "open", PROVIDER, "--why", "relay moves")
        printed = console.done("show", row.id)
        assert f"next: held: circuit of {PROVIDER} is open since " in printed
        assert printed.endswith("probe in 60 min\n")

    def test_show_knows_the_sender_of_a_row_without_one(self, console: Console) -> None:
        row = insert_plainly("plain", ["ann@example.com"], subject="Hi", text="Hello")
        console.done("provider", "open", OF_SENDER, "--why", "not verified")
        assert f"held: circuit of {OF_SENDER} " in console.done("show", row)
