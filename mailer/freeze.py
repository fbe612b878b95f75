"""From what an application asked for to the message that will be sent, fixed once and for all.

Used at enqueue and, for a row that came by one plain INSERT, at its first claim: the same rules, so
the same message.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mailer.email import Email
from mailer.errors import InvalidEmail, SettingsError
from mailer.identity import fingerprint, message_id
from mailer.templates import Rendered, Templates

if TYPE_CHECKING:
    from mailer.settings_fields import Settings

MAX_KEY_CHARS = 255


@dataclass(frozen=True, slots=True)
class Frozen:
    """A message whose content and identity no longer depend on anything outside its row."""

    columns: Mapping[str, Any]
    recipients: tuple[Mapping[str, str], ...]
    message_id: str
    fingerprint: str
    template_version: str | None


class Freezer:
    """Validates, renders and identifies messages by one configuration."""

    def __init__(
        self,
        *,
        secret: str,
        domain: str,
        sender: str | None,
        templates: Path | None,
        max_bytes: int,
    ) -> None:
        self._secret = secret.encode()
        self._domain = domain
        self._sender = sender
        self._templates = None if templates is None else Templates(templates)
        self._max_bytes = max_bytes

    @classmethod
    def from_settings(cls, settings: "Settings") -> "Freezer":
        """Build from settings; raises SettingsError where the identity cannot be formed."""
        if settings.secret is None or settings.message_id_domain is None:
            raise SettingsError(
                "MAILER_SECRET and MAILER_FROM (or MAILER_MESSAGE_ID_DOMAIN): set them, "
                "Message-IDs are formed from them"
            )
        return cls(
            secret=settings.secret.get_secret_value(),
            domain=settings.message_id_domain,
            sender=settings.sender,
            templates=settings.templates,
            max_bytes=settings.max_message_bytes,
        )

    def freeze(
        self,
        *,
        dedup_key: str,
        given: Mapping[str, Any],
        template: str | None,
        context: Mapping[str, Any] | None,
    ) -> Frozen:
        """Turn what was given into a frozen message.

        `given` holds the message's fields by column name. The fingerprint is over the request:
        with a template its name and context count and not what they render to, so that asking
        again after an edit of the template still means the same message. Raises InvalidEmail.
        """
        _check_key(dedup_key)
        rendered = self._render(template, context, given)
        content = _content(given, rendered)
        email = Email.build(
            **{
                **_envelope(given),
                **content,
                "sender": given.get("sender") or self._default_sender(),
                "max_bytes": self._max_bytes,
            }
        )
        columns = email.columns()
        return Frozen(
            columns=columns,
            recipients=tuple(
                {"address": mailbox.address, "address_key": mailbox.key, "role": role}
                for role, mailbox in email.envelope()
            ),
            message_id=message_id(dedup_key, secret=self._secret, domain=self._domain),
            fingerprint=fingerprint(_request(columns, template, context)),
            template_version=rendered.version if rendered else None,
        )

    def _render(
        self, template: str | None, context: Mapping[str, Any] | None, given: Mapping[str, Any]
    ) -> Rendered | None:
        if template is None:
            return None
        for name in ("subject", "text", "html"):
            if given.get(name) is not None:
                raise InvalidEmail(name, "comes from the template; give one or the other")
        if self._templates is None:
            raise InvalidEmail("template", "set MAILER_TEMPLATES to the folder of templates")
        return self._templates.render(template, context or {})

    def _default_sender(self) -> str:
        if self._sender is None:
            raise InvalidEmail("sender", "is missing; give one or set MAILER_FROM")
        return self._sender


def _check_key(dedup_key: object) -> None:
    if not isinstance(dedup_key, str) or not 1 <= len(dedup_key) <= MAX_KEY_CHARS:
        raise InvalidEmail("dedup_key", f"must be a text of 1 to {MAX_KEY_CHARS} characters")
    if not dedup_key.isprintable():
        raise InvalidEmail("dedup_key", "must not hold control characters")


def _content(given: Mapping[str, Any], rendered: Rendered | None) -> dict[str, Any]:
    if rendered is not None:
        return {"subject": rendered.subject, "text": rendered.text, "html": rendered.html}
    if given.get("subject") is None:
        raise InvalidEmail("subject", "is missing; give subject and text or html, or a template")
    return {name: given.get(name) for name in ("subject", "text", "html")}


def _envelope(given: Mapping[str, Any]) -> dict[str, Any]:
    names = ("to", "cc", "bcc", "reply_to", "headers", "attachments")
    return {name: given[name] for name in names if given.get(name) is not None}


def _request(
    columns: Mapping[str, Any], template: str | None, context: Mapping[str, Any] | None
) -> dict[str, Any]:
    if template is None:
        return dict(columns)
    rendered = ("subject", "text", "html")
    asked = {name: value for name, value in columns.items() if name not in rendered}
    return {**asked, "template": template, "context": dict(context or {})}
