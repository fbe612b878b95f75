"""The machine-readable part of a delivery report: one entry a recipient. Pure.

RFC 3464 2; RFC 6533 for addresses beyond ASCII.
"""

import re
from collections.abc import Iterator

from mailer.addresses import MAX_ADDRESS_OCTETS, address_key
from mailer.errors import InvalidEmail
from providers.dsn_table import action_of, judge, status_of
from providers.mail_parts import Field, Fields, read_fields
from providers.mail_report import Said

REPORT_TYPES = frozenset({"message/delivery-status", "message/global-delivery-status"})

MAX_BLOCKS = 1_000
"""What is read of a report; a message of ours has far fewer recipients."""

_ORIGINAL, _FINAL = "original-recipient", "final-recipient"
_WHO = frozenset({_ORIGINAL, _FINAL})
_WHAT = frozenset({"action", "status"})

_WHO_LINE = re.compile(r"^(?:Original|Final)-Recipient[ \t]*:", re.IGNORECASE | re.MULTILINE)
_WHAT_LINE = re.compile(r"^(?:Action|Status)[ \t]*:", re.IGNORECASE | re.MULTILINE)
_BLOCKS = re.compile(r"\r?\n[ \t]*\r?\n")
_HEX = re.compile(r"\\x\{([0-9A-Fa-f]{1,6})\}")
_COMMENT = re.compile(r"\([^()]*\)")
_REPLY_TYPE = re.compile(r"^[\w-]{1,20}\s{0,9};\s*")
_LIMIT_CHARS = 1_000
_LAST_CODE_POINT = 0x10FFFF


def looks_like_a_report(text: str) -> bool:
    """Whether text that is not labelled as a report reads like one."""
    return bool(_WHO_LINE.search(text) and _WHAT_LINE.search(text))


def recipients(text: str) -> Iterator[Fields]:
    """Yield the fields of each recipient.

    Blocks are separated by blank lines; where such a line is missing, by the field that begins the
    next recipient.
    """
    for block in _BLOCKS.split(text, MAX_BLOCKS)[:MAX_BLOCKS]:
        for group in _groups(read_fields(block)):
            names = {name for name, _ in group}
            if names & _WHO and names & _WHAT:
                yield Fields(tuple(group))


def read_delivery_status(text: str) -> tuple[Said, ...]:
    """Say what a report tells about each recipient that it names."""
    return tuple(_said(each) for each in recipients(text))


def _said(fields: Fields) -> Said:
    action = action_of(fields.first("action"))
    diagnostic = fields.first("diagnostic-code")
    status = status_of(fields.first("status"), diagnostic)
    ruling = judge(action, status)
    return Said(
        ruling.kind,
        address_of(fields),
        action,
        status or None,
        _REPLY_TYPE.sub("", diagnostic),
        ruling.suppress,
    )


def address_of(fields: Fields) -> str | None:
    """Return the canonical key of a recipient: the one that we named, else the final one.

    A forwarding may stand between both. None where neither is a mail address.
    """
    keys = (key_of(fields.first(name)) for name in (_ORIGINAL, _FINAL))
    return next((key for key in keys if key is not None), None)


def key_of(text: str) -> str | None:
    """Return the canonical key of `rfc822; ann@example.org` and of what others write for it.

    The type may be missing, angle brackets or a comment may be there, and characters may be
    written as `\\x{E9}` (RFC 6533 3).
    """
    kind, semicolon, rest = text[:_LIMIT_CHARS].partition(";")
    bare = rest if semicolon and "@" not in kind else kind
    bare = _HEX.sub(_character, _COMMENT.sub("", bare)).strip()
    if bare.endswith(">"):
        bare = bare[:-1].rpartition("<")[2]
    try:
        key = address_key(bare)
    except InvalidEmail:
        return None
    is_fit = len(key.encode()) <= MAX_ADDRESS_OCTETS and key.isprintable()
    return key if is_fit and "\ufffd" not in key and " " not in key else None


def _groups(fields: Fields) -> Iterator[list[Field]]:
    group: list[Field] = []
    names: set[str] = set()
    for field in fields.listed:
        if _begins_another(field[0], names):
            yield group
            group, names = [], set()
        group.append(field)
        names.add(field[0])
    yield group


def _begins_another(name: str, names: set[str]) -> bool:
    if name in _WHO:
        return name in names or bool(names & _WHO and names & _WHAT)
    return name in _WHAT and name in names


def _character(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return chr(code) if code <= _LAST_CODE_POINT else "\ufffd"
