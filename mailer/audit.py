"""Who did what to which row, when, and why."""

from mailer.database import now
from mailer.tables import Audit


def record(
    *, actor: str, verb: str, outbox_id: int | None, before: str | None, after: str, why: str
) -> None:
    """Write one line into the transaction that is open: it stands or falls with what it tells."""
    Audit.insert(
        at=now(), actor=actor, verb=verb, outbox_id=outbox_id, before=before, after=after, why=why
    ).execute()


def history(outbox_id: int) -> list[Audit]:
    """Return what was done to a row by hand, oldest first."""
    return list(Audit.select().where(Audit.outbox_id == outbox_id).order_by(Audit.id))
