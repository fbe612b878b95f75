"""Versioned templates: a folder `welcome-v1/` with subject.txt, body.txt and body.html."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mailer.email import checked_subject
from mailer.errors import InvalidEmail

if TYPE_CHECKING:
    from jinja2 import Template

    from mailer.sandbox import Sandbox

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*-(v[0-9]+)")
_SUBJECT = "subject.txt"
_TEXT = "body.txt"
_HTML = "body.html"


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a template came to, ready for `Email.build`; `version` is the name's end ("v1")."""

    subject: str = field(repr=False)
    text: str | None = field(repr=False)
    html: str | None = field(repr=False)
    version: str


@dataclass(frozen=True, slots=True)
class _Compiled:
    version: str
    subject: "Template"
    text: "Template | None"
    html: "Template | None"


class Templates:
    """The templates of one folder, each compiled once.

    A version is never edited once mail was sent from it; a changed file is seen after a restart.
    Includes reach a template's own folder and `_layouts/`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compiled: dict[str, _Compiled] = {}

    def names(self) -> list[str]:
        """Return the names of all templates, sorted."""
        if not self._folder.is_dir():
            return []
        return sorted(
            each.name
            for each in self._folder.iterdir()
            if _NAME.fullmatch(each.name) and (each / _SUBJECT).is_file()
        )

    def render(self, name: str, context: Mapping[str, Any]) -> Rendered:
        """Render subject and bodies.

        Raises InvalidEmail for "template" (unknown, broken, or doing what the sandbox forbids),
        "context" (a variable is missing) or "subject" (not one line). The text holds no value of
        the context.
        """
        compiled = self._compiled.get(name) or self._compile(name)
        rendered = self._sandbox.rendered
        subject = rendered(compiled.subject, context).removesuffix("\n")
        return Rendered(
            subject=checked_subject(subject),
            text=rendered(compiled.text, context) if compiled.text else None,
            html=rendered(compiled.html, context) if compiled.html else None,
            version=compiled.version,
        )

    @cached_property
    def _sandbox(self) -> "Sandbox":
        from mailer.sandbox import Sandbox

        return Sandbox(self._folder)

    def _compile(self, name: str) -> _Compiled:
        version = _version(name)
        folder = self._folder / name
        if not (folder / _SUBJECT).is_file():
            raise InvalidEmail(
                "template", f"there is no {name}/{_SUBJECT} in the folder of MAILER_TEMPLATES"
            )
        text, html = self._optional(name, _TEXT), self._optional(name, _HTML)
        if text is None and html is None:
            raise InvalidEmail("template", f"{name} has neither {_TEXT} nor {_HTML}")
        subject = self._sandbox.compiled(f"{name}/{_SUBJECT}")
        compiled = self._compiled[name] = _Compiled(version, subject, text, html)
        return compiled

    def _optional(self, name: str, file: str) -> "Template | None":
        if not (self._folder / name / file).is_file():
            return None
        return self._sandbox.compiled(f"{name}/{file}")


def _version(name: object) -> str:
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise InvalidEmail(
            "template",
            'a name is lower-case letters, digits, "-" and "_", and ends in its version, '
            'like "welcome-v1"',
        )
    return match[1]
