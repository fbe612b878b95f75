"""What operators do to a message or a circuit: a change and its audit line, in one transaction."""

from dataclasses import dataclass

from mailer import audit, health, lookups, outbox
from mailer.circuit import CircuitState
from mailer.database import connected, transaction
from mailer.errors import Refused
from mailer.settlement import lock_row, settle_doubt
from mailer.states import Resolution, RowState

MAX_WHY_CHARS = 500
MAX_ACTOR_CHARS = 200

MAX_OPEN_SECONDS = 30 * 86_400.0
"""A circuit that is open for longer would be forgotten mail."""

MAX_NAMED = 20
"""How many names a refusal lists."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What a verb made of a row."""

    outbox_id: int
    verb: str
    before: RowState
    after: RowState


@dataclass(frozen=True, slots=True)
class Switched:
    """What a verb made of a circuit."""

    name: str
    verb: str
    before: CircuitState
    after: CircuitState


def resolve(
    outbox_id: int,
    resolution: Resolution,
    *,
    actor: str,
    why: str,
    attempt: int | None = None,
) -> Decided:
    """Settle what is in doubt about a message, because a person knows.

    `accepted`: it is taken for sent. `not_accepted`: the recipients in doubt are due again at once.
    `actor` says who decides, `why` on what grounds (at most 500 characters, one line). `attempt` is
    the number of the latest attempt that was looked into: where there was more than one,
    `not_accepted` needs it, because whoever found nothing may have looked before the last of them.
    Raises Refused for a row that is not ambiguous, for one that does not exist, for another attempt
    than the latest, and where actor or why are missing.
    """
    check_note(actor, why)
    with connected(), transaction():
        row = lock_row(outbox_id)
        before = row.state
        if before is not RowState.AMBIGUOUS:
            raise Refused(f"id: row {outbox_id} is {before}; {_RESOLVE_MEND[before]}")
        if resolution is Resolution.NOT_ACCEPTED:
            _check_looked_at(outbox_id, attempt)
        after = settle_doubt(row, resolution, by=f"operator {actor}", evidence=why)
        return _noted(Decided(outbox_id, f"resolve {resolution}", before, after), actor, why)


def _check_looked_at(outbox_id: int, attempt: int | None) -> None:
    begun = [each.number for each in lookups.attempts(outbox_id) if each.started_at is not None]
    latest = max(begun, default=0)
    if attempt is None and len(begun) > 1:
        raise Refused(
            f"attempt: {len(begun)} were begun; look into all of them, and say so with "
            f"--attempt {latest}"
        )
    if attempt is not None and attempt != latest:
        raise Refused(f"attempt: {attempt} is not the latest; look into attempt {latest} as well")


def requeue(outbox_id: int, *, actor: str, why: str) -> Decided:
    """Make a failed or suppressed message due again, with a fresh budget.

    Raises Refused for any other state, for a row that does not exist, and where actor or why are
    missing.
    """
    check_note(actor, why)
    with connected(), transaction():
        left = outbox.requeue(outbox_id)
        return _noted(Decided(outbox_id, "requeue", left, RowState.PENDING), actor, why)


def cancel(outbox_id: int, *, actor: str, why: str) -> Decided:
    """Withdraw a message whose sending has not begun.

    Where some recipients were accepted before, only the others are withdrawn. Raises Refused when
    its sending has begun or ended, for a row that does not exist, and where actor or why are
    missing.
    """
    check_note(actor, why)
    with connected(), transaction():
        before = lock_row(outbox_id).state
        after, changed = outbox.cancel(outbox_id)
        if not changed:
            raise Refused(f"id: row {outbox_id} is {before}; {_CANCEL_MEND[before]}")
        return _noted(Decided(outbox_id, "cancel", before, after), actor, why)


def open_circuit(name: str, *, seconds: float, actor: str, why: str) -> Switched:
    """Stop claiming mail for a provider, or for one sender at it, for `seconds` (at most 30 days).

    After that one message probes it. An open circuit stays open for `seconds` from now. Raises
    Refused for a name that no worker has met, and where actor or why are missing.
    """
    check_note(actor, why)
    if not 0 < seconds <= MAX_OPEN_SECONDS:
        raise Refused("for: must be more than 0 s and at most 30 days; open it again after that")
    return _switch(name, CircuitState.OPEN, seconds=seconds, actor=actor, why=why)


def close_circuit(name: str, *, actor: str, why: str) -> Switched:
    """Send through a provider, or for one sender at it, again, and forget its latest faults.

    Raises Refused where the circuit is closed, for a name that no worker has met, and where actor
    or why are missing.
    """
    check_note(actor, why)
    return _switch(name, CircuitState.CLOSED, seconds=0.0, actor=actor, why=why)


def note_sent(outbox_id: int, *, actor: str) -> None:
    """Record, in the transaction that enqueues it, that a message was written by hand.

    Raises Refused where the actor is missing.
    """
    check_actor(actor)
    audit.record(
        actor=actor,
        verb="send",
        outbox_id=outbox_id,
        before=None,
        after=RowState.PENDING,
        why="written by hand",
    )


def _noted(decided: Decided, actor: str, why: str) -> Decided:
    audit.record(
        actor=actor,
        verb=decided.verb,
        outbox_id=decided.outbox_id,
        before=decided.before,
        after=decided.after,
        why=why,
    )
    return decided


def _switch(name: str, state: CircuitState, *, seconds: float, actor: str, why: str) -> Switched:
    with connected(), transaction():
        _check_known(name)
        reason = f"operator {actor}: {why}"
        before = health.set_circuit(name, state, reason=reason, seconds=seconds)
        if before is state is CircuitState.CLOSED:
            raise Refused("name: this circuit is closed; there is nothing to close")
        verb = "provider open" if state is CircuitState.OPEN else "provider close"
        audit.record(
            actor=actor,
            verb=verb,
            outbox_id=None,
            before=before,
            after=state,
            why=f"{name}: {why}",
        )
        return Switched(name, verb, before, state)


def _check_known(name: str) -> None:
    known = [each.name for each in lookups.circuits()]
    if not known:
        raise Refused("name: no provider is known yet; a worker makes them known when it starts")
    if name not in known:
        named = [each for each in known if each.isprintable()][:MAX_NAMED]
        more = f" and {len(known) - len(named)} more" if len(known) > len(named) else ""
        raise Refused(
            f"name: `mailer provider list` has no such name; known: {', '.join(named)}{more}"
        )


def check_note(actor: str, why: str) -> None:
    """Raise Refused unless both can be kept in the audit: one plain line each, not too long."""
    check_actor(actor)
    _check_text("why", why, MAX_WHY_CHARS)


def check_actor(actor: str) -> None:
    """Raise Refused unless the name of who decides can be kept in the audit."""
    _check_text("actor", actor, MAX_ACTOR_CHARS)


def _check_text(field: str, text: str, most_chars: int) -> None:
    if not text.strip():
        raise Refused(f"{field}: is empty; it is kept in the audit, so say it")
    if len(text) > most_chars:
        raise Refused(f"{field}: is longer than {most_chars} characters; shorten it")
    if not text.isprintable():
        raise Refused(f"{field}: holds control characters; write one plain line")


_RESOLVE_MEND = {
    RowState.PENDING: "nothing is in doubt, it is due to be sent",
    RowState.SENDING: "wait for its attempt to end",
    RowState.SUBMITTED: "nothing is in doubt, it was accepted",
    RowState.FAILED: "nothing is in doubt; `mailer requeue ID` sends it again",
    RowState.SUPPRESSED: "nothing is in doubt, it was not sent",
    RowState.EXPIRED: "nothing is in doubt, it was not sent",
    RowState.CANCELLED: "nothing is in doubt, it was not sent",
}

_CANCEL_MEND = {
    RowState.SENDING: "its call has begun; wait for its attempt to end",
    RowState.AMBIGUOUS: "it may have gone out; settle it with `mailer resolve ID`",
    RowState.SUBMITTED: "it was accepted and cannot be called back",
    RowState.FAILED: "it will not be sent unless it is requeued",
    RowState.SUPPRESSED: "it will not be sent unless it is requeued",
    RowState.EXPIRED: "it will not be sent",
    RowState.CANCELLED: "it was withdrawn already",
}
