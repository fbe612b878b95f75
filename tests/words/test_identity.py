import math
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailer.errors import InvalidEmail
from mailer.identity import fingerprint, message_id

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
            inner,
        )
    ),
    max_leaves=8,
)


def identified(key: str, secret: str | bytes = "s3cret") -> str:
    return message_id(key, secret=secret, domain="mail.example.com")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=255))
def test_message_id_is_a_valid_stable_msg_id_that_hides_the_key(key: str) -> None:
    value = identified(key)

    assert re.fullmatch(r"<[a-z2-7]{32}@mail\.example\.com>", value)
    assert value == identified(key)


def test_message_id_is_pinned() -> None:
    """A new release must not give a row's next attempt another Message-ID."""
    assert identified("welcome:1:v1") == "<72e2ghjgdmrmvvlx7fsgsco2w3obe5aq@mail.example.com>"


def test_message_id_depends_on_key_and_secret() -> None:
    ids = {identified("a"), identified("b"), identified("a", "other"), identified("a ", "s3cret")}

    assert len(ids) == 4
    assert identified("a", b"s3cret") == identified("a", "s3cret")


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text("abc", max_size=3), json_values, max_size=4))
def test_fingerprint_ignores_the_order_of_keys(payload: dict[str, Any]) -> None:
    reordered = dict(reversed(payload.items()))

    assert fingerprint(payload) == fingerprint(reordered)
    assert re.fullmatch(r"[0-9a-f]{64}", fingerprint(payload))


def test_fingerprint_tells_payloads_apart() -> None:
    payloads: list[dict[str, Any]] = [
        {},
        {"to": ["a@example.com"]},
        {"to": ["b@example.com"]},
        {"to": ["a@example.com", "b@example.com"]},
        {"to": "a@example.com"},
        {"to": None},
        {"to": ""},
        {"n": 1},
        {"n": "1"},
        {"n": True},
        {"é": 1},
    ]

    assert len({fingerprint(each) for each in payloads}) == len(payloads)


def test_fingerprint_takes_a_tuple_as_a_list() -> None:
    assert fingerprint({"to": ("a", "b")}) == fingerprint({"to": ["a", "b"]})


circular: dict[str, Any] = {}
circular["self"] = circular


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        b"octets",
        {1, 2},
        object(),
        math.nan,
        math.inf,
        "\ud800",
        {(1, 2): "tuple as key"},
        {"a": 1, 2: "keys of two kinds"},
        circular,
    ],
    ids=lambda value: type(value).__name__,
)
def test_fingerprint_refuses_what_json_does_not_have(value: object) -> None:
    with pytest.raises(InvalidEmail) as caught:
        fingerprint({"context": {"value": value}})

    assert caught.value.field == "context"


def test_fingerprint_names_the_type_and_not_the_value() -> None:
    with pytest.raises(InvalidEmail, match="type bytes") as caught:
        fingerprint({"context": {"token": b"hunter2"}})

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("value", ["a\0b", ["\0"], {"k\0": 1}, "\\\0"])
def test_a_nul_is_refused_because_no_column_can_store_it(value: object) -> None:
    with pytest.raises(InvalidEmail, match="NUL"):
        fingerprint({"context": value})


@pytest.mark.parametrize("value", ["\\u0000", "\\\\u0000"])
def test_text_that_only_spells_a_nul_is_fine(value: str) -> None:
    assert fingerprint({"context": value})
