"""Mails that come back: delivery reports, complaints and replies, from octets to a `Notice`. Pure.

Anybody can write such a mail. It is believed only if it carries a mark that was made for one
attempt and is proven by its MAC; every other one is told and neither settles nor suppresses.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mailer.facts import EventState, Fact, FactKind, Notice
from mailer.outcome import clean
from mailer.returnpath import ReturnPath
from providers.arf import FEEDBACK_TYPE, read_feedback
from providers.dsn_status import REPORT_TYPES, looks_like_a_report, read_delivery_status
from providers.mail_heuristics import suspect
from providers.mail_marks import Identity, identify, returned_fields
from providers.mail_parts import EPOCH, MAX_MAIL_BYTES, Fields, Node, Part, moment, read_part, walk
from providers.mail_report import Report, Said

AUTO_REPLY = "auto-reply"
NO_REPORT = "mail"

_READERS: Mapping[str, Callable[[str, Fields], tuple[Said, ...]]] = {
    **dict.fromkeys(REPORT_TYPES, lambda text, _: read_delivery_status(text)),
    FEEDBACK_TYPE: read_feedback,
}
_UNLABELLED = "delivery-status"
_DAEMON = re.compile(r"\b(?:mailer-daemon|postmaster)@", re.IGNORECASE)
_RULE_LIMIT_CHARS = 80


@dataclass(frozen=True, slots=True)
class BounceMails:
    """Reads mails to the return path (`mailer.feed.Interpret`).

    Without a `return_path` nothing can prove itself, and no mail is believed.
    """

    return_path: ReturnPath | None

    def __call__(self, body: bytes, published_at: datetime | None) -> Notice:
        """Read a stored mail; what it was delivered to stands in its own header."""
        return self.read(body, published_at=published_at)

    def read(
        self, raw: bytes, *, recipients: Sequence[str] = (), published_at: datetime | None = None
    ) -> Notice:
        """Say what a mail tells; `recipients` are the addresses that it was delivered to.

        A report ends as PROCESSED, an automatic reply as CONTROL, and a mail that holds neither as
        UNPARSED. Of the mail the first MAX_MAIL_BYTES are read.
        """
        raw = raw[:MAX_MAIL_BYTES]
        mail = read_part(raw)
        nodes = tuple(walk(mail))
        report, returned = _find(nodes)
        who = identify(nodes, returned, self.return_path, recipients)
        at = _dated(mail.fields.first("date"), published_at)
        if report is not None:
            return _notice(report, who, at, is_trusted=who.request_tag is not None)
        if _is_reply(mail.fields):
            return _without_facts(AUTO_REPLY, EventState.CONTROL, who, at)
        guess = suspect(raw)
        if guess is not None:
            return _notice(guess, who, at, is_trusted=False)
        return _without_facts(NO_REPORT, EventState.UNPARSED, who, at)


def _find(nodes: Sequence[Node]) -> tuple[Report | None, Fields]:
    """Return the outermost report, and the header of the message that it is about.

    A report may be labelled as text; inside an enclosed message such text is somebody's writing.
    """
    mail = nodes[0].part
    for node in nodes:
        returned = returned_fields(node.beside, mail)
        if (reader := _READERS.get(node.part.type)) and (said := reader(node.part.text, returned)):
            return Report(node.part.type.removeprefix("message/"), said), returned
    outside = [node for node in nodes if not node.is_enclosed]
    for node in outside:
        if said := _unlabelled(node.part):
            return Report(_UNLABELLED, said), returned_fields(node.beside, mail)
    found = (returned_fields(node.beside, mail) for node in outside)
    return None, next((fields for fields in found if fields.listed), Fields())


def _unlabelled(part: Part) -> tuple[Said, ...]:
    is_one = part.type.startswith("text/") and looks_like_a_report(part.text)
    return read_delivery_status(part.text) if is_one else ()


def _is_reply(fields: Fields) -> bool:
    """Whether a person's mail program answered by itself (RFC 3834 5).

    Exim and others mark their bounces in the same way.
    """
    if fields.first("x-failed-recipients") or _DAEMON.search(fields.first("from")):
        return False
    return (
        fields.first("auto-submitted").lower().startswith("auto-replied")
        or bool(fields.first("x-auto-response-suppress"))
        or fields.first("precedence").lower() == "auto_reply"
    )


def _notice(report: Report, who: Identity, at: datetime, *, is_trusted: bool) -> Notice:
    # What is not believed must not stand where a believed fact would have its place.
    occurrence = at.isoformat() if is_trusted else f"unproven {at.isoformat()}"
    facts: dict[tuple[FactKind, str | None], Fact] = {}
    for said in report.said:
        fact = Fact(
            said.kind,
            said.address,
            at,
            occurrence,
            clean(said.rule)[:_RULE_LIMIT_CHARS],
            said.code,
            clean(said.text),
            said.suppress if is_trusted else None,
        )
        facts.setdefault((fact.kind, fact.address), fact)
    return Notice(
        report.kind,
        EventState.PROCESSED,
        occurred_at=at,
        request_tag=who.request_tag,
        header_tag=who.header_tag,
        message_id=who.message_id,
        facts=tuple(facts.values()),
        proves_acceptance=is_trusted,
        trusted=is_trusted,
    )


def _without_facts(kind: str, state: EventState, who: Identity, at: datetime) -> Notice:
    return Notice(
        kind,
        state,
        occurred_at=at,
        request_tag=who.request_tag,
        header_tag=who.header_tag,
        message_id=who.message_id,
        trusted=who.request_tag is not None,
    )


def _dated(text: str, published_at: datetime | None) -> datetime:
    """Date a mail by its own field, never later than it came.

    The present is never used, because the same mail has to give the same facts again.
    """
    came = published_at
    if came is not None and came.tzinfo is None:
        came = came.replace(tzinfo=UTC)
    at = moment(text) or came or EPOCH
    return min(at, came) if came else at
