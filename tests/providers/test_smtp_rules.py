"""The table that judges: every row is reached, and nothing unknown is ever believed."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailer.outcome import Outcome, Scope
from providers.smtp_result import delay_hint
from providers.smtp_rules import Kind, Observation, Stage
from providers.smtp_table import ROW_BY_RULE, TABLE, judge

A, R, P, X = Outcome.ACCEPTED, Outcome.RETRYABLE, Outcome.PERMANENT, Outcome.AMBIGUOUS
ACCOUNT, CONNECTION = Scope.ACCOUNT, Scope.CONNECTION
MESSAGE, RECIPIENT = Scope.MESSAGE, Scope.RECIPIENT

VECTORS = Path(__file__).parents[1] / "vectors" / "smtp.json"


def replied(
    stage: Stage, line: str, *, committed: bool = False, willing_before: bool = False
) -> Observation:
    """A reply line at a stage."""
    return Observation(
        stage,
        Kind.REPLY,
        committed=committed or stage is Stage.AFTER_DOT,
        code=int(line[:3]),
        text=line[4:],
        willing_before=willing_before,
    )


def met(stage: Stage, kind: Kind) -> Observation:
    """An event that is no reply."""
    return Observation(stage, kind, committed=stage is Stage.AFTER_DOT)


CASES = [
    ("commit-misplaced", replied(Stage.MAIL, "250 ok", committed=True), X, CONNECTION),
    ("address", met(Stage.PREFLIGHT, Kind.ADDRESS), P, RECIPIENT),
    ("message", met(Stage.PREFLIGHT, Kind.MESSAGE), P, MESSAGE),
    ("no-such-relay", met(Stage.CONNECT, Kind.NO_SUCH_HOST), R, ACCOUNT),
    ("certificate", met(Stage.TLS, Kind.CERTIFICATE), R, ACCOUNT),
    ("certificate", met(Stage.STARTTLS, Kind.CERTIFICATE), R, ACCOUNT),
    ("not-tls", met(Stage.TLS, Kind.NOT_TLS), R, ACCOUNT),
    ("tls-missing", met(Stage.STARTTLS, Kind.NOT_OFFERED), R, ACCOUNT),
    ("tls-refused", replied(Stage.STARTTLS, "502 5.5.1 no"), R, ACCOUNT),
    ("not-handed-over", replied(Stage.STARTTLS, "454 4.7.0 not now"), R, CONNECTION),
    ("greeting-refused", replied(Stage.GREETING, "521 5.3.2 no mail here"), R, ACCOUNT),
    ("ehlo-refused", replied(Stage.EHLO, "550 5.7.1 who?"), R, ACCOUNT),
    ("auth-missing", met(Stage.AUTH, Kind.NOT_OFFERED), R, ACCOUNT),
    ("auth-refused", replied(Stage.AUTH, "535 5.7.8 wrong"), R, ACCOUNT),
    ("auth-refused", replied(Stage.AUTH, "432 4.7.12 change it"), R, ACCOUNT),
    ("not-handed-over", replied(Stage.AUTH, "454 4.7.0 not now"), R, CONNECTION),
    ("mail-policy", replied(Stage.MAIL, "450 4.7.1 too fast"), R, ACCOUNT),
    ("mail-deferred", replied(Stage.MAIL, "450 5.7.1 a code of another class"), R, CONNECTION),
    ("mail-deferred", replied(Stage.MAIL, "452 4.3.4 a temporary 3.4"), R, CONNECTION),
    ("mail-message", replied(Stage.MAIL, "552 too big"), P, MESSAGE),
    ("mail-message", replied(Stage.MAIL, "554 5.3.4 too big"), P, MESSAGE),
    ("mail-message", replied(Stage.MAIL, "553 5.6.7 needs SMTPUTF8"), P, MESSAGE),
    ("mail-out-of-step", replied(Stage.MAIL, "503 5.5.1 again?"), R, CONNECTION),
    ("mail-refused", replied(Stage.MAIL, "550 5.7.1 not yours"), R, ACCOUNT),
    ("rcpt-session", replied(Stage.RCPT, "421 bye"), R, CONNECTION),
    ("rcpt-session", replied(Stage.RCPT, "452 4.3.1 disk"), R, CONNECTION),
    ("rcpt-session", replied(Stage.RCPT, "504 5.5.4 parameter"), R, CONNECTION),
    ("rcpt-deferred", replied(Stage.RCPT, "451 4.7.1 greylisted"), R, RECIPIENT),
    ("rcpt-deferred", replied(Stage.RCPT, "450 4.2.2 listed, over quota"), R, RECIPIENT),
    ("rcpt-too-many", replied(Stage.RCPT, "552 5.5.3 too many"), R, RECIPIENT),
    ("rcpt-too-many", replied(Stage.RCPT, "552 too many", willing_before=True), R, RECIPIENT),
    ("rcpt-full", replied(Stage.RCPT, "552 full"), P, RECIPIENT),
    ("rcpt-full", replied(Stage.RCPT, "552 5.2.2 quota", willing_before=True), P, RECIPIENT),
    ("rcpt-account", replied(Stage.RCPT, "530 5.7.0 log in"), R, ACCOUNT),
    ("rcpt-account", replied(Stage.RCPT, "550 5.4.5 daily limit"), R, ACCOUNT),
    ("rcpt-account", replied(Stage.RCPT, "554 5.7.1 Relay access denied"), R, ACCOUNT),
    ("rcpt-refused", replied(Stage.RCPT, "550 5.2.2 mailbox over quota"), P, RECIPIENT),
    ("rcpt-refused", replied(Stage.RCPT, "550 4.7.26 a code of another class"), P, RECIPIENT),
    ("data-session", replied(Stage.DATA, "250 what"), R, CONNECTION),
    ("data-session", replied(Stage.DATA, "554 no valid recipients"), R, CONNECTION),
    ("data-account", replied(Stage.DATA, "554 5.7.1 policy"), R, ACCOUNT),
    ("data-refused", replied(Stage.DATA, "554 5.6.0 no"), P, MESSAGE),
    ("early-deferred", replied(Stage.BODY, "454 quota"), R, CONNECTION),
    ("early-success", replied(Stage.BODY, "250 queued"), X, CONNECTION),
    ("early-success", replied(Stage.BODY, "354 go"), X, CONNECTION),
    ("not-handed-over", met(Stage.BODY, Kind.MALFORMED), R, CONNECTION),
    ("accepted", replied(Stage.AFTER_DOT, "252 perhaps"), A, MESSAGE),
    ("accepted", replied(Stage.BODY, "250 ok", committed=True), A, MESSAGE),
    ("dot-closing", replied(Stage.AFTER_DOT, "421 4.7.0 bye"), R, CONNECTION),
    ("dot-throttled", replied(Stage.AFTER_DOT, "454 later"), R, ACCOUNT),
    ("dot-throttled", replied(Stage.AFTER_DOT, "451 4.7.1 sending rate exceeded"), R, ACCOUNT),
    ("dot-deferred", replied(Stage.AFTER_DOT, "452 4.2.2 mailbox over quota"), R, MESSAGE),
    ("dot-deferred", replied(Stage.AFTER_DOT, "451 4.7.1 greylisted"), R, MESSAGE),
    ("dot-out-of-step", replied(Stage.AFTER_DOT, "503 5.7.1 listed"), X, CONNECTION),
    ("dot-account", replied(Stage.AFTER_DOT, "554 Email address is not verified"), R, ACCOUNT),
    ("dot-recipient", replied(Stage.AFTER_DOT, "550 5.2.1 disabled"), P, RECIPIENT),
    ("dot-refused", replied(Stage.BODY, "552 5.3.4 too big"), P, MESSAGE),
    ("not-handed-over", replied(Stage.RCPT, "354 go"), R, CONNECTION),
    ("unknown-after-dot", replied(Stage.AFTER_DOT, "650 what"), X, CONNECTION),
]


@pytest.mark.parametrize(("rule", "seen", "outcome", "scope"), CASES)
def test_row(rule: str, seen: Observation, outcome: Outcome, scope: Scope) -> None:
    verdict = judge(seen)
    assert (verdict.rule, verdict.outcome, verdict.scope) == (f"smtp-{rule}", outcome, scope)


def test_every_row_is_reached() -> None:
    assert {f"smtp-{rule}" for rule, *_ in CASES} == {row.rule for row in TABLE}


def test_rules_are_named_once_and_say_why() -> None:
    assert len(ROW_BY_RULE) == len(TABLE)
    assert all(row.why for row in TABLE)


def test_scopes_follow_outcomes() -> None:
    assert {row.scope for row in TABLE if row.outcome is X} == {CONNECTION}
    assert {row.scope for row in TABLE if row.outcome is A} == {MESSAGE}
    assert {row.scope for row in TABLE if row.outcome is P} == {MESSAGE, RECIPIENT}


def vector_lines() -> list[tuple[Stage, str, str, str]]:
    """The vectors that are one reply line at one stage."""
    return [
        (Stage(case["phase"]), case["event"], case["outcome"], case["scope"])
        for case in json.loads(VECTORS.read_text("utf-8"))
        if case["phase"] in set(Stage)
        and case["event"][:3].isdigit()
        and not {"then", "recipients"} & set(case)
        and "then" not in case["event"]
        and "\r\n" not in case["event"]
    ]


@pytest.mark.parametrize(("stage", "line", "outcome", "scope"), vector_lines())
def test_vector(stage: Stage, line: str, outcome: str, scope: str) -> None:
    verdict = judge(replied(stage, line))
    assert (verdict.outcome, verdict.scope) == (outcome, scope)


codes = st.integers(-1, 2600) | st.integers(190, 610)
enhanced = st.from_regex(r"[2-7]\.\d{1,3}\.\d{1,3}", fullmatch=True) | st.just("")
words = st.sampled_from(
    ["", "queued", "relay access denied", "quota", "spam", "try again", "no valid recipients"]
)
observations = st.builds(
    lambda stage, kind, committed, code, status, text, willing: Observation(
        stage, kind, committed, code, f"{status} {text}".strip(), willing
    ),
    st.sampled_from(Stage),
    st.sampled_from(Kind),
    st.booleans(),
    codes,
    enhanced,
    words,
    st.booleans(),
)


@given(observations)
def test_nothing_unknown_is_accepted(seen: Observation) -> None:
    if judge(seen).outcome is A:
        assert seen.kind is Kind.REPLY
        assert 200 <= seen.code <= 299
        assert seen.judged_at is Stage.AFTER_DOT


@given(observations)
def test_nothing_unknown_is_permanent(seen: Observation) -> None:
    if judge(seen).outcome is not P:
        return
    if seen.kind is Kind.REPLY:
        assert 500 <= seen.code <= 599
        assert seen.stage in {Stage.MAIL, Stage.RCPT, Stage.DATA, Stage.BODY, Stage.AFTER_DOT}
    else:
        assert seen.kind in {Kind.ADDRESS, Kind.MESSAGE}
        assert seen.stage is Stage.PREFLIGHT


@given(observations)
def test_after_the_commit_point_only_a_reply_settles(seen: Observation) -> None:
    if seen.past_commit and (seen.kind is not Kind.REPLY or not 200 <= seen.code <= 599):
        assert judge(seen).outcome is X


@given(observations)
def test_before_the_commit_point_only_an_early_reply_is_in_doubt(seen: Observation) -> None:
    if not seen.past_commit and judge(seen).outcome is X:
        assert seen.stage is Stage.BODY
        assert seen.kind is Kind.REPLY


@given(st.sampled_from([s for s in Stage if s is not Stage.PREFLIGHT]), codes, enhanced)
def test_text_never_makes_a_verdict_final(stage: Stage, code: int, status: str) -> None:
    bare = judge(Observation(stage, Kind.REPLY, False, code, f"{status} spam".strip()))
    hinted = judge(Observation(stage, Kind.REPLY, False, code, f"{status} quota reached".strip()))
    if bare.outcome is not hinted.outcome:
        assert (bare.outcome, hinted.outcome, hinted.scope) == (P, R, ACCOUNT)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("4.7.1 Greylisted, try again in 300 seconds", 300),
        ("please wait 5 minutes", 300),
        ("retry after 60s", 60),
        ("come back in 2 hours", 3600),
        ("try again in 99999 seconds", 3600),
        ("try again later", None),
        ("message 250 seconds the motion", None),
        ("5.1.1 no such user", None),
    ],
)
def test_delay_hint(text: str, seconds: float | None) -> None:
    assert delay_hint(text) == seconds
