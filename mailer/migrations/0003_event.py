"""What providers tell later: events, the facts they hold, and who gets no mail."""

from peewee import Database

from mailer.database import is_postgresql
from mailer.migrations.dialect import define

EVENT = """
CREATE TABLE email_event (
    id {serial},
    topic_arn varchar(512) NOT NULL,
    sns_message_id varchar(255) NOT NULL,
    channel varchar(8) NOT NULL CHECK (channel IN ('https', 'sqs', 'mail')),
    kind varchar(64),
    -- Bytes as they came: JSON text may hold what no text column stores.
    body {bytes} NOT NULL,
    received_at {moment} NOT NULL DEFAULT {now},
    published_at {moment},
    occurred_at {moment},
    provider_id text,
    request_tag text,
    attempt_id bigint REFERENCES email_attempt (id) ON DELETE SET NULL,
    matched_by varchar(16) CHECK (matched_by IN ('provider_id', 'tag', 'header', 'message_id')),
    -- Its provider id and its tag point at different attempts.
    conflict boolean NOT NULL DEFAULT false,
    state varchar(16) NOT NULL DEFAULT 'received' CHECK (state IN ('received', 'processed',
        'unmatched', 'unparsed', 'unknown_type', 'control')),
    CONSTRAINT email_event_once UNIQUE (topic_arn, sns_message_id)
)
"""

FACT = """
CREATE TABLE email_fact (
    id {serial},
    event_id bigint NOT NULL REFERENCES email_event (id) ON DELETE CASCADE,
    outbox_id bigint REFERENCES email_outbox (id) ON DELETE CASCADE,
    recipient_id bigint REFERENCES email_recipient (id) ON DELETE CASCADE,
    attempt_id bigint REFERENCES email_attempt (id) ON DELETE SET NULL,
    -- The provider's id of the message, or whatever else tells it from others.
    reference text NOT NULL,
    -- Empty for a fact about the whole message.
    address_key text NOT NULL DEFAULT '',
    kind varchar(32) NOT NULL,
    occurrence text NOT NULL,
    occurred_at {moment} NOT NULL,
    rule varchar(80),
    code varchar(64),
    text text,
    -- False for what a stranger may have written.
    trusted boolean NOT NULL DEFAULT true,
    -- Named by the event, and nobody whom the message was for.
    unlisted boolean NOT NULL DEFAULT false,
    -- The same bounce told twice is one fact.
    CONSTRAINT email_fact_once UNIQUE (reference, address_key, kind, occurrence)
)
"""

SUPPRESSION = """
CREATE TABLE email_suppression (
    id {serial},
    address_key text NOT NULL CHECK (address_key <> ''),
    reason varchar(16) NOT NULL
        CHECK (reason IN ('bounce', 'complaint', 'manual', 'provider', 'unsubscribe')),
    source varchar(255) NOT NULL,
    event_id bigint REFERENCES email_event (id) ON DELETE SET NULL,
    -- When what suppresses happened, by the clock of whoever told it.
    occurred_at {moment} NOT NULL DEFAULT {now},
    created_at {moment} NOT NULL DEFAULT {now},
    expires_at {moment},
    released_at {moment},
    released_by varchar(255),
    release_reason text,
    CONSTRAINT email_suppression_release CHECK ((released_at IS NULL) = (released_by IS NULL)
        AND (released_at IS NULL) = (release_reason IS NULL))
)
"""

INDEXES = (
    "CREATE INDEX email_event_received ON email_event (id) WHERE state = 'received'",
    "CREATE INDEX email_event_unmatched ON email_event (provider_id) WHERE state = 'unmatched'",
    "CREATE INDEX email_event_astray ON email_event (id) WHERE state IN ('unmatched', 'unparsed')",
    "CREATE INDEX email_event_attempt ON email_event (attempt_id)",
    "CREATE INDEX email_fact_outbox ON email_fact (outbox_id)",
    "CREATE INDEX email_fact_event ON email_fact (event_id)",
    # One address has one suppression in force: this is what claims and begins look at.
    "CREATE UNIQUE INDEX email_suppression_active ON email_suppression (address_key)"
    " WHERE released_at IS NULL",
    "CREATE INDEX email_suppression_history ON email_suppression (address_key, released_at)",
    # Null, and so never changed, in every attempt that ends without a doubt.
    "CREATE INDEX email_attempt_in_doubt ON email_attempt (id) WHERE doubtful IS NOT NULL",
    "CREATE INDEX email_attempt_duplicate ON email_attempt (id) WHERE duplicate",
    "CREATE INDEX email_attempt_provider_id ON email_attempt (provider_id)"
    " WHERE provider_id IS NOT NULL",
)

ROOM = (
    # Begin and finish rewrite an attempt, and finish its recipients: with room on the page the new
    # version stays there, and no index is written to.
    "ALTER TABLE email_attempt SET (fillfactor = 50)",
    "ALTER TABLE email_recipient SET (fillfactor = 75)",
)

ATTEMPT = (
    # What of the request had left when the call ended without an answer.
    "ALTER TABLE email_attempt ADD COLUMN bytes_sent bigint",
    # The recipients that this attempt left in doubt: what a later proof of it settles.
    "ALTER TABLE email_attempt ADD COLUMN doubtful {json}",
    # Its acceptance came on top of another attempt's: somebody got the message twice.
    "ALTER TABLE email_attempt ADD COLUMN duplicate boolean NOT NULL DEFAULT false",
)


def up(_: object, db: Database) -> None:
    """Create the tables, and the attempt's columns that evidence needs."""
    for table in (EVENT, FACT, SUPPRESSION, *ATTEMPT):
        db.execute_sql(define(table))
    for index in INDEXES:
        db.execute_sql(index)
    if is_postgresql():
        for room in ROOM:
            db.execute_sql(room)
