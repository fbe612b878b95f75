"""A transactional-email outbox: committed with your data, never lost, never doubled on a guess.

    db = mailer.connect(os.environ["DATABASE_URL"])
    with db.atomic():
        account = Account.create(email=address)
        mailer.enqueue(
            dedup_key=f"welcome:{account.id}:v1",
            to=account.email,
            template="welcome-v1",
            context={"name": account.name},
        )

Importing this package loads no provider, no broker and no web framework.
"""

from mailer.errors import (
    DedupConflict,
    InvalidEmail,
    MailerError,
    NotBound,
    Refused,
    SettingsError,
)
from mailer.face import bind, cancel, connect, enqueue
from mailer.intake import Enqueued

__all__ = [
    "DedupConflict",
    "Enqueued",
    "InvalidEmail",
    "MailerError",
    "NotBound",
    "Refused",
    "SettingsError",
    "bind",
    "cancel",
    "connect",
    "enqueue",
]
