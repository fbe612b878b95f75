"""Complaints by mail: the Abuse Reporting Format (RFC 5965). Pure."""

from collections.abc import Mapping
from email.utils import getaddresses

from mailer.facts import FactKind, Suppress, SuppressionReason
from providers.dsn_status import key_of
from providers.dsn_table import Ruling
from providers.mail_parts import Fields, read_fields
from providers.mail_report import Said

FEEDBACK_TYPE = "message/feedback-report"

COMPLAINED = Ruling(FactKind.COMPLAINED, Suppress(SuppressionReason.COMPLAINT))

NO_COMPLAINTS: Mapping[str, Ruling] = {
    "not-spam": Ruling(FactKind.COMPLAINT_NOT_SPAM),
}
"""Feedback types (RFC 5965 7.3) that are no complaint. Receivers make up types of their own, so
that whatever is not listed here, and a report without a type, is one."""

_TYPE_LIMIT_CHARS = 40
_MAX_NAMED = 50
_TO_LIMIT_CHARS = 2_000


def read_feedback(text: str, returned: Fields) -> tuple[Said, ...]:
    """Say who complained; `returned` is the header of the message that it is about.

    Many receivers blot the complainer out. A message that went to one visible recipient tells it
    all the same; else the complaint is nobody's, and about the message.
    """
    fields = read_fields(text)
    feedback = fields.first("feedback-type").lower()[:_TYPE_LIMIT_CHARS]
    ruling = NO_COMPLAINTS.get(feedback, COMPLAINED)
    keys = _named(fields) or _only_recipient(returned) or (None,)
    return tuple(
        Said(
            ruling.kind,
            key,
            f"complaint/{feedback}".rstrip("/"),
            suppress=ruling.suppress if key else None,
        )
        for key in keys
    )


def _named(fields: Fields) -> tuple[str, ...]:
    listed = list(fields.all("original-rcpt-to"))[:_MAX_NAMED]
    keys = (key_of(each) for each in listed)
    return tuple(dict.fromkeys(key for key in keys if key is not None))


def _only_recipient(returned: Fields) -> tuple[str, ...]:
    shown = ",".join([*returned.all("to"), *returned.all("cc")])
    if not shown or len(shown) > _TO_LIMIT_CHARS:
        return ()
    keys = tuple(dict.fromkeys(key_of(address) for _, address in getaddresses([shown])))
    return (keys[0],) if len(keys) == 1 and keys[0] else ()
