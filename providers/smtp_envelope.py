"""Preflight: whether this message can go over this wire, and the octets of its envelope."""

import re
from dataclasses import dataclass

from mailer.provider import Addressee, Call
from providers.smtp_progress import Progress, Unfit
from providers.smtp_result import settle
from providers.smtp_rules import Kind, Observation, Stage
from providers.smtp_session import Offers

_PLAIN = re.compile(r"[!-;=?-~]+@[A-Za-z0-9.:\[\]_-]+")
_DOT_LINE = re.compile(rb"\n\.")
"""Half the time of `b"\\n." in content` on CPython 3.11, and most content has no such line."""
_NOT_XTEXT = re.compile(r"[^!-*,-<>-~]", re.ASCII)
_UNUSABLE = re.compile("[\x00-\x20<>\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Envelope:
    """The commands of one transaction: MAIL, and RCPT for each recipient that can be named."""

    mail: bytes
    rcpts: tuple[tuple[Addressee, bytes], ...]


def prepare(call: Call, offers: Offers, progress: Progress) -> Envelope:
    """Write the envelope, settling each recipient whose address cannot be used here.

    Raises `Unfit` when the message itself cannot: its size (RFC 1870), eight-bit octets
    (RFC 6152), line ends, or its sender.
    """
    is_ascii = _check_content(call.content, offers)
    sender, wide = _reverse_path(call, offers)
    rcpts = []
    for each in call.recipients:
        try:
            path, needs_utf8 = _mailbox(each.address, offers)
        except Unfit as unfit:
            seen = Observation(Stage.PREFLIGHT, unfit.kind, text=str(unfit))
            settle(progress, each, seen)
        else:
            rcpts.append((each, b"RCPT TO:<" + path + b">"))
            wide = wide or needs_utf8
    mail = b"MAIL FROM:<" + sender + b">"
    if offers.size:
        mail += b" SIZE=%d" % len(call.content)
    if offers.eight_bit and (wide or not is_ascii):
        mail += b" BODY=8BITMIME"
    if wide:
        mail += b" SMTPUTF8"
    if offers.dsn and call.envelope_id:
        mail += b" RET=HDRS ENVID=" + _xtext(call.envelope_id)
    return Envelope(mail, tuple(rcpts))


def stuffed(content: bytes) -> bytes:
    """Return the octets to send between 354 and the final dot (RFC 5321 4.5.2)."""
    if _DOT_LINE.search(content):
        content = content.replace(b"\n.", b"\n..")
    if content.startswith(b"."):
        content = b"." + content
    return content if content.endswith(b"\r\n") else content + b"\r\n"


def _check_content(content: bytes, offers: Offers) -> bool:
    if 0 < offers.size_limit < len(content):
        raise Unfit(Kind.MESSAGE, "larger than the SIZE that the relay states")
    if not _has_canonical_line_ends(content):
        raise Unfit(Kind.MESSAGE, "a line does not end with CRLF")
    is_ascii = content.isascii()
    if not (is_ascii or offers.eight_bit):
        raise Unfit(Kind.MESSAGE, "eight-bit content, and the relay has no 8BITMIME")
    return is_ascii


def _has_canonical_line_ends(content: bytes) -> bool:
    """A lone CR or LF ends a line for some servers and not for others: that smuggles mail.

    `splitlines` sees every CRLF, CR and LF; the count agrees with both only where all are CRLF.
    """
    ends = len(content.splitlines()) - (content[-1:] not in b"\r\n")
    return ends == content.count(b"\n") == content.count(b"\r")


def _reverse_path(call: Call, offers: Offers) -> tuple[bytes, bool]:
    """Return the octets for MAIL, and whether what the sender is called needs SMTPUTF8.

    The sender also stands in the content, so that it counts where bounces go elsewhere, too.
    """
    sender, wide = _sender(call.sender, offers)
    if call.return_path is None:
        return sender, wide
    path, path_wide = _sender(call.return_path, offers)
    return path, wide or path_wide


def _xtext(text: str) -> bytes:
    """RFC 3461 4: what could end the parameter is written in hexadecimal."""
    return _NOT_XTEXT.sub(lambda found: f"+{ord(found[0]):02X}", text).encode("ascii", "replace")


def _sender(address: str, offers: Offers) -> tuple[bytes, bool]:
    if not address:
        return b"", False
    try:
        return _mailbox(address, offers)
    except Unfit as unfit:
        raise Unfit(Kind.MESSAGE, f"sender: {unfit}") from None


def _mailbox(address: str, offers: Offers) -> tuple[bytes, bool]:
    """Return the octets of an address, and whether they need SMTPUTF8 (RFC 6531)."""
    if _PLAIN.fullmatch(address):
        return address.encode("ascii"), False
    local, _, domain = address.rpartition("@")
    if _UNUSABLE.search(address) or not local or not domain:
        raise Unfit(Kind.ADDRESS, "not an address that can stand on the wire")
    if not (local.isascii() or offers.utf8):
        raise Unfit(Kind.ADDRESS, "a non-ASCII local part, and the relay has no SMTPUTF8")
    return local.encode("utf-8") + b"@" + _a_labels(domain), not local.isascii()


def _a_labels(domain: str) -> bytes:
    """Return the domain in A-labels; refuse one that the codec would turn into another name."""
    try:
        encoded = domain.encode("idna")
        is_same = encoded.decode("idna") == domain.lower()
    except UnicodeError:
        is_same = False
    if not is_same:
        raise Unfit(Kind.ADDRESS, "a domain without an unambiguous form in A-labels")
    return encoded
