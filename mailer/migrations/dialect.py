"""The few words of a table definition that PostgreSQL and SQLite spell differently."""

import re

from mailer.database import SQLITE_NOW, is_postgresql

_POSTGRESQL = {
    "serial": "bigserial PRIMARY KEY",
    "moment": "timestamptz",
    "now": "now()",
    "json": "jsonb",
    "bytes": "bytea",
    "json_text": "'string'",
}
_SQLITE = {
    "serial": "integer PRIMARY KEY AUTOINCREMENT",
    "moment": "text",
    "now": f"({SQLITE_NOW})",
    "json": "text",
    "bytes": "blob",
    "json_text": "'text'",
}
_JSON_TYPE = re.compile(r"\{json_type:([^}]+)\}")


def define(template: str) -> str:
    """Spell a table definition for the bound database."""
    words = _POSTGRESQL if is_postgresql() else _SQLITE
    function = "jsonb_typeof" if is_postgresql() else "json_type"
    text = _JSON_TYPE.sub(rf"{function}(\1)", template)
    for name, word in words.items():
        text = text.replace("{" + name + "}", word)
    return text
