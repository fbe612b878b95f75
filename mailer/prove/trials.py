"""Which worlds are walked whole, and which fault must be found when something is taken away."""

from collections.abc import Mapping
from dataclasses import dataclass

from mailer.prove.explore import Explorer, Fault, Walk
from mailer.prove.guards import Guard, Premise
from mailer.prove.invariants import Invariant
from mailer.prove.world import Scenario
from mailer.states import OnAmbiguous

HOLD = Scenario("one recipient, hold")
RESEND = Scenario("one recipient, resend", on_ambiguous=OnAmbiguous.RESEND)
ASSUME_SENT = Scenario("one recipient, assume_sent", on_ambiguous=OnAmbiguous.ASSUME_SENT)
EXPIRING = Scenario("one recipient, hold, may expire", may_expire=True)
TWO = Scenario("two recipients, hold, taken together", recipients=2)
ONCE = Scenario(
    "two recipients, hold, taken together or one alone, one attempt",
    recipients=2,
    attempts=1,
    partly=True,
)

SCENARIOS = (EXPIRING, RESEND, ASSUME_SENT, TWO, ONCE)
"""Each is walked whole, with every guard and premise in place: nothing may be broken."""

SINGLY = Scenario("one recipient, hold, results written singly (SQLite)", bulk=False)
SUPPRESSED = Scenario(
    "one recipient, resend, may be suppressed", on_ambiguous=OnAmbiguous.RESEND, may_bar=True
)
RESEND_TWICE = Scenario("one recipient, resend twice", on_ambiguous=OnAmbiguous.RESEND, resends=2)
THRICE = Scenario("one recipient, hold, three attempts", attempts=3)
PARTLY = Scenario("two recipients, hold, taken together or one alone", recipients=2, partly=True)
PARTLY_RESEND = Scenario(
    "two recipients, resend, taken together or one alone",
    recipients=2,
    on_ambiguous=OnAmbiguous.RESEND,
    partly=True,
)

LONGER = (HOLD, SINGLY, SUPPRESSED, RESEND_TWICE, THRICE, PARTLY, PARTLY_RESEND)
"""Walked whole as well, by whoever has two minutes."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A scenario in which an invariant must break."""

    scenario: Scenario
    breaks: Invariant


TRIALS: Mapping[Guard | Premise, Trial] = {
    Guard.CLAIM_PENDING: Trial(HOLD, Invariant.NEVER_TWICE),
    Guard.BEGIN_FIRST: Trial(HOLD, Invariant.NEVER_TWICE),
    Guard.COMMIT_DEADLINE: Trial(HOLD, Invariant.NEVER_TWICE),
    Guard.DEADLINE_BEFORE: Trial(HOLD, Invariant.NEVER_TWICE),
    Guard.RENEW_TOKEN: Trial(HOLD, Invariant.NEVER_TWICE),
    Guard.FINISH_TOKEN: Trial(HOLD, Invariant.TOKEN),
    Guard.FINISH_EVIDENCE: Trial(TWO, Invariant.PROOF),
    Guard.FINISH_RESENDS: Trial(RESEND, Invariant.TRUE_WORDS),
    Guard.FINISH_PROVEN: Trial(TWO, Invariant.MARKED),
    Guard.SWEEP: Trial(HOLD, Invariant.NEVER_STUCK),
    Guard.SWEEP_OVERDUE: Trial(HOLD, Invariant.NEVER_TWICE),
    Guard.SWEEP_CLAIMED: Trial(HOLD, Invariant.IN_FLIGHT),
    Guard.SWEEP_STARTED: Trial(HOLD, Invariant.NEVER_TWICE),
    Guard.SWEEP_EVIDENCE: Trial(TWO, Invariant.PROOF),
    Guard.LATE_RESULT: Trial(HOLD, Invariant.PROOF),
    Guard.LATE_REFUSAL: Trial(HOLD, Invariant.TRUE_WORDS),
    Guard.REFUSAL_IN_DOUBT: Trial(RESEND, Invariant.TRUE_WORDS),
    Guard.WITHDRAWAL_IN_DOUBT: Trial(RESEND, Invariant.WITHDRAWN),
    Guard.WITHDRAWN_HELD: Trial(RESEND_TWICE, Invariant.HELD),
    Guard.BEGIN_SUPPRESSED: Trial(SUPPRESSED, Invariant.BARRED),
    Guard.SUPPRESSION_IN_DOUBT: Trial(SUPPRESSED, Invariant.TRUE_WORDS),
    Guard.PROOF_SETTLES: Trial(HOLD, Invariant.PROOF),
    Guard.PROOF_NAMES: Trial(PARTLY, Invariant.TRUE_WORDS),
    Guard.PROOF_TAKES_BACK: Trial(RESEND, Invariant.NEEDLESS),
    Guard.MARK_DOUBTFUL: Trial(TWO, Invariant.MARKED),
    Guard.CANCEL_CLAIMED: Trial(HOLD, Invariant.WITHDRAWN),
    Guard.RESOLVE_AMBIGUOUS: Trial(HOLD, Invariant.NEVER_TWICE),
    Guard.RESOLVE_NAMES_ATTEMPT: Trial(HOLD, Invariant.TRUE_WORDS),
    Guard.REQUEUE_ENDED: Trial(HOLD, Invariant.NEVER_TWICE),
    Premise.ASKED_AND_HANDED_OVER: Trial(HOLD, Invariant.NEVER_TWICE),
    Premise.SETTLED_WHEN_LOOKED: Trial(HOLD, Invariant.NEVER_TWICE),
    Premise.LOOKED_BEFORE_DECIDING: Trial(HOLD, Invariant.NEVER_TWICE),
}
"""What must break without each guard or premise that stands alone."""

IN_PAIRS = frozenset({Guard.BEGIN_TOKEN, Guard.BEGIN_CLAIMED})
"""Either is enough: an attempt is given back before its row moves on. Without both, see `PAIR`."""

PAIR = Trial(HOLD, Invariant.WITHDRAWN)


def walk_whole(scenario: Scenario) -> Walk:
    """Walk a scenario with everything in place."""
    return Explorer(scenario).walk()


def fault_without(one: Guard | Premise) -> Fault | None:
    """Take a guard or premise away and return the fault that is found; None when none is."""
    if one in IN_PAIRS:
        return _found(PAIR, frozenset(IN_PAIRS))
    return _found(TRIALS[one], frozenset({one}))


def _found(trial: Trial, removed: frozenset[Guard | Premise]) -> Fault | None:
    walk = Explorer(trial.scenario, removed).walk(until=trial.breaks)
    return walk.faults.get(trial.breaks)


def alone_harmless(one: Guard) -> bool:
    """Whether a guard that has a double can be taken away by itself without a fault."""
    return not Explorer(HOLD, frozenset({one})).walk().faults
