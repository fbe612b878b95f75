"""What is a reply, and what only looks like one."""

import pytest

from providers.smtp_wire import MalformedReply, parse_reply


@pytest.mark.parametrize(
    ("octets", "code", "text"),
    [
        (b"250 ok\r\n", 250, "ok"),
        (b"250\r\n", 250, ""),
        (b"250 ok\n", 250, "ok"),
        (b"250-a\r\n250-\r\n250 b\r\n", 250, "a\n\nb"),
        (b"999 odd\r\n", 999, "odd"),
        (b"250 \xff\x00\r\n", 250, "\ufffd\x00"),
    ],
)
def test_replies(octets: bytes, code: int, text: str) -> None:
    assert parse_reply(octets) == (code, text)


@pytest.mark.parametrize(
    "octets",
    [
        *(b"", b"\r\n", b"ok\r\n", b"25\r\n", b"250ok\r\n", b"2500 ok\r\n", b"+25 ok\r\n"),
        *(b"2_5 ok\r\n", b" 250 ok\r\n", b"250 ok", b"250-ok\r\n", b"250-a\r\n251 b\r\n"),
        *(b"550-a\r\n250 b\r\n", b"250 a\r\n250 b\r\n", b"250-a\r\nb\r\n", "٢٥٠ ok\r\n".encode()),
    ],
)
def test_what_is_no_reply(octets: bytes) -> None:
    with pytest.raises(MalformedReply):
        parse_reply(octets)
