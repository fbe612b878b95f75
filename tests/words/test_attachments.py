from typing import Any

import pytest

from mailer.attachments import Attachment
from mailer.email import Email
from mailer.errors import InvalidEmail

PNG = b"\x89PNG\r\n\x1a\n"

REFUSED: dict[str, tuple[list[Any], str]] = {
    "attachment of one": ([("a.txt",)], "attachments[0]"),
    "attachment text": (["a.txt"], "attachments[0]"),
    "attachment key": ([{"name": "a", "content": b""}], "attachments[0]"),
    "filename not text": ([(None, b"")], "attachments[0].filename"),
    "content missing": ([{"filename": "a"}], "attachments[0].content"),
    "content not octets": ([("a", 1)], "attachments[0].content"),
    "content not base64": (
        [("ok", b""), {"filename": "a", "content": "a$b="}],
        "attachments[1].content",
    ),
    "content not ASCII": (
        [{"filename": "a", "content": "é"}],
        "attachments[0].content",
    ),
    "type of one word": ([("a", b"", "png")], "attachments[0].content_type"),
    "type with line end": (
        [("a", b"", "image/png\r\nX-A: b")],
        "attachments[0].content_type",
    ),
    "type with final LF": (
        [("a", b"", "image/png\n")],
        "attachments[0].content_type",
    ),
    "type not ASCII": ([("a", b"", "image/é")], "attachments[0].content_type"),
    "type multipart": (
        [("a", b"", "Multipart/mixed")],
        "attachments[0].content_type",
    ),
    "type message": (
        [("a", b"", "message/rfc822")],
        "attachments[0].content_type",
    ),
    "content id with space": (
        [Attachment("a", "image/png", b"", "a b")],
        "attachments[0].content_id",
    ),
    "content id with line end": (
        [Attachment("a", "image/png", b"", "a\r\nX: y")],
        "attachments[0].content_id",
    ),
    "content id empty": (
        [Attachment("a", "image/png", b"", "")],
        "attachments[0].content_id",
    ),
    "content id twice": (
        [Attachment("a", "image/png", b"", "x")] * 2,
        "attachments",
    ),
}


def built(attachments: list[Any]) -> tuple[Attachment, ...]:
    return Email.build(
        sender="shop@example.com",
        to="jane@example.org",
        subject="Hello",
        text="Hi",
        attachments=attachments,
    ).attachments


def attached(given: Any) -> Attachment:
    [attachment] = built([given])
    return attachment


@pytest.mark.parametrize(("attachments", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_with_the_field_named(attachments: list[Any], field: str) -> None:
    with pytest.raises(InvalidEmail) as caught:
        built(attachments)

    assert caught.value.field == field


@pytest.mark.parametrize(
    "given",
    [
        ("a.txt", b"hello"),
        ("a.txt", b"hello", "text/plain"),
        ["a.txt", b"hello", "text/plain"],
        ("a.txt", bytearray(b"hello")),
        Attachment("a.txt", "text/plain", b"hello"),
        {"filename": "a.txt", "content": b"hello"},
        {"filename": "a.txt", "content": "aGVsbG8=", "content_type": "text/plain"},
        Attachment("a.txt", "text/plain", b"hello").column(),
    ],
)
def test_attachment_forms(given: Any) -> None:
    assert attached(given) == Attachment("a.txt", "text/plain", b"hello")


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ("report.pdf", "report.pdf"),
        ("Résumé 語.pdf", "Résumé 語.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\jane\\cv.pdf", "cv.pdf"),
        ("a\r\nBcc: x.pdf", "aBcc: x.pdf"),
        ("nul\x00l.pdf", "null.pdf"),
        ("evil\u202egpj.exe", "evilgpj.exe"),
        ("\u2066hidden\u2069.pdf", "hidden.pdf"),
        ("bad\ud800.pdf", "bad.pdf"),
        ('a"b".pdf', "a'b'.pdf"),
        (" .hidden. ", "hidden"),
        ("", "attachment.pdf"),
        ("...", "attachment.pdf"),
        ("folder/", "attachment.pdf"),
        ("\u00a0\u202e", "attachment.pdf"),
        ("n" * 300 + ".pdf", "n" * 196 + ".pdf"),
        ("n" * 300, "n" * 200),
        ("n." + "x" * 300, "n." + "x" * 198),
    ],
)
def test_filename_is_made_safe(given: str, clean: str) -> None:
    assert attached((given, b"", "application/pdf")).filename == clean


@pytest.mark.parametrize(
    ("filename", "content_type"),
    [
        ("a.png", "image/png"),
        ("A.PDF", "application/pdf"),
        ("a.tar.gz", "application/gzip"),
        ("a.txt.bz2", "application/octet-stream"),
        ("a.eml", "application/octet-stream"),
        ("a", "application/octet-stream"),
        ("data:text/html,x", "application/octet-stream"),
    ],
)
def test_content_type_is_guessed_from_the_name(filename: str, content_type: str) -> None:
    assert attached((filename, b"")).content_type == content_type


def test_content_type_may_have_parameters() -> None:
    given = 'text/calendar; method=REQUEST; charset="utf-8"'

    assert attached(("a.ics", b"", given)).content_type == given


def test_unnamed_attachment_without_known_type_is_still_named() -> None:
    assert attached(("", b"", "application/x-unheard-of")).filename == "attachment"


def test_content_id_loses_its_brackets() -> None:
    assert attached(Attachment("a.png", "image/png", PNG, "<logo@x>")).content_id == "logo@x"
