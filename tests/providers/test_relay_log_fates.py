"""What a relay's log says of recipients, and when."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mailer.evidence import Fate
from providers.relay_log import read
from tests.providers.relay_lines import (
    ACCEPTED,
    ANN,
    BEFORE,
    BOB,
    NOON,
    NOTHING,
    RETURN_PATH,
    SHORT,
    Exim,
    Postfix,
    fates,
    only,
    told,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (Postfix().to("Ann@Example.COM"), [(ANN, Fate.DELIVERED, "2.0.0")]),
        (
            Postfix().to(ANN, "bounced (host said: 550 5.1.1 no)", dsn="5.1.1"),
            [(ANN, Fate.BOUNCED, "5.1.1")],
        ),
        (Postfix().to(ANN, "deferred (try later)", dsn="4.2.2"), [(ANN, Fate.DEFERRED, "4.2.2")]),
        (Postfix().to(BOB, given=ANN), [(ANN, Fate.DELIVERED, "2.0.0")]),
        (
            Postfix().to(relay="relay.example[private/dovecot-lmtp]", service="lmtp"),
            [(ANN, Fate.DELIVERED, "2.0.0")],
        ),
        (
            Postfix().to(relay="local", status="sent (delivered to mailbox)", service="local"),
            [(ANN, Fate.DELIVERED, "2.0.0")],
        ),
        (Postfix().to(relay="none", status="sent (thrown away)", service="discard"), []),
        (Postfix().to(status="deliverable (250 ok)"), []),
        (Postfix().to("nobody"), []),
        (Postfix().to("a@b@example.com"), []),
    ],
)
def test_fates(line: str, expected: list[tuple[str, Fate, str | None]]) -> None:
    post = Postfix()
    assert fates(only([post.named(), post.active(), line, post.removed()])) == expected


def test_a_recipient_keeps_every_fate_it_met_once() -> None:
    post = Postfix()
    waits = [post.to(ANN, "deferred (later)", dsn="4.4.1", after=n) for n in (2, 300, 900)]
    seen = only(
        [post.named(), post.active(), *waits, post.to(after=1200), post.removed(after=1201)]
    )
    assert [(each.fate, each.at) for each in seen.recipients] == [
        (Fate.DEFERRED, NOON + timedelta(seconds=900)),
        (Fate.DELIVERED, NOON + timedelta(seconds=1200)),
    ]


@pytest.mark.parametrize("status", ["expired", "force-expired"])
def test_what_waited_too_long_has_bounced(status: str) -> None:
    post = Postfix()
    expiry = post.said(
        "qmgr", f"from=<{RETURN_PATH}>, status={status}, returned to sender", after=9
    )
    waits = post.to(BOB, "deferred (later)", dsn="4.4.1")
    seen = only([post.named(), post.active(), post.to(), waits, expiry, post.removed(after=9)])
    assert fates(seen) == [
        (ANN, Fate.DELIVERED, "2.0.0"),
        (BOB, Fate.DEFERRED, "4.4.1"),
        (BOB, Fate.BOUNCED, "4.4.1"),
    ]


def test_a_content_filter_is_no_recipient_and_no_second_acceptance() -> None:
    post, back = Postfix(), Postfix("5A6B7C8D9E", second=1)
    handed = post.to(
        status="sent (250 2.0.0 from MTA(smtp:[127.0.0.1]:10025): 250 Ok: queued as 5A6B7C8D9E)",
        relay="127.0.0.1[127.0.0.1]:10024",
    )
    returned = back.client(f", orig_queue_id={SHORT}, orig_client=app.example[192.0.2.1]")
    lines = [post.client(), post.named(), post.active(), returned, *back.whole()[1:]]
    second, first = told([*lines, handed, post.removed()])
    assert (first.passed_to, first.came_from, fates(first)) == (("5A6B7C8D9E",), None, [])
    assert (second.came_from, fates(second)) == (SHORT, [(ANN, Fate.DELIVERED, "2.0.0")])


def test_what_was_queued_anew_or_forwarded_says_from_where() -> None:
    post = Postfix()
    anew = post.said("pickup", "uid=0 from=<x@mail.example> orig_id=6C7D8E9F0A")
    sent_on = post.to(relay="local", status="sent (forwarded as 5A6B7C8D9E)", service="local")
    seen = only([anew, post.named(), post.active(), sent_on, post.removed()])
    assert (seen.came_from, seen.passed_to) == ("6C7D8E9F0A", ("5A6B7C8D9E",))


@pytest.mark.parametrize(
    ("prefix", "at"),
    [
        ("Mar 10 12:00:00 relay ", NOON),
        ("Mar  1 09:05:00 relay ", datetime(2026, 3, 1, 9, 5, tzinfo=UTC)),
        ("Mar 12 00:30:00 relay ", datetime(2025, 3, 12, 0, 30, tzinfo=UTC)),
        ("Dec 31 23:59:59 relay ", datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("Feb 29 10:00:00 relay ", datetime(2024, 2, 29, 10, tzinfo=UTC)),
        ("2026-03-10T13:00:00.250+01:00 relay ", NOON + timedelta(milliseconds=250)),
        ("2026-03-10T12:00:00Z relay ", NOON),
        ("2026-03-10T13:00:00+0100 relay ", NOON),
        ("<22>Mar 10 12:00:00 relay ", NOON),
        ("Mar 10 12:00:00 <mail.info> relay ", NOON),
        ("Feb 30 12:00:00 relay ", None),
        ("2026-13-10T12:00:00Z relay ", None),
        ("0001-01-01T00:00:00+23:00 relay ", None),
    ],
)
def test_times(prefix: str, at: datetime | None) -> None:
    text = f"postfix/qmgr[9]: {SHORT}: from=<{RETURN_PATH}>, size=1, nrcpt=1 (queue active)"
    seen = only([prefix + text])
    assert (seen.kind, seen.at) == (ACCEPTED, at)


def test_a_zone_of_the_relay_s_own() -> None:
    plus_two = timezone(timedelta(hours=2))
    for lines in (Postfix().whole(), [Exim().arrived()]):
        (seen,) = read(lines, before=BEFORE, zone=plus_two)
        assert seen.at is not None
        assert timedelta(0) <= seen.at - (NOON - timedelta(hours=2)) <= timedelta(seconds=1)


def test_a_time_that_cannot_be_read_joins_nothing() -> None:
    post = Postfix()
    seen = told([post.named(), post.active().replace("Mar 10", "Feb 30")])
    assert [each.kind for each in seen] == [NOTHING, ACCEPTED]
