"""The rows of the SMTP rule table, in order, and `judge` over them."""

from mailer.outcome import Outcome, Scope
from providers.smtp_rules import (
    Kind,
    Observation,
    Row,
    Stage,
    Test,
    always,
    both,
    detail,
    digit,
    either,
    is_account_sign,
    is_committed_elsewhere,
    is_contradiction,
    is_not_handed_over,
    is_sender_throttle,
    is_too_many_recipients,
    kind,
    reply,
)

_ACCEPTED, _PERMANENT = Outcome.ACCEPTED, Outcome.PERMANENT
_RETRY, _AMBIGUOUS = Outcome.RETRYABLE, Outcome.AMBIGUOUS
_ACCOUNT, _CONNECTION = Scope.ACCOUNT, Scope.CONNECTION
_MESSAGE, _RECIPIENT = Scope.MESSAGE, Scope.RECIPIENT

_PREFLIGHT, _CONNECT = Stage.PREFLIGHT, Stage.CONNECT
_GREETING, _EHLO, _AUTH = Stage.GREETING, Stage.EHLO, Stage.AUTH
_MAIL, _RCPT, _DATA = Stage.MAIL, Stage.RCPT, Stage.DATA
_BODY, _DOT = Stage.BODY, Stage.AFTER_DOT
_SECURING = (Stage.TLS, Stage.STARTTLS)
_CONTENT = (_BODY, _DOT)


def _row(  # noqa: PLR0917 - a table row reads by column
    rule: str, at: Stage | tuple[Stage, ...], test: Test, outcome: Outcome, scope: Scope, why: str
) -> Row:
    stages = frozenset({at} if isinstance(at, Stage) else at)
    return Row(f"smtp-{rule}", stages, test, outcome, scope, why)


# fmt: off
TABLE: tuple[Row, ...] = (
    _row("commit-misplaced", (), is_committed_elsewhere, _AMBIGUOUS, _CONNECTION,
         "the end-of-data line is out at a stage that has none: no reply can be trusted"),
    _row("address", _PREFLIGHT, kind(Kind.ADDRESS), _PERMANENT, _RECIPIENT,
         "this relay can never be told that address"),
    _row("message", _PREFLIGHT, kind(Kind.MESSAGE), _PERMANENT, _MESSAGE,
         "the stored bytes never change, so the relay would refuse them every time"),
    _row("no-such-relay", _CONNECT, kind(Kind.NO_SUCH_HOST), _RETRY, _ACCOUNT,
         "the configured name does not exist"),
    _row("certificate", _SECURING, kind(Kind.CERTIFICATE), _RETRY, _ACCOUNT,
         "a trust setting or an attack; never clear text"),
    _row("not-tls", _SECURING, kind(Kind.NOT_TLS), _RETRY, _ACCOUNT,
         "the port and the TLS mode do not fit"),
    _row("tls-missing", _SECURING, kind(Kind.NOT_OFFERED), _RETRY, _ACCOUNT,
         "TLS is required and not offered; it may be a downgrade attack"),
    _row("tls-refused", _SECURING, digit(5), _RETRY, _ACCOUNT,
         "the relay will not speak TLS with us"),
    _row("greeting-refused", _GREETING, digit(5), _RETRY, _ACCOUNT,
         "the banner condemns the client, not the mail (RFC 7504 for 521)"),
    _row("ehlo-refused", _EHLO, digit(5), _RETRY, _ACCOUNT,
         "our client name is refused, for every message alike"),
    _row("auth-missing", _AUTH, kind(Kind.NOT_OFFERED), _RETRY, _ACCOUNT,
         "credentials are set and no usable mechanism is offered"),
    _row("auth-refused", _AUTH, either(digit(5), reply(432)), _RETRY, _ACCOUNT,
         "RFC 4954: the account's trouble; 454 is the server's"),

    _row("mail-policy", _MAIL, both(digit(4), detail(prefix="7.")), _RETRY, _ACCOUNT,
         "a throttle or policy on our sender identity"),
    _row("mail-deferred", _MAIL, digit(4), _RETRY, _CONNECTION,
         "the transaction did not start"),
    _row("mail-message", _MAIL,
         both(digit(5), either(reply(552), detail("3.4", "1.7", "6.7"))),
         _PERMANENT, _MESSAGE, "this message's size or sender address, for good"),
    _row("mail-out-of-step", _MAIL, reply(503), _RETRY, _CONNECTION,
         "the session is out of step"),
    _row("mail-refused", _MAIL, digit(5), _RETRY, _ACCOUNT,
         "the sender identity or a parameter, shared by all mail"),

    _row("rcpt-session", _RCPT,
         either(reply(421, 500, 502, 503, 504), both(digit(4), detail(prefix="3."))),
         _RETRY, _CONNECTION, "the server or the session, not the mailbox"),
    _row("rcpt-deferred", _RCPT, digit(4), _RETRY, _RECIPIENT,
         "greylisting, a busy mailbox, a limit of this transaction"),
    _row("rcpt-too-many", _RCPT, is_too_many_recipients, _RETRY, _RECIPIENT,
         "RFC 5321 4.5.3.1.10: too many in this transaction"),
    _row("rcpt-full", _RCPT, reply(552), _PERMANENT, _RECIPIENT,
         "the server calls the full mailbox final"),
    _row("rcpt-account", _RCPT, is_account_sign, _RETRY, _ACCOUNT,
         "we are not logged in, blocked, or may not relay"),
    _row("rcpt-refused", _RCPT, digit(5), _PERMANENT, _RECIPIENT,
         "a final refusal of that recipient"),

    _row("data-session", _DATA,
         either(digit(2, 3, 4), reply(503), is_contradiction),
         _RETRY, _CONNECTION, "no usable 354, and no content was sent"),
    _row("data-account", _DATA,
         both(digit(5), either(detail(prefix="7."), is_account_sign)),
         _RETRY, _ACCOUNT, "content has not been seen, so the policy is about us"),
    _row("data-refused", _DATA, digit(5), _PERMANENT, _MESSAGE,
         "a final refusal before the content"),

    _row("early-deferred", _BODY, digit(4), _RETRY, _CONNECTION,
         "a temporary end before the end-of-data line was handed over"),
    _row("early-success", _BODY, digit(2, 3), _AMBIGUOUS, _CONNECTION,
         "the server saw an end that we did not send, or replies are shifted"),
    _row("accepted", _DOT, digit(2), _ACCEPTED, _MESSAGE,
         "RFC 5321 4.2.5: any 2yz takes responsibility"),
    _row("dot-closing", _DOT, reply(421), _RETRY, _CONNECTION,
         "a shutdown cancels the transaction (RFC 5321 3.8)"),
    _row("dot-throttled", _DOT, both(digit(4), is_sender_throttle),
         _RETRY, _ACCOUNT, "the account must slow down"),
    _row("dot-deferred", _DOT, digit(4), _RETRY, _MESSAGE,
         "RFC 5321 4.2.5: after 4yz the server must not deliver"),
    _row("dot-out-of-step", _CONTENT, reply(503), _AMBIGUOUS, _CONNECTION,
         "a sequence error: the reply may belong to something else"),
    _row("dot-account", _CONTENT, is_account_sign, _RETRY, _ACCOUNT,
         "our authentication, reputation or quota"),
    _row("dot-recipient", _CONTENT,
         both(digit(5), either(detail(prefix="1."), detail(prefix="2."))),
         _PERMANENT, _RECIPIENT, "a late check of the address or mailbox"),
    _row("dot-refused", _CONTENT, digit(5), _PERMANENT, _MESSAGE,
         "the content was judged and refused"),

    _row("not-handed-over", (), is_not_handed_over, _RETRY, _CONNECTION,
         "the end-of-data line never left us, so nothing can have been accepted"),
    _row("unknown-after-dot", (), always, _AMBIGUOUS, _CONNECTION,
         "the message may have been accepted and nothing read proves either way"),
)
# fmt: on


ROW_BY_RULE = {row.rule: row for row in TABLE}

_ROWS_AT = {
    stage: tuple(row for row in TABLE if not row.stages or stage in row.stages) for stage in Stage
}


def judge(seen: Observation) -> Row:
    """Say what an observation means: the first row that matches, and the last matches always."""
    return next(row for row in _ROWS_AT[seen.judged_at] if row.test(seen))
