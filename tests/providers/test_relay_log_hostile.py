"""A relay's log in the hands of strangers: forged lines, any order, any size."""

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.relay_log import read
from providers.relay_log_entry import MAX_LINE_CHARS
from tests.providers.relay_lines import (
    ACCEPTED,
    ANN,
    BEFORE,
    NOTHING,
    OURS,
    RETURN_PATH,
    SHORT,
    Exim,
    Postfix,
    only,
    told,
)


@pytest.mark.parametrize(
    "line",
    [
        # Each holds a whole line of proof, as text that somebody else had logged.
        Postfix("7A6B7C8D9E").named(f"<x {Postfix().active()}>"),
        Postfix("7A6B7C8D9E").said("cleanup", f"warning: header Subject: {Postfix().active()}"),
        Postfix().line("smtpd", f"warning: {Postfix().active()}"),
        Exim("1tpxZZ-000000001Ac-0aBC").said(
            f'<= x@else.example P=esmtp S=9 T="{Exim().arrived()}"'
        ),
        Exim("1tpxZZ-000000001Ac-0aBC").said(
            f'<= x@else.example P=esmtp S=9 T="a id={OURS[1:-1]}"'
        ),
        f"Mar 10 12:00:00 relay login[9]: {Postfix().active()}",
    ],
)
def test_a_line_within_a_line_is_no_proof(line: str) -> None:
    post = Postfix()
    seen = told([post.client(), post.named(), line])
    assert [each.kind for each in seen if each.message_id == OURS] == [NOTHING]
    assert not any(each.sender == RETURN_PATH for each in seen)


def test_lines_that_are_too_long_are_not_read() -> None:
    post = Postfix()
    padding = "x" * MAX_LINE_CHARS
    assert only([post.named(), post.active(padding + "@else.example")]).kind is NOTHING


def test_no_address_in_the_note_or_the_representation() -> None:
    post = Postfix()
    for seen in told([*post.whole(), Exim().arrived(), Postfix("8A6B7C8D9E").named()]):
        assert "@" not in seen.note
        assert RETURN_PATH not in repr(seen)
        assert ANN not in repr(seen)


WORDS = [
    *("postfix/qmgr[9]:", "postfix/cleanup[9]:", "postfix/smtpd[9]:", "postfix/smtp[9]:", "relay"),
    *("Mar 10 12:00:00", "Feb 30 99:99:99", "2026-03-10 12:00:00", "2026-99-10T12:00:00Z"),
    *(f"{SHORT}:", "NOQUEUE:", "1tpxYZ-000000001Ab-0aBC", "<=", "=>", "**", "==", "Completed"),
    *("removed", f"message-id={OURS}", f"from=<{RETURN_PATH}>,", "size=1, nrcpt=1 (queue active)"),
    *(
        f"to=<{ANN}>,",
        "relay=x,",
        "dsn=2.0.0,",
        "status=sent (x)",
        "id=a@b",
        "F=<a@b>",
        'T="',
        "<>",
    ),
    *("rejected after DATA", "reject: DATA from x;", "client=", "\ud800", "\x00", "\r", "é", ":"),
]


@given(st.lists(st.one_of(st.text(), st.lists(st.sampled_from(WORDS)).map(" ".join)), max_size=30))
def test_nothing_is_raised_for_what_a_line_holds(lines: list[str]) -> None:
    for seen in told(lines):
        assert seen.message_id or seen.sender
        assert "@" not in seen.note
        assert seen.note.encode()


@given(st.randoms(use_true_random=False))
def test_no_order_of_lines_joins_a_name_to_another_s_acceptance(random: Random) -> None:
    ours, other = Postfix(), Postfix(second=600)
    before = Postfix(second=-600)
    lines = [ours.client(), ours.named()]
    for each in (other, before):
        lines += [each.client(), each.named("<o@else.example>"), each.active("x@else.example")]
        lines += [each.removed()]
    parts = [lines[:2], lines[2:6], lines[6:]]
    random.shuffle(parts)
    seen = told(itertools.chain.from_iterable(parts))
    assert [each.kind for each in seen if each.message_id == OURS] == [NOTHING]


def test_what_stays_open_is_forgotten_the_oldest_first() -> None:
    posts = [Postfix(f"{n:010X}") for n in range(40)]
    taken, *others = posts
    lines = [taken.named(), taken.active(), *(post.named("<o@else.example>") for post in others)]
    found = read(lines, before=BEFORE, limit=10)
    assert (next(found).kind, next(found).queue_id) == (ACCEPTED, posts[1].queue_id)
    assert len(list(found)) == 38


def test_recipients_count_too() -> None:
    post = Postfix()
    many = [post.to(f"r{n}@example.com") for n in range(50)]
    parts = told([post.named(), post.active(), *many], limit=20)
    assert parts[0].kind is ACCEPTED
    assert all(len(each.recipients) <= 20 for each in parts)
