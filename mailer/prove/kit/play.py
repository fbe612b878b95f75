"""One scenario from beginning to end: mail, faults, healing, rest, judgement."""

import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from mailer.prove.kit.judge import Break, Counts, Evidence, Seen, judge
from mailer.prove.kit.plan import IN_DOUBT, ONE_ANSWER, Fault, Plan
from mailer.prove.kit.scene import CONCURRENCY, Scene, scene
from mailer.prove.kit.stage import Stage
from mailer.prove.kit.strikes import STRIKES
from mailer.prove.kit.waiting import InVain

Tell = Callable[[str], None]

_SEEN = """
SELECT o.id, o.dedup_key, o.state, o.lease_token IS NOT NULL,
    (SELECT coalesce(json_object_agg(r.address, r.state), '{}') FROM email_recipient r
     WHERE r.outbox_id = o.id),
    EXISTS (SELECT 1 FROM email_attempt a WHERE a.outbox_id = o.id
        AND 'accepted' IN (a.outcome, a.resolution)
        OR a.outbox_id = o.id AND a.resolution = 'accepted'),
    (SELECT count(*) FROM email_attempt a WHERE a.outbox_id = o.id
        AND a.state IN ('claimed', 'started'))
FROM email_outbox o ORDER BY o.id
"""
_STOPS = 3
_PATIENT = frozenset({Fault.TERM_IN_SEND, Fault.DEPLOY})
_HISTORY = "SELECT outbox_id, was, became FROM kit_history ORDER BY number"
_LAST = "SELECT extract(epoch FROM max(at)) FROM kit_history"
_NOW = "SELECT extract(epoch FROM clock_timestamp())"


@dataclass(frozen=True, slots=True)
class Result:
    """What one scenario came to. `recovery_seconds` runs from the healing to the last rest."""

    seed: int
    through: str
    faults: tuple[str, ...]
    met: tuple[bool, ...]
    counts: Counts
    breaks: tuple[Break, ...]
    recovery_seconds: float
    seconds: float
    skipped: tuple[str, ...] = ()


@dataclass
class _Course:
    met: list[bool] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    recovery_seconds: float = 0.0


def play(stage: Stage, plan: Plan, tell: Tell = lambda _: None) -> Result:
    """Play one scenario and judge it; its logs stay in the stage's folder."""
    folder = _folder(stage.folder, plan.seed)
    began = time.monotonic()
    course = _Course()
    with scene(stage, plan, folder) as here:
        try:
            _strike_all(here, plan, course, tell)
            _come_to_rest(here, plan, course, tell)
        except (InVain, subprocess.TimeoutExpired) as error:
            course.breaks.append(Break("rest", str(error)))
        told = _evidence(here, plan)
    verdict = judge(told)
    return Result(
        plan.seed,
        plan.through,
        plan.faults,
        tuple(course.met),
        verdict.counts,
        (*course.breaks, *verdict.breaks),
        course.recovery_seconds,
        time.monotonic() - began,
        tuple(here.skipped),
    )


def _folder(parent: Path, seed: int) -> Path:
    taken = len(list(parent.glob(f"seed-{seed}*")))
    folder = parent / (f"seed-{seed}-{taken}" if taken else f"seed-{seed}")
    folder.mkdir(parents=True)
    return folder


_Wound = tuple[Fault, AbstractContextManager[bool]]


def _strike_all(here: Scene, plan: Plan, course: _Course, tell: Tell) -> None:
    """One fault after the other; one that overlaps is healed when the next one has struck."""
    open_wounds: list[_Wound] = []
    try:
        for strike in plan.strikes:
            tell(strike.fault)
            wound = STRIKES[strike.fault](here, strike)
            course.met.append(wound.__enter__())
            open_wounds.append((strike.fault, wound))
            _heal(open_wounds, until=1 if strike.overlaps else 0)
    finally:
        _heal(open_wounds, until=0)


def _heal(wounds: list[_Wound], *, until: int) -> None:
    """Heal the oldest first; but who waits for a worker to go waits until the others are healed."""
    while len(wounds) > until:
        at = next((n for n, each in enumerate(wounds) if each[0] not in _PATIENT), 0)
        _, wound = wounds.pop(at)
        wound.__exit__(None, None, None)


def _come_to_rest(here: Scene, plan: Plan, course: _Course, tell: Tell) -> None:
    tell("comes to rest")
    for post in here.posts:
        post.fill()
    here.commit(plan.last_wave)
    ((healed,),) = here.ledger.ask(_NOW)
    here.application.wait()
    here.wait_settled(plan.intents, _may_doubt(plan))
    ((last,),) = here.ledger.ask(_LAST)
    course.recovery_seconds = max(0.0, float(last) - float(healed))
    _stop_all(here, plan)


def _stop_all(here: Scene, plan: Plan) -> None:
    """Let nobody work any more; what an answer that came late has set moving rests first."""
    for _ in range(_STOPS):
        for post in here.posts:
            post.stop()
        if not here.is_moving():
            return
        for post in here.posts:
            post.fill()
        here.wait_settled(plan.intents, _may_doubt(plan))


def _evidence(here: Scene, plan: Plan) -> Evidence:
    seen = [Seen(*row) for row in here.ledger.ask(_SEEN)]
    logs = {path.name: path.read_text() for path in here.folder.glob("worker-*.log")}
    return Evidence(
        here.asked,
        seen,
        here.accepted(),
        [(row[0], row[1], row[2]) for row in here.ledger.ask(_HISTORY)],
        logs,
        _may_doubt(plan),
    )


def _may_doubt(plan: Plan) -> int:
    faults = Counter(plan.faults)
    workers = sum(IN_DOUBT.get(each, 0) * times for each, times in faults.items())
    return workers * CONCURRENCY + sum(faults[each] for each in ONE_ANSWER)
