"""The SES table: every row is reached, and nothing unknown is ever believed."""

from dataclasses import replace

import botocore.exceptions
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailer.outcome import Blame, Outcome, Pressure, Scope
from providers.ses_observe import Witness
from providers.ses_probe import Flight
from providers.ses_rules import Kind, Observation, Stage
from providers.ses_table import ROW_BY_RULE, TABLE, judge
from tests.providers.calls import a_call

A, R, P, X = Outcome.ACCEPTED, Outcome.RETRYABLE, Outcome.PERMANENT, Outcome.AMBIGUOUS
ACCOUNT, CONNECTION = Scope.ACCOUNT, Scope.CONNECTION
MESSAGE, RECIPIENT = Scope.MESSAGE, Scope.RECIPIENT
SENT = 800


def met(kind: Kind, bytes_sent: int | None = None) -> Observation:
    """An event that is no answer."""
    return Observation(Stage.ANSWER, kind, bytes_sent)


def said(status: int, code: str = "", text: str = "", **facts: bool | str) -> Observation:
    """An answer of SES's own."""
    plain = Observation(Stage.ANSWER, Kind.ANSWER, SENT, status, code, text, from_aws=True)
    return replace(plain, **facts)  # type: ignore[arg-type]


CASES = [
    ("recipient", met(Kind.RECIPIENT, 0), P, RECIPIENT),
    ("message", met(Kind.MESSAGE, 0), P, MESSAGE),
    ("elsewhere", met(Kind.ELSEWHERE), R, ACCOUNT),
    ("invalid-request", met(Kind.INVALID), P, MESSAGE),
    ("set-up", met(Kind.SETUP, 0), R, ACCOUNT),
    ("certificate", met(Kind.CERTIFICATE), R, ACCOUNT),
    ("proxy-login", met(Kind.PROXY_LOGIN), R, ACCOUNT),
    ("unreachable", met(Kind.UNREACHABLE), R, CONNECTION),
    ("unreachable", met(Kind.CONNECT_TIMEOUT), R, CONNECTION),
    ("unreachable", met(Kind.PROXY), R, CONNECTION),
    ("accepted", said(200, message_id="id"), A, MESSAGE),
    ("cut-short", said(400, "MessageRejected", '{"mess', is_cut_short=True), X, CONNECTION),
    ("quota", said(400, "ThrottlingException", "Daily message quota exceeded."), R, ACCOUNT),
    ("quota", said(400, "LimitExceededException", "Daily message quota exceeded."), R, ACCOUNT),
    ("throttled", said(429, "TooManyRequestsException"), R, ACCOUNT),
    ("throttled", said(503, "SlowDown"), R, ACCOUNT),
    ("throttled", said(400, "LimitExceededException", "Rate exceeded"), R, ACCOUNT),
    ("limit", said(400, "LimitExceededException"), R, ACCOUNT),
    ("server-error", said(503, "ServiceUnavailable"), X, CONNECTION),
    ("server-error", said(500, "BadRequestException"), X, CONNECTION),
    ("server-error", said(502, "502", from_aws=False), X, CONNECTION),
    ("server-error", said(400, "InternalFailure"), X, CONNECTION),
    ("aborted", said(400, "RequestAbortedException"), X, CONNECTION),
    ("sandbox", said(400, "MessageRejected", "not verified", names_recipient=True), R, ACCOUNT),
    ("not-verified", said(400, "MessageRejected", "is not verified"), R, ACCOUNT),
    ("not-verified", said(400, "BadRequestException", "is not verified"), R, ACCOUNT),
    ("mail-from", said(400, "MailFromDomainNotVerifiedException"), R, ACCOUNT),
    ("stopped", said(400, "AccountSuspendedException"), R, ACCOUNT),
    ("stopped", said(400, "MessageRejected", "Sending paused"), R, ACCOUNT),
    ("identity-denied", said(403, "AccessDenied", "on resource: identity/x"), R, ACCOUNT),
    ("denied", said(403, "AccessDeniedException"), R, ACCOUNT),
    ("denied", said(404, "UnknownOperationException"), R, ACCOUNT),
    ("blacklisted", said(400, "MessageRejected", "Address blacklisted."), P, RECIPIENT),
    ("blacklisted", said(400, "MessageRejected", "on the suppression list"), P, RECIPIENT),
    ("rejected", said(400, "MessageRejected", "virus"), P, MESSAGE),
    ("bad-request", said(400, "ValidationError"), P, MESSAGE),
    ("too-large", said(413, "RequestEntityTooLargeException"), P, MESSAGE),
    ("too-large", said(413, "413", from_aws=False), P, MESSAGE),
    ("no-template", said(404, "NotFoundException", "Template t does not exist"), P, MESSAGE),
    ("not-found", said(404, "NotFoundException", "Configuration set template"), R, ACCOUNT),
    ("not-found", said(404, "NotFoundException"), R, ACCOUNT),
    ("incomplete", said(408, "RequestTimeoutException"), R, CONNECTION),
    ("incomplete", said(408, from_aws=False), R, CONNECTION),
    ("too-many", said(429, "429", from_aws=False), R, ACCOUNT),
    ("unknown-refusal", said(400, "NovelException"), R, ACCOUNT),
    ("unknown-refusal", said(413, "NovelException"), R, ACCOUNT),
    ("no-message-id", said(200), X, CONNECTION),
    ("no-message-id", said(202, message_id="id"), X, CONNECTION),
    ("stranger", said(307, "BadRequestException"), X, CONNECTION),
    ("stranger", said(403, from_aws=False), X, CONNECTION),
    ("stranger", replace(said(403), from_aws=False, bytes_sent=0), X, CONNECTION),
    ("not-sent", met(Kind.TIMEOUT, 0), R, CONNECTION),
    ("not-sent", met(Kind.UNEXPECTED, 0), R, CONNECTION),
    ("unknown-after-send", met(Kind.TIMEOUT), X, CONNECTION),
    ("unknown-after-send", met(Kind.TLS_FAILURE, SENT), X, CONNECTION),
    ("unknown-after-send", met(Kind.UNREACHABLE, SENT), X, CONNECTION),
    ("unknown-after-send", met(Kind.INVALID, SENT), X, CONNECTION),
]


@pytest.mark.parametrize(("rule", "seen", "outcome", "scope"), CASES)
def test_row(rule: str, seen: Observation, outcome: Outcome, scope: Scope) -> None:
    row = judge(seen)
    assert (row.rule, row.outcome, row.scope) == (f"ses-{rule}", outcome, scope)


def test_every_row_is_reached() -> None:
    assert {f"ses-{rule}" for rule, *_ in CASES} == {row.rule for row in TABLE}


def test_rules_are_named_once_and_say_why() -> None:
    assert len(ROW_BY_RULE) == len(TABLE)
    assert all(row.why for row in TABLE)


def test_scopes_follow_outcomes() -> None:
    assert {row.scope for row in TABLE if row.outcome is X} == {CONNECTION}
    assert {row.scope for row in TABLE if row.outcome is A} == {MESSAGE}
    assert {row.scope for row in TABLE if row.outcome is P} == {MESSAGE, RECIPIENT}


def test_blame_and_pressure_are_of_account_scope() -> None:
    marked = [row for row in TABLE if row.pressure or row.blame is Blame.SENDER]
    assert {(row.outcome, row.scope) for row in marked} == {(R, ACCOUNT)}
    assert not any(row.pressure and row.blame is Blame.SENDER for row in TABLE)
    by_pressure = {
        pressure: {row.rule for row in TABLE if row.pressure is pressure} for pressure in Pressure
    }
    assert by_pressure[Pressure.THROTTLE] == {"ses-throttled", "ses-too-many"}
    assert by_pressure[Pressure.QUOTA] == {"ses-quota", "ses-limit"}


KNOWN_TO_REFUSE = {
    "MessageRejected",
    "BadRequestException",
    "ValidationException",
    "ValidationError",
    "InvalidParameterValue",
    "MalformedHttpRequestException",
    "RequestEntityTooLargeException",
    "NotFoundException",
}
known_codes = sorted(KNOWN_TO_REFUSE | {"TooManyRequestsException", "InternalFailure", "413"})
codes = st.sampled_from(known_codes) | st.text(max_size=40)
texts = st.sampled_from(
    ["", "not verified", "paused", "Daily quota", "template x", "blacklisted", "virus"]
)
observations = st.builds(
    Observation,
    stage=st.sampled_from(Stage),
    kind=st.sampled_from(Kind),
    bytes_sent=st.none() | st.integers(0, 2000),
    status=st.integers(0, 700),
    code=codes,
    text=texts,
    message_id=st.sampled_from(["", "id"]),
    from_aws=st.booleans(),
    is_cut_short=st.booleans(),
    names_sender=st.booleans(),
    names_recipient=st.booleans(),
)


@given(observations)
def test_nothing_unknown_is_accepted(seen: Observation) -> None:
    if judge(seen).outcome is A:
        assert seen.kind is Kind.ANSWER
        assert (seen.status, bool(seen.message_id)) == (200, True)


@given(observations)
def test_nothing_unknown_is_permanent(seen: Observation) -> None:
    if judge(seen).outcome is not P:
        return
    if seen.kind is Kind.ANSWER:
        assert 400 <= seen.status <= 499
        assert seen.code in KNOWN_TO_REFUSE or seen.status == 413
    else:
        assert seen.kind in {Kind.RECIPIENT, Kind.MESSAGE, Kind.INVALID}


@given(observations)
def test_what_was_sent_is_settled_by_an_answer_alone(seen: Observation) -> None:
    settled_here = {Kind.ANSWER, Kind.RECIPIENT, Kind.MESSAGE, Kind.ELSEWHERE}
    if seen.bytes_sent and seen.kind not in settled_here:
        assert judge(seen).outcome is X


@given(observations)
def test_what_was_not_sent_is_not_in_doubt(seen: Observation) -> None:
    if seen.bytes_sent == 0 and seen.kind is not Kind.ANSWER:
        assert judge(seen).outcome is not X


@given(codes, st.integers(400, 499))
def test_text_never_makes_a_verdict_final(code: str, status: int) -> None:
    plain = judge(said(status, code, "spam"))
    hinted = judge(said(status, code, "spam, and sending is paused"))
    if plain.outcome is not hinted.outcome:
        assert (plain.outcome, hinted.outcome, hinted.scope) == (P, R, ACCOUNT)


def witness(*, begun: bool) -> Witness:
    """One flight whose count nobody knows once it has begun."""
    flight = Flight(lambda: None, 1.0)
    if begun:
        flight.begin()
        flight._count = SENT
    return Witness(a_call(), flight, "https://ses.example.test")


any_exception = st.sampled_from(
    sorted(
        (
            each
            for each in vars(botocore.exceptions).values()
            if isinstance(each, type) and issubclass(each, BaseException)
        ),
        key=lambda each: each.__name__,
    )
) | st.sampled_from([KeyboardInterrupt, MemoryError, AttributeError, TypeError, SystemExit])
FINAL = (botocore.exceptions.ParamValidationError, botocore.exceptions.ClientError)


@given(any_exception, st.booleans())
def test_no_exception_is_accepted_or_final(kind: type[BaseException], begun: bool) -> None:
    if issubclass(kind, FINAL):
        return
    exc = kind.__new__(kind)
    outcome = judge(witness(begun=begun).raised(exc)).outcome
    assert outcome is (X if begun else R)


FIELDS = ["Error", "Code", "Message", "ResponseMetadata", "HTTPStatusCode", "HTTPHeaders"]
FIELDS += ["x-amzn-errortype", "retry-after", "MessageId", "RequestId"]

answers = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(answers)
def test_any_shape_of_an_answer_is_read(shape: object) -> None:
    flown = witness(begun=True)
    seen = flown.answered(shape)
    assert judge(seen).outcome in {A, X}
    exc = botocore.exceptions.ClientError({}, "SendEmail")
    exc.response = shape
    assert judge(flown.raised(exc)).outcome is not A
