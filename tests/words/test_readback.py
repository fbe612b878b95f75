"""Whatever is composed is safe on the wire, and the standard parser reads back what was put in."""

import re
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import getaddresses

from hypothesis import given, settings
from hypothesis import strategies as st

from mailer.addresses import Mailbox
from mailer.attachments import Attachment
from mailer.email import Email, size_bound
from tests.words.composing import DATE, MESSAGE_ID, composed, leaves, lf, parsed

header_characters = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])
header_text = (
    st.text(header_characters, max_size=120)
    .map(lambda text: text.strip(" "))
    .filter(lambda text: "=?" not in text)
)
display_names = header_text.map(lambda text: re.sub(" +", " ", text.strip()))
ascii_words = st.text("abcxyz.,;:-'()@", min_size=1, max_size=30)
long_ascii = st.lists(ascii_words, min_size=1, max_size=30).map(" ".join)
long_tokens = st.builds(
    lambda start, size, end: f"{start}{'t' * size}{end}",
    ascii_words,
    st.integers(800, 900),
    header_text.filter(lambda text: len(text) < 60),
)
domains = st.sampled_from(["example.com", "xn--bcher-kva.example", "localhost"])
ascii_locals = st.from_regex(r"[a-z0-9+_-]{1,20}(\.[a-z]{1,9})?", fullmatch=True)
mailboxes = st.builds(
    lambda name, local, domain: Mailbox(name, f"{local}@{domain}"),
    display_names,
    ascii_locals,
    domains,
)
body_characters = st.one_of(
    st.sampled_from(list("\r\n\t .=-_?é語😀\x0b\x0c\x1b\x85\u2028")),
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"),
)
bodies = st.one_of(
    st.text(body_characters, min_size=1, max_size=300),
    st.lists(st.sampled_from(["x" * 997, "y" * 1200, ".", "--=_", "From me", "end ", "é"])).map(
        "\n".join
    ),
).filter(bool)
content_ids = st.from_regex(r"[a-z]{1,8}@x", fullmatch=True)
attachments = st.builds(
    lambda name, content, cid: Attachment.build(
        {"filename": name, "content": content, "content_id": cid}, field="attachments[0]"
    ),
    st.text(max_size=210),
    st.binary(max_size=300),
    st.none() | content_ids,
)
lines = st.one_of(header_text, long_ascii, long_tokens)
header_names = st.sampled_from(["X-Campaign", "Comments", "X-" + "n" * 124])


def has_unique_ids(attachments: list[Attachment]) -> bool:
    ids = [each.content_id for each in attachments if each.content_id]
    return len(ids) == len(set(ids))


@st.composite
def emails(draw: st.DrawFn) -> Email:
    text = draw(st.none() | bodies)
    html = draw(bodies if text is None else st.none() | bodies)
    return Email.build(
        sender=str(draw(mailboxes)),
        to=draw(st.lists(mailboxes.map(str), max_size=4)),
        cc=draw(st.lists(mailboxes.map(str), max_size=2)),
        bcc=["Hidden <hidden@bcc.example>"],
        reply_to=draw(st.lists(mailboxes.map(str), max_size=2)),
        subject=draw(lines),
        text=text,
        html=html,
        headers=[(draw(header_names), draw(lines.filter(bool)))],
        attachments=draw(st.lists(attachments, max_size=3).filter(has_unique_ids)),
    )


@settings(max_examples=120, deadline=None)
@given(emails())
def test_octets_are_safe_on_the_wire(email: Email) -> None:
    raw = composed(email)

    assert raw.isascii()
    assert raw.endswith(b"\r\n")
    bare = raw.replace(b"\r\n", b"")
    assert b"\r" not in bare
    assert b"\n" not in bare
    lines = raw.split(b"\r\n")
    assert max(map(len, lines)) <= 998
    head = raw.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert all(line.strip() for line in head), "a blank folded line would end the header"
    assert not re.search(rb"(?im)^(resent-)?bcc", raw.partition(b"\r\n\r\n")[0])
    assert b"hidden@bcc.example" not in raw
    assert len(raw) <= size_bound(email)
    assert composed(email) == raw


@settings(max_examples=120, deadline=None)
@given(emails())
def test_standard_parser_reads_back_every_header(email: Email) -> None:
    raw = composed(email)
    message = parsed(raw)

    assert message["Subject"] == email.subject
    assert message[email.headers[0][0]] == email.headers[0][1]
    assert message["Message-ID"] == MESSAGE_ID
    assert message["Date"].datetime == DATE
    assert message["MIME-Version"] == "1.0"
    assert (message["X-Outbox-Id"], message["X-Outbox-Attempt"]) == ("7", "2.tag")
    for name, mailboxes in (
        ("From", (email.sender,)),
        ("To", email.to),
        ("Cc", email.cc),
        ("Reply-To", email.reply_to),
    ):
        assert_addresses(raw, name, mailboxes)
    assert all(not part.defects for part in message.walk())


def assert_addresses(raw: bytes, name: str, mailboxes: tuple[Mailbox, ...]) -> None:
    message = parsed(raw)
    if not mailboxes:
        assert name == "To" or message[name] is None
        return
    read = message[name].addresses
    assert [each.addr_spec for each in read] == [each.address for each in mailboxes]
    # In a phrase the new parser keeps the space between two encoded words, against RFC 2047 6.2,
    # and folds no-break spaces; the old one is right.
    phrases = getaddresses([message_from_bytes(raw)[name]])
    names = [str(make_header(decode_header(phrase))) for phrase, _ in phrases]
    assert names == [each.name for each in mailboxes]


@settings(max_examples=120, deadline=None)
@given(emails())
def test_standard_parser_reads_back_every_part(email: Email) -> None:
    message = parsed(composed(email))
    parts = leaves(message)

    for body, kind in ((email.text, "plain"), (email.html, "html")):
        if body is not None:
            assert_body(parts.pop(0), body, kind)
    inline = [a for a in email.attachments if a.content_id and email.html is not None]
    others = [a for a in email.attachments if a not in inline]
    for attachment, part in zip([*inline, *others], parts, strict=True):
        assert part.get_filename() == attachment.filename
        assert part.get_payload(decode=True) == attachment.content
        assert part.get_content_type() == attachment.content_type
        assert part.get_content_disposition() == (
            "inline" if attachment in inline else "attachment"
        )
        assert part["Content-ID"] == (attachment.content_id and f"<{attachment.content_id}>")


def ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def assert_body(part: EmailMessage, body: str, kind: str) -> None:
    assert part.get_content_type() == f"text/{kind}"
    content = lf(part.get_content())
    if part["MIME-Version"] is None:
        assert content == lf(body)
    else:
        # The last line of a whole message is always ended: SMTP's final dot stands on its own.
        assert content in (lf(body), ended(lf(body)))
