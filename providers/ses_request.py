"""Preflight: whether SES can be given this message, and the request that gives it."""

import re
from dataclasses import dataclass
from typing import Any

from mailer.outcome import RecipientVerdict
from mailer.provider import Addressee, Call
from providers.ses_rules import Kind, Observation, Stage
from providers.ses_settings import SesSettings
from providers.ses_table import judge

RECIPIENTS_LIMIT = 50
"""To, Cc and Bcc together (SES Developer Guide, service quotas)."""

CONTENT_LIMIT_BYTES = 40 * 1024 * 1024
_ADDRESS = re.compile(
    r"(?:[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+|\"(?:[ !#-\[\]-~]|\\[ -~])*\")@[A-Za-z0-9.:\[\]_-]+"
)
"""RFC 5321 4.1.2, and ASCII alone: SES has no SMTPUTF8, and would read a bare comma as two."""


class Unfit(Exception):
    """SES cannot be given this message."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The request, whom it is for, and what those it is not for end with."""

    request: dict[str, Any]
    aboard: tuple[Addressee, ...]
    settled: dict[int, RecipientVerdict]


def plan(call: Call, settings: SesSettings) -> Plan:
    """Write the request, settling each recipient whose address cannot be used.

    Raises `Unfit` when the message itself cannot be sent.
    """
    _check(call)
    aboard = tuple(each for each in call.recipients if _ADDRESS.fullmatch(each.address))
    settled = {each.recipient_id: _refused(each) for each in call.recipients if each not in aboard}
    return Plan(_request(call, aboard, settings), aboard, settled)


def unfit(fact: str) -> Observation:
    """Write down why a message cannot be given to SES."""
    return Observation(Stage.PREFLIGHT, Kind.MESSAGE, bytes_sent=0, text=fact)


def _check(call: Call) -> None:
    if not call.recipients:
        raise Unfit("no recipients")
    if len(call.recipients) > RECIPIENTS_LIMIT:
        raise Unfit(f"more than {RECIPIENTS_LIMIT} recipients, the most that SES takes at once")
    if len(call.content) > CONTENT_LIMIT_BYTES:
        raise Unfit("larger than the 40 MB that SES takes")
    if not _ADDRESS.fullmatch(call.sender):
        raise Unfit("sender: not an address that SES can be given")


def _refused(addressee: Addressee) -> RecipientVerdict:
    fact = "not an address that SES can be given: it has no SMTPUTF8"
    row = judge(Observation(Stage.PREFLIGHT, Kind.RECIPIENT, bytes_sent=0, text=fact))
    return RecipientVerdict(addressee.recipient_id, row.outcome, row.scope, row.rule, None, fact)


def _request(call: Call, aboard: tuple[Addressee, ...], settings: SesSettings) -> dict[str, Any]:
    request = {
        "FromEmailAddress": call.sender,
        "Destination": {"ToAddresses": [each.address for each in aboard]},
        "Content": {"Raw": {"Data": call.content}},
        "EmailTags": [
            {"Name": "mailer-outbox", "Value": str(call.outbox_id)},
            {"Name": "mailer-attempt", "Value": call.request_tag},
        ],
    }
    if settings.configuration_set:
        request["ConfigurationSetName"] = settings.configuration_set
    return request
