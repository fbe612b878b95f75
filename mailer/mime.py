"""Encodings that carry any text and any octets over 7-bit SMTP: RFC 2045, 2047 and 2231.

Everything here returns text or octets that a composer only has to join: CRLF line ends, no line
over 998 octets, encoded words and parameters never splitting a character.
"""

import re
import unicodedata
from binascii import b2a_base64, b2a_qp
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from mailer.addresses import Mailbox, quoted

FOLD_AT = 76
"""RFC 2047 section 2 allows no more for a line with an encoded word, RFC 5322 2.1.1 two more."""
MAX_LINE = 998
_MAX_WORD = 75
_MIN_WORD = 26
"""An encoded word with room for one character of four octets in either encoding."""
_WORD_OVERHEAD = len("=?utf-8?q??=")
_LONGEST_TOKEN = 860
"""What fits a line beside the longest header name, 126."""

_WORD_SAFE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/"
"""RFC 2047 5 (3): what an encoded word may hold literally even inside a phrase."""
_Q_LITERAL = _WORD_SAFE + b" "
_Q = {octet: f"={octet:02X}" for octet in range(256)}
_Q.update({octet: chr(octet) for octet in _WORD_SAFE})
_Q[ord(" ")] = "_"

_SPACED_WORD = re.compile(r" *[^ ]+")
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+(?: [A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+)*")
_PLAIN_OCTETS = bytes(range(0x20, 0x7F)) + b"\t\r\n"
_BASE64_WINS_AT = 5
"""One octet in five escaped makes quoted-printable 7/5 of the text; base64 is 4/3 and line ends."""
_DELIMITER_START = b"--=_"
_NOT_IN_FALLBACK = re.compile(r"[^A-Za-z0-9 ._()+-]")
_PARAMETER_OCTETS = 50


def fold(name: str, tokens: Sequence[str]) -> str:
    """Join a header's tokens, each with its leading space, breaking lines only before a token."""
    line = f"{name}:{''.join(tokens)}"
    if len(line) <= FOLD_AT:
        return line
    lines = []
    line = f"{name}:{tokens[0]}"
    for token in tokens[1:]:
        if len(line) + len(token) > FOLD_AT:
            lines.append(line)
            line = token
        else:
            line += token
    lines.append(line)
    return "\r\n".join(lines)


def unstructured(name: str, value: str) -> str:
    """Return a header of free text (RFC 5322 2.2.1), encoded only where it has to be."""
    if value.isascii() and "=?" not in value:
        if len(name) + len(value) + 2 <= FOLD_AT:
            return f"{name}: {value}"
        tokens = _SPACED_WORD.findall(f" {value}")
        if max(map(len, tokens)) <= _LONGEST_TOKEN:
            return fold(name, tokens)
    return fold(name, [f" {word}" for word in encoded_words(value, _word_room(name))])


def structured(name: str, value: str) -> str:
    """Return a header whose tokens must reach the reader as they are."""
    return fold(name, _SPACED_WORD.findall(f" {value}"))


def address_list(name: str, mailboxes: Sequence[Mailbox]) -> str:
    """Return an address header (RFC 5322 3.4); a non-ASCII local part stays raw (RFC 6532)."""
    room = _word_room(name)
    tokens: list[str] = []
    for mailbox in mailboxes:
        parts = _mailbox(mailbox, room)
        whole = "".join(parts)
        tokens += [whole] if len(name) + len(whole) < FOLD_AT else parts
    tokens[-1] = tokens[-1][:-1]
    return fold(name, tokens)


def encoded_words(text: str, room: int = _MAX_WORD) -> list[str]:
    """Return `text` as encoded words (RFC 2047) of at most `room` characters each.

    Q where at most half of the octets need it: a person can read it, and filters distrust
    needless base64.
    """
    octets = text.encode()
    space = room - _WORD_OVERHEAD
    if 2 * len(octets.translate(None, _Q_LITERAL)) <= len(octets):
        return [f"=?utf-8?q?{payload}?=" for payload in _q_payloads(text, octets, space)]
    return [f"=?utf-8?b?{_base64(part)}?=" for part in _character_runs(octets, space // 4 * 3)]


def disposition(kind: str, filename: str) -> str:
    """Return a Content-Disposition header (RFC 2183) with the filename every reader can use.

    A name that is not plain ASCII goes into `filename*` (RFC 2231), with an ASCII stand-in for
    readers that do not know it. The standard library's parser takes whichever of the two comes
    first, so the true name does.
    """
    if filename.isascii() and "=?" not in filename:
        parameters = [f"filename={quoted(filename)}"]
    else:
        parameters = [*_extended_filename(filename), f'filename="{_ascii_stand_in(filename)}"']
    return f"Content-Disposition: {kind};\r\n " + ";\r\n ".join(parameters)


def text_body(text: str) -> tuple[str, bytes]:
    """Return (transfer encoding, octets) of a text with CRLF line ends.

    7bit where nothing speaks against it, else the shorter of quoted-printable and base64. What
    looks like a delimiter of ours is never sent as 7bit, and neither of the others can hold one
    (`=_` is no quoted-printable, `_` no base64), so that no boundary ever occurs in a body.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    octets = text.replace("\n", "\r\n").encode()
    foreign = len(octets.translate(None, _PLAIN_OCTETS))
    if not foreign and _fits_7bit(octets):
        return "7bit", octets
    if foreign * _BASE64_WINS_AT > len(octets):
        return "base64", base64_lines(octets)
    # Given CRLF, b2a_qp ends its own soft breaks with whatever the first line happens to end with.
    printable = b2a_qp(text.encode(), istext=True).replace(b"\n", b"\r\n")
    if len(printable) <= len(octets) * 4 // 3:
        return "quoted-printable", printable
    encoded = base64_lines(octets)
    if len(printable) <= len(encoded):
        return "quoted-printable", printable
    return "base64", encoded


def base64_lines(octets: bytes) -> bytes:
    """Return base64 in lines of 76 characters (RFC 2045 6.8), without a last CRLF."""
    encoded = b2a_base64(octets, newline=False)
    return b"\r\n".join([encoded[at : at + 76] for at in range(0, len(encoded), 76)])


def _word_room(name: str) -> int:
    return max(_MIN_WORD, min(_MAX_WORD, FOLD_AT - len(name) - 2))


def _mailbox(mailbox: Mailbox, room: int) -> list[str]:
    if not mailbox.name:
        return [f" {mailbox.address},"]
    return [*_phrase(mailbox.name, room), f" <{mailbox.address}>,"]


def _phrase(name: str, room: int) -> list[str]:
    if name.isascii() and "=?" not in name:
        return [f" {name}"] if _ATOMS.fullmatch(name) else [f" {quoted(name)}"]
    return [f" {word}" for word in encoded_words(name, room)]


def _q_payloads(text: str, octets: bytes, space: int) -> Iterable[str]:
    whole = "".join([_Q[octet] for octet in octets])
    if len(whole) <= space:
        return [whole]
    payloads = [""]
    for character in text:
        encoded = "".join([_Q[octet] for octet in character.encode()])
        if len(payloads[-1]) + len(encoded) > space:
            payloads.append("")
        payloads[-1] += encoded
    return payloads


def _character_runs(octets: bytes, size: int) -> Iterable[bytes]:
    start = 0
    while start < len(octets):
        end = start + size
        while end < len(octets) and octets[end] & 0xC0 == 0x80:  # noqa: PLR2004 - UTF-8's own bits
            end -= 1
        yield octets[start:end]
        start = end


def _base64(octets: bytes) -> str:
    return b2a_base64(octets, newline=False).decode()


def _extended_filename(filename: str) -> list[str]:
    characters = [quote(character, safe="") for character in filename]
    runs = [""]
    for character in characters:
        if len(runs[-1]) + len(character) > _PARAMETER_OCTETS:
            runs.append("")
        runs[-1] += character
    if len(runs) == 1:
        return [f"filename*=utf-8''{runs[0]}"]
    first, *rest = runs
    return [
        f"filename*0*=utf-8''{first}",
        *(f"filename*{number}*={run}" for number, run in enumerate(rest, 1)),
    ]


def _ascii_stand_in(filename: str) -> str:
    plain = unicodedata.normalize("NFKD", filename).encode("ascii", "ignore").decode()
    stem, dot, extension = _NOT_IN_FALLBACK.sub("_", plain).rpartition(".")
    return f"{stem.strip() or 'attachment'}{dot}{extension}" if dot else extension or "attachment"


def _fits_7bit(octets: bytes) -> bool:
    lines_fit = len(octets) <= MAX_LINE or max(map(len, octets.split(b"\r\n"))) <= MAX_LINE
    return lines_fit and _DELIMITER_START not in octets
