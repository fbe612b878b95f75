"""The form of the composed octets."""

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from mailer.attachments import Attachment
from mailer.compose import compose
from tests.words.composing import (
    DATE,
    MESSAGE_ID,
    built,
    composed,
    header_lines,
    leaves,
    lf,
    parsed,
)


def test_message_is_pinned() -> None:
    """A new release must not change what a second attempt of an old row sends."""
    email = built(
        to=["Jane Doe <jane@example.org>"],
        bcc=["hidden@example.org"],
        subject="Déjà vu",
        html="<p>Hi</p>",
        headers={"X-Campaign": "spring"},
    )

    boundary = "=_alternative_e5eea12e7143a5a29ce793fa"
    assert composed(email).decode().split("\r\n") == [
        "Date: Sun, 01 Mar 2026 09:05:07 +0000",
        "From: Shop <shop@example.com>",
        "To: Jane Doe <jane@example.org>",
        "Subject: =?utf-8?q?D=C3=A9j=C3=A0_vu?=",
        f"Message-ID: {MESSAGE_ID}",
        "X-Campaign: spring",
        "X-Outbox-Id: 7",
        "X-Outbox-Attempt: 2.tag",
        "MIME-Version: 1.0",
        "Content-Type: multipart/alternative;",
        f' boundary="{boundary}"',
        "",
        f"--{boundary}",
        "Content-Type: text/plain; charset=utf-8",
        "Content-Transfer-Encoding: 7bit",
        "",
        "Hi",
        f"--{boundary}",
        "Content-Type: text/html; charset=utf-8",
        "Content-Transfer-Encoding: 7bit",
        "",
        "<p>Hi</p>",
        f"--{boundary}--",
        "",
    ]


def test_attempts_differ_in_their_mark_alone() -> None:
    first, second = (
        compose(built(), message_id=MESSAGE_ID, date=DATE, outbox_id=7, attempt=mark)
        for mark in ("1", "2")
    )

    assert first != second
    assert first.replace(b"X-Outbox-Attempt: 1", b"X-Outbox-Attempt: 2") == second


@pytest.mark.parametrize(
    ("parts", "structure"),
    [
        ({}, ["text/plain"]),
        ({"text": None, "html": "h"}, ["text/html"]),
        ({"html": "h"}, ["multipart/alternative", "text/plain", "text/html"]),
        ({"attachments": [("a.png", b"x")]}, ["multipart/mixed", "text/plain", "image/png"]),
        (
            {"attachments": [Attachment("a.png", "image/png", b"x", "logo")]},
            ["multipart/mixed", "text/plain", "image/png"],
        ),
        (
            {
                "text": None,
                "html": "h",
                "attachments": [Attachment("a.png", "image/png", b"x", "logo")],
            },
            ["multipart/related", "text/html", "image/png"],
        ),
        (
            {
                "html": "h",
                "attachments": [("b.pdf", b""), Attachment("a.png", "image/png", b"x", "logo")],
            },
            [
                "multipart/mixed",
                "multipart/alternative",
                "text/plain",
                "multipart/related",
                "text/html",
                "image/png",
                "application/pdf",
            ],
        ),
    ],
)
def test_structure_is_no_deeper_than_needed(parts: dict[str, Any], structure: list[str]) -> None:
    message = parsed(composed(built(**parts)))

    assert [part.get_content_type() for part in message.walk()] == structure


@pytest.mark.parametrize("cc", [[], ["joe@example.org"]])
def test_without_to_no_recipient_is_disclosed(cc: list[str]) -> None:
    raw = composed(built(to=[], cc=cc, bcc=["hidden@example.org"]))

    assert header_lines(raw, "To") == b" undisclosed-recipients:;"
    assert b"hidden" not in raw


def test_unsubscribe_headers_reach_the_reader_as_given() -> None:
    link = f"https://example.com/u/{'t' * 200}?a=1,2&b=%C3%A9"
    headers = {
        "List-Unsubscribe": f"<{link}>, <mailto:leave@example.com>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }

    raw = composed(built(headers=headers))

    assert header_lines(raw, "List-Unsubscribe") == (
        f" <{link}>,\r\n <mailto:leave@example.com>".encode()
    )
    assert header_lines(raw, "List-Unsubscribe-Post") == b" List-Unsubscribe=One-Click"


def test_date_is_given_in_utc() -> None:
    zone = timezone(timedelta(hours=-7))
    raw = compose(
        built(),
        message_id=MESSAGE_ID,
        date=datetime(2026, 12, 31, 18, 30, tzinfo=zone),
        outbox_id=1,
        attempt="1.tag",
    )

    assert header_lines(raw, "Date") == b" Fri, 01 Jan 2027 01:30:00 +0000"


def test_date_without_zone_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="time zone"):
        compose(
            built(),
            message_id=MESSAGE_ID,
            date=datetime(2026, 1, 1),  # noqa: DTZ001 - the mistake itself
            outbox_id=1,
            attempt="1.tag",
        )


def test_non_ascii_local_part_is_the_only_raw_utf8() -> None:
    raw = composed(built(to=["Jörg <jörg@bücher.example>"], subject="ö", text="ö"))

    assert header_lines(raw, "To") == (
        b" =?utf-8?q?J=C3=B6rg?= <j\xc3\xb6rg@xn--bcher-kva.example>"
    )
    assert raw.replace("jörg@".encode(), b"").isascii()


def test_body_that_imitates_the_boundary_ends_no_part() -> None:
    first = composed(built(html="h"))
    boundary = re.search(rb'boundary="([^"]+)"', first)
    assert boundary is not None
    forged = f"--{boundary[1].decode()}--\n--{boundary[1].decode()}\n\nforged"

    message = parsed(composed(built(text=forged, html="h")))

    assert [part.get_content_type() for part in leaves(message)] == ["text/plain", "text/html"]
    assert lf(leaves(message)[0].get_content()) == forged


def test_body_that_imitates_smtp_stays_a_body() -> None:
    text = "one\r.\rtwo\n.\nMAIL FROM:<eve@example.com>\r\n.\r\nQUIT"

    raw = composed(built(text=text))

    assert raw.endswith(b"one\r\n.\r\ntwo\r\n.\r\nMAIL FROM:<eve@example.com>\r\n.\r\nQUIT\r\n")


@pytest.mark.parametrize(
    ("content_type", "lines"),
    [
        ("text/csv; charset=utf-8", b" text/csv; charset=utf-8"),
        (
            f"application/x-a; one={'1' * 60}; two={'2' * 60}",
            b" application/x-a;\r\n one=" + b"1" * 60 + b";\r\n two=" + b"2" * 60,
        ),
    ],
)
def test_attachment_type_keeps_its_parameters(content_type: str, lines: bytes) -> None:
    raw = composed(built(attachments=[("a", b"", content_type)]))
    part = raw[raw.rindex(b"Content-Type:") :]

    assert header_lines(part, "Content-Type") == lines
