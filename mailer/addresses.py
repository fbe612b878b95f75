"""Mailboxes: an address, the name shown for it, and the key under which it is one and the same."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from mailer.errors import InvalidEmail
from mailer.lines import one_line

MAX_NAME_CHARS = 320
"""Keeps name and address on foldable lines below RFC 5322 2.1.1's 998 octets."""
MAX_ADDRESS_OCTETS = 254
"""RFC 5321 4.5.3.1.3: a path of 256 octets, less its angle brackets."""
_MAX_MAILBOX_CHARS = 1000

_DOT_ATOM = re.compile(r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+(?:\.[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+)*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_NAME_SPECIALS = re.compile(r'[()<>\[\]:;@\\,"]')
"""RFC 5322 3.2.3 specials, less the dot, which everybody writes unquoted (obs-phrase)."""
_SPACES = re.compile(" +")
_NOT_IN_ADDRESS = re.compile(r'[\s()<>\[\]:;\\,"]')
_SPECIAL_USE = frozenset({"test", "localhost", "local", "invalid"})
_PUBLIC_PARENT = ".example"


@dataclass(frozen=True, slots=True, repr=False)
class Mailbox:
    """One mailbox (RFC 5322 3.4): `name` is plain Unicode and may be empty.

    The domain of `address` is in A-label form (RFC 5890); its local part is kept as written and
    may hold non-ASCII characters (RFC 6531), which the provider judges.
    """

    name: str
    address: str

    @classmethod
    def parse(cls, text: str, *, field: str) -> "Mailbox":
        """Read `a@b`, `Name <a@b>` or `"Doe, Jane" <a@b>`: exactly one mailbox.

        Raises InvalidEmail, naming `field`, for groups, source routes, comments, several
        mailboxes, names over 320 characters, addresses over 254 octets and whatever
        `mailer.lines.one_line` refuses.
        """
        line = one_line(text, field)
        if len(line) > _MAX_MAILBOX_CHARS:
            raise InvalidEmail(field, f"is longer than {_MAX_MAILBOX_CHARS} characters")
        if not line.endswith(">"):
            return cls("", _checked_address(line, field))
        phrase, bracket, address = line[:-1].rpartition("<")
        if not bracket:
            raise InvalidEmail(field, 'a closing ">" needs its "<" before the address')
        return cls(_checked_name(phrase.strip(), field), _checked_address(address, field))

    @classmethod
    def stored(cls, text: str) -> "Mailbox":
        """Read back what `str(mailbox)` wrote, without checking it again."""
        if not text.endswith(">"):
            return cls("", text)
        name, _, address = text[:-1].rpartition(" <")
        return cls(_unquoted(name), address)

    def __str__(self) -> str:
        if not self.name:
            return self.address
        if _NAME_SPECIALS.search(self.name):
            return f"{quoted(self.name)} <{self.address}>"
        return f"{self.name} <{self.address}>"

    def __repr__(self) -> str:
        """Show no address: representations end up in logs and tracebacks."""
        return "<Mailbox>"

    @property
    def key(self) -> str:
        """The canonical key: equal for every spelling of the same mailbox."""
        return address_key(self.address)


def address_key(address: str) -> str:
    """Return the canonical key of an address, as the user or a provider spelt it.

    Outer spaces, a display name and angle brackets are dropped, everything is lower-cased, and the
    domain becomes an A-label; `+` parts are kept, because only the receiver knows whether they
    matter. Raises InvalidEmail unless it is one line with exactly one "@" and a domain that can
    be encoded.
    """
    bare = one_line(address.strip(), "address")
    if bare.endswith(">"):
        bare = bare[:-1].rpartition("<")[2].strip()
    local, _, domain = bare.partition("@")
    if not local or not domain or "@" in domain:
        raise InvalidEmail("address", 'must hold exactly one "@", with something on either side')
    if bare.isascii():
        return bare.lower()
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", local).lower())
    return f"{folded}@{domain.lower() if domain.isascii() else _a_labels(domain, 'address')}"


def quoted(text: str) -> str:
    """Return `text` as a quoted-string (RFC 5322 3.2.4)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(phrase: str) -> str:
    match = _QUOTED.fullmatch(phrase)
    return _ESCAPED.sub(r"\1", match[1]) if match else phrase


def _checked_name(phrase: str, field: str) -> str:
    is_quoted = _QUOTED.fullmatch(phrase) is not None
    if not is_quoted and _NAME_SPECIALS.search(phrase):
        raise InvalidEmail(
            field,
            'the name holds one of ()<>[]:;@\\," ; put it in double quotes, and pass several '
            "mailboxes as a list",
        )
    name = _SPACES.sub(" ", _unquoted(phrase)).strip()
    if len(name) > MAX_NAME_CHARS:
        raise InvalidEmail(field, f"the name is longer than {MAX_NAME_CHARS} characters")
    return name


def _checked_address(address: str, field: str) -> str:
    if "," in address or ";" in address:
        raise InvalidEmail(
            field, "must be one mailbox; pass several as a list, and groups member by member"
        )
    if address.count("@") != 1:
        raise InvalidEmail(field, 'the address must hold exactly one "@"')
    if _NOT_IN_ADDRESS.search(address):
        raise InvalidEmail(
            field,
            "the address holds a space, a comment, a quote, a bracket or a route (RFC 5321 4.1.2)",
        )
    local, _, domain = address.partition("@")
    checked = f"{_checked_local(local, field)}@{_a_labels(domain, field)}"
    if len(checked.encode()) > MAX_ADDRESS_OCTETS:
        raise InvalidEmail(field, f"the address is longer than {MAX_ADDRESS_OCTETS} octets")
    return checked


def _checked_local(local: str, field: str) -> str:
    if _DOT_ATOM.fullmatch(local):
        return local
    from email_validator import validate_email

    try:
        return validate_email(f"{local}@example.com", check_deliverability=False).local_part
    except ValueError:
        # The library's own text quotes the address.
        raise InvalidEmail(
            field, 'the part before "@" is not a dot-atom (RFC 5321 4.1.2, RFC 6531 3.3)'
        ) from None


def _a_labels(domain: str, field: str) -> str:
    encoded = _encoded_domain(domain)
    if encoded is None:
        raise InvalidEmail(
            field, 'the part after "@" is not a domain name (RFC 5321 4.1.2, RFC 5890)'
        )
    return encoded


@lru_cache(maxsize=4096)
def _encoded_domain(domain: str) -> str | None:
    from email_validator import validate_email

    # Staging uses special-use names (RFC 6761), which the library refuses unless they are
    # ordinary labels below another name.
    is_special_use = domain.rpartition(".")[2].lower() in _SPECIAL_USE
    parent = _PUBLIC_PARENT if is_special_use else ""
    try:
        valid = validate_email(f"x@{domain}{parent}", check_deliverability=False)
    except ValueError:
        return None
    return valid.ascii_domain.removesuffix(parent)
