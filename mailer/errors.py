"""The errors that callers meet: one sentence each, naming the field and the mend."""


class MailerError(Exception):
    """Base of all errors that this package raises on purpose."""


class SettingsError(MailerError):
    """The environment cannot work; the message lists every mistake by variable."""


class NotBound(MailerError):
    """No database was given to `mailer.connect` or `mailer.bind` yet."""

    def __init__(self) -> None:
        super().__init__(
            "mailer has no database: call mailer.connect(url) or mailer.bind(database) first"
        )


class InvalidEmail(MailerError):
    """A message that could not be sent. Nothing was written.

    `field` names the argument at fault. The text holds no address and no content.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class DedupConflict(MailerError):
    """The dedup key already stands for another message. Nothing was written.

    Carries both fingerprints; use a new key for a new message.
    """

    def __init__(self, outbox_id: int, existing: str, given: str) -> None:
        super().__init__(
            f"dedup_key: already used by outbox row {outbox_id} with another payload "
            f"(stored {existing[:12]}, given {given[:12]}); use a new key for a new message"
        )
        self.outbox_id = outbox_id
        self.existing_fingerprint = existing
        self.given_fingerprint = given


class Refused(MailerError):
    """An operator's verb does not apply to the row as it stands; nothing was changed."""
