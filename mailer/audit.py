"""Who did what to which row, when, and why."""

from datetime import datetime

from peewee import fn

from mailer.database import now
from mailer.tables import Audit


def record(
    *,
    actor: str,
    verb: str,
    outbox_id: int | None,
    before: str | None,
    after: str,
    why: str,
    at: datetime | None = None,
) -> None:
    """Write one line into the transaction that is open: it stands or falls with what it tells.

    `at` is when what took long began; by default now.
    """
    Audit.insert(
        at=at or now(),
        actor=actor,
        verb=verb,
        outbox_id=outbox_id,
        before=before,
        after=after,
        why=why,
    ).execute()


def history(outbox_id: int) -> list[Audit]:
    """Return what was done to a row by hand, oldest first."""
    return list(Audit.select().where(Audit.outbox_id == outbox_id).order_by(Audit.id))


def latest(verb: str, *, about: str, after: str) -> datetime | None:
    """Return when a verb last ended as `after` with a reason that begins with `about` and a colon.

    Walks back from the newest line, so that it costs little for a verb of every hour.
    """
    prefix = f"{about}: "
    found: datetime | None = (
        Audit.select(Audit.at)
        .where(
            (Audit.verb == verb)
            & (Audit.after == after)
            & (fn.SUBSTR(Audit.why, 1, len(prefix)) == prefix)
        )
        .order_by(Audit.id.desc())
        .limit(1)
        .scalar()
    )
    return found
