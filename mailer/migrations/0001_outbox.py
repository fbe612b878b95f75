"""The outbox: intents, their recipients, the attempts made, and who changed what.

Plain SQL, because what the database refuses is the point of this file: a row that breaks a rule of
the state machine must fail here even when it comes from another program.
"""

from peewee import Database

from mailer.migrations.dialect import define

OUTBOX = """
CREATE TABLE email_outbox (
    id {serial},
    dedup_key varchar(255) NOT NULL UNIQUE CHECK (length(dedup_key) BETWEEN 1 AND 255),
    fingerprint varchar(64),
    message_id varchar(255) UNIQUE,
    state varchar(16) NOT NULL DEFAULT 'pending',
    reason varchar(80),
    stream varchar(64) NOT NULL DEFAULT 'default',
    priority smallint NOT NULL DEFAULT 5 CHECK (priority BETWEEN 0 AND 9),
    next_attempt_at {moment} NOT NULL DEFAULT {now},
    expires_at {moment},
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    last_number integer NOT NULL DEFAULT 0,
    resends integer NOT NULL DEFAULT 0,
    evidence integer NOT NULL DEFAULT 0,
    lease_token varchar(32),
    lease_expires_at {moment},
    on_ambiguous varchar(16) NOT NULL DEFAULT 'hold'
        CHECK (on_ambiguous IN ('hold', 'resend', 'assume_sent')),
    created_at {moment} NOT NULL DEFAULT {now},
    queued_at {moment} NOT NULL DEFAULT {now},
    finished_at {moment},
    sender text,
    "to" {json} NOT NULL DEFAULT '[]' CHECK ({json_type:"to"} IN ('array', {json_text})),
    cc {json} NOT NULL DEFAULT '[]' CHECK ({json_type:cc} IN ('array', {json_text})),
    bcc {json} NOT NULL DEFAULT '[]' CHECK ({json_type:bcc} IN ('array', {json_text})),
    reply_to {json} NOT NULL DEFAULT '[]' CHECK ({json_type:reply_to} IN ('array', {json_text})),
    subject text,
    text text,
    html text,
    headers {json} NOT NULL DEFAULT '[]' CHECK ({json_type:headers} IN ('array', 'object')),
    attachments {json} NOT NULL DEFAULT '[]' CHECK ({json_type:attachments} = 'array'),
    template varchar(128),
    template_version varchar(32),
    context {json},

    CONSTRAINT email_outbox_state CHECK (state IN ('pending', 'sending', 'ambiguous', 'submitted',
        'failed', 'suppressed', 'expired', 'cancelled')),
    -- A row is leased exactly while it is being sent: a lease elsewhere would never be swept.
    CONSTRAINT email_outbox_lease CHECK ((state = 'sending') = (lease_token IS NOT NULL)
        AND (lease_token IS NULL) = (lease_expires_at IS NULL)),
    CONSTRAINT email_outbox_finished CHECK ((finished_at IS NOT NULL) =
        (state IN ('submitted', 'failed', 'suppressed', 'expired', 'cancelled'))),
    -- Frozen rows carry both: one identifies the payload, the other the message on the wire.
    CONSTRAINT email_outbox_frozen CHECK ((fingerprint IS NULL) = (message_id IS NULL)),
    CONSTRAINT email_outbox_content CHECK (template IS NOT NULL
        OR (subject IS NOT NULL AND (text IS NOT NULL OR html IS NOT NULL)))
)
"""

RECIPIENT = """
CREATE TABLE email_recipient (
    id {serial},
    outbox_id bigint NOT NULL REFERENCES email_outbox (id) ON DELETE CASCADE,
    address text NOT NULL,
    address_key text NOT NULL,
    role varchar(3) NOT NULL CHECK (role IN ('to', 'cc', 'bcc')),
    state varchar(16) NOT NULL DEFAULT 'due'
        CHECK (state IN ('due', 'accepted', 'refused', 'suppressed', 'ambiguous')),
    rule varchar(80),
    code varchar(64),
    text text,
    updated_at {moment} NOT NULL DEFAULT {now},
    -- One envelope entry an address, whatever header fields name it.
    CONSTRAINT email_recipient_once UNIQUE (outbox_id, address_key)
)
"""

ATTEMPT = """
CREATE TABLE email_attempt (
    id {serial},
    outbox_id bigint NOT NULL REFERENCES email_outbox (id) ON DELETE CASCADE,
    number integer NOT NULL,
    provider varchar(255) NOT NULL,
    lease_token varchar(32) NOT NULL,
    request_tag varchar(64) NOT NULL UNIQUE,
    state varchar(16) NOT NULL DEFAULT 'claimed'
        CHECK (state IN ('claimed', 'started', 'finished', 'released')),
    outcome varchar(16) CHECK (outcome IN ('accepted', 'retryable', 'permanent', 'ambiguous')),
    scope varchar(16) CHECK (scope IN ('message', 'recipient', 'account', 'connection')),
    stage varchar(32),
    rule varchar(80),
    code varchar(64),
    reason text,
    decision text,
    provider_id text,
    claimed_at {moment} NOT NULL DEFAULT {now},
    started_at {moment},
    finished_at {moment},
    resolution varchar(16) CHECK (resolution IN ('accepted', 'not_accepted')),
    resolved_at {moment},
    resolved_by varchar(255),
    evidence text,
    CONSTRAINT email_attempt_number UNIQUE (outbox_id, number),
    -- An end without an outcome, or an outcome without an end, would be a lost result.
    CONSTRAINT email_attempt_outcome CHECK ((state = 'finished') = (outcome IS NOT NULL)
        AND (outcome IS NULL OR (scope IS NOT NULL AND stage IS NOT NULL AND rule IS NOT NULL))),
    CONSTRAINT email_attempt_started CHECK (state <> 'started' OR started_at IS NOT NULL),
    CONSTRAINT email_attempt_ended CHECK ((state IN ('finished', 'released')) =
        (finished_at IS NOT NULL)),
    -- Only what was in doubt can be settled later.
    CONSTRAINT email_attempt_resolution CHECK (resolution IS NULL
        OR (outcome = 'ambiguous' AND resolved_at IS NOT NULL AND resolved_by IS NOT NULL))
)
"""

AUDIT = """
CREATE TABLE email_audit (
    id {serial},
    at {moment} NOT NULL DEFAULT {now},
    actor varchar(255) NOT NULL,
    verb varchar(64) NOT NULL,
    outbox_id bigint,
    before varchar(64),
    after varchar(64),
    why text NOT NULL
)
"""

INDEXES = (
    # Claims read this alone, so their cost does not grow with the history.
    "CREATE INDEX email_outbox_due ON email_outbox (priority, next_attempt_at, id)"
    " WHERE state = 'pending'",
    "CREATE INDEX email_outbox_leased ON email_outbox (lease_expires_at) WHERE state = 'sending'",
    "CREATE INDEX email_outbox_in_doubt ON email_outbox (next_attempt_at)"
    " WHERE state = 'ambiguous'",
    "CREATE INDEX email_outbox_expiring ON email_outbox (expires_at)"
    " WHERE state = 'pending' AND expires_at IS NOT NULL",
    "CREATE INDEX email_outbox_stopped ON email_outbox (state, id)"
    " WHERE state IN ('failed', 'suppressed', 'expired', 'cancelled')",
    "CREATE INDEX email_audit_row ON email_audit (outbox_id)",
)


def up(_: object, db: Database) -> None:
    """Create the tables and their indexes."""
    for table in (OUTBOX, RECIPIENT, ATTEMPT, AUDIT):
        db.execute_sql(define(table))
    for index in INDEXES:
        db.execute_sql(index)
