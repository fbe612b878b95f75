"""What comes in at either door for events: verified, stored, answered.

Nothing is interpreted here. An event is answered once it is committed, and read by a worker later.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from mailer.events import Incoming
from mailer.feed import (
    Channel,
    Envelope,
    EnvelopeType,
    NotNow,
    Subscriptions,
    Unacceptable,
    Verifier,
)
from mailer.log import get_logger
from mailer.storing import Storage

PATIENCE_SECONDS = 14.0
"""SNS takes no answer within 15 seconds for a failure."""

STORED_RULE = "stored"
SLOW_RULE = "slow"

_QUIET_SECONDS = 10.0
"""A line of the log for each reason within this time: anybody may post to us, as often as they
like."""

_log = get_logger("mailer.events")


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a body: the HTTP status for it, and the rule behind it, which holds nothing
    of the body.

    200: genuine and on record. 400, 403 and 413: it can never become valid. 503: try again. These
    are what SNS reads: it repeats after 5xx, and never after 4xx ("Amazon SNS message delivery
    retries").
    """

    status: int
    rule: str

    @property
    def is_stored(self) -> bool:
        """Whether whoever sent it may forget it."""
        return self.status == HTTPStatus.OK

    @property
    def is_put_off(self) -> bool:
        """Whether it may be taken when it comes again."""
        return self.status == HTTPStatus.SERVICE_UNAVAILABLE


class Ingest:
    """Takes the bodies of both doors."""

    def __init__(
        self,
        verifier: Verifier,
        storage: Storage,
        subscriptions: Subscriptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._verifier = verifier
        self._storage = storage
        self._subscriptions = subscriptions
        self._reasons = _Reasons(clock)
        self.answers: Counter[tuple[int, str]] = Counter()
        """How many answers were given since the start, by status and rule."""

    async def take(self, body: bytes, channel: Channel) -> Answer:
        """Verify a body, store it, and do what it asks for."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._take(body, channel)
        except TimeoutError:
            return self.decline(NotNow(SLOW_RULE), channel)
        except (Unacceptable, NotNow) as reason:
            return self.decline(reason, channel)
        return self._counted(Answer(HTTPStatus.OK, STORED_RULE))

    def decline(self, reason: Unacceptable | NotNow, channel: Channel) -> Answer:
        """Tell the log why a body was not taken, and return the answer to it."""
        if isinstance(reason, NotNow):
            self._reasons.tell("event put off", channel, reason.rule)
            return self._counted(Answer(HTTPStatus.SERVICE_UNAVAILABLE, reason.rule))
        self._reasons.tell("event refused", channel, reason.rule)
        return self._counted(Answer(reason.status, reason.rule))

    def _counted(self, answer: Answer) -> Answer:
        self.answers[answer.status, answer.rule] += 1
        return answer

    async def _take(self, body: bytes, channel: Channel) -> None:
        envelope = await self._verifier.verify(body, channel)
        await self._storage.keep(_incoming(envelope, channel))
        await self._follow(envelope)

    async def _follow(self, envelope: Envelope) -> None:
        if envelope.type is EnvelopeType.SUBSCRIPTION and envelope.token is not None:
            await self._subscriptions.confirm(envelope.topic_arn, envelope.token)
            _log.info("subscription confirmed", topic_arn=envelope.topic_arn)
        elif envelope.type is EnvelopeType.UNSUBSCRIPTION:
            # Somebody has ended it, and to begin it again is for a person to decide.
            _log.warning("subscription ended", topic_arn=envelope.topic_arn)


def _incoming(envelope: Envelope, channel: Channel) -> Incoming:
    return Incoming(
        topic_arn=envelope.topic_arn,
        sns_message_id=envelope.message_id,
        channel=channel,
        body=envelope.body,
        published_at=envelope.published_at,
    )


class _Reasons:
    """Tells why events were not taken: the first of a kind at once, then how many there were."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told_at: dict[tuple[str, Channel, str], float] = {}
        self._untold: dict[tuple[str, Channel, str], int] = {}

    def tell(self, event: str, channel: Channel, rule: str) -> None:
        key = (event, channel, rule)
        self._untold[key] = self._untold.get(key, 0) + 1
        now = self._clock()
        if now - self._told_at.get(key, -_QUIET_SECONDS) >= _QUIET_SECONDS:
            _log.warning(event, channel=channel.value, rule=rule, times=self._untold.pop(key))
            self._told_at[key] = now
