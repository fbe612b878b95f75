"""The rows of the SES rule table, in order, and `judge` over them."""

from mailer.outcome import Blame, Outcome, Pressure, Scope
from providers.ses_rules import (
    Kind,
    Observation,
    Row,
    Test,
    always,
    bare,
    both,
    coded,
    digit,
    either,
    has_message_id,
    is_cut_short,
    is_from_aws,
    is_proven_unsent,
    kind,
    names_a_template,
    names_recipients_only,
    says,
    status,
    unsent,
)

_ACCEPTED, _PERMANENT = Outcome.ACCEPTED, Outcome.PERMANENT
_RETRY, _AMBIGUOUS = Outcome.RETRYABLE, Outcome.AMBIGUOUS
_ACCOUNT, _CONNECTION = Scope.ACCOUNT, Scope.CONNECTION
_MESSAGE, _RECIPIENT = Scope.MESSAGE, Scope.RECIPIENT
_SENDER = Blame.SENDER
_THROTTLE, _QUOTA = Pressure.THROTTLE, Pressure.QUOTA

_THROTTLED = coded(
    "TooManyRequestsException",
    "TooManyRequests",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "SlowDown",
    digits=(4, 5),
)
_LIMITED = coded("LimitExceededException")
_SERVER = coded(
    "InternalFailure",
    "InternalServiceErrorException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "ConcurrentModificationException",
)
_DENIED = coded("AccessDenied", "AccessDeniedException")
_AT_THE_DOOR = coded(
    "AccessDenied",
    "AccessDeniedException",
    "NotAuthorized",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "RequestTimeTooSkewed",
    "RequestExpired",
    "OptInRequired",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "UnknownOperationException",
)
_BAD_REQUEST = coded(
    "BadRequestException",
    "ValidationException",
    "ValidationError",
    "InvalidParameterValue",
    "MalformedHttpRequestException",
)
_REJECTED = coded("MessageRejected")
_NOT_FOUND = coded("NotFoundException")
_ABOUT_THE_MESSAGE = either(_REJECTED, _BAD_REQUEST, _NOT_FOUND)
"""Would be final; what the text says may soften it to the account's, never the other way."""


def _row(  # noqa: PLR0917 - a table row reads by column
    rule: str,
    test: Test,
    outcome: Outcome,
    scope: Scope,
    why: str,
    blame: Blame = Blame.PROVIDER,
    pressure: Pressure | None = None,
) -> Row:
    return Row(f"ses-{rule}", test, outcome, scope, why, blame, pressure)


# fmt: off
TABLE: tuple[Row, ...] = (
    _row("recipient", kind(Kind.RECIPIENT), _PERMANENT, _RECIPIENT,
         "SES can never be given that address"),
    _row("message", kind(Kind.MESSAGE), _PERMANENT, _MESSAGE,
         "the stored message never changes, so SES would refuse it every time"),
    _row("elsewhere", kind(Kind.ELSEWHERE), _RETRY, _ACCOUNT,
         "credentials could not be refreshed; the request was never signed"),
    _row("invalid-request", unsent(Kind.INVALID), _PERMANENT, _MESSAGE,
         "made from this message, the request can never be valid"),
    _row("set-up", unsent(Kind.SETUP), _RETRY, _ACCOUNT,
         "no request can be made with these settings"),
    _row("certificate", unsent(Kind.CERTIFICATE), _RETRY, _ACCOUNT,
         "verified in the handshake; a trust setting or an attack"),
    _row("proxy-login", unsent(Kind.PROXY_LOGIN), _RETRY, _ACCOUNT,
         "the proxy's credentials are settings of ours"),
    _row("unreachable", unsent(Kind.UNREACHABLE, Kind.CONNECT_TIMEOUT, Kind.PROXY),
         _RETRY, _CONNECTION, "there was no connection to write a request to"),

    _row("accepted", both(status(200), has_message_id), _ACCEPTED, _MESSAGE,
         "the documented acceptance"),
    _row("cut-short", is_cut_short, _AMBIGUOUS, _CONNECTION,
         "half a refusal may mean another thing than the whole"),
    _row("quota", both(either(_THROTTLED, _LIMITED), says(r"\bquota\b|\bdaily\b")),
         _RETRY, _ACCOUNT, "the day's allowance is used up", pressure=_QUOTA),
    _row("throttled", either(_THROTTLED, both(_LIMITED, says(r"\brate\b"))),
         _RETRY, _ACCOUNT, "too fast; SES drops the message and says to wait", pressure=_THROTTLE),
    _row("limit", _LIMITED, _RETRY, _ACCOUNT,
         "a limit of the account, never the fault of one mail", pressure=_QUOTA),
    _row("server-error", either(digit(5), _SERVER), _AMBIGUOUS, _CONNECTION,
         "AWS warns that repeating after a 5xx makes duplicates"),
    _row("aborted", coded("RequestAbortedException"), _AMBIGUOUS, _CONNECTION,
         "says nothing about how far the request had come"),

    _row("sandbox", both(_ABOUT_THE_MESSAGE, says("not verified"), names_recipients_only),
         _RETRY, _ACCOUNT, "only recipients are not verified: the account is in the sandbox"),
    _row("not-verified", both(_ABOUT_THE_MESSAGE, says("not verified")),
         _RETRY, _ACCOUNT, "our sender identity is not verified here", _SENDER),
    _row("mail-from", coded("MailFromDomainNotVerifiedException"), _RETRY, _ACCOUNT,
         "DNS of the sender's MAIL FROM domain", _SENDER),
    _row("stopped",
         either(coded("AccountSuspendedException", "SendingPausedException"),
                both(_ABOUT_THE_MESSAGE, says("suspended|paused"))),
         _RETRY, _ACCOUNT, "sending is stopped; a person has to start it again"),
    _row("identity-denied", both(_DENIED, says("identity/")), _RETRY, _ACCOUNT,
         "these credentials may not send as this identity", _SENDER),
    _row("denied", _AT_THE_DOOR, _RETRY, _ACCOUNT,
         "refused at the door: credentials, clock, permission or endpoint"),

    _row("blacklisted", both(_REJECTED, says("blacklisted|suppression")), _PERMANENT, _RECIPIENT,
         "SES will not write to that address"),
    _row("rejected", _REJECTED, _PERMANENT, _MESSAGE,
         "the content was judged and refused"),
    _row("bad-request", _BAD_REQUEST, _PERMANENT, _MESSAGE,
         "made from this message, the request can never be valid"),
    _row("too-large", either(coded("RequestEntityTooLargeException"), bare(413)),
         _PERMANENT, _MESSAGE, "too big, and always will be"),
    _row("no-template", both(_NOT_FOUND, names_a_template), _PERMANENT, _MESSAGE,
         "the message names a template that is not there"),
    _row("not-found", _NOT_FOUND, _RETRY, _ACCOUNT,
         "a configuration set or tenant of ours is not there"),
    _row("incomplete", either(coded("RequestTimeout", "RequestTimeoutException"), bare(408)),
         _RETRY, _CONNECTION, "the service never got the whole request"),
    _row("too-many", status(429), _RETRY, _ACCOUNT,
         "the status itself means refused", pressure=_THROTTLE),
    _row("unknown-refusal", both(digit(4), is_from_aws), _RETRY, _ACCOUNT,
         "SES refused for a reason not known here: held, and an operator looks"),
    _row("no-message-id", digit(2), _AMBIGUOUS, _CONNECTION,
         "a success without an id proves nothing"),
    _row("stranger", kind(Kind.ANSWER), _AMBIGUOUS, _CONNECTION,
         "written by somebody else than SES: no verdict"),

    _row("not-sent", is_proven_unsent, _RETRY, _CONNECTION,
         "no byte of the request left, so nothing can have been accepted"),
    _row("unknown-after-send", always, _AMBIGUOUS, _CONNECTION,
         "the message may have been accepted and nothing read proves either way"),
)
# fmt: on

ROW_BY_RULE = {row.rule: row for row in TABLE}


def judge(seen: Observation) -> Row:
    """Say what an observation means: the first row that matches, and the last matches always."""
    return next(row for row in TABLE if row.test(seen))
