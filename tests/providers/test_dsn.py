"""Mails that come back: read in every form that they come in, and believed only where proven."""

import base64
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailer.facts import EventState, FactKind, Notice, Suppress, SuppressionReason
from mailer.feed import Interpret
from mailer.outcome import clean
from providers.dsn import BounceMails
from providers.mail_parts import MAX_DEPTH, MAX_MAIL_BYTES
from tests.providers.bounce_mails import (
    AWAY,
    ENVELOPE_ID,
    EXCHANGE,
    EXIM,
    GMAIL,
    MESSAGE_ID,
    OLD_EXIM,
    OPENSMTPD,
    PATH,
    POSTFIX,
    QMAIL,
    RETURNED,
    TAG,
    VERP,
    complaint,
    mail,
    report,
    status,
)

MAILS = BounceMails(PATH)
CAME = datetime(2026, 3, 10, 12, 0, 5, tzinfo=UTC)
WRITTEN = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
BOUNCE = Suppress(SuppressionReason.BOUNCE)
ANN = "ann@example.org"
STRANGER = "someone@mail.example.com"
BARE = "To: Ann <ann@example.org>\n"


def read(raw: bytes) -> Notice:
    return MAILS.read(raw, published_at=CAME)


def kinds(notice: Notice) -> dict[str | None, FactKind]:
    return {each.address: each.kind for each in notice.facts}


@pytest.mark.parametrize(
    ("raw", "kind", "code", "suppress"),
    [
        (POSTFIX, FactKind.BOUNCED_PERMANENT, "5.1.1", BOUNCE),
        (EXIM, FactKind.BOUNCED_PERMANENT, "5.1.1", BOUNCE),
        (EXCHANGE, FactKind.BOUNCED_PERMANENT, "5.7.1", None),
        (OPENSMTPD, FactKind.BOUNCED_PERMANENT, "5.1.1", BOUNCE),
        (GMAIL, FactKind.DELAYED, "4.4.1", None),
    ],
    ids=["postfix", "exim", "exchange", "opensmtpd", "gmail"],
)
def test_reports_as_servers_write_them(
    raw: bytes, kind: FactKind, code: str, suppress: Suppress | None
) -> None:
    notice = read(raw)

    assert (notice.kind, notice.state) == ("delivery-status", EventState.PROCESSED)
    assert (notice.request_tag, notice.header_tag, notice.message_id) == (TAG, TAG, MESSAGE_ID)
    assert notice.trusted
    assert notice.proves_acceptance
    (fact,) = notice.facts
    assert (fact.address, fact.kind, fact.code, fact.suppress) == (ANN, kind, code, suppress)
    assert fact.occurred_at == notice.occurred_at == WRITTEN
    assert "unproven" not in fact.occurrence


def test_the_diagnostic_is_kept_on_one_line() -> None:
    (fact,) = read(POSTFIX).facts
    assert fact.text.startswith("550 5.1.1 <annie@forwarded.example>: Recipient address")
    assert fact.text.endswith("rejected: User unknown in virtual mailbox table")
    assert (fact.rule, "\n" in fact.text) == ("failed", False)


@pytest.mark.parametrize(
    ("action", "code", "kind", "suppresses"),
    [
        ("failed", "5.1.1", FactKind.BOUNCED_PERMANENT, True),
        ("failed", "5.1.2", FactKind.BOUNCED_PERMANENT, True),
        ("failed", "5.1.10", FactKind.BOUNCED_PERMANENT, True),
        ("failed", "5.2.1", FactKind.BOUNCED_PERMANENT, True),
        ("failed", "5.4.4", FactKind.BOUNCED_PERMANENT, True),
        ("FAILED (user unknown)", "5.1.1 (bad mailbox)", FactKind.BOUNCED_PERMANENT, True),
        ("", "5.1.1", FactKind.BOUNCED_PERMANENT, True),
        ("failed", "5.1.7", FactKind.BOUNCED_PERMANENT, False),
        ("failed", "5.1.8", FactKind.BOUNCED_PERMANENT, False),
        ("failed", "5.2.2", FactKind.BOUNCED_PERMANENT, False),
        ("failed", "5.7.1", FactKind.BOUNCED_PERMANENT, False),
        ("failed", "5.0.0", FactKind.BOUNCED_PERMANENT, False),
        ("failed", "4.4.7", FactKind.BOUNCED_TRANSIENT, False),
        ("", "4.2.2", FactKind.BOUNCED_TRANSIENT, False),
        ("failed", "", FactKind.BOUNCED_UNDETERMINED, False),
        ("failed", "2.0.0", FactKind.BOUNCED_UNDETERMINED, False),
        ("failed", "9.1.1", FactKind.BOUNCED_UNDETERMINED, False),
        ("delayed", "4.4.1", FactKind.DELAYED, False),
        ("delayed", "5.1.1", FactKind.DELAYED, False),
        ("delivered", "2.0.0", FactKind.DELIVERED, False),
        ("relayed (to non-DSN-aware mailer)", "2.6.0", FactKind.DELIVERED, False),
        ("expanded", "2.0.0", FactKind.DELIVERED, False),
        ("vanished", "5.1.1", FactKind.BOUNCED_UNKNOWN, False),
        ("", "7.1.1", FactKind.BOUNCED_UNKNOWN, False),
    ],
)
def test_action_and_status_decide(action: str, code: str, kind: FactKind, suppresses: bool) -> None:
    (fact,) = read(report(status(action, code))).facts
    assert (fact.kind, fact.suppress) == (kind, BOUNCE if suppresses else None)


@pytest.mark.parametrize(
    ("code", "diagnostic", "told"),
    [
        ("5.0.0", "smtp; 550 5.1.1 unknown", "5.1.1"),
        ("5.0.0", "smtp; 550-5.1.1 unknown", "5.1.1"),
        ("", "smtp; 550 #5.1.1 unknown", "5.1.1"),
        ("5.0.0", "smtp; 450 4.2.1 later", "5.0.0"),
        ("5.0.0", "smtp; 550 see 5.1.1 in our manual", "5.0.0"),
        ("5.7.1", "smtp; 550 5.1.1 unknown", "5.7.1"),
        ("", "smtp; 550 unknown", None),
        ("", "x; 192.5.1.1.7", None),
    ],
)
def test_a_status_that_says_nothing_gives_way_to_the_reply(
    code: str, diagnostic: str, told: str | None
) -> None:
    (fact,) = read(report(status("failed", code, diagnostic=diagnostic))).facts
    assert fact.code == told


@pytest.mark.parametrize(
    ("who", "address"),
    [
        ("Final-Recipient: rfc822; Ann@Example.ORG", ANN),
        ("Final-Recipient: RFC822;<ann@example.org>", ANN),
        ("Final-Recipient: <ann@example.org>", ANN),
        ("Final-Recipient: ann@example.org (the other Ann)", ANN),
        (
            "Final-Recipient: utf-8; j\\x{FC}rgen@b\\x{FC}cher.example",
            "jürgen@xn--bcher-kva.example",
        ),
        ("Final-Recipient: utf-8; jürgen@bücher.example", "jürgen@xn--bcher-kva.example"),
        ("Final-Recipient: rfc822; b@example.net\nOriginal-Recipient: rfc822;ann@example.org", ANN),
        ("Original-Recipient: x400; /c=xx/\nFinal-Recipient: rfc822; ann@example.org", ANN),
        ("Final-Recipient: x-local; ann", None),
        ("Final-Recipient: rfc822; a b@example.org", None),
        ("Final-Recipient: utf-8; \\x{D800}@example.org", None),
        ("Final-Recipient: utf-8; \\x{110000}@example.org", None),
        (f"Final-Recipient: rfc822; {'a' * 250}@example.org", None),
    ],
)
def test_addresses_as_servers_write_them(who: str, address: str | None) -> None:
    (fact,) = read(report(status(who=who))).facts
    assert fact.address == address


TWO = """Reporting-MTA: dns; mx.example.net

Original-Recipient: rfc822; ann@example.org
Final-Recipient: rfc822; a@example.net
Action: failed
Status: 5.1.1

Final-Recipient: rfc822; ben@example.org
Action: delayed
Status: 4.2.2

Action: delivered
Status: 2.0.0
Final-Recipient: rfc822; cleo@example.org
"""


@pytest.mark.parametrize(
    "text",
    [
        TWO,
        TWO.replace("\n\n", "\n"),
        TWO.replace("\n\n", "\n", 1),
        TWO.replace("\n\n", "\n \t\n\n\n"),
        TWO.replace("example.net\n\n", "example.net\nnot a field\n"),
    ],
    ids=["as it should be", "no blank line", "none after the head", "too many", "garbage"],
)
def test_each_recipient_has_its_own_fate(text: str) -> None:
    found = kinds(read(report(text)))
    if "\n\n" not in text:  # Fields before their address cannot be told from those behind it.
        found.pop("cleo@example.org", None)
    assert found.items() >= {
        (ANN, FactKind.BOUNCED_PERMANENT),
        ("ben@example.org", FactKind.DELAYED),
    }
    assert found.get("cleo@example.org", FactKind.DELIVERED) is FactKind.DELIVERED


def test_a_blank_line_may_be_missing_before_the_next_original_recipient() -> None:
    text = (
        "Final-Recipient: rfc822; ben@example.org\nAction: delayed\nStatus: 4.2.2\n"
        "Original-Recipient: rfc822; ann@example.org\nFinal-Recipient: rfc822; x@example.net\n"
        "Action: failed\nStatus: 5.1.1\n"
    )
    assert kinds(read(report(text))) == {
        "ben@example.org": FactKind.DELAYED,
        ANN: FactKind.BOUNCED_PERMANENT,
    }


def test_one_fate_told_twice_is_one_fact() -> None:
    block = "\nFinal-Recipient: rfc822; ann@example.org\nAction: failed\nStatus: 5.1.1\n"
    assert len(read(report(block + block)).facts) == 1


BASE64 = base64.encodebytes(status(diagnostic="smtp; 550 unknown").encode()).decode()
QUOTED = status().replace("5.1.1", "5=2E1=\n.1").replace("ann@", "a=6En@")
PLAIN = "Content-Type: text/plain"


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("Content-Type: message/delivery-status\nContent-Transfer-Encoding: base64", BASE64),
        ("Content-Type: MESSAGE/Delivery-Status\nContent-Transfer-Encoding: BASE64 ", BASE64[:-9]),
        (
            "Content-Type: message/delivery-status\nContent-Transfer-Encoding: quoted-printable",
            QUOTED,
        ),
        ("Content-Type: message/global-delivery-status; charset=utf-8", status()),
        (PLAIN, status()),
        (f"{PLAIN}\nContent-Transfer-Encoding: base64", BASE64),
        ("", status()),
    ],
    ids=["base64", "base64 cut off", "quoted", "global", "text", "text in base64", "no type"],
)
def test_the_report_part_may_be_encoded_or_mislabelled(part: str, text: str) -> None:
    notice = read(report(text, part=part))
    assert kinds(notice) == {ANN: FactKind.BOUNCED_PERMANENT}
    assert (notice.request_tag, notice.message_id) == (TAG, MESSAGE_ID)


def test_a_report_may_be_forwarded_inside_a_message() -> None:
    raw = mail(
        "Content-Type: message/rfc822\n\n" + report(status()).decode(), to="postmaster@example.com"
    )
    notice = read(raw)
    assert (notice.request_tag, notice.message_id) == (TAG, MESSAGE_ID)
    assert kinds(notice) == {ANN: FactKind.BOUNCED_PERMANENT}


def test_a_mail_that_was_cut_off_is_read_as_far_as_it_goes() -> None:
    raw = report(status())
    assert kinds(read(raw[: raw.index(b"text/rfc822-headers")])) == {
        ANN: FactKind.BOUNCED_PERMANENT
    }


def test_quoted_text_inside_a_returned_message_is_no_report() -> None:
    raw = mail(f"Content-Type: message/rfc822\n\nSubject: how to read bounces\n\n{status()}")
    assert read(raw).state is EventState.UNPARSED


@pytest.mark.parametrize(
    "raw",
    [
        report(status(), head=f"Delivered-To: {VERP}\n", to=STRANGER, returned=BARE),
        report(status(), head=f"X-Original-To: <{VERP}>\n", to=STRANGER, returned=BARE),
        report(status(), to=f'"Bounces" <{VERP.upper()}>, {STRANGER}', returned=BARE),
        report(status(), to=STRANGER, returned=f"Return-Path: <{VERP}>\n"),
        report(status(envelope_id=ENVELOPE_ID), to=STRANGER, returned=BARE),
    ],
    ids=["delivered-to", "x-original-to", "to", "returned", "envelope id"],
)
def test_a_mark_with_its_mac_proves_wherever_it_stands(raw: bytes) -> None:
    notice = read(raw)
    assert (notice.request_tag, notice.trusted, notice.proves_acceptance) == (TAG, True, True)
    assert notice.reference == TAG


def test_the_address_that_it_was_delivered_to_may_be_given() -> None:
    raw = report(status(), to=STRANGER, returned=BARE)
    assert MAILS.read(raw, recipients=["x@example.com", VERP]).request_tag == TAG


FORGED = VERP.replace(VERP.partition(".")[2][:12], "0123456789ab")


@pytest.mark.parametrize(
    ("raw", "header_tag", "message_id"),
    [
        (report(status(), to=FORGED, returned=RETURNED.replace(VERP, FORGED)), TAG, MESSAGE_ID),
        (
            report(status(envelope_id=f"{TAG}.0123456789ab"), to=STRANGER, returned=BARE),
            None,
            None,
        ),
        (report(status(), to=STRANGER, returned="X-Outbox-Attempt: 2\n"), None, None),
        (report(status(), to=STRANGER, returned="Message-ID: none\n"), None, None),
        (report(status(), to=STRANGER, returned=f"Message-ID: {MESSAGE_ID}\n"), None, MESSAGE_ID),
    ],
    ids=["forged address", "forged envelope id", "a number", "no id", "message id"],
)
def test_what_is_not_proven_is_told_and_suppresses_nobody(
    raw: bytes, header_tag: str | None, message_id: str | None
) -> None:
    notice = read(raw)

    assert notice.state is EventState.PROCESSED
    assert (notice.request_tag, notice.trusted, notice.proves_acceptance) == (None, False, False)
    assert (notice.header_tag, notice.message_id) == (header_tag, message_id)
    (fact,) = notice.facts
    assert (fact.kind, fact.address, fact.suppress) == (FactKind.BOUNCED_PERMANENT, ANN, None)
    assert fact.occurrence.startswith("unproven ")


def test_without_a_return_path_nothing_is_believed() -> None:
    notice = BounceMails(None).read(POSTFIX)
    assert (notice.trusted, notice.request_tag, notice.message_id) == (False, None, MESSAGE_ID)
    assert notice.facts[0].suppress is None


FROM_THE_HOST = OLD_EXIM.replace(b"MAILER-DAEMON@mx.example.net", b"exim@mx.example.net")


@pytest.mark.parametrize(
    "raw", [QMAIL, OLD_EXIM, FROM_THE_HOST], ids=["qmail", "exim", "another sender"]
)
def test_a_bounce_in_plain_text_is_a_guess(raw: bytes) -> None:
    notice = read(raw)

    assert (notice.kind, notice.state) == ("heuristic", EventState.PROCESSED)
    assert (notice.request_tag, notice.message_id) == (TAG, MESSAGE_ID)
    assert (notice.trusted, notice.proves_acceptance) == (False, False)
    (fact,) = notice.facts
    assert (fact.kind, fact.address) == (FactKind.BOUNCED_PERMANENT, ANN)
    assert (fact.rule, fact.suppress) == ("heuristic", None)


def test_no_guess_is_made_at_a_mail_of_too_many_parts() -> None:
    """The library that guesses takes time that grows with them."""
    assert read(QMAIL + b"--b\r\n" * 100).kind == "mail"


@pytest.mark.parametrize(
    "raw",
    [
        AWAY,
        AWAY.replace(b"Auto-Submitted: auto-replied", b"X-Auto-Response-Suppress: OOF"),
        AWAY.replace(b"Auto-Submitted: auto-replied (vacation)", b"Precedence: auto_reply"),
    ],
)
def test_an_automatic_reply_is_no_bounce(raw: bytes) -> None:
    notice = read(raw)
    assert (notice.kind, notice.state, notice.facts) == ("auto-reply", EventState.CONTROL, ())
    assert (notice.request_tag, notice.proves_acceptance) == (TAG, False)


def test_a_letter_stays_for_a_person() -> None:
    notice = read(mail("\nThank you for the quick delivery.\n"))
    assert (notice.kind, notice.state, notice.facts) == ("mail", EventState.UNPARSED, ())
    assert notice.request_tag == TAG


@pytest.mark.parametrize(
    ("date", "came", "expected"),
    [
        (b"Tue, 10 Mar 2026 13:00:00 +0100", CAME, WRITTEN),
        (b"Tue, 10 Mar 2026 12:00:00 -0000", CAME, WRITTEN),
        (b"Tue, 10 Mar 2026 12:00:00 (noon)", CAME, WRITTEN),
        (b"Tue, 10 Mar 2099 12:00:00 +0000", CAME, CAME),
        (b"Tue, 10 Mar 2099 12:00:00 +0000", CAME.replace(tzinfo=None), CAME),
        (b"Sun, 10 Mar 1906 12:00:00 +0000", CAME, CAME),
        (b"Fri, 31 Dec 9999 23:59:00 -2359", CAME, CAME),
        (b"soon", CAME, CAME),
        (b"", None, datetime(1970, 1, 1, tzinfo=UTC)),
        (b"Tue, 10 Mar 2026 12:00:00 +0000", None, WRITTEN),
    ],
)
def test_a_mail_is_dated_by_itself_and_never_later_than_it_came(
    date: bytes, came: datetime | None, expected: datetime
) -> None:
    raw = re.sub(rb"\r\nDate: [^\r]+", b"\r\nDate: " + date, POSTFIX, count=1)
    assert MAILS(raw, came).facts[0].occurred_at == expected


def test_the_same_mail_gives_the_same_facts() -> None:
    reader: Interpret = MAILS
    assert reader(POSTFIX, CAME) == reader(POSTFIX, CAME)


def nested(depth: int) -> bytes:
    raw = report(status())
    for _ in range(depth):
        raw = b"Content-Type: message/rfc822\r\n\r\n" + raw
    return raw


HOSTILE = {
    "nothing": b"",
    "one line": b"x",
    "only blank lines": b"\r\n" * 100_000,
    "endless header": b"a: b\r\n" * 200_000,
    "endless value": b"To: " + b"a+b@c," * 200_000,
    "folded": b"To: x\r\n" + b" y\r\n" * 200_000,
    "deep": nested(3_000),
    "many parts": b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\n" * 100_000,
    "own boundary": b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n"
    + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" * 20_000,
    "many blocks": report("Final-Recipient: a@example.org\nAction: failed\n\n" * 20_000),
    "many addresses": report(
        "\n\n".join(f"Final-Recipient: a{n}@example.org\nAction: failed" for n in range(15_000))
    ),
    "bad base64": b"Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n=a=b",
    "no end": b"Content-Type: multipart/report; boundary=b\r\n\r\n" + b"--b-\r\n" * 100_000,
    "brackets": report("Final-Recipient: " + "(" * 100_000 + "\nAction: failed\n"),
    "digits": report("Final-Recipient: a@example.org\nAction: failed\nStatus: " + "5" * 100_000),
    "parameters": b"Content-Type: text/plain; charset*" + b"9" * 5_000 + b"*=x\r\n\r\nHi.",
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_mails_are_read_within_bounds(raw: bytes) -> None:
    notice = read(raw)
    assert len(notice.facts) <= 1_000
    assert notice.state in {EventState.PROCESSED, EventState.UNPARSED}


def test_too_deep_is_not_read() -> None:
    assert read(nested(MAX_DEPTH - 1)).facts
    assert read(nested(MAX_DEPTH + 1)).kind != "delivery-status"


def test_a_large_returned_message_is_left_out() -> None:
    raw = report(status(), returned_type="message/rfc822") + b"x" * (2 * MAX_MAIL_BYTES)
    assert kinds(read(raw)) == {ANN: FactKind.BOUNCED_PERMANENT}


PIECES = st.sampled_from(
    [
        b"Content-Type: multipart/report; boundary=b\r\n",
        b"Content-Type: message/delivery-status\r\n",
        b"Content-Type: message/feedback-report\r\n",
        b"Content-Type: message/rfc822\r\n",
        b"Content-Transfer-Encoding: base64\r\n",
        b"Content-Transfer-Encoding: quoted-printable\r\n",
        b"Final-Recipient: rfc822; ann@example.org\r\n",
        b"Original-Recipient: \xff\xfe;\x00<\r\n",
        b"Original-Rcpt-To: ann@example.org\r\n",
        b"Action: failed\r\n",
        b"Status: 5.1.1\r\n",
        b"Date: Tue, 99 Mar 99999 12:00 +9999\r\n",
        b"To: " + VERP.encode() + b"\r\n",
        b"Message-ID: <\xe2\x80\xa8@x>\r\n",
        b"X-Failed-Recipients: \xe9@example.org\r\n",
        b"--b\r\n",
        b"--b--\r\n",
        b"\r\n",
        b"\n",
    ]
)
OCTETS = st.one_of(
    st.binary(max_size=300),
    st.lists(st.one_of(PIECES, st.binary(max_size=10)), max_size=25).map(b"".join),
    st.tuples(st.sampled_from([POSTFIX, EXIM, QMAIL, complaint("Feedback-Type: abuse\n")]),
              st.integers(0, 3_000), st.binary(max_size=30)).map(
        lambda cut: cut[0][: cut[1]] + cut[2] + cut[0][cut[1] + 10 :]
    ),
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(OCTETS)
def test_any_octets_are_read(raw: bytes) -> None:
    notice = MAILS(raw, CAME)

    assert notice.occurred_at is not None
    assert notice.occurred_at <= CAME
    if notice.request_tag is None:
        assert not notice.trusted
        assert not any(fact.suppress for fact in notice.facts)
    for fact in notice.facts:
        assert fact.text.isprintable()
        for text in (fact.text, fact.rule, fact.address or "", fact.code or ""):
            assert clean(text) == text
