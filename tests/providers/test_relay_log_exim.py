"""Exim's main log."""

import pytest

from mailer.evidence import Fate
from providers.relay_log import read
from tests.providers.relay_lines import (
    ACCEPTED,
    ANN,
    BEFORE,
    BOB,
    NOON,
    OURS,
    REFUSED,
    RETURN_PATH,
    Exim,
    fates,
    only,
    told,
)


def test_a_message_that_exim_took() -> None:
    exim = Exim()
    seen = only(
        [
            exim.arrived(),
            exim.said(
                "=> ann <Ann@example.com> R=dnslookup T=remote_smtp H=mx.example.com [192.0.2.5] "
                'X=TLS1.3 CV=yes C="250 2.0.0 Ok: queued as 7C9D1E2F3A"',
                1,
            ),
            exim.said(
                "-> bob@example.org R=dnslookup T=remote_smtp H=mx.example.com [192.0.2.5]", 1
            ),
            exim.said(
                "** carl@example.com F=<x@mail.example> R=dnslookup T=remote_smtp: SMTP error from "
                "remote mail server after RCPT TO:<carl@example.com>: host mx.example.com "
                "[192.0.2.5]: 550-5.1.1 no such user",
                1,
            ),
            exim.said("** dora@example.com: Unrouteable address", 1),
            exim.said(
                "== emil@example.com R=dnslookup T=remote_smtp defer (-44) H=mx.example.com "
                "[192.0.2.5]: SMTP error from remote mail server: 451 4.7.1 later",
                1,
            ),
            exim.said("=> :blackhole: <fred@example.com> R=bin", 1),
            exim.completed(),
        ]
    )
    assert (seen.kind, seen.source, seen.queue_id) == (ACCEPTED, "exim", exim.queue_id)
    assert (seen.message_id, seen.sender, seen.at) == (OURS, RETURN_PATH, NOON)
    assert fates(seen) == [
        (ANN, Fate.DELIVERED, "2.0.0"),
        (BOB, Fate.DELIVERED, None),
        ("carl@example.com", Fate.BOUNCED, "5.1.1"),
        ("dora@example.com", Fate.BOUNCED, None),
        ("emil@example.com", Fate.DEFERRED, "4.7.1"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        Exim("1abcDE-000123-4F").arrived(),
        Exim().arrived().replace("12:00:00 ", "12:00:00.123 +0000 [4711] "),
        "Mar 10 12:00:00 relay exim[4711]: " + Exim().arrived(),
        "Mar 10 12:00:00 relay exim4[4711]: " + Exim().arrived().partition("12:00:00 ")[2],
    ],
)
def test_forms_of_exim_s_lines(line: str) -> None:
    seen = only([line])
    assert (seen.kind, seen.message_id, seen.sender) == (ACCEPTED, OURS, RETURN_PATH)
    assert seen.at is not None
    assert seen.at.replace(microsecond=0) == NOON


def test_exim_is_done_when_it_says_so() -> None:
    exim = Exim()
    given = iter([exim.arrived(), exim.completed(), "more"])
    assert next(read(given, before=BEFORE)).kind is ACCEPTED
    assert next(given) == "more"


def test_exim_throws_away_what_nobody_waits_for() -> None:
    lost = "SMTP connection lost after final dot H=app.example (app) [192.0.2.1] P=esmtps"
    assert told([Exim().said(lost)]) == []


@pytest.mark.parametrize("temporarily", ["", "temporarily "])
def test_exim_refuses(temporarily: str) -> None:
    text = (
        f"H=app.example (app) [192.0.2.1] X=TLS1.3 CV=no F=<{RETURN_PATH}> A=plain:app "
        f"{temporarily}rejected after DATA: a virus"
    )
    for line in (Exim().said(text), f"2026-03-10 12:00:00 {text}"):
        seen = only([line])
        assert (seen.kind, seen.message_id, seen.sender) == (REFUSED, None, RETURN_PATH)
    for other in (f"RCPT <{ANN}>", f"RCPT <{ANN}>: it would be rejected after DATA", "from"):
        assert told([Exim().said(text.replace("after DATA", other))]) == []


def test_a_bounce_of_exim_s_own_is_not_told() -> None:
    text = "<= <> R=1tpxYZ-000000001Ab-0aBC U=Debian-exim P=local S=2345"
    assert told([Exim("1tpxZZ-000000001Ac-0aBC").said(text)]) == []


def test_exim_s_filter_is_no_recipient() -> None:
    exim = Exim()
    handed = exim.said(
        "=> ann@example.com R=amavis T=amavis H=127.0.0.1 [127.0.0.1] "
        'C="250 2.6.0 from MTA: 250 OK id=1tpxZZ-000000001Ac-0aBC"'
    )
    seen = only([exim.arrived(), handed, exim.completed()])
    assert (seen.passed_to, seen.recipients) == (("1tpxZZ-000000001Ac-0aBC",), ())
