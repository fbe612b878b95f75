"""From observations to `CallResult`: one verdict for each recipient, and one for the attempt."""

from dataclasses import replace

from mailer.outcome import CallResult, Outcome, RecipientVerdict, Scope, clean
from mailer.provider import Addressee, Call, Refusal
from providers.ses_request import Plan
from providers.ses_rules import Kind, Observation, Row, Stage
from providers.ses_table import ROW_BY_RULE, judge


def conclude(call: Call, plan: Plan | None, seen: Observation) -> CallResult:
    """Judge what ended the call; recipients settled before keep what they were told."""
    row = judge(seen)
    verdicts = _verdicts(call, plan, row, seen)
    outcome = row.outcome
    if outcome is Outcome.PERMANENT and _any_stays_due(verdicts):
        outcome = Outcome.RETRYABLE
    return CallResult(
        outcome,
        row.scope,
        seen.stage,
        row.rule,
        verdicts,
        _code(seen),
        clean(seen.text),
        seen.message_id or None,
        seen.retry_after_seconds if row.outcome is Outcome.RETRYABLE else None,
        row.blame,
        row.pressure,
        seen.bytes_sent,
    )


def withheld(call: Call, plan: Plan | None, refusal: Refusal) -> CallResult:
    """Conclude a call that our own commit point stopped: nothing was handed over."""
    text = f"not handed over: {refusal.value}"
    row = replace(ROW_BY_RULE["ses-not-sent"], rule=refusal.value)
    seen = Observation(Stage.REQUEST, Kind.UNEXPECTED, 0, text=text)
    recipients = _verdicts(call, plan, row, seen)
    return CallResult(row.outcome, row.scope, seen.stage, row.rule, recipients, None, text)


def nobody_fit(call: Call, plan: Plan) -> CallResult:
    """Conclude a call that has no recipient that SES can be given."""
    recipients = tuple(plan.settled[each] for each in call.recipient_ids)
    lead = recipients[0]
    return CallResult(
        lead.outcome, lead.scope, Stage.PREFLIGHT, lead.rule, recipients, None, lead.text
    )


def _verdicts(
    call: Call, plan: Plan | None, row: Row, seen: Observation
) -> tuple[RecipientVerdict, ...]:
    settled = plan.settled if plan else {}
    aboard = plan.aboard if plan else call.recipients
    spared = _spared(aboard, row, seen)
    return tuple(
        settled.get(each.recipient_id) or _verdict(each, row, seen, is_spared=each in spared)
        for each in call.recipients
    )


def _verdict(
    addressee: Addressee, row: Row, seen: Observation, *, is_spared: bool
) -> RecipientVerdict:
    outcome = Outcome.RETRYABLE if is_spared else row.outcome
    return RecipientVerdict(
        addressee.recipient_id, outcome, row.scope, row.rule, _code(seen), clean(seen.text)
    )


def _spared(aboard: tuple[Addressee, ...], row: Row, seen: Observation) -> tuple[Addressee, ...]:
    """Return whom a refusal of some recipients does not mean: they stay due."""
    if row.scope is not Scope.RECIPIENT:
        return ()
    text = seen.text.lower()
    named = [each for each in aboard if each.address.lower() in text]
    return tuple(each for each in aboard if each not in named) if named else ()


def _any_stays_due(verdicts: tuple[RecipientVerdict, ...]) -> bool:
    return any(each.outcome is Outcome.RETRYABLE for each in verdicts)


def _code(seen: Observation) -> str | None:
    if seen.kind is not Kind.ANSWER:
        return None
    return seen.code or str(seen.status)
