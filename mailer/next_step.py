"""What happens next to a message, as one sentence for a person. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mailer.states import OnAmbiguous, RowState

_MINUTE = 60
_HOUR = 3_600
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a message stands; seconds count from now, negative ones lie in the past.

    `tried` tells whether any attempt was made, `begun` whether the current attempt's call was about
    to start, `refused` how many recipients will not be sent to, `thrown_away` that the provider
    took the message and says that it sent nothing; `begun_attempts` are the numbers of those begun.
    """

    outbox_id: int
    state: RowState
    due_in_seconds: float
    on_ambiguous: OnAmbiguous = OnAmbiguous.HOLD
    resends: int = 0
    max_resends: int = 1
    tried: bool = False
    begun: bool = False
    refused: int = 0
    assumed: bool = False
    thrown_away: bool = False
    begun_attempts: tuple[int, ...] = ()
    expires_in_seconds: float | None = None
    lease_seconds: float | None = None


def next_step(standing: Standing) -> str:
    """Say who or what moves the message next, and when."""
    return _SENTENCES[standing.state](standing)


def span(seconds: float) -> str:
    """Write a length of time in the unit that a person would use."""
    size = abs(seconds)
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if size >= 2 * unit:
            return f"{size / unit:.0f} {name}"
    return f"{size:.0f} s"


def _pending(it: Standing) -> str:
    expires = it.expires_in_seconds
    if expires is not None and expires <= 0:
        return "its time has passed: the next sweep expires it"
    if expires is not None and expires < it.due_in_seconds:
        return f"expires in {span(expires)}, before it is due"
    if it.due_in_seconds <= 0:
        return f"due since {span(it.due_in_seconds)}: the next free worker takes it"
    return f"due {'again ' if it.tried else ''}in {span(it.due_in_seconds)}"


def _sending(it: Standing) -> str:
    left = it.lease_seconds or 0
    if left > 0 and it.begun:
        return f"its call is under way; the lease runs {span(left)} more unless it is renewed"
    if left > 0:
        return "a worker has claimed it; its call has not begun"
    ends = "makes it ambiguous" if it.begun else "makes it due again"
    return f"its lease ran out {span(left)} ago: the next sweep {ends}"


def _ambiguous(it: Standing) -> str:
    named = f" --attempt {it.begun_attempts[-1]}" if len(it.begun_attempts) > 1 else ""
    mend = f"mailer resolve {it.outbox_id} --as accepted|not-accepted{named} --why TEXT"
    when = f"in {span(it.due_in_seconds)}" if it.due_in_seconds > 0 else "at the next sweep"
    if it.on_ambiguous is OnAmbiguous.ASSUME_SENT:
        return f"policy assume_sent takes it for sent {when}, unless evidence or a person: {mend}"
    if it.on_ambiguous is OnAmbiguous.RESEND and it.resends < it.max_resends:
        return f"policy resend sends it again {when}, unless evidence or a person: {mend}"
    used = f"resent {it.resends} times already; " if it.resends else ""
    return f"{used}waits for evidence or a person: {mend}"


def _submitted(it: Standing) -> str:
    if it.thrown_away:
        return "nothing: the provider took it, and then did not send it; its facts say why"
    if it.assumed:
        return "nothing: policy assume_sent took it for sent"
    if it.refused:
        return f"nothing: the provider took it, except for {it.refused} of its recipients"
    return "nothing: the provider took it"


def _failed(it: Standing) -> str:
    return f"nothing by itself; to send it again: mailer requeue {it.outbox_id} --why TEXT"


def _suppressed(it: Standing) -> str:
    return (
        "nothing by itself; once its addresses are no longer suppressed: "
        f"mailer requeue {it.outbox_id} --why TEXT"
    )


def _expired(_: Standing) -> str:
    return "nothing: its time passed before it was accepted; a new message needs a new key"


def _cancelled(_: Standing) -> str:
    return "nothing: it was withdrawn; a new message needs a new key"


_SENTENCES: Mapping[RowState, Callable[[Standing], str]] = {
    RowState.PENDING: _pending,
    RowState.SENDING: _sending,
    RowState.AMBIGUOUS: _ambiguous,
    RowState.SUBMITTED: _submitted,
    RowState.FAILED: _failed,
    RowState.SUPPRESSED: _suppressed,
    RowState.EXPIRED: _expired,
    RowState.CANCELLED: _cancelled,
}
