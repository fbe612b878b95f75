"""From observations to `CallResult`: one verdict for each recipient, and one for the attempt."""

import re
from dataclasses import replace

from mailer.outcome import CallResult, Outcome, RecipientVerdict, Scope, clean
from mailer.provider import Addressee, Call, Refusal
from providers.smtp_progress import Progress
from providers.smtp_rules import Kind, Observation, Row, blame_of, pressure_of
from providers.smtp_table import ROW_BY_RULE, judge

_HINT_LIMIT_SECONDS = 3600.0
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}
_DELAY = re.compile(
    r"\b(?:again|retry|wait|after|back)\b[^\d\n]{0,24}(\d{1,5})\s?(s|m|h)"
    r"(?:|ecs?|econds?|ins?|inutes?|rs?|ours?)\b",
    re.IGNORECASE,
)
_STATUS = re.compile(r"^[245]\.\d{1,3}\.\d{1,3}(?:\s+|$)", re.MULTILINE)
_FIRST = (Scope.ACCOUNT, Scope.CONNECTION, Scope.RECIPIENT, Scope.MESSAGE)
"""Which recipient's refusal speaks for the attempt when none was willing: the widest fault."""


def conclude(progress: Progress, seen: Observation) -> CallResult:
    """Judge what ended the call; recipients settled before keep what they were told."""
    verdict, code, text = judge(seen), _code(seen), clean(seen.text)
    if verdict.outcome is Outcome.RETRYABLE:
        _note_hint(progress, seen)
    result = CallResult(
        verdict.outcome,
        verdict.scope,
        seen.stage,
        verdict.rule,
        _verdicts(progress, verdict, code, text),
        code,
        text,
        _queue_id(seen.text) if verdict.outcome is Outcome.ACCEPTED else None,
        max(progress.hints, default=None),
        bytes_sent=len(_call(progress).content) if progress.committed else None,
    )
    return _accused(result, seen)


def settle(progress: Progress, addressee: Addressee, seen: Observation) -> None:
    """Record what one recipient ends with."""
    verdict = judge(seen)
    if verdict.outcome is Outcome.RETRYABLE:
        _note_hint(progress, seen)
    if verdict.scope is Scope.ACCOUNT:
        progress.accused = progress.accused or seen
    progress.settled[addressee.recipient_id] = RecipientVerdict(
        addressee.recipient_id,
        verdict.outcome,
        verdict.scope,
        verdict.rule,
        _code(seen),
        clean(seen.text),
    )


def nobody_willing(progress: Progress) -> CallResult:
    """Conclude a call whose every recipient was refused: retryable when any of them is."""
    recipients = tuple(progress.settled[each.recipient_id] for each in _call(progress).recipients)
    lead = min(recipients, key=_precedence)
    result = CallResult(
        lead.outcome,
        lead.scope,
        progress.stage,
        lead.rule,
        recipients,
        lead.code,
        lead.text,
        retry_after_seconds=max(progress.hints, default=None),
    )
    return _accused(result, progress.accused) if progress.accused else result


def withheld(progress: Progress, refusal: Refusal) -> CallResult:
    """Conclude a call that our own commit point stopped: nothing was handed over."""
    text = f"not handed over: {refusal.value}"
    row = replace(ROW_BY_RULE["smtp-not-handed-over"], rule=refusal.value)
    recipients = _verdicts(progress, row, None, text)
    return CallResult(row.outcome, row.scope, progress.stage, row.rule, recipients, None, text)


def delay_hint(text: str) -> float | None:
    """Return the delay in seconds that a reply's text states, at most an hour."""
    found = _DELAY.search(text)
    if found is None:
        return None
    return min(float(found[1]) * _UNIT_SECONDS[found[2].lower()], _HINT_LIMIT_SECONDS)


def _accused(result: CallResult, seen: Observation) -> CallResult:
    if result.scope is not Scope.ACCOUNT:
        return result
    return replace(result, blame=blame_of(seen), pressure=pressure_of(seen))


def _verdicts(
    progress: Progress, row: Row, code: str | None, text: str
) -> tuple[RecipientVerdict, ...]:
    settled = progress.settled
    return tuple(
        settled.get(each.recipient_id)
        or RecipientVerdict(each.recipient_id, row.outcome, row.scope, row.rule, code, text)
        for each in _call(progress).recipients
    )


def _call(progress: Progress) -> Call:
    if progress.call is None:
        raise AssertionError("a session opened for a check has no result")
    return progress.call


def _note_hint(progress: Progress, seen: Observation) -> None:
    hint = delay_hint(seen.text) if seen.kind is Kind.REPLY else None
    if hint is not None:
        progress.hints.append(hint)


def _precedence(verdict: RecipientVerdict) -> tuple[bool, int]:
    return verdict.outcome is not Outcome.RETRYABLE, _FIRST.index(verdict.scope)


def _code(seen: Observation) -> str | None:
    if seen.kind is not Kind.REPLY:
        return None
    return f"{seen.code} {seen.enhanced}".rstrip()


def _queue_id(text: str) -> str | None:
    return clean(_STATUS.sub("", text)) or None
