"""Lines of Exim's main log, from its own file or through syslog.

The `<=` line is written once Exim has taken responsibility. A message whose client is already gone
is thrown away before ("SMTP connection lost after final dot"); that line names nothing of ours.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from mailer.evidence import Fate
from providers.relay_log_entry import (
    STAMP,
    Calendar,
    Entry,
    Step,
    key_or_none,
    message_id_or_none,
    passed_on,
    sender_or_none,
)

SOURCE = "exim"

_ID = r"[0-9A-Za-z]{6}-(?:[0-9A-Za-z]{6}-[0-9A-Za-z]{2}|[0-9A-Za-z]{11}-[0-9A-Za-z]{4})"
"""Up to 4.96, and from 4.97 on."""
_LINE = re.compile(
    rf"(?:(?:<\d{{1,3}}>)?(?P<logged>{STAMP}) +(?P<host>\S+) exim\w*\[\d{{1,10}}\]: )?"
    rf"(?:(?P<stamp>{STAMP}) )?(?:\[\d{{1,10}}\] )?(?:(?P<id>{_ID}) )?(?P<text>.*)",
    re.ASCII,
)

_FATES: Mapping[str, Fate] = {
    "=>": Fate.DELIVERED,
    "->": Fate.DELIVERED,
    ">>": Fate.DELIVERED,
    "**": Fate.BOUNCED,
    "==": Fate.DEFERRED,
}
_ARRIVED = "<="
_COMPLETED = "Completed"

_REFUSED = "rejected after DATA"
_ENVELOPE_SENDER = re.compile(r"(?:^| )F=<([^<>]*)>")
_MESSAGE_ID = re.compile(r" id=(\S+)")
_SUBJECT = ' T="'
_QUOTED_NAME = re.compile(r' DN="[^"]*"')
"""Both are written by strangers and may hold what looks like a field."""

_ADDRESS_ENDS = re.compile(r" [A-Z]{1,2}=|: | defer ")
_GIVEN = re.compile(r"<([^<>]+)>$")
_HOST = re.compile(r" H=\S+(?: \(\S*\))? (\[[0-9A-Fa-f.:]+\])")
_CODE = re.compile(r"\b[245]\d\d[ -]([245]\.\d{1,3}\.\d{1,3})\b")


def parse(line: str, calendar: Calendar) -> Entry | None:
    """Return what a line says; None for one that says nothing here, or is none of Exim's."""
    match = _LINE.fullmatch(line)
    stamp = match and (match["stamp"] or match["logged"])
    if match is None or stamp is None:
        return None
    entry = Entry(
        SOURCE, match["host"] or "", Step.ENDED, calendar.read(stamp), queue_id=match["id"]
    )
    return _refused(entry, match["text"]) if match["id"] is None else _read(entry, match["text"])


def _read(entry: Entry, text: str) -> Entry | None:
    mark, _, rest = text.partition(" ")
    if mark == _ARRIVED:
        return _arrived(entry, rest)
    if mark in _FATES:
        return _with_fate(entry, _FATES[mark], rest)
    return entry if text == _COMPLETED else _refused(entry, text)


def _arrived(entry: Entry, text: str) -> Entry:
    fields = _QUOTED_NAME.sub("", text.partition(_SUBJECT)[0])
    ids = _MESSAGE_ID.findall(fields)
    sender = text.partition(" ")[0]
    return replace(
        entry,
        step=Step.ARRIVED,
        sender=None if sender == "<>" else sender_or_none(sender),
        message_id=message_id_or_none(f"<{ids[-1]}>") if ids else None,
    )


def _with_fate(entry: Entry, fate: Fate, text: str) -> Entry | None:
    entry = replace(entry, step=Step.FATE)
    host = _HOST.search(text)
    if fate is Fate.DELIVERED and host and (onward := passed_on(host[1], text)):
        return replace(entry, passed_to=onward)
    address = _address(text)
    if address is None:
        return None
    code = _CODE.search(text)
    return replace(entry, address=address, fate=fate, code=code[1] if code else None)


def _address(text: str) -> str | None:
    """Return whom it was sent to: in angle brackets where that was rewritten on the way.

    None for what is no address, such as `:blackhole:`.
    """
    written = _ADDRESS_ENDS.split(text, maxsplit=1)[0].rstrip(": ")
    given = _GIVEN.search(written)
    return key_or_none(given[1] if given else written.partition(" ")[0])


def _refused(entry: Entry, text: str) -> Entry | None:
    fields, refusal, why = text.partition(_REFUSED)
    senders = _ENVELOPE_SENDER.findall(fields)
    if not refusal or not senders or "rejected" in fields:
        return None
    code = _CODE.search(why)
    return replace(
        entry,
        step=Step.REFUSED,
        sender=sender_or_none(senders[-1]),
        code=code[1] if code else None,
    )
