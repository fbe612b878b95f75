"""The tables as Peewee models. What the database itself refuses stands in the migrations."""

import datetime as dt
from typing import Any

from peewee import (
    SQL,
    BigAutoField,
    BigIntegerField,
    BlobField,
    BooleanField,
    CharField,
    DateTimeField,
    DoubleField,
    ForeignKeyField,
    IntegerField,
    JSONField,
    Model,
    SmallIntegerField,
    TextField,
)

from mailer.database import is_postgresql, proxy

_SQLITE_FORMAT = "%Y-%m-%d %H:%M:%S.%f+00:00"


class UtcDateTimeField(DateTimeField):
    """A timezone-aware moment, always UTC.

    SQLite keeps text: without one spelling for all, moments would not sort.
    """

    field_type = "TIMESTAMPTZ"

    def db_value(self, value: Any) -> Any:
        """Refuse a naive datetime: which moment it means is anybody's guess."""
        if not isinstance(value, dt.datetime):
            return value
        if value.tzinfo is None:
            raise ValueError(f"{self.name}: a datetime needs a timezone, for example UTC")
        moment = value.astimezone(dt.UTC)
        return moment if is_postgresql() else moment.strftime(_SQLITE_FORMAT)

    def python_value(self, value: Any) -> dt.datetime | None:
        """Give back an aware UTC datetime from either database."""
        if value is None:
            return None
        moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.astimezone(dt.UTC)


class _Table(Model):
    class Meta:
        database = proxy
        legacy_table_names = False


class Outbox(_Table):
    """One intent to send one message. Insert it with one plain INSERT, or through `enqueue`."""

    id = BigAutoField()
    dedup_key = CharField(255)
    fingerprint = CharField(64, null=True)
    message_id = CharField(255, null=True)
    state = CharField(16, constraints=[SQL("DEFAULT 'pending'")])
    reason = CharField(80, null=True)
    stream = CharField(64, constraints=[SQL("DEFAULT 'default'")])
    priority = SmallIntegerField(constraints=[SQL("DEFAULT 5")])
    next_attempt_at = UtcDateTimeField()
    expires_at = UtcDateTimeField(null=True)
    attempts = IntegerField()
    last_number = IntegerField()
    resends = IntegerField()
    evidence = IntegerField()
    lease_token = CharField(32, null=True)
    lease_expires_at = UtcDateTimeField(null=True)
    on_ambiguous = CharField(16)
    created_at = UtcDateTimeField()
    queued_at = UtcDateTimeField()
    finished_at = UtcDateTimeField(null=True)
    sender = TextField(null=True)
    to = JSONField()
    cc = JSONField()
    bcc = JSONField()
    reply_to = JSONField()
    subject = TextField(null=True)
    text = TextField(null=True)
    html = TextField(null=True)
    headers = JSONField()
    attachments = JSONField()
    template = CharField(128, null=True)
    template_version = CharField(32, null=True)
    context = JSONField(null=True)

    class Meta:
        table_name = "email_outbox"


class Recipient(_Table):
    """One recipient of a message, and what became of it."""

    id = BigAutoField()
    outbox = ForeignKeyField(Outbox, backref="recipients")
    address = TextField()
    address_key = TextField()
    role = CharField(3)
    state = CharField(16)
    rule = CharField(80, null=True)
    code = CharField(64, null=True)
    text = TextField(null=True)
    updated_at = UtcDateTimeField()

    class Meta:
        table_name = "email_recipient"


class Attempt(_Table):
    """One try at sending a message: written before the call, finished after it."""

    id = BigAutoField()
    outbox = ForeignKeyField(Outbox, backref="tries")
    number = IntegerField()
    provider = CharField(255)
    lease_token = CharField(32)
    request_tag = CharField(64)
    state = CharField(16)
    outcome = CharField(16, null=True)
    scope = CharField(16, null=True)
    stage = CharField(32, null=True)
    rule = CharField(80, null=True)
    code = CharField(64, null=True)
    reason = TextField(null=True)
    decision = TextField(null=True)
    provider_id = TextField(null=True)
    claimed_at = UtcDateTimeField()
    started_at = UtcDateTimeField(null=True)
    finished_at = UtcDateTimeField(null=True)
    resolution = CharField(16, null=True)
    resolved_at = UtcDateTimeField(null=True)
    resolved_by = CharField(255, null=True)
    evidence = TextField(null=True)
    bytes_sent = BigIntegerField(null=True)
    doubtful = JSONField(null=True)
    duplicate = BooleanField()

    class Meta:
        table_name = "email_attempt"


class Audit(_Table):
    """Who did what to which row, when, and why."""

    id = BigAutoField()
    at = UtcDateTimeField()
    actor = CharField(255)
    verb = CharField(64)
    outbox_id = BigIntegerField(null=True)
    before = CharField(64, null=True)
    after = CharField(64, null=True)
    why = TextField()

    class Meta:
        table_name = "email_audit"


class ProviderHealth(_Table):
    """What is known of a provider, or of one sender at it: circuit, rate, quota."""

    id = BigAutoField()
    name = CharField(600)
    provider = CharField(255)
    sender = TextField(null=True)
    state = CharField(16)
    reason = TextField(null=True)
    since = UtcDateTimeField()
    until = UtcDateTimeField(null=True)
    permanents = IntegerField()
    permanent_rule = CharField(80, null=True)
    ambiguous = IntegerField()
    ambiguous_since = UtcDateTimeField()
    connection_failures = IntegerField()
    openings = IntegerField()
    rate = DoubleField(null=True)
    slowed = DoubleField()
    tokens = DoubleField()
    refilled_at = UtcDateTimeField()
    left_today = DoubleField(null=True)
    limits_at = UtcDateTimeField(null=True)

    class Meta:
        table_name = "email_provider"


class Event(_Table):
    """One verified event as it came, and what it was found to be about."""

    id = BigAutoField()
    topic_arn = CharField(512)
    sns_message_id = CharField(255)
    channel = CharField(8)
    kind = CharField(64, null=True)
    body = BlobField()
    received_at = UtcDateTimeField()
    published_at = UtcDateTimeField(null=True)
    occurred_at = UtcDateTimeField(null=True)
    provider_id = TextField(null=True)
    request_tag = TextField(null=True)
    attempt = ForeignKeyField(Attempt, null=True)
    matched_by = CharField(16, null=True)
    conflict = BooleanField()
    state = CharField(16)

    class Meta:
        table_name = "email_event"


class Fact(_Table):
    """One thing that became known of a recipient, or of a message, after it was taken."""

    id = BigAutoField()
    event = ForeignKeyField(Event)
    outbox = ForeignKeyField(Outbox, null=True)
    recipient = ForeignKeyField(Recipient, null=True, backref="facts")
    attempt = ForeignKeyField(Attempt, null=True)
    reference = TextField()
    address_key = TextField()
    kind = CharField(32)
    occurrence = TextField()
    occurred_at = UtcDateTimeField()
    rule = CharField(80, null=True)
    code = CharField(64, null=True)
    text = TextField(null=True)
    trusted = BooleanField()
    unlisted = BooleanField()

    class Meta:
        table_name = "email_fact"


class Suppression(_Table):
    """That an address gets no mail, since when and why; and who let it go again."""

    id = BigAutoField()
    address_key = TextField()
    reason = CharField(16)
    source = CharField(255)
    event = ForeignKeyField(Event, null=True)
    occurred_at = UtcDateTimeField()
    created_at = UtcDateTimeField()
    expires_at = UtcDateTimeField(null=True)
    released_at = UtcDateTimeField(null=True)
    released_by = CharField(255, null=True)
    release_reason = TextField(null=True)

    class Meta:
        table_name = "email_suppression"


TABLES: tuple[type[Model], ...] = (
    Outbox,
    Recipient,
    Attempt,
    Audit,
    ProviderHealth,
    Event,
    Fact,
    Suppression,
)
"""In the order in which they may be created."""
