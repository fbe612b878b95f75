"""The one fake of these tests: a provider that does as each recipient's name says."""

import asyncio
from collections import Counter
from collections.abc import Callable

from mailer.outcome import CallResult, Outcome, Scope
from mailer.provider import Call, Finding, Limits

_OUTCOMES = {
    "refuse": (Outcome.PERMANENT, Scope.RECIPIENT),
    "later": (Outcome.RETRYABLE, Scope.RECIPIENT),
    "lost": (Outcome.AMBIGUOUS, Scope.CONNECTION),
    "account": (Outcome.RETRYABLE, Scope.ACCOUNT),
}


class ScriptedProvider:
    """Accepts everything but what a local part's first word asks for.

    `stall` waits for `let_go`; cancelled, it answers as a provider that had passed its commit
    point. `raise` breaks the contract. `on_call` is run inside each call.
    """

    name = "scripted:test"

    def __init__(self, on_call: Callable[[Call], None] | None = None) -> None:
        self.accepted: Counter[int] = Counter()
        self.calls: list[Call] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.let_go = asyncio.Event()
        self._on_call = on_call

    async def send(self, call: Call) -> CallResult:
        self.calls.append(call)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self._on_call is not None:
                await asyncio.to_thread(self._on_call, call)
            return await self._answer(call)
        finally:
            self.in_flight -= 1

    async def _answer(self, call: Call) -> CallResult:
        word = call.recipients[0].address.partition("@")[0].partition("-")[0]
        if word == "raise":
            raise RuntimeError("breaks its contract")
        if word == "stall":
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                return _result(call, Outcome.AMBIGUOUS, Scope.CONNECTION, rule="cancelled")
        if refusal := call.may_commit():
            return _result(call, Outcome.RETRYABLE, Scope.CONNECTION, rule=refusal)
        outcome, scope = _OUTCOMES.get(word, (Outcome.ACCEPTED, Scope.MESSAGE))
        if outcome is Outcome.ACCEPTED:
            self.accepted[call.outbox_id] += 1
        await asyncio.sleep(0)
        return _result(call, outcome, scope, rule="scripted")

    async def limits(self) -> Limits:
        return Limits()

    async def check(self) -> list[Finding]:
        return []

    async def close(self) -> None:
        """Nothing to give back."""


def _result(call: Call, outcome: Outcome, scope: Scope, *, rule: str) -> CallResult:
    return CallResult.alike(
        call.recipient_ids, outcome, scope, stage="after_dot", rule=rule, code="250", reason="ok"
    )
