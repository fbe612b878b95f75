"""Amazon SES's events, as Amazon SNS publishes them: from a stored body to a `Notice`. Pure.

SES speaks two dialects: event publishing (`eventType`, by configuration set) and the older
identity notifications (`notificationType`). They differ in the name of that key and in what
`mail` holds, so that one reading serves both.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from mailer.facts import EventState, Notice
from mailer.feed import EnvelopeType
from providers.ses_event_facts import Timing, facts_of, timing_of
from providers.ses_event_json import Json, an_object, document, shown, squeezed
from providers.ses_event_mail import Identity
from providers.ses_event_table import SETUP_TEXT, SETUP_TYPE, TYPE_BY_NAME, Clock, EventType

_KIND_LIMIT_CHARS = 64
_CONTROL = (EnvelopeType.SUBSCRIPTION, EnvelopeType.UNSUBSCRIPTION)
_SETUP = squeezed(SETUP_TYPE)


@dataclass(frozen=True, slots=True)
class SesEvents:
    """Reads SNS messages that carry SES events (`mailer.feed.Interpret`).

    `tag_name` is the message tag that carries the attempt's own random value.
    """

    tag_name: str = "mailer-attempt"

    def __call__(self, body: bytes, published_at: datetime | None) -> Notice:
        """Say what a verified SNS message holds; whatever cannot be read is `UNPARSED`.

        A known type of event with SES's id of the message proves that SES had taken it, an
        unknown one proves nothing. The kind of a notice is empty where the message names none.
        """
        published = _in_utc(published_at)
        envelope = document(body) or {}
        kind = envelope.get("Type")
        if isinstance(kind, str) and kind in _CONTROL:
            return Notice(kind, EventState.CONTROL, published)
        message = envelope.get("Message")
        return self._read(message if isinstance(message, str) else "", published)

    def _read(self, message: str, published: datetime | None) -> Notice:
        if message.startswith(SETUP_TEXT):
            return Notice(SETUP_TYPE, EventState.CONTROL, published)
        payload = document(message) or {}
        name = payload.get("eventType")
        name = payload.get("notificationType") if name is None else name
        if squeezed(name) == _SETUP:
            return Notice(SETUP_TYPE, EventState.CONTROL, published)
        mail = payload.get("mail")
        if not isinstance(mail, dict):
            return Notice(shown(name, _KIND_LIMIT_CHARS), EventState.UNPARSED, published)
        return self._tell(name, payload, mail, published)

    def _tell(self, name: object, payload: Json, mail: Json, published: datetime | None) -> Notice:
        who = Identity.read(mail, self.tag_name)
        known = TYPE_BY_NAME.get(squeezed(name))
        details = an_object(payload.get(known.details)) if known else {}
        timing = _timing(known, details, mail, published)
        return Notice(
            known.name if known else shown(name, _KIND_LIMIT_CHARS),
            EventState.PROCESSED if known else EventState.UNKNOWN_TYPE,
            occurred_at=timing.at,
            provider_id=who.provider_id,
            request_tag=who.request_tag,
            header_tag=who.header_tag,
            message_id=who.message_id,
            destinations=who.destinations,
            facts=facts_of(known, details, timing) if known else (),
            proves_acceptance=known is not None and who.provider_id is not None,
        )


def _timing(
    known: EventType | None, details: Json, mail: Json, published: datetime | None
) -> Timing:
    sent = mail.get("timestamp")
    own = sent if known and known.clock is Clock.MAIL else details.get("timestamp")
    return timing_of(own, details.get("feedbackId"), sent, published)


def _in_utc(moment: datetime | None) -> datetime | None:
    """Read a moment without an offset as UTC: two kinds of moments cannot be compared."""
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment
