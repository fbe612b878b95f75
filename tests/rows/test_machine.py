"""Any order of claims, sends, crashes, sweeps, proofs, late answers and people keeps the promise.

The judge is the scripted provider's own log, not the tables.
"""

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field

import peewee
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mailer import claims, database, outbox, overdue, results, suppressions
from mailer.claims import Claimed
from mailer.facts import SuppressionReason
from mailer.flight import Flight
from mailer.migrations import migrate
from mailer.outcome import CallResult, Outcome, RecipientVerdict, Scope
from mailer.proofs import Proof, apply_proof
from mailer.settlement import in_doubt, lock_row, settle_doubt
from mailer.states import FINAL_STATES, WITHDRAWN_STATES, Resolution, RowState
from mailer.suppressions import Barred
from mailer.tables import Attempt, Outbox, Recipient
from tests.builders import POLICY, PROVIDER, ended, enqueue, middle

LEASE_SECONDS = 60.0

FIRST = "r0@example.com"
TOMORROW = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
"""Later than any release: what happened before one would not suppress the address again."""

WORKERS = st.integers(0, 1)
NAMED = st.sampled_from(["all", "first", "last"])
POLICIES = st.sampled_from(["hold", "hold", "resend", "assume_sent"])
REPLIES = st.lists(
    st.sampled_from([Outcome.ACCEPTED, Outcome.RETRYABLE, Outcome.PERMANENT]),
    min_size=2,
    max_size=2,
)


@dataclass
class Call:
    """A worker's view of one claimed message."""

    claimed: Claimed
    flight: Flight
    begun: bool = False
    handed_over: bool = False
    replies: dict[int, Outcome] = field(default_factory=dict)

    def result(self) -> CallResult:
        """What the worker would write with the provider's answer in hand."""
        verdicts = tuple(
            RecipientVerdict(each, outcome, Scope.RECIPIENT, "scripted")
            for each, outcome in self.replies.items()
        )
        order = (Outcome.ACCEPTED, Outcome.RETRYABLE, Outcome.PERMANENT)
        whole = next(each for each in order if each in self.replies.values())
        return CallResult(whole, Scope.RECIPIENT, "after_dot", "scripted", verdicts)

    def unanswered(self) -> CallResult:
        """What it would write with the answer lost."""
        return self.flight.never_sent(
            Outcome.AMBIGUOUS, Scope.CONNECTION, stage="after_dot", rule="lost", reason=""
        )

    def unsent(self) -> CallResult:
        """What it would write when nothing was handed over."""
        return self.flight.never_sent(
            Outcome.RETRYABLE, Scope.CONNECTION, stage="body", rule="unsent", reason=""
        )


@dataclass(frozen=True)
class Taken:
    """What the provider knows of a call of which it took something."""

    claimed: Claimed
    addresses: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it took the call for everybody."""
        return len(self.addresses) == len(self.claimed.due)


class Lifecycle(RuleBasedStateMachine):
    """Two workers, evidence, operators and time around a few messages.

    A worker's next step follows from where it stands, so that few steps are spent on nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.accepted: Counter[tuple[int, int]] = Counter()
        self.taken: list[Taken] = []
        self.workers: list[Call | None] = [None, None]
        self.latest = 0
        database.bind(peewee.SqliteDatabase(":memory:"))
        migrate_in_place()

    def teardown(self) -> None:
        """Leave no connection behind."""
        database.bound().close()
        database.proxy.initialize(None)

    @initialize(recipients=st.integers(1, 2), policy=POLICIES)
    def enqueue(self, recipients: int, policy: str) -> None:
        self.latest += 1
        to = [f"r{number}@example.com" for number in range(recipients)]
        enqueue(f"k{self.latest}", to, on_ambiguous=policy)

    @precondition(lambda self: self.latest < 8)
    @rule(recipients=st.integers(1, 2), policy=POLICIES)
    def enqueue_another(self, recipients: int, policy: str) -> None:
        self.enqueue(recipients, policy)

    @rule(number=WORKERS, steps=st.integers(1, 4), replies=REPLIES, answered=st.booleans())
    def work(self, number: int, steps: int, replies: list[Outcome], answered: bool) -> None:
        for _ in range(steps):
            self.step(number, replies, answered)

    def step(self, number: int, replies: list[Outcome], answered: bool) -> bool:
        """Take a worker's next step; tell whether it holds a message after that."""
        call = self.workers[number]
        if call is None:
            self.claim(number)
        elif not call.begun:
            call.begun = claims.begin([call.claimed]) == {call.claimed.attempt_id}
            if not call.begun:
                suppressions.withhold([call.claimed])
                self.workers[number] = None
        elif not call.handed_over and call.flight.refusal() is None:
            self.hand_over(call, replies)
        else:
            self.finish(call, answered)
            self.workers[number] = None
        return self.workers[number] is not None

    def claim(self, number: int) -> None:
        asked_at = self.now
        taken = claims.claim_due(1, provider=PROVIDER, lease_seconds=LEASE_SECONDS)
        if not taken:
            self.pass_time(30.0, swept=True)
        for each in taken:
            flight = Flight.under_lease(
                each, lambda: self.now, asked_at=asked_at, lease_seconds=LEASE_SECONDS
            )
            self.workers[number] = Call(each, flight)

    def hand_over(self, call: Call, replies: list[Outcome]) -> None:
        """The provider decides; what it accepts is accepted for good."""
        call.handed_over = True
        for recipient, reply in zip(call.claimed.due, replies, strict=False):
            call.replies[recipient.recipient_id] = reply
            if reply is Outcome.ACCEPTED:
                self.accepted[call.claimed.outbox_id, recipient.recipient_id] += 1
        replied = zip(call.claimed.due, replies, strict=False)
        taken = tuple(each.address for each, reply in replied if reply is Outcome.ACCEPTED)
        if taken:
            self.taken.append(Taken(call.claimed, taken))

    @precondition(lambda self: self.taken)
    @rule(back=st.integers(1, 3), named=NAMED)
    def hear_of_it(self, back: int, named: str) -> None:
        """Evidence of one of the latest calls, for all whom it was taken for or for one of them."""
        taken = self.taken[-min(back, len(self.taken))]
        names = {"all": taken.addresses, "first": taken.addresses[:1]}.get(
            named, taken.addresses[-1:]
        )
        outbox_id = taken.claimed.outbox_id
        proof = Proof("event", "scripted", named=names, whole=taken.is_whole)
        with database.transaction():
            apply_proof(outbox_id, taken.claimed.attempt_id, proof)
        proven = Recipient.select().where(
            (Recipient.outbox == outbox_id) & Recipient.address_key.in_(names)
        )
        assert {each.state for each in proven} == {"accepted"}

    def finish(self, call: Call, answered: bool) -> None:
        result = call.unsent()
        if call.handed_over:
            result = call.result() if answered else call.unanswered()
        before = Outbox.get_by_id(call.claimed.outbox_id)
        results.finish([ended(call.claimed, result, carried=True)], POLICY, middle)
        after = Outbox.get_by_id(call.claimed.outbox_id)
        if before.state == "sending" and before.lease_token != call.claimed.lease_token:
            self.check_a_stale_result(before, after)

    def check_a_stale_result(self, before: Outbox, after: Outbox) -> None:
        """Only a proof may end a newer claim, and only one that has not begun."""
        newer = Attempt.get(Attempt.outbox == before.id, Attempt.lease_token == before.lease_token)
        if newer.state == "started":
            assert (after.state, after.lease_token) == (before.state, before.lease_token)

    @precondition(lambda self: any(self.workers))
    @rule(number=WORKERS, answered=st.booleans(), settled=st.booleans(), replies=REPLIES)
    def overtake(self, number: int, answered: bool, settled: bool, replies: list[Outcome]) -> None:
        """A worker sleeps past its lease while the message goes its way, and then goes on."""
        self.pass_time(61.0, swept=True)
        if settled:
            self.somebody_steps_in("settle")
        for _ in range(4 if answered else 2):
            self.step(1 - number, [Outcome.ACCEPTED] * 2, answered)
        self.step(number, replies, answered)
        self.step(number, replies, answered)

    @rule(
        number=WORKERS,
        replies=REPLIES,
        crashed=st.booleans(),
        then=st.sampled_from(["heard of", "heard of", "cancel", "expire", "suppress"]),
        named=NAMED,
    )
    def go_silent(
        self, number: int, replies: list[Outcome], crashed: bool, then: str, named: str
    ) -> None:
        """The provider takes a call, nobody hears its answer, and something comes of it."""
        while not self.is_calling(number):
            if not self.step(number, replies, answered=False):
                return
        if crashed:
            self.crash(number)
            self.pass_time(61.0, swept=True)
        else:
            self.step(number, replies, answered=False)
        if then != "heard of":
            self.withdraw_while_due_again(number, then)
        if self.taken:
            self.hear_of_it(1, named)

    def is_calling(self, number: int) -> bool:
        call = self.workers[number]
        return call is not None and call.handed_over

    def withdraw_while_due_again(self, number: int, how: str) -> None:
        """Its policy has the message sent again; before that it is withdrawn."""
        self.pass_time(1000.0, swept=True)
        if how == "suppress":
            self.somebody_is_suppressed("suppress")
            self.step(number, [], answered=False)
            self.step(number, [], answered=False)
            self.somebody_is_suppressed("release")
        else:
            self.somebody_steps_in(how)
            self.pass_time(61.0, swept=True)

    @rule(number=WORKERS, what=st.sampled_from(["crash", "renew", "release"]))
    def falter(self, number: int, what: str) -> None:
        {"crash": self.crash, "renew": self.renew, "release": self.release}[what](number)

    def crash(self, number: int) -> None:
        """The worker is gone, with whatever it knew."""
        self.workers[number] = None

    def renew(self, number: int) -> None:
        call, asked_at = self.workers[number], self.now
        if call and claims.renew([call.claimed], lease_seconds=LEASE_SECONDS):
            call.flight.lease_deadline = asked_at + LEASE_SECONDS

    def release(self, number: int) -> None:
        call = self.workers[number]
        if call and not call.begun:
            claims.release([call.claimed])

    @rule(seconds=st.sampled_from([25.0, 61.0, 1000.0]), swept=st.booleans())
    def let_time_pass(self, seconds: float, swept: bool) -> None:
        self.pass_time(seconds, swept=swept)

    def pass_time(self, seconds: float, *, swept: bool) -> None:
        """The database's clock and the workers' go on together; a sweep may follow."""
        self.now += seconds
        for row in Outbox.select():
            for name in ("lease_expires_at", "next_attempt_at", "expires_at", "queued_at"):
                moment = getattr(row, name)
                if moment is not None:
                    setattr(row, name, moment - dt.timedelta(seconds=seconds))
            row.save()
        if swept:
            self.sweep()

    def sweep(self) -> None:
        overdue.end_expired_leases(10, POLICY, middle)
        overdue.expire_due(10)
        overdue.apply_policies(10, POLICY)

    @rule(what=st.sampled_from(["suppress", "release"]))
    def somebody_is_suppressed(self, what: str) -> None:
        if what == "suppress":
            suppressions.bar([Barred(FIRST, SuppressionReason.BOUNCE, "event", TOMORROW)])
        else:
            suppressions.release(FIRST, by="ann", why="asked")

    @rule(what=st.sampled_from(["expire", "cancel", *["settle"] * 4, *["requeue"] * 2]))
    def somebody_steps_in(self, what: str) -> None:
        """The application, about the latest message; an operator, about all that wait for one."""
        step = {
            "expire": self.let_it_expire,
            "cancel": self.cancel,
            "settle": self.look_and_settle,
            "requeue": self.requeue,
        }[what]
        for row_id in range(1, self.latest + 1) if what in ("settle", "requeue") else [self.latest]:
            step(row_id)

    def let_it_expire(self, row_id: int) -> None:
        later = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=30)
        Outbox.update(expires_at=later).where(Outbox.id == row_id).execute()

    def cancel(self, row_id: int) -> None:
        outbox.cancel(row_id)

    def look_and_settle(self, row_id: int) -> None:
        """A truthful operator, who can see the provider's log."""
        with database.transaction():
            row = lock_row(row_id)
            doubtful = {each for each, state in row.recipients.items() if state == "ambiguous"}
            doubtful.update(*(each.doubtful or () for each in in_doubt(row_id)))
            proven = [self.accepted[row_id, each] > 0 for each in doubtful]
            if row.state is RowState.AMBIGUOUS and len(set(proven)) == 1:
                resolution = Resolution.ACCEPTED if proven[0] else Resolution.NOT_ACCEPTED
                settle_doubt(row, resolution, by="operator", evidence="the provider's log")

    def requeue(self, row_id: int) -> None:
        if Outbox.get_by_id(row_id).state in ("failed", "suppressed"):
            outbox.requeue(row_id)

    def accepted_of(self, row_id: int) -> int:
        return sum(count for (each, _), count in self.accepted.items() if each == row_id)

    @invariant()
    def every_row_is_in_one_state_and_found_by_one_query(self) -> None:
        for row in Outbox.select():
            found = [
                row.state == "pending" and row.next_attempt_at is not None,
                row.state == "sending" and row.lease_expires_at is not None,
                row.state == "ambiguous",
                row.state in FINAL_STATES and row.finished_at is not None,
            ]
            assert found.count(True) == 1

    @invariant()
    def nothing_is_accepted_twice_on_a_guess(self) -> None:
        chosen = {row.id for row in Outbox.select().where(Outbox.resends > 0)}
        for (row_id, _), count in self.accepted.items():
            assert count == 1 or row_id in chosen

    @invariant()
    def what_is_withdrawn_did_not_go_out(self) -> None:
        for row in Outbox.select().where(Outbox.state.in_(WITHDRAWN_STATES)):
            assert not self.accepted_of(row.id)

    @invariant()
    def a_duplicate_is_marked_only_where_somebody_got_two(self) -> None:
        for attempt in Attempt.select().where(Attempt.duplicate):
            counts = [n for (row_id, _), n in self.accepted.items() if row_id == attempt.outbox.id]
            assert max(counts) > 1

    @invariant()
    def what_has_ended_is_told_truly(self) -> None:
        ended_so = ["submitted", "failed", "suppressed"]
        for row in Outbox.select().where(Outbox.state.in_(ended_so)):
            known = list(Recipient.select().where(Recipient.outbox == row.id))
            assert not any(each.state in ("due", "ambiguous") for each in known)
            assumed = Attempt.select().where(
                (Attempt.outbox == row.id) & (Attempt.resolved_by == "policy assume_sent")
            )
            for each in known:
                taken = self.accepted[row.id, each.id] > 0
                if each.state == "accepted":
                    assert taken or assumed.exists()
                else:
                    assert not taken


def migrate_in_place() -> None:
    """Keep the connection open: the database in memory ends with it."""
    database.bound().connect()
    migrate()


Lifecycle.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLifecycle = Lifecycle.TestCase
