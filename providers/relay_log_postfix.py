"""Lines of Postfix's log, as its programs write them to syslog or to `maillog_file`.

Only the queue manager proves anything: `cleanup` names the Message-ID while it reads the header,
and a client that goes away afterwards leaves nothing behind but that line.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

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

SOURCE = "postfix"

_LINE = re.compile(
    rf"(?:<\d{{1,3}}>)?(?P<stamp>{STAMP})(?: <[\w.]+>)? +(?P<host>\S+) "
    r"(?P<instance>[\w.-]+)/(?:[\w.-]+/)*(?P<service>\w+)\[(?P<pid>\d{1,10})\]: "
    r"(?:\[ID \d+ [\w.]+\] )?(?P<text>.*)",
    re.ASCII,
)
_ID = r"[0-9A-F]{5,32}|[0-9B-DF-HJ-NP-TV-Zb-df-hj-np-tv-z]{10,32}"
"""Short ids are hexadecimal; long ones (`enable_long_queue_ids`) have no vowels."""
_QUEUED = re.compile(rf"({_ID}|NOQUEUE): (.*)")
_NO_QUEUE = "NOQUEUE"

_REFUSED = re.compile(
    r"(?:milter-|proxy-)?reject: (?:DATA|END-OF-MESSAGE|header|body|mime-header|nested header)\b"
    r".*; from=<(?P<sender>[^<>]*)>.*"
)
_TO = re.compile(
    r"to=<(?P<to>[^<>]*)>, (?:orig_to=<(?P<given>[^<>]*)>, )?relay=(?P<relay>[^,]*), .*?"
    r"dsn=(?P<code>[245]\.\d{1,3}\.\d{1,3}), status=(?P<status>\w+)(?: \((?P<reply>.*)\))?"
)
_REMOVED = re.compile(r"removed")

_DELIVERS = ("smtp", "lmtp", "local", "virtual", "pipe", "error", "retry")
"""Not `discard`: what it calls sent is thrown away."""

_FORMS: Mapping[str, tuple[tuple[Step, re.Pattern[str]], ...]] = {
    "smtpd": (
        (Step.BEGAN, re.compile(rf"client=.*?(?:, orig_queue_id=(?P<came_from>{_ID})\b.*)?")),
        (Step.REFUSED, _REFUSED),
    ),
    "pickup": ((Step.BEGAN, re.compile(rf"uid=\d+ .*?(?:orig_id=(?P<came_from>{_ID}))?")),),
    "cleanup": (
        (Step.NAMED, re.compile(r"message-id=(?P<message_id>.*)")),
        (Step.REFUSED, _REFUSED),
    ),
    "qmgr": (
        (
            Step.TAKEN,
            re.compile(r"from=<(?P<sender>[^<>]*)>, size=\d+, nrcpt=\d+ \(queue active\)"),
        ),
        (Step.EXPIRED, re.compile(r"from=<[^<>]*>, status=(?:force-)?expired, returned to sender")),
        (Step.ENDED, _REMOVED),
    ),
    "postsuper": ((Step.ENDED, _REMOVED),),
    **dict.fromkeys(_DELIVERS, ((Step.FATE, _TO),)),
}
"""What each program writes about a queue id; the first form that fits the whole text holds."""

_FATES: Mapping[str, Fate] = {
    "sent": Fate.DELIVERED,
    "bounced": Fate.BOUNCED,
    "expired": Fate.BOUNCED,
    "deferred": Fate.DEFERRED,
    "SOFTBOUNCE": Fate.DEFERRED,
}
_CUT = re.compile(r"(?:warning: )?(?:lost connection|timeout|too many errors) after DATA\b.*")
_CODE = re.compile(r": (?:\d{3} )?([45]\.\d{1,3}\.\d{1,3}) ")


def parse(line: str, calendar: Calendar) -> Entry | None:
    """Return what a line says; None for one that says nothing here, or is none of Postfix's."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    at = calendar.read(match["stamp"])
    queued = _QUEUED.fullmatch(match["text"])
    if queued is None:
        return _about_process(match, at)
    for step, form in _FORMS.get(match["service"], ()):
        if said := form.fullmatch(queued[2]):
            return _entry(step, match, queued[1], said, at)
    return None


def _about_process(match: re.Match[str], at: datetime | None) -> Entry | None:
    if match["service"] != "smtpd" or not _CUT.fullmatch(match["text"]):
        return None
    return Entry(SOURCE, _scope(match), Step.CUT, at, process=match["pid"])


def _entry(
    step: Step, match: re.Match[str], queue_id: str, said: re.Match[str], at: datetime | None
) -> Entry | None:
    told = said.groupdict()
    entry = Entry(
        SOURCE,
        _scope(match),
        step,
        at,
        queue_id=None if queue_id == _NO_QUEUE else queue_id,
        process=match["pid"],
        message_id=message_id_or_none(told.get("message_id") or ""),
        sender=sender_or_none(told.get("sender")),
        came_from=told.get("came_from"),
    )
    if step is Step.REFUSED:
        return replace(entry, code=_refusal_code(said[0]))
    if entry.queue_id is None:
        return None
    return _with_fate(entry, said) if step is Step.FATE else entry


def _with_fate(entry: Entry, said: re.Match[str]) -> Entry | None:
    if onward := passed_on(said["relay"], said["reply"] or ""):
        return replace(entry, passed_to=onward)
    address, fate = key_or_none(said["given"] or said["to"]), _FATES.get(said["status"])
    if address is None or fate is None:
        return None
    return replace(entry, address=address, fate=fate, code=said["code"])


def _refusal_code(text: str) -> str | None:
    found = _CODE.search(text)
    return found[1] if found else None


def _scope(match: re.Match[str]) -> str:
    return f"{match['host']} {match['instance']}"
