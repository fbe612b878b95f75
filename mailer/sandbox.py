"""The Jinja side of templates; imported when the first template is rendered."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import (
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
    UndefinedError,
)
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from mailer.errors import InvalidEmail

MAX_RENDERED_CHARS = 2_000_000
LAYOUTS = "_layouts/"

_QUOTED_WORD = re.compile(r"'(\w+)'")
_WORD = re.compile(r"\w+")


class Sandbox(ImmutableSandboxedEnvironment):
    """Compiles a folder's templates once and renders them without reach into Python."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            loader=FileSystemLoader(folder),
            undefined=StrictUndefined,
            autoescape=_is_html,
            auto_reload=False,
            cache_size=-1,
        )
        self._folder = folder

    def join_path(self, template: str, parent: str) -> str:
        """Resolve an include or extends: in the parent's own folder, or under `_layouts/`."""
        if _is_html(parent) and not _is_html(template):
            # Its variables would reach the HTML unescaped.
            raise TemplateError("an .html template may use other .html templates only")
        if template.startswith(LAYOUTS):
            return template
        return f"{parent.rpartition('/')[0]}/{template}"

    def compiled(self, path: str) -> Template:
        """Return a template; raises InvalidEmail if it cannot be read or has an error."""
        try:
            return self.get_template(path)
        except TemplateSyntaxError as error:
            raise InvalidEmail(
                "template", f"{error.name}, line {error.lineno}: {error.message}"
            ) from None
        except (TemplateNotFound, UnicodeDecodeError, OSError):
            raise InvalidEmail("template", f"{path} cannot be read as UTF-8 text") from None

    def rendered(self, template: Template, context: Mapping[str, Any]) -> str:
        """Return what the template makes of the context.

        Raises InvalidEmail for everything that can go wrong; the text names variables, and never
        holds one of their values.
        """
        pieces = []
        room = MAX_RENDERED_CHARS
        try:
            for piece in template.generate(context):
                room -= len(piece)
                if room < 0:
                    break
                pieces.append(piece)
        except UndefinedError as error:
            raise InvalidEmail("context", self._missing(template, error)) from None
        except Exception as error:  # noqa: BLE001 - a template runs filters and methods of any value
            raise InvalidEmail("template", _failure(template, error)) from None
        if room < 0:
            raise InvalidEmail(
                "template", f"{template.name} renders more than {MAX_RENDERED_CHARS} characters"
            )
        return "".join(pieces)

    def _missing(self, template: Template, error: UndefinedError) -> str:
        # With `prices[email]` Jinja's message quotes a value of the context; a name that stands in
        # the template's own text gives nothing away.
        known = self._words_near(template)
        names = [name for name in _QUOTED_WORD.findall(str(error)) if name in known]
        name = f"variable '{names[-1]}'" if names else "a value looked up by another"
        return f"{template.name} needs {name}, which is missing"

    def _words_near(self, template: Template) -> set[str]:
        own = (self._folder / str(template.name)).parent
        files = [*own.glob("*.*"), *(self._folder / LAYOUTS).glob("*.*")]
        return {word for file in files for word in _WORD.findall(file.read_text("utf-8", "ignore"))}


def _is_html(name: str | None) -> bool:
    return name is not None and name.endswith(".html")


def _failure(template: Template, error: Exception) -> str:
    match error:
        case TemplateSyntaxError():
            return f"{error.name}, line {error.lineno}: {error.message}"
        case SecurityError():
            return f"{template.name} does what the sandbox forbids"
        case TemplateNotFound():
            return f"{template.name} uses a template outside its folder and {LAYOUTS}, or not there"
        case _:
            return f"{template.name} cannot be rendered with this context ({type(error).__name__})"
