"""A relay's log: what proves that a message was taken, and what does not."""

import itertools
from datetime import timedelta

import pytest

from mailer.evidence import Carried, Fate, RecipientFate
from providers.relay_log import RelayLog, read
from tests.providers.relay_lines import (
    ACCEPTED,
    ANN,
    BEFORE,
    LONG,
    NOON,
    NOTHING,
    OURS,
    REFUSED,
    RETURN_PATH,
    SHORT,
    Postfix,
    fates,
    only,
    told,
)


def test_a_message_that_was_taken() -> None:
    seen = only(Postfix().whole())
    assert (seen.kind, seen.source, seen.queue_id) == (ACCEPTED, "postfix", SHORT)
    assert (seen.message_id, seen.sender) == (OURS, RETURN_PATH)
    assert seen.at == NOON + timedelta(seconds=1)
    assert seen.recipients == (
        RecipientFate(ANN, Fate.DELIVERED, "2.0.0", NOON + timedelta(seconds=2)),
    )
    assert seen.note == "postfix log, queue id 4F1A2B3C4D: taken at 2026-03-10T12:00:01Z"


def test_it_is_told_when_it_is_removed_and_not_before() -> None:
    post = Postfix()
    given = iter([*post.whole(), "more"])
    assert next(read(given, before=BEFORE)).kind is ACCEPTED
    assert next(given) == "more"


def test_what_is_still_in_the_queue_is_told_at_the_end() -> None:
    post = Postfix()
    seen = only([post.client(), post.named(), post.active()])
    assert (seen.kind, seen.recipients) == (ACCEPTED, ())


def test_a_header_that_was_read_is_no_proof() -> None:
    post = Postfix()
    seen = only([post.client(), post.named()])
    assert (seen.kind, seen.message_id, seen.sender) == (NOTHING, OURS, None)
    assert "proves nothing" in seen.note


@pytest.mark.parametrize(
    "why",
    [
        "lost connection after DATA (812 bytes)",
        "timeout after DATA (0 bytes)",
        "warning: lost connection after DATA",
    ],
)
def test_a_connection_lost_in_the_message_is_said(why: str) -> None:
    post = Postfix()
    given = iter([post.client(), post.named(), post.cut(why), "more"])
    seen = next(read(given, before=BEFORE))
    assert (seen.kind, next(given)) == (NOTHING, "more")
    assert "connection lost" in seen.note


def test_a_connection_lost_by_another_process_is_not_ours() -> None:
    post = Postfix()
    lines = [post.client(), post.named(), post.cut(pid=42), post.active()]
    assert only(lines).kind is ACCEPTED


def test_a_connection_lost_once_it_was_taken_takes_nothing_back() -> None:
    post = Postfix()
    for why in ("lost connection after END-OF-MESSAGE", "lost connection after DATA (9 bytes)"):
        seen = only([post.client(), post.named(), post.active(), post.cut(why), post.to()])
        assert (seen.kind, len(seen.recipients)) == (ACCEPTED, 1)


def test_a_process_s_last_message_is_not_the_next_one_of_its_id() -> None:
    first, second = Postfix(), Postfix(second=600)
    begun = second.said("smtpd", "client=app.example[192.0.2.1]", pid=42)
    seen = told([*first.whole(), begun, second.named(), second.cut(), second.active()])
    assert [(each.kind, each.message_id) for each in seen] == [(ACCEPTED, OURS)] * 2


def test_two_queue_ids_of_one_message_are_two_sightings() -> None:
    one, two = Postfix(), Postfix("5A6B7C8D9E", second=60)
    lost = Postfix("6A6B7C8D9E", second=90)
    seen = told([*one.whole(), *two.whole(), lost.client(), lost.named()])
    assert [(each.queue_id, each.kind) for each in seen] == [
        (SHORT, ACCEPTED),
        ("5A6B7C8D9E", ACCEPTED),
        ("6A6B7C8D9E", NOTHING),
    ]
    assert {each.message_id for each in seen} == {OURS}


def test_a_sender_of_ours_tells_without_a_message_id() -> None:
    post = Postfix()
    seen = only([post.active(), post.to(), post.removed()])
    assert (seen.kind, seen.message_id, seen.sender) == (ACCEPTED, None, RETURN_PATH)
    bounce = Postfix()
    assert told([bounce.active(sender=""), bounce.to(), bounce.removed()]) == []


@pytest.mark.parametrize("queue_id", [SHORT, LONG])
def test_lines_of_many_messages_lie_in_between_one_another(queue_id: str) -> None:
    posts = [Postfix(f"{queue_id}{n}") for n in "BCDF"]
    rows = zip(*(post.whole() for post in posts), strict=True)
    seen = told(itertools.chain.from_iterable(rows))
    assert [each.queue_id for each in seen] == [post.queue_id for post in posts]
    assert all(fates(each) == [(ANN, Fate.DELIVERED, "2.0.0")] for each in seen)


def test_instances_and_hosts_do_not_share_their_ids() -> None:
    post, out = Postfix(), Postfix(instance="postfix-out")
    elsewhere = post.active().replace(" relay ", " relay2 ")
    seen = told([post.client(), post.named(), out.active("x@else.example"), elsewhere])
    assert [(each.message_id, each.kind) for each in seen] == [
        (OURS, NOTHING),
        (None, ACCEPTED),
        (None, ACCEPTED),
    ]
    assert only(Postfix(instance="postfix-out").whole()).kind is ACCEPTED


@pytest.mark.parametrize("begins", ["client", "named"])
def test_an_id_that_is_used_again_proves_nothing_of_the_first(begins: str) -> None:
    lost, next_one = Postfix(), Postfix(second=600)
    other = [next_one.named("<other@else.example>"), next_one.active("x@else.example")]
    if begins == "client":
        other = [next_one.client(), *other]
    first, second = told([lost.client(), lost.named(), *other, next_one.removed()])
    assert (first.kind, first.message_id) == (NOTHING, OURS)
    assert (second.kind, second.message_id) == (ACCEPTED, "<other@else.example>")


def test_a_name_that_is_none_ends_the_one_before_too() -> None:
    lost, next_one = Postfix(), Postfix(second=600)
    seen = told([lost.named(), next_one.named("<>"), next_one.active("x@else.example")])
    assert [(each.kind, each.message_id) for each in seen] == [(NOTHING, OURS), (ACCEPTED, None)]


def test_an_id_that_is_used_again_needs_a_name_of_its_own() -> None:
    lost, next_one = Postfix(), Postfix(second=600)
    seen = told([lost.client(), lost.named(), next_one.client(), next_one.active("x@else.example")])
    assert [(each.kind, each.message_id) for each in seen] == [(NOTHING, OURS), (ACCEPTED, None)]


def test_a_name_does_not_join_what_was_taken_before_it() -> None:
    older, lost = Postfix(second=-600), Postfix()
    seen = told([older.active("x@else.example"), lost.named()])
    assert [(each.kind, each.message_id) for each in seen] == [(ACCEPTED, None), (NOTHING, OURS)]


def test_an_older_activity_that_is_read_later_is_no_proof() -> None:
    older, ours = Postfix(second=-7200), Postfix()
    seen = told([ours.client(), ours.named(), older.active("x@else.example"), older.removed()])
    assert [(each.kind, each.message_id, each.sender) for each in seen] == [
        (NOTHING, OURS, None),
        (ACCEPTED, None, "x@else.example"),
    ]


def test_every_line_twice_is_one_message() -> None:
    lines = Postfix().whole()[:-1]
    seen = only(itertools.chain.from_iterable((each, each) for each in lines))
    assert (seen.kind, len(seen.recipients)) == (ACCEPTED, 1)


@pytest.mark.parametrize("split", range(1, 5))
def test_rotated_files_in_either_order(split: int) -> None:
    lines = Postfix().whole()
    for order in (lines, [*lines[split:], *lines[:split]]):
        seen = only(order)
        assert (seen.kind, seen.message_id, seen.sender) == (ACCEPTED, OURS, RETURN_PATH)
        assert fates(seen) == [(ANN, Fate.DELIVERED, "2.0.0")]


@pytest.mark.parametrize(
    ("service", "text", "code"),
    [
        (
            "cleanup",
            "milter-reject: END-OF-MESSAGE from app.example[192.0.2.1]: 5.7.1 no;",
            "5.7.1",
        ),
        (
            "cleanup",
            "milter-reject: END-OF-MESSAGE from app.example[192.0.2.1]: 4.7.1 wait;",
            "4.7.1",
        ),
        ("cleanup", "reject: header Subject: x from app.example[192.0.2.1];", None),
        ("smtpd", "reject: END-OF-MESSAGE from app.example[192.0.2.1]: 552 5.3.4 big;", "5.3.4"),
    ],
)
def test_a_refusal_of_a_message_that_is_named(service: str, text: str, code: str | None) -> None:
    post = Postfix()
    refusal = f"{text} from=<{RETURN_PATH}> to=<{ANN}> proto=ESMTP helo=<app.example>"
    seen = only([post.client(), post.named(), post.said(service, refusal, after=1)])
    assert (seen.kind, seen.message_id, seen.sender) == (REFUSED, OURS, RETURN_PATH)
    assert seen.note == (
        f"postfix log, queue id {SHORT}: refused{f' with {code}' if code else ''} "
        "at 2026-03-10T12:00:01Z"
    )


def test_a_refusal_without_a_queue_id_is_told_by_its_sender() -> None:
    text = (
        "NOQUEUE: proxy-reject: END-OF-MESSAGE: 554 5.7.0 Reject; "
        f"from=<{RETURN_PATH}> to=<{ANN}> proto=ESMTP helo=<app.example>"
    )
    seen = only([Postfix().line("smtpd", text.replace("MESSAGE:", "MESSAGE from app.example:"))])
    assert (seen.kind, seen.queue_id, seen.sender) == (REFUSED, None, RETURN_PATH)


@pytest.mark.parametrize(
    "text",
    [
        "NOQUEUE: reject: RCPT from app.example[192.0.2.1]: 550 5.1.1 <a@b.example>: no; "
        f"from=<{RETURN_PATH}> to=<{ANN}> proto=ESMTP helo=<app.example>",
        "NOQUEUE: reject: END-OF-MESSAGE from app.example[192.0.2.1]: 5.7.1 no; from=<> to=<x>",
        f"NOQUEUE: client=app.example[192.0.2.1], from=<{RETURN_PATH}>",
        f"{SHORT}: reject: RCPT from app.example[192.0.2.1]: 450; from=<{RETURN_PATH}> to=<{ANN}>",
    ],
)
def test_what_tells_nothing_of_a_whole_message(text: str) -> None:
    assert told([Postfix().line("smtpd", text)]) == []


def test_attempts_are_looked_up_by_what_they_carry() -> None:
    ours, by_sender, other = Postfix(), Postfix("5A6B7C8D9E"), Postfix("6A6B7C8D9E")
    lines = [
        *ours.whole(),
        by_sender.active("bounces+other.77aa@mail.example"),
        other.named("<o@else.example>"),
        other.active("x@else.example"),
    ]
    log = RelayLog(lines, before=BEFORE)
    carried = [
        Carried(message_id=OURS, sender="bounces+none@mail.example"),
        Carried(sender="bounces+other.77aa@mail.example"),
    ]
    assert [each.queue_id for each in log.look_up(carried)] == [SHORT, "5A6B7C8D9E"]
    assert list(log.look_up([])) == []
    assert list(log.look_up([Carried()])) == []
