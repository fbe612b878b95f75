"""Return paths: what an attempt's bounces are recognised by, and what nobody can make up."""

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailer.identity import message_id
from mailer.returnpath import MAX_BASE_LOCAL_CHARS, MAX_LOCAL_OCTETS, ReturnPath

TAG = "0f" * 16
PATH = ReturnPath("bounces@mail.example.com", "0123456789abcdef")

lower_tags = st.text(string.ascii_lowercase + string.digits + "_-", min_size=1, max_size=40)
any_tags = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=64)
texts = st.one_of(
    st.text(max_size=80), st.text("b+.@<>" + string.ascii_letters + "27", max_size=80)
)


def test_the_marks_are_pinned() -> None:
    """A new release must still know the bounces of what an older one has sent."""
    assert PATH.marks(TAG) == (
        f"bounces+{TAG}.95fd6f4ebe63@mail.example.com",
        f"{TAG}.95fd6f4ebe63",
    )


@settings(max_examples=100, deadline=None)
@given(lower_tags)
def test_an_address_brings_its_tag_back(tag: str) -> None:
    address = PATH.address(tag)

    assert re.fullmatch(r"bounces\+[a-z0-9_-]+\.[0-9a-f]{12}@mail\.example\.com", address)
    assert PATH.tag_of(address) == tag
    for changed in (address.upper(), f"<{address}>", f" {address} ", address.title()):
        assert PATH.tag_of(changed) == tag


@settings(max_examples=100, deadline=None)
@given(any_tags)
def test_an_envelope_id_brings_its_tag_back(tag: str) -> None:
    written = PATH.envelope_id(tag)

    assert re.fullmatch(r"[!-*,-<>-~]{1,100}", written), "RFC 3461 4: xtext as it stands"
    assert PATH.tag_of_envelope_id(written) == tag
    assert PATH.tag_of_envelope_id(f" {written}\r\n") == tag


def test_both_marks_are_those_that_are_written_one_by_one() -> None:
    assert PATH.marks(TAG) == (PATH.address(TAG), PATH.envelope_id(TAG))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(PATH.envelope_id(TAG)) - 1), st.sampled_from("abcdef0234567-_"))
def test_no_changed_character_goes_unnoticed(position: int, letter: str) -> None:
    genuine = PATH.envelope_id(TAG)
    forged = genuine[:position] + letter + genuine[position + 1 :]

    expected = TAG if forged == genuine else None
    assert PATH.tag_of_envelope_id(forged) == expected
    assert PATH.tag_of(f"bounces+{forged}@mail.example.com") == expected


@settings(max_examples=300, deadline=None)
@given(texts)
def test_what_nobody_signed_is_nobodys(text: str) -> None:
    assert PATH.tag_of(text) is None
    assert PATH.tag_of_envelope_id(text) is None


@pytest.mark.parametrize(
    "address",
    [
        "",
        "bounces@mail.example.com",
        f"bounces+{TAG}@mail.example.com",
        f"bounces+{TAG}.@mail.example.com",
        f"{PATH.address(TAG)}@elsewhere.example",
        f"<>{PATH.address(TAG)}",
        PATH.address(TAG).replace("o", "\u043e"),
        PATH.address(TAG).replace("@", ""),
        "x" * 100_000 + PATH.address(TAG),
    ],
)
def test_what_is_no_such_address_has_no_tag(address: str) -> None:
    assert PATH.tag_of(address) is None


def test_another_secret_and_another_purpose_prove_nothing() -> None:
    assert ReturnPath("bounces@mail.example.com", "other").tag_of(PATH.address(TAG)) is None
    foreign = message_id(TAG, secret="0123456789abcdef", domain="mail.example.com")
    assert PATH.tag_of(f"bounces+{TAG}.{foreign[1:13]}@mail.example.com") is None


def test_bounces_come_home_after_the_base_was_changed() -> None:
    moved = ReturnPath("returns@post.example.com", b"0123456789abcdef")
    assert moved.tag_of(PATH.address(TAG)) == TAG


def test_the_longest_base_has_room_for_the_tag_of_an_attempt() -> None:
    longest = "b" * MAX_BASE_LOCAL_CHARS
    local = ReturnPath(f"{longest}@example.com", "s").address(TAG).partition("@")[0]
    assert len(local) == MAX_LOCAL_OCTETS
    with pytest.raises(ValueError, match="shorter base"):
        ReturnPath(f"{longest}b@example.com", "s").address(TAG)


@pytest.mark.parametrize("tag", ["Kq3vZ1n8", "A"])
def test_a_tag_that_would_lose_its_capitals_is_refused_in_an_address(tag: str) -> None:
    with pytest.raises(ValueError, match="capital"):
        PATH.address(tag)
    assert PATH.tag_of_envelope_id(PATH.envelope_id(tag)) == tag


@pytest.mark.parametrize("tag", ["", "a" * 65, "a b", "a+b", "a.b", "a\r\n", "\u00e9"])
def test_what_is_no_tag_is_refused(tag: str) -> None:
    for write in (PATH.address, PATH.envelope_id, PATH.marks):
        with pytest.raises(ValueError, match="tag"):
            write(tag)


@pytest.mark.parametrize(
    "base",
    ["", "bounces", "@example.com", "bounces@", "a@b@example.com", "\u00fc@example.com"],
)
def test_a_base_is_one_address(base: str) -> None:
    with pytest.raises(ValueError, match="one ASCII address"):
        ReturnPath(base, "s")


def test_neither_key_nor_address_shows() -> None:
    assert repr(PATH) == "<ReturnPath>"
