"""How a report looks to a person: tables on a terminal, plain lines of the same in a pipe."""

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import Console
from rich.table import Table

from mailer.next_step import span
from mailer.provider import Finding
from mailer.views import (
    AttemptView,
    AuditView,
    CircuitView,
    Doubt,
    FactView,
    Listing,
    MessageView,
    Providers,
    RecipientView,
    Status,
    Timeline,
)

_PIPED_COLUMNS = 1_000
"""No line is folded in a pipe: programs read it by lines."""

_FOLDED = frozenset(
    {
        "dedup key", "name", "reason", "in doubt", "recipient", "rule", "reply", "provider",
        "what it came to", "who", "why", "value", "meaning", "source",
    }
)  # fmt: skip
"""Columns that give way on a narrow terminal; the others stay on one line."""

_STYLES = {
    "submitted": "green",
    "accepted": "green",
    "ambiguous": "bold yellow",
    "failed": "red",
    "refused": "red",
    "permanent": "red",
    "pending": "cyan",
    "due": "cyan",
    "sending": "blue",
    "delivered": "green",
    "bounced_permanent": "red",
    "complained": "red",
    "open": "bold yellow",
    "half_open": "yellow",
}


def console() -> Console:
    """Return stdout as rich sees it; nothing that is printed there is read as markup."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(
        markup=False, emoji=False, highlight=False, width=_PIPED_COLUMNS if piped else None
    )


def show_status(status: Status) -> None:
    """Print the outbox in numbers, what needs a person first."""
    out = console()
    out.print(_states(status))
    for line in _waiting(status):
        out.print(line)
    if status.ambiguous:
        doubts = [(each.stage, each.rule, each.rows) for each in status.ambiguous]
        out.print(_table("in doubt", ("stage", "rule", "rows"), doubts))
        out.print("to see them: mailer list")
    if status.recent_attempts:
        ended = [(each.outcome, each.rule, each.attempts) for each in status.recent_attempts]
        out.print(_table(_recent(status), ("outcome", "rule", "attempts"), ended))
    if len({each.stream for each in status.streams}) > 1:
        streams = [(each.stream, each.state, each.rows) for each in status.streams]
        out.print(_table("streams", ("stream", "state", "rows"), streams))
    if status.circuits:
        shut = [_circuit(each, status.at) for each in status.circuits]
        out.print(_table("circuits that are not closed", _CIRCUIT, shut))
        out.print("to see all: mailer provider list")


def _states(status: Status) -> Table:
    return _table("outbox", ("state", "rows"), list(status.states.items()))


def _waiting(status: Status) -> Iterable[str]:
    if status.oldest_due_seconds is not None:
        yield f"due: {status.due}, the oldest since {span(status.oldest_due_seconds)}"
    if status.retry_waiting:
        yield f"waiting for another attempt: {status.retry_waiting}"
    if status.scheduled:
        yield f"scheduled for later: {status.scheduled}"
    if status.overdue_leases:
        yield f"leases that ran out and await a sweep: {status.overdue_leases}"


def _recent(status: Status) -> str:
    among = "" if status.recent_complete else ", among the newest"
    return f"attempts ended in the last {span(status.recent_seconds)}{among}"


_CIRCUIT = ("name", "about", "state", "reason", "since", "until")
_LIMITS = ("name", "rate", "slowed to", "left today", "asked at")


def show_providers(found: Providers) -> None:
    """Print what is known of each provider, and of senders at it."""
    out = console()
    if not found.providers:
        out.print("no provider is known yet; a worker makes them known when it starts")
        return
    circuits = [_circuit(each, found.at) for each in found.providers]
    out.print(_table("circuits", _CIRCUIT, circuits))
    limits = [_limits(each) for each in found.providers if each.limits_at is not None]
    if limits:
        out.print(_table("limits", _LIMITS, limits))


def _circuit(it: CircuitView, at: datetime) -> Sequence[object]:
    since = span((at - it.since).total_seconds())
    until = "" if it.until is None else f"in {span((it.until - at).total_seconds())}"
    return it.name, it.about, it.state, it.reason, since, "probe due" if it.probe_due else until


def _limits(it: CircuitView) -> Sequence[object]:
    return (
        it.name,
        "" if it.rate is None else f"{it.rate:g}/s",
        "" if it.rate is None or it.slowed >= 1 else f"{it.slowed:.0%}",
        "" if it.left_today is None else f"{it.left_today:,.0f}",
        _time(it.limits_at),
    )


def show_listing(listing: Listing) -> None:
    """Print one page of a list and how to go on."""
    columns = ("id", "dedup key", "reason", "stream", "age", "attempts", "next", "in doubt")
    lines = [
        (
            each.id,
            each.dedup_key,
            each.reason,
            each.stream,
            span(each.age_seconds),
            each.attempts,
            _time(each.next_attempt_at),
            _in_doubt(each.doubt),
        )
        for each in listing.rows
    ]
    out = console()
    out.print(_table(None, columns, lines) if lines else "no such rows")
    for each in listing.rows:
        if each.doubt is not None and each.doubt.next_step:
            out.print(f"{each.id}: {_plain('; '.join(_known(each.doubt)))}", soft_wrap=True)
    if listing.next_after is not None:
        out.print(f"there may be more: --after {listing.next_after}")


def _in_doubt(doubt: Doubt | None) -> str:
    if doubt is None:
        return ""
    return " ".join(filter(None, (doubt.stage, doubt.rule, doubt.code, _time(doubt.at))))


def _known(doubt: Doubt) -> Iterable[str]:
    if doubt.bytes_sent is not None:
        yield f"{doubt.bytes_sent:,} bytes had left"
    yield f"last reply: {doubt.reply or 'none'}"
    yield doubt.evidence
    yield f"next: {doubt.next_step}"


def show_timeline(timeline: Timeline) -> None:
    """Print one message's story, and last what happens next."""
    out = console()
    out.print(_facts(timeline.message))
    for title, columns, lines in (
        ("recipients", _RECIPIENT, [_recipient(each) for each in timeline.recipients]),
        ("attempts", _ATTEMPT, [_attempt(each) for each in timeline.attempts]),
        ("heard later", _FACT, [_fact(each) for each in timeline.facts]),
        ("by hand", _BY_HAND, [_by_hand(each) for each in timeline.audit]),
    ):
        if lines:
            out.print(_table(title, columns, lines))
    # Left to the terminal to fold: the command in it is there to be copied.
    out.print(f"next: {_plain(timeline.next_step)}", soft_wrap=True)


def _facts(message: MessageView) -> Table:
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _named(message):
        facts.add_row(name, _plain(value), style=_STYLES.get(str(value)))
    return facts


def _named(message: MessageView) -> Iterable[tuple[str, object]]:
    yield "row", message.id
    yield "state", message.state
    if message.reason:
        yield "reason", message.reason
    yield "dedup key", message.dedup_key
    yield "message id", message.message_id or "(given at the first claim)"
    yield "subject", message.subject or "(none)"
    if message.template:
        yield "template", f"{message.template} {message.template_version or ''}".strip()
    yield "stream", f"{message.stream}, priority {message.priority}"
    yield "if in doubt", f"{message.on_ambiguous}, resent {message.resends} times"
    yield "budget spent", message.attempts
    yield "created", _time(message.created_at)
    for name, moment in (("expires", message.expires_at), ("ended", message.finished_at)):
        if moment is not None:
            yield name, _time(moment)


_RECIPIENT = ("role", "recipient", "state", "rule", "code", "reply")
_ATTEMPT = ("#", "began", "took", "provider", "state", "stage", "what it came to")
_FACT = ("at", "fact", "recipient", "rule", "code", "reply", "")
_BY_HAND = ("at", "who", "verb", "change", "why")


def _recipient(it: RecipientView) -> Sequence[object]:
    return it.role, it.address, it.state, it.rule, it.code, it.text


def _fact(it: FactView) -> Sequence[object]:
    remarks = [
        remark
        for remark, holds in (("unproven", not it.trusted), ("not a recipient", it.unlisted))
        if holds
    ]
    at = _time(it.occurred_at)
    return at, it.kind, it.address_key, it.rule, it.code, it.text, ", ".join(remarks)


def _by_hand(it: AuditView) -> Sequence[object]:
    change = f"{it.before} -> {it.after}" if it.before else it.after
    return _time(it.at), it.actor, it.verb, change, it.why


def _attempt(attempt: AttemptView) -> Sequence[object]:
    began = attempt.started_at or attempt.claimed_at
    ended = attempt.finished_at
    return (
        attempt.number,
        _time(began),
        "" if ended is None else span((ended - began).total_seconds()),
        attempt.provider,
        attempt.outcome or attempt.state,
        attempt.stage,
        "; ".join(_outcome(attempt)),
    )


def _outcome(attempt: AttemptView) -> Iterable[str]:
    told = " ".join(filter(None, (attempt.rule, attempt.code, attempt.reason)))
    if told:
        yield told
    if attempt.provider_id:
        yield f"provider's id {attempt.provider_id}"
    if attempt.decision:
        yield attempt.decision
    if attempt.resolution:
        settled = attempt.resolution.replace("_", " ")
        yield f"settled as {settled} by {attempt.resolved_by} at {_time(attempt.resolved_at)}"
    if attempt.evidence:
        yield f"evidence: {attempt.evidence}"
    if attempt.duplicate:
        yield "a duplicate: another attempt had been accepted before"


def show_findings(findings: Sequence[Finding]) -> None:
    """Print what a check looked at, one line each."""
    out = console()
    for each in findings:
        mark, style = ("ok", "green") if each.ok else ("FAILED", "bold red")
        out.print(f"{mark:<7}", style=style, end="")
        out.print(_plain(f"{each.subject}: {each.detail}"), soft_wrap=True)


def show_settings(settings: Sequence[tuple[str, str, str, str]]) -> None:
    """Print variables with their values, defaults and meanings."""
    console().print(_table(None, ("variable", "value", "default", "meaning"), settings))


def _table(title: str | None, columns: Sequence[str], lines: Iterable[Sequence[object]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name not in _FOLDED)
    for line in lines:
        table.add_row(*(_plain(each) for each in line), style=_style(line))
    return table


def _style(line: Sequence[object]) -> str | None:
    return next((_STYLES[each] for each in map(str, line) if each in _STYLES), None)


def _plain(value: object) -> str:
    """Show stored text without what could steer the terminal or reverse its reading."""
    text = "" if value is None else str(value)
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}Z"
