"""The encodings by themselves, read back by the standard library's codecs."""

import re
from email import message_from_string, policy
from email.header import decode_header, make_header

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mailer.addresses import Mailbox
from mailer.mime import (
    address_list,
    disposition,
    encoded_words,
    structured,
    text_body,
    unstructured,
)

characters = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])
ENCODED_WORD = re.compile(r"=\?utf-8\?[qb]\?[!->@-~]+\?=")


def test_plain_subject_is_left_alone() -> None:
    assert unstructured("Subject", "Your receipt, no. 7") == "Subject: Your receipt, no. 7"


def test_latin_text_is_readable_and_other_text_short() -> None:
    assert encoded_words("Zoë was here") == ["=?utf-8?q?Zo=C3=AB_was_here?="]
    assert encoded_words("ようこそ") == ["=?utf-8?b?44KI44GG44GT44Gd?="]


@settings(max_examples=200, deadline=None)
@given(st.text(characters, min_size=1, max_size=200), st.integers(26, 75))
@example("😀" * 60, 26)
@example("é" + "a" * 200, 26)
def test_encoded_words_are_short_whole_and_read_back(text: str, room: int) -> None:
    words = encoded_words(text, room)

    assert "".join(str(make_header(decode_header(word))) for word in words) == text
    for word in words:
        assert len(word) <= room
        assert ENCODED_WORD.fullmatch(word)


def test_text_that_looks_encoded_is_encoded() -> None:
    line = unstructured("Subject", "what is =?utf-8?q?this")

    assert "=?utf-8?q?this" not in line
    assert str(make_header(decode_header(line.partition(": ")[2]))) == "what is =?utf-8?q?this"


@pytest.mark.parametrize("value", ["x" * 998, f"a {'x' * 950} b", f"a{' ' * 920}b"])
def test_token_that_fits_no_line_is_encoded(value: str) -> None:
    line = unstructured("X-Long", value)

    assert max(map(len, line.split("\r\n"))) <= 78
    assert message_from_string(line + "\r\n\r\n", policy=policy.default)["X-Long"] == value


def test_long_token_keeps_its_form() -> None:
    token = "y" * 400

    assert unstructured("X-Token", f"a {token} b") == f"X-Token: a\r\n {token}\r\n b"


def test_structured_header_folds_between_tokens_only() -> None:
    ids = [f"<{n}{'i' * 60}@example.com>" for n in range(3)]

    line = structured("References", " ".join(ids))

    assert line == f"References: {ids[0]}\r\n {ids[1]}\r\n {ids[2]}"


@pytest.mark.parametrize(
    ("mailbox", "line"),
    [
        (Mailbox("", "jane@example.com"), "To: jane@example.com"),
        (Mailbox("Jane Doe", "jane@example.com"), "To: Jane Doe <jane@example.com>"),
        (Mailbox("Dr. Doe", "jane@example.com"), 'To: "Dr. Doe" <jane@example.com>'),
        (Mailbox('J "D" \\', "j@example.com"), 'To: "J \\"D\\" \\\\" <j@example.com>'),
        (Mailbox('Zoë, "Z"', "z@example.com"), "To: =?utf-8?b?Wm/DqywgIloi?= <z@example.com>"),
        (Mailbox("Jörg", "jörg@example.com"), "To: =?utf-8?q?J=C3=B6rg?= <jörg@example.com>"),
    ],
)
def test_mailbox_takes_the_simplest_form_that_holds_it(mailbox: Mailbox, line: str) -> None:
    assert address_list("To", [mailbox]) == line


def test_address_list_folds_between_mailboxes() -> None:
    mailboxes = [Mailbox(f"Person {n}", f"person{n}@example.com") for n in range(4)]

    lines = address_list("Cc", mailboxes).split("\r\n")

    assert len(lines) == 2
    assert all(len(line) <= 78 for line in lines)
    assert lines[0].endswith("<person1@example.com>,")


def test_longest_names_stay_below_the_line_limit() -> None:
    longest = [Mailbox('"' * 320, f"{'l' * 242}@example.com"), Mailbox("語" * 320, "j@example.com")]

    assert max(map(len, address_list("To", longest).encode().split(b"\r\n"))) <= 998


def test_ascii_filename_needs_no_encoding() -> None:
    line = disposition("attachment", "report (1).pdf")

    assert line == 'Content-Disposition: attachment;\r\n filename="report (1).pdf"'


def test_other_filename_comes_with_an_ascii_stand_in() -> None:
    assert disposition("inline", "résumé.pdf") == (
        "Content-Disposition: inline;\r\n filename*=utf-8''r%C3%A9sum%C3%A9.pdf;\r\n"
        ' filename="resume.pdf"'
    )
    assert 'filename="attachment.pdf"' in disposition("attachment", "報告.pdf")
    assert 'filename="attachment"' in disposition("attachment", "報告")
    # Compatibility forms of "/", '"' and ";" must not become the real ones.
    assert 'filename="a_b_c_.txt"' in disposition("attachment", "a\uff0fb\uff02c\uff1b.txt")


@settings(max_examples=200, deadline=None)
@given(st.text(characters, min_size=1, max_size=200).map(str.strip).filter(bool))
@example("=?utf-8?q?x?=.txt")
@example("語" * 200)
def test_filename_is_read_back_whatever_its_length(name: str) -> None:
    name = name.replace('"', "'").replace("\\", "_")
    line = disposition("attachment", name)

    assert line.isascii()
    assert max(map(len, line.split("\r\n"))) <= 998
    part = message_from_string(f"{line}\r\n\r\n", policy=policy.default)
    assert part.get_filename() == name


@pytest.mark.parametrize(
    ("text", "encoding", "octets"),
    [
        ("plain\ntext", "7bit", b"plain\r\ntext"),
        ("one\rtwo\r\nthree\n", "7bit", b"one\r\ntwo\r\nthree\r\n"),
        ("x" * 998, "7bit", b"x" * 998),
        (".\n..\n.\nMAIL FROM:<a@b>", "7bit", b".\r\n..\r\n.\r\nMAIL FROM:<a@b>"),
        ("tab\tand space \n", "7bit", b"tab\tand space \r\n"),
        ("our new caf\u00e9 \n", "quoted-printable", b"our new caf=C3=A9=20\r\n"),
        ("near the \u00e9cole\n.\n", "quoted-printable", b"near the =C3=A9cole\r\n=2E\r\n"),
        ("a=b and \x0c c d", "quoted-printable", b"a=3Db and =0C c d"),
        ("--=_x", "quoted-printable", b"--=3D_x"),
        ("語", "base64", b"6Kqe"),
    ],
)
def test_body_takes_the_simplest_encoding_that_is_safe(
    text: str, encoding: str, octets: bytes
) -> None:
    assert text_body(text) == (encoding, octets)


def test_long_line_is_broken_by_the_encoding_alone() -> None:
    encoding, octets = text_body("x" * 999)

    assert encoding == "quoted-printable"
    assert octets.replace(b"=\r\n", b"") == b"x" * 999


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from(list("a=_- .\r\né語\x0b\t")), max_size=400))
def test_no_body_can_hold_a_delimiter(text: str) -> None:
    encoding, octets = text_body(text + "\n--=_mixed_" + text)

    assert encoding != "7bit"
    assert b"=_" not in octets
    assert max(map(len, octets.split(b"\r\n"))) <= 76
