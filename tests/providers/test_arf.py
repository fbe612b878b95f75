"""Complaints by mail (RFC 5965): who complained, and when that counts."""

import pytest

from mailer.facts import EventState, FactKind, Suppress, SuppressionReason
from providers.dsn import BounceMails
from tests.providers.bounce_mails import MESSAGE_ID, PATH, RETURNED, TAG, VERP, complaint

MAILS = BounceMails(PATH)
COMPLAINT = Suppress(SuppressionReason.COMPLAINT)
ANN = "ann@example.org"
STRANGER = "fbl@mail.example.com"

ABUSE = f"""Feedback-Type: abuse
User-Agent: SomeGenerator/1.0
Version: 1
Original-Mail-From: <{VERP}>
Original-Rcpt-To: <Ann@example.org>
Arrival-Date: Tue, 10 Mar 2026 12:00:00 -0000
Source-IP: 192.0.2.1
"""


def test_a_complaint_names_its_attempt_and_its_complainer() -> None:
    notice = MAILS.read(complaint(ABUSE, to=STRANGER, returned="Subject: x\n"))

    assert (notice.kind, notice.state) == ("feedback-report", EventState.PROCESSED)
    assert (notice.request_tag, notice.trusted, notice.proves_acceptance) == (TAG, True, True)
    (fact,) = notice.facts
    assert (fact.kind, fact.address) == (FactKind.COMPLAINED, ANN)
    assert (fact.rule, fact.suppress) == ("complaint/abuse", COMPLAINT)


@pytest.mark.parametrize(
    ("feedback", "rule"),
    [
        ("Feedback-Type: FRAUD\n", "complaint/fraud"),
        ("Feedback-Type: x-made-up\n", "complaint/x-made-up"),
        ("", "complaint"),
    ],
)
def test_a_type_that_is_not_known_is_a_complaint(feedback: str, rule: str) -> None:
    raw = complaint(ABUSE.replace("Feedback-Type: abuse\n", feedback))
    (fact,) = MAILS.read(raw).facts
    assert (fact.kind, fact.rule, fact.suppress) == (FactKind.COMPLAINED, rule, COMPLAINT)


def test_not_spam_is_no_complaint() -> None:
    (fact,) = MAILS.read(complaint(ABUSE.replace("abuse", "not-spam"))).facts
    assert (fact.kind, fact.suppress) == (FactKind.COMPLAINT_NOT_SPAM, None)


BLOTTED = "Feedback-Type: abuse\nUser-Agent: x\nVersion: 1\nOriginal-Rcpt-To: redacted\n"


@pytest.mark.parametrize(
    ("returned", "address"),
    [
        (RETURNED, ANN),
        (RETURNED.replace("To: Ann", "To: Ben <ben@example.org>, Ann"), None),
        (RETURNED.replace("To: Ann", "Cc: Ben <ben@example.org>\nTo: Ann"), None),
        (RETURNED.replace("To: Ann <ann@example.org>", "To: undisclosed-recipients:;"), None),
        (RETURNED.replace("To: Ann <ann@example.org>\n", ""), None),
        (RETURNED.replace("ann@example.org", "ann@example.org, " * 1_000), None),
    ],
    ids=["one", "two", "a copy", "undisclosed", "none", "many"],
)
def test_a_blotted_out_complainer_is_the_only_visible_recipient(
    returned: str, address: str | None
) -> None:
    notice = MAILS.read(complaint(BLOTTED, returned=returned))
    (fact,) = notice.facts
    assert (fact.address, fact.suppress) == (address, COMPLAINT if address else None)
    assert notice.message_id == MESSAGE_ID


def test_every_complainer_is_named_once() -> None:
    more = "Original-Rcpt-To: ben@example.org\nOriginal-Rcpt-To: <ann@example.org>\n"
    notice = MAILS.read(complaint(ABUSE + more))
    assert [each.address for each in notice.facts] == [ANN, "ben@example.org"]


def test_a_complaint_that_anybody_could_have_written_suppresses_nobody() -> None:
    fields = ABUSE.replace(VERP, "shop@mail.example.com")
    returned = RETURNED.replace(VERP, "shop@mail.example.com")
    notice = MAILS.read(complaint(fields, to=STRANGER, returned=returned))

    assert (notice.request_tag, notice.header_tag, notice.message_id) == (None, TAG, MESSAGE_ID)
    assert (notice.trusted, notice.proves_acceptance) == (False, False)
    (fact,) = notice.facts
    assert (fact.kind, fact.address, fact.suppress) == (FactKind.COMPLAINED, ANN, None)
