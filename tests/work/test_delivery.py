"""The delivery of one process, with a scripted provider and real databases."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import psycopg2
import pytest

from mailer import database
from mailer.airspace import Airspace
from mailer.clock import awake_or_asleep
from mailer.delivery import Delivery, Pace
from mailer.loading import Loader
from mailer.loop import LoopThread
from mailer.outcome import CallResult, Outcome, Scope
from mailer.prove.kit.waiting import until
from mailer.provider import Call
from mailer.reconcile import Sweeper
from mailer.results import Ended
from mailer.routing import Order, Router
from mailer.tables import Attempt, Outbox, Recipient
from tests.builders import (
    POLICY,
    enqueue,
    freezer,
    insert_plainly,
    make_due,
    middle,
    pass_expiry,
    row_of,
)
from tests.work.scripted import ScriptedProvider


@dataclass
class Worker:
    """One process's delivery, run on a thread as an actor would."""

    provider: ScriptedProvider
    delivery: Delivery
    loop: LoopThread
    unwritten: list[Ended] = field(default_factory=list)
    thread: threading.Thread | None = None

    def run(self) -> None:
        """Deliver in the background."""
        self.thread = threading.Thread(target=self.delivery.deliver)
        self.thread.start()

    def join(self) -> None:
        """Wait for the background delivery."""
        assert self.thread is not None
        self.thread.join(20)
        assert not self.thread.is_alive()


@contextlib.contextmanager
def worker(
    *,
    provider: ScriptedProvider | None = None,
    batch: int = 20,
    concurrency: int = 4,
    lease_seconds: float = 60.0,
    shutdown_seconds: float = 20.0,
    **freezing: object,
) -> Iterator[Worker]:
    """Put a delivery together around a scripted provider."""
    loop = LoopThread()
    loop.start()
    scripted = provider or ScriptedProvider()
    kept: list[Ended] = []

    def take(ended: Sequence[Ended]) -> bool:
        kept.extend(ended)
        return True

    delivery = Delivery(
        airspace=Airspace(loop, {scripted.name: scripted}),
        loader=Loader(freezer(**freezing)),
        pace=Pace(
            batch=batch,
            concurrency=concurrency,
            lease_seconds=lease_seconds,
            renew_seconds=lease_seconds / 3,
            poll_seconds=0.05,
            shutdown_seconds=shutdown_seconds,
        ),
        policy=POLICY,
        jitter=middle,
        router=Router(
            [Order((scripted.name,))], "Shop <shop@example.com>", 5.0, clock=awake_or_asleep
        ),
        unwritten=take,
    )
    running = Worker(scripted, delivery, loop, kept)
    try:
        yield running
    finally:
        loop.call(scripted.let_go.set)
        delivery.stop()
        if running.thread is not None:
            running.join()
        loop.stop()


def states() -> dict[str, int]:
    """How many rows are in each state."""
    found: dict[str, int] = {}
    for row in Outbox.select():
        found[row.state] = found.get(row.state, 0) + 1
    return found


def attempts(state: str) -> int:
    """How many attempts are in a state."""
    return int(Attempt.select().where(Attempt.state == state).count())


@pytest.mark.usefixtures("outbox")
class TestDelivery:
    """On both databases."""

    def test_everything_due_is_delivered_once(self) -> None:
        for number in range(50):
            enqueue(f"k{number}")
        with worker() as running:
            running.delivery.deliver()
        assert states() == {"submitted": 50}
        assert set(running.provider.accepted.values()) == {1}

    def test_each_outcome_ends_in_its_state(self) -> None:
        for name in ("fine", "refuse", "later", "lost", "account", "raise"):
            enqueue(name, f"{name}@example.com")
        with worker() as running:
            running.delivery.deliver()
        found = {row.dedup_key: (row.state, row.attempts) for row in Outbox.select()}
        assert found == {
            "fine": ("submitted", 0),
            "refuse": ("failed", 0),
            "later": ("pending", 1),
            "lost": ("ambiguous", 0),
            "account": ("pending", 0),
            "raise": ("ambiguous", 0),
        }

    def test_only_calls_with_a_slot_are_begun(self) -> None:
        for number in range(10):
            enqueue(f"k{number}", "stall@example.com")
        with worker(concurrency=3) as running:
            running.run()
            until(lambda: running.provider.in_flight == 3)
            assert (attempts("started"), attempts("claimed")) == (3, 7)
        assert running.provider.most_in_flight == 3

    def test_a_slow_call_does_not_hold_up_others(self) -> None:
        enqueue("slow", "stall@example.com", priority=0)
        for number in range(30):
            enqueue(f"k{number}")
        with worker(concurrency=2) as running:
            running.run()
            until(lambda: states().get("submitted") == 30)
            assert states() == {"submitted": 30, "sending": 1}

    def test_work_that_comes_during_a_run_is_found_by_its_hint(self) -> None:
        enqueue("slow", "stall@example.com")
        with worker() as running:
            running.run()
            until(lambda: running.provider.in_flight == 1)
            enqueue("late")
            running.delivery.deliver()
            until(lambda: states().get("submitted") == 1)

    def test_a_message_that_cannot_be_composed_fails_alone(self) -> None:
        insert_plainly("bad", ["nobody"], subject="Hi", text="Hello")
        insert_plainly("worse", [], subject="Hi", text="Hello")
        insert_plainly("template", ["a@example.com"], template="missing-v1", context={})
        enqueue("good")
        with worker() as running:
            running.delivery.deliver()
        assert states() == {"failed": 3, "submitted": 1}
        reasons = {
            each.outbox.dedup_key: each.reason or ""
            for each in Attempt.select().where(Attempt.outcome == "permanent")
        }
        assert reasons["bad"].startswith("to[0]: ")
        assert reasons["template"].startswith("template: ")
        assert "nobody" not in reasons["bad"]

    def test_a_row_that_cannot_be_frozen_in_the_database_fails_alone(self) -> None:
        odd = insert_plainly("odd", ["a@example.com"], subject="Hi", text="Hello")
        Recipient.create(
            outbox=odd, address="a@example.com", address_key="a@example.com", role="to"
        )
        insert_plainly("fine", ["a@example.com"], subject="Hi", text="Hello")
        with worker() as running:
            running.delivery.deliver()
        assert {row.dedup_key: row.state for row in Outbox.select()} == {
            "odd": "failed",
            "fine": "submitted",
        }
        assert Attempt.get(Attempt.outbox == odd).rule == "not-storable"

    def test_a_plain_insert_is_frozen_and_delivered(self, tmp_path: object) -> None:
        insert_plainly("one", "ann@example.com", subject="Hi", html="<p>Hello</p>")
        insert_plainly(
            "two",
            ["Bob <bob@Example.com>"],
            sender="other@example.com",
            subject="Hi",
            text="Hello",
            headers={"X-Kind": "welcome"},
        )
        with worker() as running:
            running.delivery.deliver()
        assert states() == {"submitted": 2}
        contents = [each.content for each in running.provider.calls]
        assert any(b"X-Kind: welcome\r\n" in each for each in contents)
        assert {each.sender for each in running.provider.calls} == {
            "shop@example.com",
            "other@example.com",
        }
        row = Outbox.get(Outbox.dedup_key == "two")
        assert row.to == ["Bob <bob@example.com>"]
        assert row.message_id is not None

    def test_attempts_repeat_the_message_but_for_their_mark(self) -> None:
        row, _ = enqueue(to="later@example.com")
        with worker() as running:
            running.delivery.deliver()
            make_due(row.id)
            running.delivery.deliver()
        first, second = (
            each.content.replace(each.request_tag.encode(), b"TAG")
            for each in running.provider.calls
        )
        assert first != second
        assert first.replace(b"X-Outbox-Attempt: 1.TAG", b"X-Outbox-Attempt: 2.TAG") == second

    def test_a_message_that_expires_before_its_call_is_not_sent(self) -> None:
        def expire(call: Call) -> None:
            with database.connected():
                pass_expiry(second.id)

        first, _ = enqueue("first", priority=0)
        second, _ = enqueue("second")
        with worker(provider=ScriptedProvider(on_call=expire), concurrency=1) as running:
            running.delivery.deliver()
            Sweeper(POLICY, middle).sweep()
        assert (row_of(first.id).state, row_of(second.id).state) == ("submitted", "expired")
        assert len(running.provider.calls) == 1

    def test_leases_are_renewed_while_calls_are_in_flight(self) -> None:
        row, _ = enqueue(to="stall@example.com")
        with worker(lease_seconds=3.0) as running:
            running.run()
            until(lambda: running.provider.in_flight == 1)
            first = row_of(row.id).lease_expires_at
            until(lambda: row_of(row.id).lease_expires_at > first)
        assert row_of(row.id).state == "submitted"

    def test_a_call_whose_lease_ran_out_hands_nothing_over(self) -> None:
        row, _ = enqueue(to="stall@example.com")
        with worker() as running:
            running.run()
            until(lambda: running.provider.in_flight == 1)
            (flight,) = running.delivery._airspace.flying.values()
            flight.lease_deadline = 0.0
            running.loop.call(running.provider.let_go.set)
            running.join()
        attempt = Attempt.get()
        assert running.provider.accepted == {}
        assert (attempt.outcome, attempt.rule) == ("retryable", "lease-expired")
        assert row_of(row.id).state == "pending"

    def test_one_result_that_cannot_be_stored_takes_no_other_with_it(self) -> None:
        class Unstorable(ScriptedProvider):
            async def send(self, call: Call) -> CallResult:
                result = await super().send(call)
                if call.recipients[0].address.startswith("odd"):
                    return CallResult(
                        Outcome.ACCEPTED, Scope.MESSAGE, "x" * 99, "r", result.recipients
                    )
                return result

        for name in ("odd", "fine", "also"):
            enqueue(name, f"{name}@example.com")
        with worker(provider=Unstorable()) as running:
            running.delivery.deliver()
        assert Outbox.select().where(Outbox.state == "submitted").count() >= 2

    def test_a_result_that_cannot_be_settled_alone_does_not_undo_what_began_beside_it(self) -> None:
        class Unstorable(ScriptedProvider):
            async def send(self, call: Call) -> CallResult:
                result = await super().send(call)
                odd = call.recipients[0].address.startswith("odd")
                return replace(result, stage="x" * 99) if odd else result

        again, _ = enqueue("again", "odd@example.com", on_ambiguous="resend")
        # What was sent again in doubt is settled by itself, under its row's lock.
        Outbox.update(resends=1, priority=0).where(Outbox.id == again.id).execute()
        for number in range(3):
            enqueue(f"k{number}", f"fine{number}@example.com")
        with worker(provider=Unstorable(), concurrency=1) as running:
            running.delivery.deliver()
        assert states().get("submitted", 0) >= 3

    def test_stopping_releases_claims_and_waits_for_calls(self) -> None:
        for number in range(6):
            enqueue(f"k{number}", "stall@example.com")
        with worker(concurrency=2) as running:
            running.run()
            until(lambda: running.provider.in_flight == 2)
            running.delivery.stop()
            until(lambda: states().get("pending") == 4)
            running.loop.call(running.provider.let_go.set)
            running.join()
        assert states() == {"pending": 4, "submitted": 2}
        assert all(row.attempts == 0 for row in Outbox.select())

    def test_a_call_still_open_at_the_deadline_is_written_down(self) -> None:
        row, _ = enqueue(to="stall@example.com")
        with worker(shutdown_seconds=3.2) as running:
            running.run()
            until(lambda: running.provider.in_flight == 1)
            running.delivery.stop()
            running.join()
        attempt = Attempt.get()
        assert row_of(row.id).state == "ambiguous"
        assert (attempt.outcome, attempt.rule, attempt.stage) == (
            "ambiguous",
            "cancelled",
            "after_dot",
        )

    def test_a_stopped_delivery_claims_no_more(self) -> None:
        enqueue()
        with worker() as running:
            running.delivery.stop()
            running.delivery.deliver()
        assert states() == {"pending": 1}

    def test_attachments_are_read_when_the_message_is_composed(self) -> None:
        enqueue(attachments=[("note.txt", b"the note", "text/plain")])
        with worker() as running:
            running.delivery.deliver()
        (call,) = running.provider.calls
        assert b'filename="note.txt"' in call.content


def test_nothing_is_open_or_locked_during_a_call(postgres_outbox: str) -> None:
    """I6, seen from another connection in the middle of each call."""
    open_during_calls: list[int] = []

    def look(call: Call) -> None:
        connection = psycopg2.connect(postgres_outbox)
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT id FROM email_outbox WHERE id = %s FOR UPDATE NOWAIT",
                    [call.outbox_id],
                )
                cursor.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND state LIKE 'idle in transaction%%' AND pid <> pg_backend_pid()"
                )
                open_during_calls.append((cursor.fetchone() or (0,))[0])
        finally:
            connection.close()

    for number in range(5):
        enqueue(f"k{number}")
    with worker(provider=ScriptedProvider(on_call=look), concurrency=1) as running:
        running.delivery.deliver()
    assert len(open_during_calls) == 5
    assert states() == {"submitted": 5}


def test_results_survive_the_loss_of_the_database_connection(postgres_outbox: str) -> None:
    """Cut between the provider's answer and its writing."""
    enqueue(to="stall@example.com")
    with worker() as running:
        running.run()
        until(lambda: running.provider.in_flight == 1)
        _cut_others(postgres_outbox)
        running.loop.call(running.provider.let_go.set)
        running.join()
    assert running.unwritten == []
    assert states() == {"submitted": 1}
    assert sum(running.provider.accepted.values()) == 1


def _cut_others(url: str) -> None:
    """End every connection of this database but the test's own, which is in this thread."""
    own = database.bound().execute_sql("SELECT pg_backend_pid()").fetchone()
    database.bound().execute_sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> ALL (%s)",
        ([own[0]],),
    )
