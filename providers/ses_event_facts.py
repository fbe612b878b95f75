"""The facts that one SES event holds, and when they happened. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from mailer.facts import Fact, FactKind
from mailer.outcome import REASON_LIMIT_CHARS
from providers.ses_event_json import (
    EPOCH,
    ID_LIMIT_CHARS,
    Json,
    an_object,
    entries,
    identifier,
    mailbox_key,
    moment,
    shown,
)
from providers.ses_event_table import EventType, Ruling

_RULE_LIMIT_CHARS = 80
_CODE_LIMIT_CHARS = 64
_LINK_DIGITS = 16
_SPARED = Ruling(FactKind.BOUNCED_TRANSIENT)


@dataclass(frozen=True, slots=True)
class Timing:
    """When an event happened (UTC), and what tells it from others of its kind."""

    at: datetime
    occurrence: str


def timing_of(
    own_text: object, feedback_id: object, sent_text: object, published: datetime | None
) -> Timing:
    """Date an event by its own time, never later than its publication, whatever clock it was.

    Where that time cannot be read: by the publication, else by the sending, else 1970. The present
    is never used, because the same event has to give the same facts again. What tells a bounce or
    complaint from others is its feedback id, the same in both dialects; else it is the time.
    """
    own = moment(own_text)
    at = own or published or moment(sent_text) or EPOCH
    return Timing(
        min(at, published) if published else at,
        identifier(feedback_id) or (own.isoformat() if own else shown(own_text, ID_LIMIT_CHARS)),
    )


def facts_of(event_type: EventType, details: Json, timing: Timing) -> tuple[Fact, ...]:
    """Return the facts of an event; `details` is its type's object, empty where it has none.

    A type that names no recipient says by itself that it happened. Of a fact told twice in one
    event the first telling stays.
    """
    if not event_type.named:
        return (_about_the_message(event_type, details, timing),)
    facts: dict[tuple[FactKind, str | None], Fact] = {}
    for fact in _about_recipients(event_type, details, timing):
        facts.setdefault((fact.kind, fact.address), fact)
    return tuple(facts.values())


def _about_the_message(event_type: EventType, details: Json, timing: Timing) -> Fact:
    return Fact(
        event_type.judge(details).kind,
        None,
        timing.at,
        timing.occurrence + _link_mark(details),
        _rule(event_type, details),
        text=shown(details.get(event_type.text), REASON_LIMIT_CHARS),
    )


def _about_recipients(event_type: EventType, details: Json, timing: Timing) -> Iterator[Fact]:
    ruling, rule = event_type.judge(details), _rule(event_type, details)
    common = shown(details.get(event_type.text), REASON_LIMIT_CHARS)
    for entry in entries(details.get(event_type.named)):
        said = an_object(entry)
        address = mailbox_key(said.get("emailAddress", entry))
        if address is None:
            continue
        own = _SPARED if ruling.softens and _is_temporary(said) else ruling
        yield Fact(
            own.kind,
            address,
            timing.at,
            timing.occurrence,
            rule,
            shown(said.get("status"), _CODE_LIMIT_CHARS) or None,
            shown(said.get("diagnosticCode"), REASON_LIMIT_CHARS) or common,
            own.suppress,
        )


def _is_temporary(said: Json) -> bool:
    """Whether a recipient's own action or status (RFC 3464 2.3.3, 2.3.4) says "not yet"."""
    action, status = said.get("action"), said.get("status")
    is_delayed = isinstance(action, str) and action.strip().lower().startswith("delayed")
    return is_delayed or (isinstance(status, str) and status.strip().startswith("4."))


def _rule(event_type: EventType, details: Json) -> str:
    """Return the provider's own type, such as `Permanent/General` or `Complaint/abuse`."""
    parts = [shown(details.get(key), _RULE_LIMIT_CHARS) for key in event_type.rule_keys]
    subtype = "/".join(filter(None, parts))
    if event_type.is_titled or not subtype:
        subtype = f"{event_type.name}/{subtype}".rstrip("/")
    return subtype[:_RULE_LIMIT_CHARS]


def _link_mark(details: Json) -> str:
    """Tell two links clicked at one moment apart, without keeping a link: it may hold a token."""
    link = details.get("link")
    if not isinstance(link, str):
        return ""
    return "/" + sha256(link.encode("utf-8", "surrogatepass")).hexdigest()[:_LINK_DIGITS]
