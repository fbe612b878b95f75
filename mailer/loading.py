"""Making claimed messages ready for their calls: freezing, composing, each failing alone."""

from collections.abc import Sequence

from mailer import claims
from mailer.compose import compose
from mailer.database import AWAY, DatabaseError, transaction
from mailer.email import Email
from mailer.errors import MailerError
from mailer.flight import Flight
from mailer.freeze import Freezer, Frozen
from mailer.identity import attempt_mark
from mailer.outcome import CallResult, Outcome, Scope
from mailer.returnpath import ReturnPath


class Loader:
    """Composes messages; freezes first what came by plain INSERT."""

    def __init__(self, freezer: Freezer, return_path: ReturnPath | None = None) -> None:
        self._freezer = freezer
        self._return_path = return_path

    def load(
        self, flights: Sequence[Flight]
    ) -> tuple[list[Flight], list[tuple[Flight, CallResult]]]:
        """Return the flights ready to begin, and those that never can with the reason.

        A flight whose lease was lost meanwhile is in neither.
        """
        failed: list[tuple[Flight, CallResult]] = []
        raw = [each for each in flights if each.claimed.message_id is None]
        if raw:
            with transaction():
                failed += [(each, why) for each in raw if (why := self._freeze(each))]
        loaded = []
        for each in flights:
            if each.claimed.message_id is None:
                continue
            why = _compose(each, self._return_path)
            if why is None:
                loaded.append(each)
            else:
                failed.append((each, why))
        return loaded, failed

    def _freeze(self, flight: Flight) -> CallResult | None:
        claimed = flight.claimed
        try:
            frozen = self._freezer.freeze(
                dedup_key=claimed.dedup_key,
                given={**claimed.columns, "attachments": _attachments(flight)},
                template=claimed.template,
                context=claimed.context,
            )
        except MailerError as error:
            return _unfit(flight, "freeze", "invalid", str(error))
        except Exception as error:  # noqa: BLE001 - one message must not stop the queue
            return _unfit(flight, "freeze", "freeze-failed", type(error).__name__)
        return _store(flight, frozen)


def _store(flight: Flight, frozen: Frozen) -> CallResult | None:
    try:
        following = claims.freeze(
            flight.claimed,
            columns=frozen.columns,
            message_id=frozen.message_id,
            fingerprint=frozen.fingerprint,
            template_version=frozen.template_version,
            recipients=frozen.recipients,
        )
    except AWAY:
        raise
    except DatabaseError as error:
        return _unfit(flight, "freeze", "not-storable", type(error).__name__)
    if following is not None:
        flight.claimed = following
    return None


def _compose(flight: Flight, return_path: ReturnPath | None) -> CallResult | None:
    claimed = flight.claimed
    try:
        email = Email.from_columns({**claimed.columns, "attachments": _attachments(flight)})
        content = compose(
            email,
            message_id=claimed.message_id or "",
            date=claimed.created_at,
            outbox_id=claimed.outbox_id,
            attempt=attempt_mark(claimed.number, claimed.request_tag),
        )
        flight.load(email.sender.address, content, return_path)
    except Exception as error:  # noqa: BLE001 - one message must not stop the queue
        return _unfit(flight, "compose", "compose-failed", type(error).__name__)
    return None


def _attachments(flight: Flight) -> list[dict[str, object]]:
    if not flight.claimed.has_attachments:
        return []
    return claims.stored_attachments(flight.claimed.outbox_id)


def _unfit(flight: Flight, stage: str, rule: str, reason: str) -> CallResult:
    return flight.never_sent(
        Outcome.PERMANENT, Scope.MESSAGE, stage=stage, rule=rule, reason=reason
    )
