"""A second opinion on mails that hold no report: what flufl.bounce takes for a bounce. Pure.

It knows many forms of plain text (qmail, Exim, old Exchange) by their wording, and so takes quoted
text for a bounce as well: what it finds is shown to people and decides nothing.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from email import message_from_bytes

from flufl.bounce import all_failures

from mailer.facts import FactKind
from providers.dsn_status import key_of
from providers.mail_report import Report, Said

_ITS_LOG = logging.getLogger("flufl.bounce")

RULE = "heuristic"

_MAX_BYTES = 64 * 1024
"""Such bounces are short, and the patterns are not made for what is hostile and long."""
_MAX_PART_LINES = 60
"""The time that it takes grows with parts and depth."""
_MAX_FOUND = 50
_PART_LINE = re.compile(rb"^(?:content-type[ \t]*:|--)", re.IGNORECASE | re.MULTILINE)


def suspect(raw: bytes) -> Report | None:
    """Return what looks like a bounce; None if nothing does, or if the mail has too many parts."""
    raw = raw[:_MAX_BYTES]
    if len(_PART_LINE.findall(raw)) > _MAX_PART_LINES:
        return None
    # It logs its own failures with tracebacks, and every hostile mail makes some.
    _ITS_LOG.disabled = True
    try:
        temporary, permanent = all_failures(message_from_bytes(raw))
    except Exception:  # noqa: BLE001 - its detectors were not made for hostile mail
        return None
    said = (
        *_said(FactKind.BOUNCED_PERMANENT, permanent),
        *_said(FactKind.DELAYED, temporary),
    )
    return Report(RULE, said) if said else None


def _said(kind: FactKind, addresses: Iterable[bytes]) -> Iterator[Said]:
    for each in sorted(addresses)[:_MAX_FOUND]:
        key = key_of(each.decode("utf-8", "replace"))
        if key is not None:
            yield Said(kind, key, RULE)
