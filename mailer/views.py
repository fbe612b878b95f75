"""What operators get to see: values without a body, a header field, an attachment or a context."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class StreamCount:
    """How many rows of one stream are in one state."""

    stream: str
    state: str
    rows: int


@dataclass(frozen=True, slots=True)
class DoubtCount:
    """How many ambiguous rows got there at one stage by one rule."""

    stage: str
    rule: str
    rows: int


@dataclass(frozen=True, slots=True)
class AttemptCount:
    """How many recent attempts ended one way by one rule."""

    outcome: str
    rule: str
    attempts: int


@dataclass(frozen=True, slots=True)
class CircuitView:
    """What workers share about a provider, or about one sender at it.

    `about` is `provider` or `sender`; the name of a sender's circuit holds its address, so it is
    shown and never logged. `probe_due` tells that `until` has passed and one message may try.
    `rate` is in recipients a second (None: no limit is known), `slowed` the share of it that is
    used now, after throttle answers. `left_today` is what the provider said at `limits_at`.
    """

    name: str
    about: str
    provider: str
    state: str
    reason: str | None
    since: datetime
    until: datetime | None
    probe_due: bool
    rate: float | None
    slowed: float
    left_today: float | None
    limits_at: datetime | None


@dataclass(frozen=True, slots=True)
class Providers:
    """The health of everything that workers have met so far."""

    at: datetime
    providers: tuple[CircuitView, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """The whole outbox in numbers.

    `states` has every state, in the order of a message's life. `due` rows wait for a worker since
    at most `oldest_due_seconds`; `retry_waiting` rows were tried and wait for their next attempt;
    `scheduled` ones were never due yet. Where `recent_complete` is False there were more attempts
    in `recent_seconds` than are counted. `circuits` are those that are not closed.
    """

    at: datetime
    states: dict[str, int]
    due: int
    oldest_due_seconds: float | None
    retry_waiting: int
    scheduled: int
    overdue_leases: int
    ambiguous: tuple[DoubtCount, ...]
    recent_seconds: float
    recent_complete: bool
    recent_attempts: tuple[AttemptCount, ...]
    streams: tuple[StreamCount, ...]
    circuits: tuple[CircuitView, ...]


@dataclass(frozen=True, slots=True)
class Doubt:
    """The attempt that left a message in doubt, and what is known of it.

    `bytes_sent` counts what of the request had left (None: nobody counted), `reply` is the last
    thing that was read, without addresses. `evidence` says what has been heard since, or what the
    silence is worth; `next_step` what happens next, and when.
    """

    number: int
    provider: str
    stage: str
    rule: str
    code: str | None
    at: datetime
    bytes_sent: int | None = None
    reply: str = ""
    evidence: str = ""
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a list; it holds no address."""

    id: int
    dedup_key: str
    state: str
    reason: str | None
    stream: str
    age_seconds: float
    attempts: int
    next_attempt_at: datetime
    doubt: Doubt | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a list; `next_after` continues it, None where it ends."""

    rows: tuple[Listed, ...]
    next_after: int | None


@dataclass(frozen=True, slots=True)
class MessageView:
    """A row as an operator may see it. `attempts` is the budget spent."""

    id: int
    dedup_key: str
    message_id: str | None
    state: str
    reason: str | None
    stream: str
    priority: int
    subject: str | None
    template: str | None
    template_version: str | None
    on_ambiguous: str
    attempts: int
    resends: int
    created_at: datetime
    queued_at: datetime
    next_attempt_at: datetime
    expires_at: datetime | None
    lease_expires_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class RecipientView:
    """What became of one recipient; `text` is the provider's reply."""

    address: str
    role: str
    state: str
    rule: str | None
    code: str | None
    text: str | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One attempt. `request_tag` is what the message carried in X-Outbox-Attempt.

    `duplicate` tells that its acceptance came on top of another's: somebody got the message twice.
    """

    number: int
    provider: str
    request_tag: str
    state: str
    outcome: str | None
    scope: str | None
    stage: str | None
    rule: str | None
    code: str | None
    reason: str | None
    decision: str | None
    provider_id: str | None
    claimed_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    resolution: str | None
    resolved_at: datetime | None
    resolved_by: str | None
    evidence: str | None
    bytes_sent: int | None = None
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class FactView:
    """What became known later. `address_key` is empty for a fact about the whole message.

    `trusted` is False for what a stranger may have written, `unlisted` True for an address that the
    message was not sent to: neither suppresses anybody.
    """

    address_key: str
    kind: str
    occurred_at: datetime
    rule: str | None
    code: str | None
    text: str | None
    trusted: bool
    unlisted: bool


@dataclass(frozen=True, slots=True)
class AuditView:
    """What somebody did to a row."""

    at: datetime
    actor: str
    verb: str
    before: str | None
    after: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """All that is known about one message, and what happens next to it."""

    at: datetime
    message: MessageView
    recipients: tuple[RecipientView, ...]
    attempts: tuple[AttemptView, ...]
    audit: tuple[AuditView, ...]
    next_step: str
    facts: tuple[FactView, ...] = ()
