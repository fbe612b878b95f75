import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailer.addresses import Mailbox
from mailer.attachments import Attachment
from mailer.email import MAX_BYTES, MAX_RECIPIENTS, Email, size_bound
from mailer.errors import InvalidEmail

PNG = b"\x89PNG\r\n\x1a\n"


def built(**overrides: Any) -> Email:
    arguments: dict[str, Any] = {
        "sender": "Shop <shop@example.com>",
        "to": ["jane@example.org"],
        "subject": "Hello",
        "text": "Hi",
    }
    return Email.build(**(arguments | overrides))


def refused(**overrides: Any) -> InvalidEmail:
    with pytest.raises(InvalidEmail) as caught:
        built(**overrides)
    return caught.value


def test_everything_given_is_there() -> None:
    email = built(
        to=["Jane <jane@example.org>"],
        cc="joe@example.org",
        bcc=("ann@example.org",),
        reply_to="help@example.com",
        html="<p>Hi</p>",
        headers={"X-Campaign": "spring"},
        attachments=[("a.png", PNG)],
    )

    assert email.sender == Mailbox("Shop", "shop@example.com")
    assert email.to == (Mailbox("Jane", "jane@example.org"),)
    assert email.cc == (Mailbox("", "joe@example.org"),)
    assert email.bcc == (Mailbox("", "ann@example.org"),)
    assert email.reply_to == (Mailbox("", "help@example.com"),)
    assert (email.subject, email.text, email.html) == ("Hello", "Hi", "<p>Hi</p>")
    assert email.headers == (("X-Campaign", "spring"),)
    assert email.attachments == (Attachment("a.png", "image/png", PNG),)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "sender broken": ({"sender": "shop"}, "sender"),
    "sender list": ({"sender": ["shop@example.com"]}, "sender"),
    "second of to": ({"to": ["a@example.com", "b"]}, "to[1]"),
    "first of cc": ({"cc": ["x"]}, "cc[0]"),
    "bcc alone": ({"bcc": "x"}, "bcc"),
    "reply_to": ({"reply_to": ["a@example.com", "x y@example.com"]}, "reply_to[1]"),
    "several in one text": ({"to": "a@example.com, b@example.com"}, "to"),
    "to is None": ({"to": None}, "to"),
    "to is a set": ({"to": {"a@example.com"}}, "to"),
    "to holds None": ({"to": [None]}, "to[0]"),
    "no recipient": ({"to": []}, "to"),
    "injection in to": ({"to": ["a@example.com>\r\nRCPT TO:<b@example.com"]}, "to[0]"),
    "subject with a header": ({"subject": "Hi\nBcc: x@example.com"}, "subject"),
    "subject with final LF": ({"subject": "hi\n"}, "subject"),
    "subject encoded": ({"subject": "A =?UTF-8?Q?=0A?=Bcc: x"}, "subject"),
    "subject with NUL": ({"subject": "a\x00b"}, "subject"),
    "subject with CR": ({"subject": "a\rb"}, "subject"),
    "subject with tab": ({"subject": "a\tb"}, "subject"),
    "subject with DEL": ({"subject": "a\x7fb"}, "subject"),
    "subject with NEL": ({"subject": "a\x85b"}, "subject"),
    "subject with U+2028": ({"subject": "a\u2028b"}, "subject"),
    "subject with U+2029": ({"subject": "a\u2029b"}, "subject"),
    "subject with a surrogate": ({"subject": "a\ud83d"}, "subject"),
    "subject of 999": ({"subject": "s" * 999}, "subject"),
    "subject not text": ({"subject": None}, "subject"),
    "no body": ({"text": None}, "text"),
    "empty bodies": ({"text": "", "html": ""}, "text"),
    "text not text": ({"text": b"Hi"}, "text"),
    "text with NUL": ({"text": "a\x00"}, "text"),
    "text with a surrogate": ({"text": "\udfff"}, "text"),
    "html with NUL": ({"html": "\x00"}, "html"),
    "html with a surrogate": ({"html": "<p>\ud800"}, "html"),
    "header": ({"headers": {"X-A": "\n"}}, "headers['X-A']"),
    "attachments a mapping": ({"attachments": {"a": b"x"}}, "attachments"),
}


@pytest.mark.parametrize(("overrides", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_with_the_field_named(overrides: dict[str, Any], field: str) -> None:
    assert refused(**overrides).field == field


@pytest.mark.parametrize("overrides", [one for one, _ in REFUSED.values()], ids=REFUSED.keys())
def test_errors_hold_no_address_and_no_content(overrides: dict[str, Any]) -> None:
    assert "example.com" not in str(refused(**overrides))


def test_one_text_is_one_mailbox() -> None:
    assert built(to="Jane <jane@example.org>").to == (Mailbox("Jane", "jane@example.org"),)


@pytest.mark.parametrize("role", ["to", "cc", "bcc"])
def test_one_recipient_in_any_role_is_enough(role: str) -> None:
    email = built(**({"to": [], "cc": [], "bcc": []} | {role: ["jane@example.org"]}))

    assert email.envelope() == ((role, Mailbox("", "jane@example.org")),)


def test_envelope_has_each_address_once_under_its_first_role() -> None:
    email = built(
        to=["Jane <jane@example.org>", "joe@example.org", "JOE@example.org"],
        cc=["Joe <Joe@Example.org>", "ann@bücher.example"],
        bcc=["jane@EXAMPLE.org", "Ann@xn--bcher-kva.example", "zoe@example.org"],
    )

    assert email.envelope() == (
        ("to", Mailbox("Jane", "jane@example.org")),
        ("to", Mailbox("", "joe@example.org")),
        ("cc", Mailbox("", "ann@xn--bcher-kva.example")),
        ("bcc", Mailbox("", "zoe@example.org")),
    )


def test_recipient_limit_counts_distinct_addresses_of_all_roles() -> None:
    fifty = [f"user{number}@example.com" for number in range(MAX_RECIPIENTS)]

    assert len(built(to=fifty, cc=fifty).envelope()) == MAX_RECIPIENTS
    assert refused(to=fifty, bcc="one.more@example.com").field == "to"


def test_size_limit_names_what_is_large() -> None:
    assert refused(text="x" * MAX_BYTES).field == "text"
    assert refused(attachments=[("a.bin", bytes(MAX_BYTES * 3 // 4))]).field == "attachments"
    assert refused(text="x" * 10_000, max_bytes=10_000).field == "text"


def test_size_limit_is_the_bound_itself() -> None:
    bound = size_bound(built())

    assert built(max_bytes=bound)
    assert refused(max_bytes=bound - 1)


def test_empty_body_beside_a_full_one_counts_as_missing() -> None:
    assert built(text="", html="<p>Hi</p>").text is None
    assert built(html="").html is None


def test_any_other_character_may_stand_in_a_body() -> None:
    body = "".join(map(chr, range(1, 0x300))) + "\u2028\u2029\ufffe😀"

    assert built(text=body, html=body).text == body


texts = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=30).filter(
    lambda text: "=?" not in text
)


@settings(max_examples=100, deadline=None)
@given(texts, texts.filter(bool), st.binary(max_size=50), texts)
def test_stored_form_is_json_and_reads_back(
    name: str, body: str, content: bytes, subject: str
) -> None:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    email = built(
        to=[f'"{quoted}" <jane@example.org>', "joe@bücher.example"],
        reply_to="Help <help@example.com>",
        subject=subject,
        html=body,
        headers=[("X-A", "1"), ("X-A", "é")],
        attachments=[(name, content), Attachment("a.png", "image/png", content, "logo")],
    )

    stored = json.loads(json.dumps(email.columns()))

    assert Email.from_columns(stored) == email
    assert Email.build(**stored) == email


def test_representations_show_no_address_and_no_content() -> None:
    email = built(text="secret text", attachments=[("secret.txt", b"secret octets")])

    shown = repr(email) + repr(email.attachments) + repr(email.to)

    assert "secret" not in shown
    assert "example" not in shown
