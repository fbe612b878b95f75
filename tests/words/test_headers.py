from typing import Any

import pytest

from mailer.errors import InvalidEmail
from mailer.headers import checked_headers

URI = "<https://example.com/u/1>"
MAIL_URI = "<mailto:leave@example.com?subject=out>"

REFUSED: dict[str, tuple[Any, str]] = {
    "not pairs": ("X-Foo: 1", "headers"),
    "no mapping": (7, "headers"),
    "a single": ([("X-Foo",)], "headers[0]"),
    "a triple": ([("X-Foo", "1", "2")], "headers[0]"),
    "text for a pair": (["XY"], "headers[0]"),
    "name not text": ([(1, "x")], "headers[0]"),
    "name empty": ([("", "x")], "headers[0]"),
    "name with colon": ([("X-A", "1"), ("X:B", "x")], "headers[1]"),
    "name with space": ([("X B", "x")], "headers[0]"),
    "name with line end": ([("X-B\r\nBcc", "x")], "headers[0]"),
    "name with final line end": ([("X-B\n", "x")], "headers[0]"),
    "name not ASCII": ([("X-É", "x")], "headers[0]"),
    "name of 127": ([("X" * 127, "x")], "headers[0]"),
    "value not text": ({"X-Foo": 1}, "headers['X-Foo']"),
    "value empty": ({"X-Foo": ""}, "headers['X-Foo']"),
    "value blank": ({"X-Foo": "  "}, "headers['X-Foo']"),
    "value with CR LF": ({"X-Foo": "a\r\nBcc: x@example.com"}, "headers['X-Foo']"),
    "value with final LF": ({"X-Foo": "a\n"}, "headers['X-Foo']"),
    "value with a fold": ({"X-Foo": "a\r\n b"}, "headers['X-Foo']"),
    "value with tab": ({"X-Foo": "a\tb"}, "headers['X-Foo']"),
    "value with NUL": ({"X-Foo": "a\x00"}, "headers['X-Foo']"),
    "value with NEL": ({"X-Foo": "a\x85b"}, "headers['X-Foo']"),
    "value with U+2028": ({"X-Foo": "a\u2028b"}, "headers['X-Foo']"),
    "value with surrogate": ({"X-Foo": "a\udc80"}, "headers['X-Foo']"),
    "value encoded": ({"X-Foo": "=?utf-8?q?=0ABcc:?="}, "headers['X-Foo']"),
    "value of 4001": ({"X-Foo": "x" * 4001}, "headers['X-Foo']"),
    "51 headers": ([(f"X-{n}", "x") for n in range(51)], "headers"),
    "twice": ([("Feedback-ID", "a"), ("feedback-id", "b")], "headers['feedback-id']"),
    "twice, unsubscribe": (
        [("List-Unsubscribe", URI), ("LIST-UNSUBSCRIBE", URI)],
        "headers['LIST-UNSUBSCRIBE']",
    ),
    "references not ASCII": ({"References": "<é@example.com>"}, "headers['References']"),
    "reference too long": ({"In-Reply-To": f"<{'x' * 900}@a>"}, "headers['In-Reply-To']"),
    "List-Id not ASCII": ({"List-Id": "Zoë <a.example.com>"}, "headers['List-Id']"),
    "URI bare": ({"List-Unsubscribe": "https://example.com"}, "headers['List-Unsubscribe']"),
    "URI http": ({"List-Unsubscribe": "<http://example.com>"}, "headers['List-Unsubscribe']"),
    "URI script": ({"List-Unsubscribe": "<javascript:x>"}, "headers['List-Unsubscribe']"),
    "URI with space": ({"List-Unsubscribe": "<https://a b>"}, "headers['List-Unsubscribe']"),
    "URI not ASCII": ({"List-Unsubscribe": "<https://é.example>"}, "headers['List-Unsubscribe']"),
    "URI unclosed": ({"List-Unsubscribe": f"{URI}, <https://a"}, "headers['List-Unsubscribe']"),
    "URI with text": ({"List-Unsubscribe": f"{URI} (leave)"}, "headers['List-Unsubscribe']"),
    "URIs without comma": (
        {"List-Unsubscribe": f"{URI} {MAIL_URI}"},
        "headers['List-Unsubscribe']",
    ),
    "URI too long": (
        {"List-Unsubscribe": f"<https://example.com/{'x' * 900}>"},
        "headers['List-Unsubscribe']",
    ),
    "one-click alone": (
        {"List-Unsubscribe-Post": "List-Unsubscribe=One-Click"},
        "headers['List-Unsubscribe-Post']",
    ),
    "one-click by mail": (
        {
            "List-Unsubscribe": MAIL_URI,
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        },
        "headers['List-Unsubscribe-Post']",
    ),
    "one-click misspelt": (
        {"List-Unsubscribe": URI, "List-Unsubscribe-Post": "One-Click"},
        "headers['List-Unsubscribe-Post']",
    ),
}

RESERVED = {
    "From": "sender",
    "Sender": "sender",
    "To": "to",
    "Cc": "cc",
    "Bcc": "bcc",
    "Reply-To": "reply_to",
    "Subject": "subject",
    "Message-ID": "dedup_key",
    "Content-Type": "html",
    "Content-Transfer-Encoding": "html",
}
RESERVED_WITHOUT_ARGUMENT = (
    "Date",
    "MIME-Version",
    "Return-Path",
    "Received",
    "DKIM-Signature",
    "Resent-Bcc",
    "Resent-From",
    "X-Outbox-Id",
    "X-Outbox-Attempt",
    "X-SES-CONFIGURATION-SET",
    "ARC-Seal",
    "Authentication-Results",
)


@pytest.mark.parametrize(("headers", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_with_the_field_named(headers: Any, field: str) -> None:
    with pytest.raises(InvalidEmail) as caught:
        checked_headers(headers)

    assert caught.value.field == field


@pytest.mark.parametrize("spelling", [str, str.lower, str.upper, str.swapcase])
@pytest.mark.parametrize("name", [*RESERVED, *RESERVED_WITHOUT_ARGUMENT])
def test_reserved_in_any_spelling(name: str, spelling: Any) -> None:
    with pytest.raises(InvalidEmail, match="reserved"):
        checked_headers({spelling(name): "x"})


@pytest.mark.parametrize(("name", "argument"), RESERVED.items())
def test_reserved_name_tells_the_argument_to_use(name: str, argument: str) -> None:
    with pytest.raises(InvalidEmail, match=rf"\b{argument}\b"):
        checked_headers({name: "x"})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Campaign": "spring", "Auto-Submitted": "auto-generated"},
        {"X-Note": "Zoë  was  here"},
        {"References": "<a@example.com> <b@example.com>"},
        {"List-Id": "Receipts <receipts.example.com>"},
        {"List-Unsubscribe": MAIL_URI},
        {"List-Unsubscribe": URI, "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"},
        {"X" * 126: "x" * 4000},
    ],
)
def test_accepted_as_given(headers: dict[str, str]) -> None:
    assert checked_headers(headers) == tuple(headers.items())


def test_pairs_keep_their_order_and_may_repeat_where_the_standard_allows() -> None:
    pairs = [["X-Tag", "b"], ["Comments", "1"], ["x-tag", "a"], ["comments", "2"]]

    assert checked_headers(pairs) == tuple((name, value) for name, value in pairs)


def test_space_between_tokens_of_a_structured_header_is_one() -> None:
    given = f"<a@example.com>{' ' * 2000}<b@example.com>"

    assert checked_headers({"References": given}) == (
        ("References", "<a@example.com> <b@example.com>"),
    )


def test_outer_spaces_go() -> None:
    assert checked_headers({"X-A": "  a b "}) == (("X-A", "a b"),)


def test_uris_are_separated_by_comma_and_space() -> None:
    [(_, value)] = checked_headers({"List-Unsubscribe": f"{URI},{MAIL_URI}"})

    assert value == f"{URI}, {MAIL_URI}"


def test_comma_inside_a_uri_does_not_separate() -> None:
    value = "<https://example.com/a,b>, <mailto:x@example.com>"

    assert checked_headers({"List-Unsubscribe": value}) == (("List-Unsubscribe", value),)
