"""claim -> check -> begin -> send -> finish, in batches, continuously while there is work.

One thread of a process owns all of this; the calls themselves run on the event loop. A claimed
message is composed and begun only when a call slot is free for it, so that no more calls are in
doubt after a crash than were really in flight.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mailer import claims, endings, results, suppressions, turns
from mailer.airspace import Airspace
from mailer.circuit import is_trouble
from mailer.claimant import Claimant
from mailer.claims import Claimed
from mailer.clock import Clock, awake_or_asleep
from mailer.database import AWAY, DatabaseError, bound, connected
from mailer.flight import Flight
from mailer.loading import Loader
from mailer.log import get_logger
from mailer.outcome import CallResult
from mailer.provider import Refusal
from mailer.results import Ended
from mailer.retry import Jitter, RetryPolicy
from mailer.routing import Errand, Router
from mailer.states import RowState

_log = get_logger("mailer.delivery")

Unwritten = Callable[[Sequence[Ended]], bool]
"""Takes a copy of results that the database would not take; False when it could not."""


RECONNECT_SECONDS = 1.0
"""Between two tries to reach a database that is away."""

CANCEL_SECONDS = 3.0
"""Kept at the end of the shutdown time for cancelled calls to come back and be written down."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a worker process works: sizes in messages, times in seconds."""

    batch: int
    concurrency: int
    lease_seconds: float
    renew_seconds: float
    poll_seconds: float
    shutdown_seconds: float


class Delivery:
    """The delivery of one worker process."""

    def __init__(
        self,
        *,
        airspace: Airspace,
        loader: Loader,
        pace: Pace,
        policy: RetryPolicy,
        jitter: Jitter,
        router: Router,
        unwritten: Unwritten,
        clock: Clock = awake_or_asleep,
    ) -> None:
        self._airspace = airspace
        self._loader = loader
        self._pace = pace
        self._policy = policy
        self._jitter = jitter
        self._router = router
        self._claimant = Claimant(pace.lease_seconds, clock)
        self._unwritten = unwritten
        self._clock = clock
        self._running = threading.Lock()
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._stop_deadline = 0.0
        self._ready: deque[Flight] = deque()
        self._ended: list[Ended] = []
        self._handed_over: set[int] = set()
        self._next_claim = 0.0
        self._next_renewal = 0.0

    def deliver(self) -> None:
        """Deliver what is due until nothing is, or tell the run that is under way to look again.

        Never raises because the database is away: the poll will call again.
        """
        self._wanted.set()
        self._airspace.wake()
        while self._wanted.is_set() and self._running.acquire(blocking=False):
            try:
                with connected():
                    self._run()
            except AWAY as error:
                self._wanted.clear()
                _log.warning("database away", error=type(error).__name__)
            finally:
                self._running.release()

    def stop(self) -> None:
        """Claim no more, give back what has not begun, and end by the shutdown deadline."""
        self._stop_deadline = self._clock() + self._pace.shutdown_seconds
        self._stopping.set()
        self._airspace.wake()

    def wait_until_idle(self) -> bool:
        """Wait for the run under way to end; False when it has not by the shutdown deadline."""
        patience = max(0.0, self._stop_deadline - self._clock())
        if self._running.acquire(timeout=patience):
            self._running.release()
            return True
        return False

    def _run(self) -> None:
        self._next_renewal = self._clock() + self._pace.renew_seconds
        while not self._stopping.is_set():
            try:
                self._claim()
                self._turn(self._next_group())
                if self._nothing_left():
                    return
                self._take_landings(self._wait_seconds())
                self._renew()
            except AWAY as error:
                if not self._recover(error):
                    return
        self._wanted.clear()
        self._wind_down()

    def _nothing_left(self) -> bool:
        return not (self._ready or self._airspace.flying or self._ended or self._wanted.is_set())

    def _claim(self) -> None:
        if len(self._ready) >= self._pace.concurrency:
            return
        if not self._wanted.is_set() and self._clock() < self._next_claim:
            return
        self._wanted.clear()
        self._next_claim = self._clock() + self._pace.poll_seconds
        for errand in self._router.errands(self._pace.batch):
            self._run_errand(errand)

    def _run_errand(self, errand: Errand) -> None:
        asked_at, lease_seconds = self._clock(), self._pace.lease_seconds
        taken = self._claimant.claim(errand)
        probe = errand.probe is not None
        self._withhold([each for each in taken if each.is_barred])
        if not taken:
            self._router.no_probe_sent(errand)
        elif len(taken) == errand.limit and not probe:
            self._wanted.set()
        self._ready.extend(
            Flight.under_lease(
                each, self._clock, asked_at=asked_at, lease_seconds=lease_seconds, probe=probe
            )
            for each in taken
            if not each.is_barred
        )

    def _withhold(self, barred: Sequence[Claimed]) -> set[int]:
        """Leave suppressed recipients out; what remains of a message is claimed again."""
        done = suppressions.withhold(barred)
        for outbox_id, state in done:
            _log.info("recipients suppressed", outbox_id=outbox_id, state=state.value)
            if state is RowState.PENDING:
                self._wanted.set()
        return {outbox_id for outbox_id, _ in done}

    def _next_group(self) -> list[Flight]:
        """Take what may go out now: a slot free, its circuit closed, its rate not used up.

        Nothing begins together with the writing of trouble, which may open a circuit.
        """
        if any(is_trouble(each.result) for each in self._ended):
            return []
        self._router.refresh()
        self._release_held()
        free = self._pace.concurrency - len(self._airspace.flying)
        taken: list[Flight] = []
        waiting: deque[Flight] = deque()
        slowed: set[str] = set()
        while self._ready and len(taken) < free:
            flight = self._ready.popleft()
            provider = flight.claimed.provider
            if provider not in slowed and self._may_go(flight):
                taken.append(flight)
            else:
                slowed.add(provider)
                waiting.append(flight)
        self._ready.extendleft(reversed(waiting))
        loaded, failed = self._loader.load(taken)
        self._ended.extend(endings.ended(flight, result) for flight, result in failed)
        return loaded

    def _may_go(self, flight: Flight) -> bool:
        claimed = flight.claimed
        return flight.probe or self._router.grant(claimed.provider, claimed.recipient_count())

    def _release_held(self) -> None:
        """Give back what was claimed before a circuit opened over it."""
        if self._router.is_all_clear:
            return
        held = [
            each
            for each in self._ready
            if not each.probe and self._router.is_held(each.claimed.provider, each.claimed.sender)
        ]
        if held:
            self._ready = deque(each for each in self._ready if each not in held)
            claims.release([each.claimed for each in held])

    def _turn(self, group: list[Flight]) -> None:
        """Write what has ended and mark what begins, in one commit."""
        if not group and not self._ended:
            return
        ended, self._ended = self._ended, []
        try:
            turned = turns.turn(ended, [each.claimed for each in group], self._policy, self._jitter)
        except AWAY:
            # Whether the marks were committed is unknown; that nothing was sent is not.
            unsent = [endings.ended(each, endings.not_recorded(each)) for each in group]
            self._ended = ended + unsent + self._ended
            raise
        except DatabaseError:
            if not ended:
                raise
            self._ready.extendleft(reversed(group))
            self._write_singly(ended)
            return
        endings.report(turned.ended, turned.written)
        self._airspace.start([each for each in group if each.claimed.attempt_id in turned.begun])
        self._write_singly(turned.left)
        self._handed_over.clear()
        self._set_aside([each for each in group if each.claimed.attempt_id not in turned.begun])
        self._note_health(ended)

    def _note_health(self, ended: Sequence[Ended]) -> None:
        about: dict[str, list[tuple[str, CallResult]]] = {}
        for each in ended:
            if each.claimed is not None:
                signs = about.setdefault(each.claimed.provider, [])
                signs.append((each.claimed.sender, each.result))
        for provider, signs in about.items():
            if self._router.note(provider, signs):
                self._wanted.set()

    def _write_singly(self, ended: Sequence[Ended]) -> None:
        """One result that cannot be stored must not take the others with it."""
        for place, each in enumerate(ended):
            try:
                endings.report([each], results.finish([each], self._policy, self._jitter))
            except AWAY:
                self._ended.extend(ended[place:])
                raise
            except DatabaseError as error:
                _log.error(
                    "result cannot be stored",
                    outbox_id=each.outbox_id,
                    attempt_id=each.attempt_id,
                    error=type(error).__name__,
                )

    def _set_aside(self, flights: Sequence[Flight]) -> None:
        """Settle what may not begin.

        Expired ones end, suppressed recipients are left out, lost or locked ones go back.
        """
        if not flights:
            return
        expired = [each for each in flights if each.refusal() is Refusal.MESSAGE_EXPIRED]
        self._ended.extend(endings.ended(each, endings.expired(each)) for each in expired)
        withheld = self._withhold([each.claimed for each in flights if each not in expired])
        claims.release(
            [
                each.claimed
                for each in flights
                if each not in expired and each.claimed.outbox_id not in withheld
            ]
        )

    def _take_landings(self, wait_seconds: float) -> None:
        group = max(1, min(len(self._airspace.flying), self._pace.concurrency // 2))
        landed = self._airspace.landings(wait_seconds, group=group)
        self._ended.extend(endings.ended(flight, result) for flight, result in landed)

    def _wait_seconds(self) -> float:
        pause = self._router.pause_seconds()
        idle_slots = len(self._airspace.flying) < self._pace.concurrency
        if self._ended or (self._ready and idle_slots and pause is None):
            return 0.0
        longest = max(0.0, min(self._next_claim, self._next_renewal) - self._clock())
        return longest if pause is None else min(longest, pause)

    def _renew(self) -> None:
        asked_at = self._clock()
        if asked_at < self._next_renewal:
            return
        self._next_renewal = asked_at + self._pace.renew_seconds
        held = [*self._airspace.flying.values(), *self._ready]
        renewed = claims.renew(
            [each.claimed for each in held], lease_seconds=self._pace.lease_seconds
        )
        for each in held:
            if each.claimed.attempt_id in renewed:
                each.lease_deadline = asked_at + self._pace.lease_seconds
        self._ready = deque(
            each for each in self._ready if each.refusal() is not Refusal.LEASE_EXPIRED
        )

    def _recover(self, error: Exception) -> bool:
        """Come back from a lost database; False when there is nothing to come back for.

        What was claimed and not begun is forgotten: its leases run out at no cost.
        """
        _log.warning("database away", error=type(error).__name__)
        self._ready.clear()
        with contextlib.suppress(*AWAY):
            bound().close()
        if not self._airspace.flying and not self._ended:
            return False
        self._take_landings(RECONNECT_SECONDS)
        try:
            bound().connect(reuse_if_open=True)
        except AWAY:
            self._hand_over()
        return True

    def _hand_over(self) -> None:
        """Give a copy of what is unwritten to whoever outlives this process.

        Both copies are written when the database is back: the second changes nothing.
        """
        fresh = [each for each in self._ended if each.attempt_id not in self._handed_over]
        if fresh and self._unwritten(fresh):
            self._handed_over.update(each.attempt_id for each in fresh)

    def _wind_down(self) -> None:
        """Stop: give back, wait for what is in flight, and write down what is still open."""
        with contextlib.suppress(*AWAY):
            claims.release([each.claimed for each in self._ready])
        self._ready.clear()
        self._land_until(self._stop_deadline - CANCEL_SECONDS)
        self._airspace.cancel_all()
        self._land_until(self._stop_deadline - CANCEL_SECONDS / 2)
        self._ended.extend(
            endings.ended(each, endings.stopped(each)) for each in self._airspace.flying.values()
        )
        self._write_down()

    def _land_until(self, deadline: float) -> None:
        while self._airspace.flying and (left := deadline - self._clock()) > 0:
            self._take_landings(min(left, self._pace.renew_seconds))
            self._write_down()
            with contextlib.suppress(*AWAY):
                self._renew()

    def _write_down(self) -> None:
        try:
            self._turn([])
        except AWAY as error:
            self._recover(error)
