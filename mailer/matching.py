"""Which attempt an event is about, and whether the event is news to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mailer.facts import Notice
from mailer.outcome import Outcome
from mailer.states import AttemptState, Resolution
from mailer.tables import Attempt, Outbox


@dataclass(frozen=True, slots=True)
class Match:
    """The attempt that an event is about.

    `needs_proof` tells that the attempt's acceptance is not on record with the provider's id yet.
    `conflict` tells that the event's marks point at different attempts, or that the provider gave
    this attempt another id: it took the same request twice.
    """

    outbox_id: int
    attempt_id: int
    matched_by: str
    needs_proof: bool = False
    conflict: bool = False
    twice: bool = False


def match(notices: Sequence[Notice]) -> list[Match | None]:
    """Find the attempts that events are about, all of them in two questions.

    The provider's id goes first, then the tag, then what the returned header fields carried.
    """
    by_id, by_tag = _attempts_of(notices)
    by_message = _attempts_of_messages(
        {each.message_id for each in notices if each.message_id} if notices else set()
    )
    return [_match(each, by_id, by_tag, by_message) for each in notices]


def _attempts_of(
    notices: Sequence[Notice],
) -> tuple[dict[str, Attempt], dict[str, Attempt]]:
    ids = {each.provider_id for each in notices if each.provider_id}
    tags = {tag for each in notices for tag in (each.request_tag, each.header_tag) if tag}
    if not ids and not tags:
        return {}, {}
    query = (
        Attempt.select(
            Attempt.id,
            Attempt.outbox,
            Attempt.provider_id,
            Attempt.request_tag,
            Attempt.state,
            Attempt.outcome,
            Attempt.resolution,
        )
        .where(Attempt.provider_id.in_(ids) | Attempt.request_tag.in_(tags))
        .order_by(Attempt.id.desc())
    )
    found = list(query)
    return (
        {each.provider_id: each for each in found if each.provider_id},
        {each.request_tag: each for each in found},
    )


def _attempts_of_messages(message_ids: set[str]) -> dict[str, list[Attempt]]:
    """The attempts that were begun for each of these messages, the latest first."""
    if not message_ids:
        return {}
    query = (
        Attempt.select(Attempt, Outbox.id, Outbox.message_id)
        .join(Outbox)
        .where(Outbox.message_id.in_(message_ids) & ~Attempt.started_at.is_null())
        .order_by(Attempt.number.desc())
    )
    found: dict[str, list[Attempt]] = {}
    for each in query:
        found.setdefault(each.outbox.message_id or "", []).append(each)
    return found


def _match(
    notice: Notice,
    by_id: Mapping[str, Attempt],
    by_tag: Mapping[str, Attempt],
    by_message: Mapping[str, list[Attempt]],
) -> Match | None:
    tagged = by_tag.get(notice.request_tag or "")
    known = by_id.get(notice.provider_id or "")
    if known is not None:
        conflict = tagged is not None and tagged.id != known.id
        return _found(known, "provider_id", notice, conflict=conflict)
    if tagged is not None:
        return _found(tagged, "tag", notice)
    headed = by_tag.get(notice.header_tag or "")
    if headed is not None:
        return _found(headed, "header", notice)
    begun = by_message.get(notice.message_id or "")
    if begun:
        # A Message-ID is the same in every attempt: it proves one only where there was one.
        return _found(begun[0], "message_id", notice, provable=len(begun) == 1)
    return None


def _found(
    attempt: Any,
    matched_by: str,
    notice: Notice,
    *,
    provable: bool = True,
    conflict: bool = False,
) -> Match:
    other_id = bool(
        notice.provider_id and attempt.provider_id and notice.provider_id != attempt.provider_id
    )
    return Match(
        attempt.outbox_id,
        attempt.id,
        matched_by,
        needs_proof=provable
        and notice.trusted
        and notice.proves_acceptance
        and (other_id or not _is_proven(attempt, notice)),
        conflict=conflict or other_id,
        twice=other_id,
    )


def _is_proven(attempt: Attempt, notice: Notice) -> bool:
    if attempt.state != AttemptState.FINISHED:
        return False
    accepted = attempt.outcome == Outcome.ACCEPTED or attempt.resolution == Resolution.ACCEPTED
    return bool(accepted and (attempt.provider_id or not notice.provider_id))
