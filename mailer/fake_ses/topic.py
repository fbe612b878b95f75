"""The topic: messages wait here, and a thread posts each until the subscribed endpoint takes it."""

import json
import random
import secrets
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from mailer.fake_ses.endpoint import Endpoint
from mailer.fake_ses.events import Events
from mailer.fake_ses.signer import Signer

_SUBJECT = "Amazon SES Email Event Notification"
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Posted:
    """One try to hand a message over; `status` is what was answered, None for no answer.

    `kind` is an event's `eventType`, or `SubscriptionConfirmation`; `message_id` is SES's.
    """

    sns_message_id: str
    kind: str
    message_id: str | None
    status: int | None


@dataclass(slots=True, eq=False)
class _Waiting:
    """A message until it is done with: taken, refused, or given up."""

    kind: str
    message_id: str | None
    fields: dict[str, str]
    tries: int = 0
    due: float = 0.0
    done: "Future[None]" = field(default_factory=Future)

    @property
    def is_event(self) -> bool:
        return self.message_id is not None


class Topic:
    """One topic with one subscription. Every public method may be called from any thread.

    What is answered by 5xx, or by nothing, is posted again; anything else ends it, as with SNS.
    Raises OSError where the certificate cannot be written.
    """

    def __init__(self, events: Events) -> None:
        self.events = events
        self._signer = Signer(events.region, events.certificates)
        self._endpoint = Endpoint(events.url)
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._posted: list[Posted] = []
        self._dice: random.Random | None = None
        self._token = secrets.token_hex(32)
        self._is_confirmed = not events.confirm
        self._is_held = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="fake-sns", daemon=True)

    def start(self) -> None:
        """Begin to post; the first is the SubscriptionConfirmation, where one is wanted."""
        if not self._is_confirmed:
            self._add(_Waiting("SubscriptionConfirmation", None, self._confirmation()))
        self._thread.start()

    def close(self) -> None:
        """Post nothing any more, and wait for no answer."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._endpoint.hang_up()
        if self._thread.ident is not None:
            self._thread.join()
        self._drop_events()

    @property
    def posted(self) -> tuple[Posted, ...]:
        """All tries since the start or the last `forget`, in order."""
        return tuple(self._posted)

    @property
    def waiting(self) -> int:
        """How many messages are to be posted yet, or again."""
        return len(self._waiting)

    @property
    def is_open(self) -> bool:
        """Whether an event that comes now is posted at once."""
        return self._is_confirmed and not (self._is_held or self._is_closed)

    def hold(self, *, held: bool) -> None:
        """Let events wait, or let those that wait go."""
        with self._changed:
            self._is_held = held
            self._changed.notify_all()

    def shuffle(self, seed: int | None) -> None:
        """Give each event from now on a place of its own among those that wait; None: the last."""
        self._dice = None if seed is None else random.Random(seed)  # noqa: S311 - no secret

    def publish(self, payload: dict[str, Any], *, copies: int = 1) -> "list[Future[None]]":
        """Post an event so many times under one id; return what tells when each is done with."""
        message = json.dumps(payload)
        fields = {**self._fields("Notification", message), "Subject": _SUBJECT}
        about = payload["mail"]["messageId"]
        return [self._add(_Waiting(payload["eventType"], about, fields)) for _ in range(copies)]

    def confirm(self, topic_arn: str, token: str) -> str | None:
        """Confirm the subscription and return its ARN; None for another topic's, or a bad token."""
        is_ours = secrets.compare_digest(token.encode(), self._token.encode())
        if topic_arn != self.events.topic_arn or not is_ours:
            return None
        with self._changed:
            self._is_confirmed = True
            self._changed.notify_all()
        return self._subscription_arn

    def forget(self) -> None:
        """Drop the events that wait, and what was posted."""
        with self._changed:
            self._drop_events()
            self._posted = []

    def _drop_events(self) -> None:
        with self._changed:
            dropped = [each for each in self._waiting if each.is_event]
            self._waiting = [each for each in self._waiting if not each.is_event]
        for each in dropped:
            each.done.set_result(None)

    @property
    def _subscription_arn(self) -> str:
        return f"{self.events.topic_arn}:00000000-0000-4000-8000-000000000001"

    def _add(self, message: _Waiting) -> "Future[None]":
        with self._changed:
            if self._is_closed:
                message.done.set_result(None)
                return message.done
            last = len(self._waiting)
            place = last if self._dice is None else self._dice.randint(0, last)
            self._waiting.insert(place, message)
            self._changed.notify_all()
        return message.done

    def _work(self) -> None:
        while (message := self._next()) is not None:
            self._settle(message, self._post(message))

    def _next(self) -> _Waiting | None:
        """Wait for the first message that may go now; None at the end."""
        with self._changed:
            while not self._is_closed:
                now = time.monotonic()
                for each in self._waiting:
                    if each.due <= now and self._may_go(each):
                        return each
                self._changed.wait(self._pause(now))
            return None

    def _may_go(self, message: _Waiting) -> bool:
        return self.is_open or not message.is_event

    def _pause(self, now: float) -> float | None:
        dues = [each.due - now for each in self._waiting if self._may_go(each)]
        return min(dues, default=None)

    def _post(self, message: _Waiting) -> int | None:
        body = json.dumps(self._signer.sign(message.fields)).encode("ascii")
        return self._endpoint.post(body, self._headers(message))

    def _settle(self, message: _Waiting, status: int | None) -> None:
        delays = self.events.delays
        with self._changed:
            if message not in self._waiting:  # forgotten meanwhile
                return
            self._posted.append(
                Posted(message.fields["MessageId"], message.kind, message.message_id, status)
            )
            message.tries += 1
            if _is_worth_another(status) and message.tries <= len(delays):
                message.due = time.monotonic() + delays[message.tries - 1]
                return
            self._waiting.remove(message)
        message.done.set_result(None)

    def _fields(self, kind: str, message: str) -> dict[str, str]:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {
            "Type": kind,
            "MessageId": str(uuid4()),
            "TopicArn": self.events.topic_arn,
            "Message": message,
            "Timestamp": now,
        }

    def _confirmation(self) -> dict[str, str]:
        arn = self.events.topic_arn
        text = f"You have chosen to subscribe to the topic {arn}."
        host = self._signer.certificate_url.rpartition("/")[0]
        asked = f"?Action=ConfirmSubscription&TopicArn={arn}&Token={self._token}"
        fields = self._fields("SubscriptionConfirmation", text)
        return {**fields, "Token": self._token, "SubscribeURL": f"{host}/{asked}"}

    def _headers(self, message: _Waiting) -> dict[str, str]:
        subscription = {"x-amz-sns-subscription-arn": self._subscription_arn}
        return {
            "x-amz-sns-message-type": message.fields["Type"],
            "x-amz-sns-message-id": message.fields["MessageId"],
            "x-amz-sns-topic-arn": self.events.topic_arn,
            "Content-Type": "text/plain; charset=UTF-8",
            "User-Agent": "Amazon Simple Notification Service Agent",
            **(subscription if message.is_event else {}),
        }


def _is_worth_another(status: int | None) -> bool:
    return status is None or status >= _SERVER_ERROR
