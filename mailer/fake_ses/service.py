"""The fake's mind: it judges each message and keeps what was accepted, all in memory."""

import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from mailer.fake_ses import refusals
from mailer.fake_ses.account import UNLIMITED, Account
from mailer.fake_ses.fates import ON_LIST, Fate, fate_of
from mailer.fake_ses.faults import WILLING, Fault, Manner, scripted
from mailer.fake_ses.ledger import Accepted, Ledger
from mailer.fake_ses.limits import Bucket, Day
from mailer.fake_ses.payloads import tell
from mailer.fake_ses.refusals import Denied, Refusal, not_found
from mailer.fake_ses.submission import Submission
from mailer.fake_ses.suppression import SuppressionList
from mailer.fake_ses.topic import Topic

_ABOUT_EVENTS = frozenset({"seed", "shuffle_events", "hold_events"})


@dataclass(frozen=True, slots=True)
class Reply:
    """What a message came to: its id or a refusal, and how the client is to hear of it.

    `after` are the events that are to be done with before it does.
    """

    message_id: str | None = None
    refusal: Refusal | None = None
    manner: Manner = Manner.AT_ONCE
    after: "tuple[Future[None], ...]" = ()


class Service:
    """One account. Every public method may be called from any thread."""

    def __init__(self, ledger: Ledger, topic: Topic | None = None) -> None:
        self.ledger = ledger
        self.topic = topic
        self._lock = threading.RLock()
        self._clear()

    def _clear(self) -> None:
        self.account = Account()
        self.suppression = SuppressionList()
        self.calls: Counter[str] = Counter()
        self._bucket = Bucket(time.monotonic)
        self._day = Day(time.monotonic)
        self._dice = random.Random(self.account.seed)  # noqa: S311 - a fault script, no secret
        self._met: set[tuple[str, str | None]] = set()

    def reset(self) -> None:
        """Forget all that was accepted, listed and set."""
        with self._lock:
            self._clear()
            self.ledger.forget()
            if self.topic is not None:
                self.topic.forget()
                self._switch_topic(self.topic)

    def change(self, changes: Mapping[str, Any]) -> Account:
        """Switch the account; raises InvalidState, and changes nothing, for a bad value."""
        with self._lock:
            self.account = self.account.changed(changes)
            if "seed" in changes:
                self._dice.seed(self.account.seed)
            if self.topic is not None and not _ABOUT_EVENTS.isdisjoint(changes):
                self._switch_topic(self.topic)
            return self.account

    def _switch_topic(self, topic: Topic) -> None:
        account = self.account
        topic.shuffle(account.seed if account.shuffle_events else None)
        topic.hold(held=account.hold_events)

    def sent_today(self) -> int:
        """How many recipients were taken within the last 24 hours."""
        with self._lock:
            return self._day.sent

    def confirm(self, topic_arn: str, token: str) -> str | None:
        """Confirm the topic's subscription and return its ARN; None where there is none such."""
        return None if self.topic is None else self.topic.confirm(topic_arn, token)

    def count(self, operation: str) -> None:
        """Count a request for this operation, whatever comes of it."""
        with self._lock:
            self.calls[operation] += 1

    def send(self, mail: Submission, *, region: str) -> Reply:
        """Judge a message as SES would; raises Denied for what it refuses.

        The account goes first, then the fault script, then chance and the limits.
        """
        with self._lock:
            self._admit(mail, region)
            about, fault = scripted(mail.recipients)
            if self._spared(fault, about, mail):
                fault = WILLING
            refusal = fault.refusal and fault.refusal.about(region=region, identity=about)
            if not fault.accepts:
                return Reply(refusal=refusal, manner=fault.manner)
            self._meter(len(mail.recipients))
            entry = self._accept(mail)
            return Reply(entry.message_id, refusal, self._manner(fault), self._publish(mail, entry))

    def _admit(self, mail: Submission, region: str) -> None:
        if self.account.suspended:
            raise Denied(refusals.SUSPENDED)
        if self.account.paused:
            raise Denied(refusals.PAUSED)
        self._check_configuration_set(mail.configuration_set)
        self._check_identities((mail.sender,), region)
        if self.account.sandbox:
            self._check_identities(mail.recipients, region)

    def _check_configuration_set(self, name: str | None) -> None:
        sets = self.account.configuration_sets
        if name is None or sets is None:
            return
        if name not in sets:
            raise Denied(unknown_configuration_set(name))
        if not sets[name]:
            raise Denied(refusals.SET_PAUSED.about(name=name))

    def _check_identities(self, addresses: Iterable[str], region: str) -> None:
        failed = [each for each in addresses if not self.account.verified(each)]
        if failed:
            raise Denied(refusals.UNVERIFIED.about(region=region, identity=", ".join(failed)))

    def _spared(self, fault: Fault, recipient: str, mail: Submission) -> bool:
        key = (recipient, mail.outbox_id)
        again = key in self._met
        if fault.first_only:
            self._met.add(key)
        return fault.first_only and again

    def _meter(self, recipients: int) -> None:
        account = self.account
        if self._happens(account.throttle_share):
            raise Denied(refusals.TOO_FAST)
        quota = account.max_24_hour_send
        if quota != UNLIMITED and self._day.sent + recipients > quota:
            raise Denied(refusals.QUOTA)
        if account.enforce_rate and not self._bucket.take(recipients, account.max_send_rate):
            raise Denied(refusals.TOO_FAST)

    def _accept(self, mail: Submission) -> Accepted:
        now = datetime.now(UTC)
        entry = Accepted(
            message_id=f"0102{int(now.timestamp() * 1000):012x}-{uuid4()}-000000",
            at=now,
            sender=mail.sender,
            recipients=mail.recipients,
            tags=mail.tags,
            outbox_id=mail.outbox_id,
            attempt=mail.attempt,
            configuration_set=mail.configuration_set,
            size=len(mail.content),
            sha256=hashlib.sha256(mail.content).hexdigest(),
        )
        self.ledger.add(entry)
        self._day.add(len(mail.recipients))
        return entry

    def _publish(self, mail: Submission, entry: Accepted) -> "tuple[Future[None], ...]":
        """Publish what becomes of a message; return the events that its answer has to wait for."""
        if self.topic is None:
            return ()
        is_first = self.account.events_first and self.topic.is_open
        fates = {each: self._fate(each) for each in mail.recipients}
        told = [
            each
            for payload in tell(mail, entry, fates, self.topic.events)
            for each in self.topic.publish(payload, copies=self.account.event_copies)
        ]
        return tuple(told) if is_first else ()

    def _fate(self, recipient: str) -> Fate:
        return ON_LIST if recipient in self.suppression else fate_of(recipient)

    def _manner(self, fault: Fault) -> Manner:
        if fault.manner is Manner.AT_ONCE and self._happens(self.account.close_share):
            return Manner.HANG_UP
        return fault.manner

    def _happens(self, share: float) -> bool:
        return share > 0 and self._dice.random() < share


def unknown_configuration_set(name: str) -> Refusal:
    """Return the refusal of a configuration set that the account does not have."""
    return not_found(f"Configuration set <{name}> does not exist.")
