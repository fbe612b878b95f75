"""Which provider a message goes to now: orders, circuits, probes and rates.

The first provider of an order takes everything while its circuit is closed. The next one is used
only while it is not: a row that can be claimed is proven not accepted, and one that is sent again
although it is in doubt stays with the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mailer import claims, health
from mailer.circuit import CircuitPolicy, CircuitState, is_trouble
from mailer.clock import Clock
from mailer.health import Health
from mailer.log import get_logger
from mailer.outcome import CallResult

SNAPSHOT_SECONDS = 0.5
"""How old the picture of circuits may be that decides whether a claimed message still goes out."""

GRANT_SECONDS = 1.0
"""How long a grant that was not used keeps."""

PAUSE_SECONDS = (0.02, 1.0)
"""The shortest and the longest wait for the next grant of a rate."""

_log = get_logger("mailer.routing")


@dataclass(frozen=True, slots=True)
class Order:
    """Providers by preference, for the streams named, or for all that no other order names."""

    providers: tuple[str, ...]
    streams: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Errand:
    """One claim to make: up to `limit` rows of `scope` for `provider`; `probe` names a circuit."""

    provider: str
    scope: claims.Scope
    limit: int
    probe: str | None = None


@dataclass(slots=True)
class Router:
    """Reads the shared health of providers and turns it into claims, grants and pauses."""

    orders: Sequence[Order]
    default_sender: str
    probe_seconds: float
    clock: Clock
    policy: CircuitPolicy = field(default_factory=CircuitPolicy)
    _known: Mapping[str, Health] = field(default_factory=dict)
    _known_at: float = float("-inf")
    _grants: dict[str, int] = field(default_factory=dict)
    _granted_at: dict[str, float] = field(default_factory=dict)
    _pause_seconds: float | None = None

    def refresh(self, *, at_once: bool = False) -> None:
        """Read the health of providers unless that was done a moment ago."""
        if at_once or self.clock() - self._known_at >= SNAPSHOT_SECONDS:
            self._known = health.snapshot()
            self._known_at = self.clock()

    def errands(self, limit: int) -> list[Errand]:
        """Say what may be claimed now; takes the probe of a circuit whose time is up."""
        self.refresh(at_once=True)
        made = [self._errand(order, limit) for order in self.orders]
        probes = [each for order in self.orders for each in self._sender_probes(order)]
        return [each for each in made if each is not None] + probes

    @property
    def is_all_clear(self) -> bool:
        """Whether no circuit is open and nothing is counted against any provider."""
        return all(
            each.is_clean and each.state is CircuitState.CLOSED for each in self._known.values()
        )

    def is_held(self, provider: str, sender: str) -> bool:
        """Tell whether a circuit opened over a message that has been claimed."""
        if not self._is_closed(provider):
            return True
        return (sender or self.default_sender) in self._held_senders(provider)

    def grant(self, provider: str, recipients: int) -> bool:
        """Tell whether a message may go out now under the provider's rate, and count it."""
        known = self._known.get(provider)
        if known is None or known.rate is None:
            return True
        held = self._unused(provider)
        if held < recipients:
            held += health.take(provider, max(recipients - held, int(known.rate / 10)))
            self._granted_at[provider] = self.clock()
        granted = held >= recipients
        self._grants[provider] = held - recipients if granted else held
        if not granted:
            self._wait_for(1.0 / known.rate)
        return granted

    def _unused(self, provider: str) -> int:
        """Grants keep for a moment only: spent much later, they would come on top of the rate."""
        age = self.clock() - self._granted_at.get(provider, float("-inf"))
        return self._grants.get(provider, 0) if age < GRANT_SECONDS else 0

    def pause_seconds(self) -> float | None:
        """How long to wait for the next grant, where one was missing since the last call."""
        pause, self._pause_seconds = self._pause_seconds, None
        return pause

    def note(self, provider: str, ended: Sequence[tuple[str, CallResult]]) -> bool:
        """Count what calls came to into the shared health; tell whether a circuit has closed."""
        trouble = any(is_trouble(result) for _, result in ended)
        if self.is_all_clear and not trouble:
            return False
        changes = health.note(provider, ended, self._known, self.policy)
        for each in changes:
            opened = each.state is CircuitState.OPEN
            (_log.warning if opened else _log.info)(
                "circuit opened" if opened else "circuit closed",
                provider=provider,
                about="sender" if each.sender else "provider",
                reason=each.reason,
            )
        # Another worker may have met the same trouble first, and opened the circuit.
        if changes or trouble:
            self.refresh(at_once=True)
        return any(each.state is CircuitState.CLOSED for each in changes)

    def no_probe_sent(self, errand: Errand) -> None:
        """Give back a probe for which nothing was due."""
        if errand.probe is not None:
            health.give_back_probe(errand.probe)
            self.refresh(at_once=True)

    def _errand(self, order: Order, limit: int) -> Errand | None:
        for place, provider in enumerate(order.providers):
            scope = self._scope(order, provider, first_sends=place > 0)
            if self._is_closed(provider):
                return Errand(provider, scope, self._bounded(provider, limit))
            if self._known[provider].ready and self._take_probe(provider):
                return Errand(provider, scope, 1, probe=provider)
        return None

    def _sender_probes(self, order: Order) -> list[Errand]:
        return [
            Errand(
                each.provider,
                claims.Scope(
                    streams=order.streams,
                    only_sender=each.sender,
                    default_sender=self.default_sender,
                ),
                1,
                probe=each.name,
            )
            for each in self._known.values()
            if each.sender is not None
            and each.provider == order.providers[0]
            and each.state is not CircuitState.CLOSED
            and each.ready
            and self._is_closed(each.provider)
            and self._take_probe(each.name)
        ]

    def _scope(self, order: Order, provider: str, *, first_sends: bool) -> claims.Scope:
        others = [each.streams for each in self.orders if each is not order and each.streams]
        return claims.Scope(
            streams=order.streams,
            other_streams=() if order.streams else tuple(name for of in others for name in of),
            held_senders=self._held_senders(provider),
            default_sender=self.default_sender,
            first_sends=first_sends,
        )

    def _held_senders(self, provider: str) -> tuple[str, ...]:
        return tuple(
            each.sender
            for each in self._known.values()
            if each.provider == provider
            and each.sender is not None
            and each.state is not CircuitState.CLOSED
        )

    def _is_closed(self, provider: str) -> bool:
        known = self._known.get(provider)
        return known is None or known.state is CircuitState.CLOSED

    def _take_probe(self, name: str) -> bool:
        return health.claim_probe(name, seconds=self.probe_seconds)

    def _bounded(self, provider: str, limit: int) -> int:
        """Claim no more than a few seconds' worth: the rest is for other workers."""
        known = self._known.get(provider)
        if known is None or known.rate is None:
            return limit
        return max(1, min(limit, int(known.rate * 5)))

    def _wait_for(self, seconds: float) -> None:
        shortest, longest = PAUSE_SECONDS
        pause = min(longest, max(shortest, seconds))
        self._pause_seconds = min(pause, self._pause_seconds or pause)
