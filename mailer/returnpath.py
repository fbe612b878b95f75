"""Where the bounces of one attempt come back to, and the proof that they are about it. Pure."""

import hashlib
import hmac
import re
from typing import NamedTuple

MAX_LOCAL_OCTETS = 64
"""RFC 5321 4.5.3.1.1."""
TAG_CHARS = 32
"""How long the tags are that attempts get."""

_MAC_OCTETS = 6
"""48 bits: whoever guesses needs a mail for each guess."""
_MAC_CHARS = 2 * _MAC_OCTETS
MAX_BASE_LOCAL_CHARS = MAX_LOCAL_OCTETS - len("+.") - TAG_CHARS - _MAC_CHARS
"""How long the local part of a base address may be, if the tag of an attempt has to fit."""

_PURPOSE = b"mailer return-path\x00"
"""The same secret makes Message-IDs; neither may ever be usable as the other."""

_TAG = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LOWER_TAG = re.compile(r"[a-z0-9_-]{1,64}")
_ADDRESS = re.compile(
    rf"[^@<>\s]*\+([a-z0-9_-]{{1,64}})\.([0-9a-f]{{{_MAC_CHARS}}})@[^@<>\s]+", re.IGNORECASE
)
_ENVELOPE_ID = re.compile(rf"([A-Za-z0-9_-]{{1,64}})\.([0-9a-f]{{{_MAC_CHARS}}})", re.IGNORECASE)
_MAX_READ_CHARS = 320


class Marks(NamedTuple):
    """What an SMTP envelope carries to be recognised by: the sender, and ENVID (RFC 3461 4.4)."""

    address: str
    envelope_id: str


class ReturnPath:
    """Writes and reads envelope senders of the form `bounces+<tag>.<mac>@mail.example.com`.

    The MAC is keyed by `secret`, for this purpose alone. It proves that whoever wrote the address
    had seen a message of this attempt or a report about it, and nothing about anybody else's.
    """

    def __init__(self, base: str, secret: str | bytes) -> None:
        """Take the address that `+<tag>.<mac>` is put into.

        Raises ValueError unless it has a local part and a domain, both ASCII.
        """
        local, _, domain = base.rpartition("@")
        if not (local and domain and base.isascii()) or "@" in local:
            raise ValueError("the base of a return path must be one ASCII address")
        self._local = local
        self._domain = domain
        self._key = secret.encode() if isinstance(secret, str) else secret

    def __repr__(self) -> str:
        """Show neither key nor address."""
        return "<ReturnPath>"

    def marks(self, request_tag: str) -> Marks:
        """Return both marks of an attempt for the price of one MAC.

        Raises ValueError like `address`.
        """
        envelope_id = self.envelope_id(request_tag)
        return Marks(self._address(request_tag, envelope_id), envelope_id)

    def address(self, request_tag: str) -> str:
        """Return the envelope sender of an attempt.

        Raises ValueError for a tag that an address cannot carry: one with capital letters, which
        some servers do not keep, or one that makes the local part longer than 64 octets.
        """
        return self._address(request_tag, self.envelope_id(request_tag))

    def envelope_id(self, request_tag: str) -> str:
        """Return the ENVID of an attempt: at most 77 characters, which are their own xtext.

        Raises ValueError for what is no tag: 1 to 64 letters, digits, `_` and `-`.
        """
        if not _TAG.fullmatch(request_tag):
            raise ValueError("a request tag is 1 to 64 ASCII letters, digits, _ and -")
        return f"{request_tag}.{self._mac(request_tag)}"

    def tag_of(self, address: str) -> str | None:
        """Return the tag that an envelope sender carries; None unless its MAC is right.

        The base is not compared, so that bounces still come home after it was changed.
        """
        bare = address.strip().removeprefix("<").removesuffix(">")
        return self._proven(_ADDRESS, bare.lower())

    def tag_of_envelope_id(self, text: str) -> str | None:
        """Return the tag that an ENVID carries; None unless its MAC is right."""
        return self._proven(_ENVELOPE_ID, text.strip())

    def _address(self, request_tag: str, extension: str) -> str:
        if not _LOWER_TAG.fullmatch(request_tag):
            raise ValueError("a tag with capital letters would not survive as part of an address")
        local = f"{self._local}+{extension}"
        if len(local) > MAX_LOCAL_OCTETS:
            raise ValueError(
                f"the local part would have {len(local)} octets, and {MAX_LOCAL_OCTETS} is the "
                "most; choose a shorter base address"
            )
        return f"{local}@{self._domain}"

    def _proven(self, form: re.Pattern[str], text: str) -> str | None:
        found = form.fullmatch(text) if len(text) <= _MAX_READ_CHARS and text.isascii() else None
        if found is None:
            return None
        tag, mac = found[1], found[2].lower()
        return tag if hmac.compare_digest(mac, self._mac(tag)) else None

    def _mac(self, tag: str) -> str:
        digest = hmac.digest(self._key, _PURPOSE + tag.encode(), hashlib.sha256)
        return digest[:_MAC_OCTETS].hex()
