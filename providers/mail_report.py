"""What a report in a mail says, whatever its form: values that its readers share. Pure."""

from dataclasses import dataclass, field

from mailer.facts import FactKind, Suppress


@dataclass(frozen=True, slots=True)
class Said:
    """What is said about one recipient; `address` is its canonical key, None where none is told.

    `rule` is the report's own word for it, `code` an enhanced status (RFC 3463).
    """

    kind: FactKind
    address: str | None = field(repr=False)
    rule: str
    code: str | None = None
    text: str = field(default="", repr=False)
    suppress: Suppress | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A report and its kind: the type of the part that it was found in, without `message/`."""

    kind: str
    said: tuple[Said, ...]
