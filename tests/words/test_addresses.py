import re
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mailer.addresses import Mailbox, address_key
from mailer.errors import InvalidEmail

ACCEPTED = {
    "jane@example.com": ("", "jane@example.com"),
    " jane@example.com ": ("", "jane@example.com"),
    "<jane@example.com>": ("", "jane@example.com"),
    "Jane <jane@example.com>": ("Jane", "jane@example.com"),
    "Jane<jane@example.com>": ("Jane", "jane@example.com"),
    "Jane  Q.   Doe <jane@example.com>": ("Jane Q. Doe", "jane@example.com"),
    '"Doe, Jane" <jane@example.com>': ("Doe, Jane", "jane@example.com"),
    r'"Jane \"JD\" \\Doe" <jane@example.com>': (r'Jane "JD" \Doe', "jane@example.com"),
    '"jane@work.example" <jane@example.com>': ("jane@work.example", "jane@example.com"),
    "Zoë Ünal <zoe@example.com>": ("Zoë Ünal", "zoe@example.com"),
    "Jane.Doe+tag@Example.COM": ("", "Jane.Doe+tag@example.com"),
    "o'neil!#$%&*/=?^_`{|}~@example.com": ("", "o'neil!#$%&*/=?^_`{|}~@example.com"),
    "jane@bücher.example": ("", "jane@xn--bcher-kva.example"),
    "jane@BÜCHER.example": ("", "jane@xn--bcher-kva.example"),
    "jane@xn--bcher-kva.example": ("", "jane@xn--bcher-kva.example"),
    "jane@faß.de": ("", "jane@xn--fa-hia.de"),
    "jörg@example.com": ("", "jörg@example.com"),
    "用户@例え.jp": ("", "用户@xn--r8jz45g.jp"),
    "jane@localhost": ("", "jane@localhost"),
    "jane@shop.test": ("", "jane@shop.test"),
    "jane@printer.local": ("", "jane@printer.local"),
    "jane@nowhere.invalid": ("", "jane@nowhere.invalid"),
    f"{'n' * 320} <jane@example.com>": ("n" * 320, "jane@example.com"),
}

REFUSED = {
    "nothing": "",
    "spaces": "   ",
    "no at": "jane",
    "closing bracket alone": "jane@example.com>",
    "two ats": "jane@doe@example.com",
    "no local part": "@example.com",
    "no domain": "jane@",
    "empty brackets": "Jane <>",
    "two mailboxes": "jane@example.com, joe@example.com",
    "two mailboxes, the second named": "jane@example.com, Joe <joe@example.com>",
    "two named mailboxes": "Jane <jane@example.com>, Joe <joe@example.com>",
    "two in one name": "Jane <jane@example.com> <joe@example.com>",
    "semicolon list": "jane@example.com; joe@example.com",
    "unquoted comma in the name": "Doe, Jane <jane@example.com>",
    "group": "Team: jane@example.com, joe@example.com;",
    "empty group": "undisclosed-recipients:;",
    "source route": "<@relay.example,@other.example:jane@example.com>",
    "stray bracket": "jane@exa<mple.com",
    "comment after": "jane@example.com (Jane)",
    "comment in the name": "Jane (work) <jane@example.com>",
    "comment inside": "jane(x)@example.com",
    "quoted local part": '"jane doe"@example.com',
    "open quote in the name": '"Jane <jane@example.com>',
    "text after the quoted name": '"Jane" Doe <jane@example.com>',
    "space inside": "jane doe@example.com",
    "no-break space inside": "jane\u00a0doe@example.com",
    "leading dot": ".jane@example.com",
    "trailing dot": "jane.@example.com",
    "double dot": "jane..doe@example.com",
    "domain literal": "jane@[127.0.0.1]",
    "bare IP": "jane@127.0.0.1",
    "dotless": "jane@mailhost",
    "underscore in the domain": "jane@my_host.example.com",
    "hyphen at the edge": "jane@-example.com",
    "trailing dot in the domain": "jane@example.com.",
    "label of 64": f"jane@{'d' * 64}.com",
    "broken punycode": "jane@xn--a.example.com",
    "name of 321": f"{'n' * 321} <jane@example.com>",
    "address of 255": f"{'l' * 243}@example.com",
    "octets, not characters": f"{'ü' * 122}@example.com",
    "very long": f"{'n' * 100_000} <jane@example.com>",
    "line end": "jane@example.com\n",
    "SMTP injection": "jane@example.com>\r\nRCPT TO:<mallory@example.com",
    "header injection in the name": "Jane\r\nBcc: mallory@example.com <jane@example.com>",
    "escaped line end": '"Jane\\\nDoe" <jane@example.com>',
    "NUL": "jane\x00@example.com",
    "tab": "Jane\t<jane@example.com>",
    "DEL": "jane\x7f@example.com",
    "C1": "jane\x85@example.com",
    "line separator": "Jane\u2028 <jane@example.com>",
    "paragraph separator": "Jane\u2029 <jane@example.com>",
    "lone surrogate": "Jane\ud800 <jane@example.com>",
    "encoded word": "=?utf-8?q?Jane=0ABcc:_mallory?= <jane@example.com>",
    "encoded word in quotes": '"=?utf-8?b?SmFuZQ==?=" <jane@example.com>',
    "encoded word as address": "=?utf-8?q?jane=40example.com=3E?=@example.com",
}


@pytest.mark.parametrize(("text", "expected"), ACCEPTED.items())
def test_parse_accepts(text: str, expected: tuple[str, str]) -> None:
    mailbox = Mailbox.parse(text, field="to")

    assert (mailbox.name, mailbox.address) == expected


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_parse_refuses_and_says_where_without_saying_what(text: str) -> None:
    with pytest.raises(InvalidEmail) as caught:
        Mailbox.parse(text, field="cc[3]")

    assert caught.value.field == "cc[3]"
    assert not re.search(r"jane|example\.com|joe|mallory", str(caught.value), re.IGNORECASE)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("value", [None, 7, b"jane@example.com", ["jane@example.com"]])
def test_parse_refuses_what_is_not_text(value: object) -> None:
    with pytest.raises(InvalidEmail, match="must be text"):
        Mailbox.parse(value, field="to")  # type: ignore[arg-type]


names = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=60).filter(
    lambda text: "=?" not in text
)
locals_ = st.from_regex(r"[a-zA-Z0-9+_-]{1,20}(\.[a-zé]{1,9})?", fullmatch=True)


@settings(max_examples=200, deadline=None)
@given(names, locals_)
@example('Doe, "J" \\ <x@y>', "jane")
@example('"', "jane")
@example("\\", "jane")
def test_text_form_is_read_back_by_both_readers(name: str, local: str) -> None:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    mailbox = Mailbox.parse(f'"{quoted}" <{local}@example.com>', field="to")

    assert Mailbox.stored(str(mailbox)) == mailbox
    assert Mailbox.parse(str(mailbox), field="to") == mailbox
    assert mailbox.name == re.sub(" +", " ", name).strip()


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=40), st.text('ab@.,;:<>()[]"\\ -é\n', max_size=20)))
@example("a@\u06dd.com")
@example("a@1.\u05d0.com")
@example("a@\uff0etest")
def test_parse_either_refuses_or_returns_a_sendable_mailbox(text: str) -> None:
    try:
        mailbox = Mailbox.parse(text, field="to")
    except InvalidEmail:
        return
    local, _, domain = mailbox.address.partition("@")
    assert local
    assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)*", domain)
    assert not re.search(r'[\s<>()\[\]:;,\\"@]', local)
    assert address_key(mailbox.key) == mailbox.key


@pytest.mark.parametrize(
    ("spelt", "key"),
    [
        ("Jane.Doe@Example.COM", "jane.doe@example.com"),
        ("  jane@example.com \n", "jane@example.com"),
        (" <Ivy.Case@Example.ORG>", "ivy.case@example.org"),
        ("Jane <JANE@example.com>", "jane@example.com"),
        ("jane+news@example.com", "jane+news@example.com"),
        ("jane@BÜCHER.example", "jane@xn--bcher-kva.example"),
        ("jane@XN--BCHER-KVA.example", "jane@xn--bcher-kva.example"),
        ("JÖRG@example.com", "jörg@example.com"),
        ("JO\u0308RG@example.com", "jörg@example.com"),
    ],
)
def test_key_is_one_for_all_spellings(spelt: str, key: str) -> None:
    assert address_key(spelt) == key


@pytest.mark.parametrize(
    "text", ["", "jane", "@", "a@", "@b", "a@b@c", "a@x, b@x", "a\x00@b", "a@\u2028.example"]
)
def test_key_of_no_single_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidEmail) as caught:
        address_key(text)

    assert caught.value.field == "address"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=20), st.sampled_from(["example.com", "Bücher.example", "\uff25X.example"]))
def test_key_of_a_key_is_the_key(local: str, domain: str) -> None:
    try:
        key = address_key(f"{local}@{domain}")
    except InvalidEmail:
        return
    assert address_key(key) == key


def test_representation_shows_no_address() -> None:
    mailbox = Mailbox.parse("Jane <jane@example.com>", field="to")

    assert "jane" not in repr(mailbox).lower()


def test_import_loads_no_validator_and_no_template_engine() -> None:
    code = (
        "import sys, mailer.email, mailer.templates, mailer.compose, mailer.identity\n"
        "print({'email_validator', 'dns', 'idna', 'jinja2'} & set(sys.modules))"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert result.stdout == "set()\n"
