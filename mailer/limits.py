"""Asking providers what the account may send, now and then, one worker for all."""

from collections.abc import Mapping
from dataclasses import dataclass

from mailer import health
from mailer.circuit import CircuitPolicy
from mailer.database import AWAY, connected
from mailer.log import get_logger
from mailer.loop import LoopThread
from mailer.provider import Provider

EVERY_SECONDS = 300.0
_ANSWER_SECONDS = 20.0

_log = get_logger("mailer.limits")


@dataclass(frozen=True, slots=True)
class LimitsKeeper:
    """Keeps rates and quotas in the database true to what the providers say."""

    providers: Mapping[str, Provider]
    loop: LoopThread

    def refresh(self, *, at_start: bool = False) -> None:
        """Ask where nobody has lately; at the start always, for settings may say a new rate."""
        try:
            with connected():
                for name, provider in self.providers.items():
                    if health.claim_limits(name, every_seconds=0 if at_start else EVERY_SECONDS):
                        self._ask(name, provider)
        except AWAY as error:
            _log.warning("database away", error=type(error).__name__)

    def _ask(self, name: str, provider: Provider) -> None:
        limits = self.loop.run(provider.limits(), timeout_seconds=_ANSWER_SECONDS)
        health.set_limits(name, rate=limits.rate_per_second, left_today=limits.left_today)
        used_up = limits.left_today is not None and limits.left_today <= 0
        seconds = CircuitPolicy().quota_pause_seconds
        if used_up and health.pause(name, reason="quota used up", seconds=seconds):
            _log.warning("circuit opened", provider=name, about="provider", reason="quota used up")
