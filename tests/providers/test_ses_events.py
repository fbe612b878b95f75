"""SES's events: every type, and every row of whom a bounce or a complaint suppresses."""

from collections.abc import Mapping
from typing import Any

import pytest

from mailer.facts import (
    ABOUT_MESSAGES,
    EventState,
    FactKind,
    Notice,
    Suppress,
    SuppressionReason,
)
from providers.ses_event_table import BOUNCES, ECHOES, NO_COMPLAINTS, PERMANENT, TYPES
from providers.ses_events import SesEvents
from tests.providers.ses_payloads import (
    ANA,
    BEN,
    PUBLISHED,
    SES_ID,
    TAG,
    Payload,
    a_mail,
    a_notification,
    an_event,
    enveloped,
    only,
    read,
    read_text,
)

BOUNCE = Suppress(SuppressionReason.BOUNCE)
COMPLAINT = Suppress(SuppressionReason.COMPLAINT)
LISTED = Suppress(SuppressionReason.PROVIDER)
FOR_14_DAYS = Suppress(SuppressionReason.PROVIDER, 14 * 24 * 3600)
K = FactKind


def told(notice: Notice) -> Mapping[str | None, tuple[FactKind, Suppress | None]]:
    """What is said of whom."""
    return {fact.address: (fact.kind, fact.suppress) for fact in notice.facts}


def a_bounce(*recipients: object, **changes: Any) -> Payload:
    return an_event("Bounce", bouncedRecipients=list(recipients), **changes)


TYPED = [
    ("Send", K.ACCEPTED, None, "Send", ""),
    ("Reject", K.REJECTED, None, "Reject", "Bad content"),
    ("Rendering Failure", K.RENDERING_FAILED, None, "Rendering Failure", "no 'total'"),
    ("Delivery", K.DELIVERED, ANA, "Delivery", "250 OK"),
    ("DeliveryDelay", K.DELAYED, ANA, "DeliveryDelay/MailboxFull", "452 4.2.2 full"),
    ("Bounce", K.BOUNCED_PERMANENT, ANA, "Permanent/General", "smtp; 550 5.1.1 unknown"),
    ("Complaint", K.COMPLAINED, ANA, "Complaint/abuse", ""),
    ("Open", K.OPENED, None, "Open", ""),
    ("Click", K.CLICKED, None, "Click", ""),
    ("Subscription", K.SUBSCRIPTION_CHANGED, None, "Subscription", "UnsubscribeHeader"),
]


@pytest.mark.parametrize(("name", "kind", "address", "rule", "text"), TYPED)
def test_type(name: str, kind: FactKind, address: str | None, rule: str, text: str) -> None:
    notice = read(an_event(name))
    assert (notice.kind, notice.state) == (name, EventState.PROCESSED)
    assert notice.proves_acceptance
    assert notice.trusted
    fact = only(notice)
    assert (fact.kind, fact.address, fact.rule, fact.text) == (kind, address, rule, text)
    assert (address is None) == (kind in ABOUT_MESSAGES)


def test_every_type_is_tried() -> None:
    assert [name for name, *_ in TYPED] == [each.name for each in TYPES]


@pytest.mark.parametrize("name", ["RenderingFailure", "rendering failure", "RENDERING_FAILURE"])
def test_types_are_known_in_any_spelling(name: str) -> None:
    notice = read(an_event("Rendering Failure") | {"eventType": name})
    assert notice.kind == "Rendering Failure"
    assert only(notice).kind is K.RENDERING_FAILED


BOUNCED = [
    ("Permanent", "General", K.BOUNCED_PERMANENT, BOUNCE),
    ("Permanent", "NoEmail", K.BOUNCED_PERMANENT, BOUNCE),
    ("Permanent", "Novel", K.BOUNCED_PERMANENT, BOUNCE),
    ("Permanent", None, K.BOUNCED_PERMANENT, BOUNCE),
    ("permanent", "general", K.BOUNCED_PERMANENT, BOUNCE),
    ("Permanent", "Suppressed", K.SUPPRESSED_BY_PROVIDER, FOR_14_DAYS),
    ("PERMANENT", "suppressed", K.SUPPRESSED_BY_PROVIDER, FOR_14_DAYS),
    ("Permanent", "OnAccountSuppressionList", K.SUPPRESSED_BY_PROVIDER, LISTED),
    ("Permanent", "OnTenantSuppressionList", K.SUPPRESSED_BY_PROVIDER, LISTED),
    ("Permanent", "EmailValidationSuppressed", K.SUPPRESSED_BY_PROVIDER, None),
    ("Permanent", "UnsubscribedRecipient", K.UNSUBSCRIBED, None),
    ("Transient", "General", K.BOUNCED_TRANSIENT, None),
    ("Transient", "MailboxFull", K.BOUNCED_TRANSIENT, None),
    ("Transient", "MessageTooLarge", K.BOUNCED_TRANSIENT, None),
    ("Transient", "ContentRejected", K.BOUNCED_TRANSIENT, None),
    ("Transient", "AttachmentRejected", K.BOUNCED_TRANSIENT, None),
    ("Transient", "CustomTimeoutExceeded", K.BOUNCED_TRANSIENT, None),
    ("Transient", "Suppressed", K.BOUNCED_TRANSIENT, None),
    ("Undetermined", "Undetermined", K.BOUNCED_UNDETERMINED, None),
    ("Sideways", "General", K.BOUNCED_UNKNOWN, None),
    (None, "General", K.BOUNCED_UNKNOWN, None),
    (["Permanent"], "General", K.BOUNCED_UNKNOWN, None),
]


@pytest.mark.parametrize(("kind", "subtype", "fact", "suppress"), BOUNCED)
def test_bounce(kind: object, subtype: object, fact: FactKind, suppress: Suppress | None) -> None:
    notice = read(an_event("Bounce", bounceType=kind, bounceSubType=subtype))
    assert told(notice) == {ANA: (fact, suppress)}


def test_every_bounce_of_the_table_is_tried() -> None:
    tried = [(str(kind).lower(), str(subtype).lower()) for kind, subtype, *_ in BOUNCED]
    assert set(BOUNCES) <= {kind for kind, _ in tried}
    assert set(PERMANENT) <= {subtype for kind, subtype in tried if kind == "permanent"}


@pytest.mark.parametrize(
    ("own", "is_spared"),
    [
        ({"action": "delayed", "status": "5.1.1"}, True),
        ({"action": " Delayed (greylisted)"}, True),
        ({"action": "failed", "status": "4.4.7"}, True),
        ({"status": " 4.2.2 (full)"}, True),
        ({"action": "failed", "status": "5.4.4"}, False),
        ({"status": "44.1.1"}, False),
        ({"status": 4.2, "action": ["delayed"]}, False),
        ({}, False),
    ],
)
def test_a_recipient_whose_own_status_is_temporary_is_spared(own: Payload, is_spared: bool) -> None:
    notice = read(a_bounce({"emailAddress": ANA} | own, {"emailAddress": BEN, "status": "5.1.1"}))
    mine = (K.BOUNCED_TRANSIENT, None) if is_spared else (K.BOUNCED_PERMANENT, BOUNCE)
    assert told(notice) == {ANA: mine, BEN: (K.BOUNCED_PERMANENT, BOUNCE)}


def test_a_list_of_the_providers_is_not_softened() -> None:
    entry = {"emailAddress": ANA, "status": "4.0.0"}
    notice = read(a_bounce(entry, bounceSubType="OnAccountSuppressionList"))
    assert told(notice) == {ANA: (K.SUPPRESSED_BY_PROVIDER, LISTED)}


COMPLAINTS = [
    (None, "abuse", K.COMPLAINED, COMPLAINT),
    (None, "auth-failure", K.COMPLAINED, COMPLAINT),
    (None, "fraud", K.COMPLAINED, COMPLAINT),
    (None, "opt-out-list", K.COMPLAINED, COMPLAINT),
    (None, None, K.COMPLAINED, COMPLAINT),
    (None, ["not-spam"], K.COMPLAINED, COMPLAINT),
    (None, "not-spam", K.COMPLAINT_NOT_SPAM, None),
    (None, " NOT-SPAM", K.COMPLAINT_NOT_SPAM, None),
    ("Novel", "not-spam", K.COMPLAINT_NOT_SPAM, None),
    ("Novel", None, K.COMPLAINED, COMPLAINT),
    ("OnAccountSuppressionList", None, K.SUPPRESSED_BY_PROVIDER, LISTED),
    ("onaccountsuppressionlist", "abuse", K.SUPPRESSED_BY_PROVIDER, LISTED),
    ("OnTenantSuppressionList", None, K.SUPPRESSED_BY_PROVIDER, LISTED),
]


@pytest.mark.parametrize(("subtype", "feedback", "kind", "suppress"), COMPLAINTS)
def test_complaint(
    subtype: str | None, feedback: object, kind: FactKind, suppress: Suppress | None
) -> None:
    event = an_event("Complaint", complaintSubType=subtype, complaintFeedbackType=feedback)
    assert told(read(event)) == {ANA: (kind, suppress)}


def test_every_complaint_of_the_table_is_tried() -> None:
    assert set(ECHOES) <= {str(subtype).lower() for subtype, *_ in COMPLAINTS}
    assert set(NO_COMPLAINTS) <= {str(feedback) for _, feedback, *_ in COMPLAINTS}


def test_everybody_whom_a_complaint_names_is_suppressed() -> None:
    event = an_event("Complaint", complainedRecipients=[{"emailAddress": ANA}, BEN])
    assert told(read(event)) == {ANA: (K.COMPLAINED, COMPLAINT), BEN: (K.COMPLAINED, COMPLAINT)}


def test_an_unknown_type_is_matched_and_says_nothing() -> None:
    notice = read({"eventType": "Teleported", "mail": a_mail(), "teleported": {"to": [ANA]}})
    assert (notice.kind, notice.state) == ("Teleported", EventState.UNKNOWN_TYPE)
    assert (notice.provider_id, notice.request_tag) == (SES_ID, TAG)
    assert notice.facts == ()
    assert not notice.proves_acceptance


@pytest.mark.parametrize("name", [7, None, "", [], {}, True])
def test_a_type_that_is_no_name_is_an_unknown_one(name: object) -> None:
    notice = read(an_event("Bounce") | {"eventType": name})
    assert (notice.kind, notice.state, notice.facts) == ("", EventState.UNKNOWN_TYPE, ())


def test_the_event_type_wins() -> None:
    both = an_event("Delivery") | {"notificationType": "Bounce"} | an_event("Bounce")
    assert only(read(both | {"eventType": "Delivery"})).kind is K.DELIVERED
    assert only(read(both | {"eventType": None})).kind is K.BOUNCED_PERMANENT
    assert read(both | {"eventType": "Novel"}).state is EventState.UNKNOWN_TYPE


@pytest.mark.parametrize("name", ["Bounce", "Complaint", "Delivery"])
def test_both_dialects_tell_the_same_facts(name: str) -> None:
    event = an_event(name)
    notification = read(a_notification(event))
    assert notification.facts == read(event).facts
    assert notification.proves_acceptance
    assert (notification.provider_id, notification.request_tag) == (SES_ID, None)


@pytest.mark.parametrize("kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation"])
def test_a_confirmation_is_control(kind: str) -> None:
    body = enveloped("You have chosen ...").replace(b"Notification", kind.encode())
    notice = SesEvents()(body, PUBLISHED)
    assert (notice.kind, notice.state) == (kind, EventState.CONTROL)
    assert (notice.occurred_at, notice.facts) == (PUBLISHED, ())


def test_setup_messages_are_control() -> None:
    plain = read_text("Successfully validated SNS topic for Amazon SES event publishing.")
    told_as_json = read({"notificationType": "AmazonSnsSubscriptionSucceeded", "message": "..."})
    assert plain.state is told_as_json.state is EventState.CONTROL
    assert plain.kind == told_as_json.kind == "AmazonSnsSubscriptionSucceeded"
