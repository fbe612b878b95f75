"""Claims in quick succession: each begins where the last one ended, and now and then at the top.

While a transaction is open anywhere in the database, an index keeps the entries of all rows that
were claimed since it began, and every claim from the top walks over them. Continuing beyond them
keeps a claim's cost the same; what may lie behind is found by a claim from the top, which is made
whenever one that continued did not find enough, and at least every `TOP_SECONDS`.
"""

from dataclasses import dataclass

from mailer import claims
from mailer.claims import Claimed, Frontier, Scope
from mailer.clock import Clock
from mailer.routing import Errand

TOP_SECONDS = 1.0
"""How long something that was passed over may have to wait while the queue is full."""


_MOST_REMEMBERED = 100
"""Scopes change with what circuits hold back: those of long ago are of no use."""


@dataclass(slots=True)
class _Progress:
    top_at: float
    frontier: Frontier


class Claimant:
    """Runs the errands of one worker, from the one thread that owns it."""

    def __init__(self, lease_seconds: float, clock: Clock) -> None:
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._progress: dict[tuple[str, Scope], _Progress] = {}

    def claim(self, errand: Errand) -> list[Claimed]:
        """Claim what an errand asks for, most urgent first."""
        about = (errand.provider, errand.scope)
        progress = self._progress.get(about)
        taken: list[Claimed] = []
        if progress is not None and self._clock() - progress.top_at < TOP_SECONDS:
            taken = self._take(errand, errand.limit, progress.frontier)
        if progress is None or len(taken) < errand.limit:
            progress = self._begin_at_top(about)
            taken += self._take(errand, errand.limit - len(taken), None)
        progress.frontier.advance(taken)
        return taken

    def _begin_at_top(self, about: tuple[str, Scope]) -> _Progress:
        if len(self._progress) >= _MOST_REMEMBERED:
            self._progress.clear()
        self._progress[about] = _Progress(self._clock(), Frontier())
        return self._progress[about]

    def _take(self, errand: Errand, limit: int, beyond: Frontier | None) -> list[Claimed]:
        return claims.claim_due(
            limit,
            provider=errand.provider,
            lease_seconds=self._lease_seconds,
            scope=errand.scope,
            beyond=beyond,
        )
