"""Events in the shape that SES's event publishing gives them ("Contents of event data")."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from mailer.fake_ses.events import Events
from mailer.fake_ses.fates import EventType, Fate, Happening
from mailer.fake_ses.ledger import Accepted
from mailer.fake_ses.submission import Submission

MAX_HEADER_CHARS = 10 * 1024
"""Of what an event repeats of a header, which SES cuts off at 10 KB."""

_STEP = timedelta(milliseconds=1)
_FOLD = re.compile(r"\r?\n(?=[ \t])")
_ADDRESS_FIELDS = ("from", "to", "cc", "reply-to")

Payload = dict[str, Any]


def tell(
    mail: Submission, entry: Accepted, fates: Mapping[str, Fate], events: Events
) -> Iterator[Payload]:
    """Yield what is told of one accepted message, in the order in which it happens.

    `fates` has one for each recipient. Recipients to whom the same happens are in one event.
    """
    if not any(fate.is_told for fate in fates.values()):
        return
    about = _mail(mail, entry, events)
    yield {"eventType": EventType.SEND, "mail": about, "send": {}}
    for number, (happening, recipients) in enumerate(_happenings(fates), 1):
        at = entry.at + number * _STEP
        yield {
            "eventType": happening.type,
            "mail": about,
            **_DETAILS[happening.type](happening, recipients, at, events.region),
        }


def _happenings(fates: Mapping[str, Fate]) -> Iterator[tuple[Happening, list[str]]]:
    alike: defaultdict[Fate, list[str]] = defaultdict(list)
    for recipient, fate in fates.items():
        alike[fate].append(recipient)
    for fate, recipients in alike.items():
        for each in fate.happenings:
            yield each, recipients


def _mail(mail: Submission, entry: Accepted, events: Events) -> Payload:
    headers, is_cut = _fitting(mail.headers)
    domain = entry.sender.rpartition("@")[2]
    return {
        "timestamp": _moment(entry.at),
        "source": entry.sender,
        "sourceArn": f"arn:aws:ses:{events.region}:{events.account}:identity/{domain}",
        "sendingAccountId": events.account,
        "messageId": entry.message_id,
        "destination": list(entry.recipients),
        "headersTruncated": is_cut,
        "headers": headers,
        "commonHeaders": _common(headers, entry.message_id),
        "tags": _tags(entry, domain),
    }


def _fitting(fields: Iterable[tuple[str, str]]) -> tuple[list[dict[str, str]], bool]:
    """Return the first fields that fit, unfolded, and whether there were more."""
    headers: list[dict[str, str]] = []
    left = MAX_HEADER_CHARS
    for name, value in fields:
        left -= len(name) + len(value)
        if left < 0:
            return headers, True
        headers.append({"name": name, "value": _FOLD.sub("", value)})
    return headers, False


def _common(headers: Sequence[Mapping[str, str]], message_id: str) -> Payload:
    found: Payload = {"messageId": message_id}
    for each in headers:
        name = each["name"].lower()
        if name in _ADDRESS_FIELDS:
            found["replyTo" if name == "reply-to" else name] = [each["value"]]
        elif name in {"subject", "date"}:
            found[name] = each["value"]
    return found


def _tags(entry: Accepted, domain: str) -> dict[str, list[str]]:
    given = {name: [value] for name, value in entry.tags.items()}
    if entry.configuration_set is not None:
        given["ses:configuration-set"] = [entry.configuration_set]
    return {
        "ses:operation": ["SendEmail"],
        "ses:source-ip": ["192.0.2.10"],
        "ses:from-domain": [domain],
        "ses:caller-identity": ["fake"],
        **given,
    }


def _delivery(happening: Happening, recipients: list[str], at: datetime, region: str) -> Payload:
    return {
        "delivery": {
            "timestamp": _moment(at),
            "processingTimeMillis": 1,
            "recipients": recipients,
            "smtpResponse": _said(happening, recipients[0]),
            "remoteMtaIp": "203.0.113.9",
            "reportingMTA": _mta(region),
        }
    }


def _delay(happening: Happening, recipients: list[str], at: datetime, region: str) -> Payload:
    return {
        "deliveryDelay": {
            "timestamp": _moment(at),
            "delayType": happening.kind,
            "expirationTime": _moment(at + timedelta(hours=12)),
            "delayedRecipients": [_answered(happening, each) for each in recipients],
            "reportingMTA": _mta(region),
        }
    }


def _bounce(happening: Happening, recipients: list[str], at: datetime, region: str) -> Payload:
    listed = [{**_answered(happening, each), "action": "failed"} for each in recipients]
    return {
        "bounce": {
            "feedbackId": _feedback_id(at),
            "bounceType": happening.kind,
            "bounceSubType": happening.subkind,
            "bouncedRecipients": listed,
            "timestamp": _moment(at),
            "reportingMTA": f"dns; {_mta(region)}",
        }
    }


def _complaint(_: Happening, recipients: list[str], at: datetime, region: str) -> Payload:
    del region
    return {
        "complaint": {
            "feedbackId": _feedback_id(at),
            "complaintSubType": None,
            "complainedRecipients": [{"emailAddress": each} for each in recipients],
            "timestamp": _moment(at),
            "userAgent": "Fake-ISP-FBL/1.0",
            "complaintFeedbackType": "abuse",
            "arrivalDate": _moment(at),
        }
    }


_DETAILS = {
    EventType.DELIVERY: _delivery,
    EventType.DELAY: _delay,
    EventType.BOUNCE: _bounce,
    EventType.COMPLAINT: _complaint,
}


def _answered(happening: Happening, recipient: str) -> dict[str, str]:
    return {
        "emailAddress": recipient,
        "status": happening.status,
        "diagnosticCode": _said(happening, recipient),
    }


def _said(happening: Happening, recipient: str) -> str:
    return happening.said.replace("{recipient}", recipient)


def _mta(region: str) -> str:
    return f"a1-2.smtp-out.{region}.amazonses.com"


def _feedback_id(at: datetime) -> str:
    return f"0102{int(at.timestamp() * 1000):012x}-{uuid4()}-000000"


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
