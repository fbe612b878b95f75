"""The application's face; everything here is offered by `import mailer`."""

import atexit
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mailer import database, hints
from mailer.attachments import Attachment
from mailer.freeze import Freezer
from mailer.intake import Enqueued, Intake

if TYPE_CHECKING:
    from mailer.settings_fields import Settings

_intake: Intake | None = None


def connect(url: str, settings: "Settings | None" = None) -> database.Database:
    """Open the database at `url` and bind the outbox to it.

    PostgreSQL (`postgres://`, `postgresql://`) or SQLite (`sqlite:///file`, in WAL mode with
    immediate transactions). Settings come from the environment unless given.
    """
    return bind(database.connect(url), settings)


def bind(existing: database.Database, settings: "Settings | None" = None) -> database.Database:
    """Make the outbox live in an application's own Peewee database, and return it.

    The tables must be there (`mailer migrate`). Raises MailerError for a database that is neither
    PostgreSQL nor SQLite.
    """
    global _intake  # noqa: PLW0603 - the one place that a library with a module-level face has
    _intake = None if settings is None else _intake_from(settings)
    return database.bind(existing)


def enqueue(
    *,
    dedup_key: str,
    to: str | Sequence[str] = (),
    cc: str | Sequence[str] = (),
    bcc: str | Sequence[str] = (),
    sender: str | None = None,
    reply_to: str | Sequence[str] = (),
    subject: str | None = None,
    text: str | None = None,
    html: str | None = None,
    headers: Mapping[str, str] | Sequence[Sequence[str]] = (),
    attachments: Sequence[Attachment | Mapping[str, Any] | tuple[Any, ...]] = (),
    template: str | None = None,
    context: Mapping[str, Any] | None = None,
    stream: str = "default",
    priority: int = 5,
    send_at: datetime | None = None,
    expires_at: datetime | None = None,
    on_ambiguous: str = "hold",
) -> Enqueued:
    """Commit the intent to send one message together with the transaction that is open.

    `dedup_key` names the business event (at most 255 characters): the same key with the same
    message returns the row that is there, with `created` False. Give subject and text or html, or
    a `template` with its `context`; a template is rendered now and frozen. `priority` runs from 0
    (first) to 9 (last). `send_at` and `expires_at` are aware datetimes: nothing is sent before the
    one or after the other. `on_ambiguous` says what to do when the answer to a send is lost:
    `hold`, `resend` or `assume_sent`.

    Raises InvalidEmail naming the argument that could not be sent, DedupConflict when the key
    stands for another message, NotBound and SettingsError where set-up is missing. None of them
    writes anything or aborts the transaction.
    """
    database.bound()
    return _the_intake().enqueue(
        dedup_key=dedup_key,
        given={
            "to": to,
            "cc": cc,
            "bcc": bcc,
            "sender": sender,
            "reply_to": reply_to,
            "subject": subject,
            "text": text,
            "html": html,
            "headers": headers,
            "attachments": attachments,
        },
        template=template,
        context=context,
        stream=stream,
        priority=priority,
        send_at=send_at,
        expires_at=expires_at,
        on_ambiguous=on_ambiguous,
    )


def cancel(dedup_key: str) -> bool:
    """Withdraw a message whose sending has not begun, within the transaction that is open.

    True when it will not be sent; False when there is no such message, or its sending has begun or
    ended. Recipients still due are withdrawn even when others have been accepted before; that too
    answers False, because the message did go out. So does a message whose earlier attempt is in
    doubt: it may have gone out, and is not sent again. Raises NotBound and SettingsError where
    set-up is missing.
    """
    database.bound()
    return _the_intake().cancel(dedup_key)


def _the_intake() -> Intake:
    global _intake  # noqa: PLW0603
    if _intake is None:
        # Settings are read at the first use and not at the import, which stays light.
        from mailer.settings import load

        _intake = _intake_from(load(role="application"))
    return _intake


def _intake_from(settings: "Settings") -> Intake:
    return Intake(Freezer.from_settings(settings), _nudge_for(settings))


def _nudge_for(settings: "Settings") -> hints.Nudge:
    if settings.redis_url is None:
        return hints.silent
    hinter = hints.Hinter(settings.redis_url.get_secret_value())
    atexit.register(hinter.last_word)
    return hinter.nudge
