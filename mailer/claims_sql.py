"""The statements behind `claims`, once for each dialect."""

from dataclasses import dataclass

from mailer.database import SQLITE_NOW

_FIELDS = """o.id, {attempt}, o.last_number, {tag}, o.dedup_key, o.message_id, o.created_at,
    {age}, {expires_in}, o.attempts, o.evidence, o.resends, o.attachments <> '[]', o.template,
    o.context, {recipients}, o.sender, o."to", o.cc, o.bcc, o.reply_to, o.subject,
    o.text, o.html, o.headers, o.priority, o.next_attempt_at"""

_IN_FORCE = """s.address_key = r.address_key AND s.released_at IS NULL
            AND (s.expires_at IS NULL OR s.expires_at > {now})"""
_PG_IN_FORCE = _IN_FORCE.format(now="now()")
_SQLITE_IN_FORCE = _IN_FORCE.format(now=SQLITE_NOW)

_PG_FIELDS = _FIELDS.format(
    attempt="o.attempt_id",
    tag="o.request_tag",
    age="extract(epoch FROM now() - o.queued_at)",
    expires_in="extract(epoch FROM o.expires_at - now())",
    recipients=f"""(SELECT json_agg(json_build_array(r.id, r.address, r.state,
            s.id IS NOT NULL) ORDER BY r.id)
        FROM email_recipient r LEFT JOIN email_suppression s ON r.state = 'due'
            AND {_PG_IN_FORCE}
        WHERE r.outbox_id = o.id)""",
)

_SQLITE_FIELDS = _FIELDS.format(
    attempt="a.id",
    tag="a.request_tag",
    age="(julianday('now') - julianday(o.queued_at)) * 86400.0",
    expires_in="(julianday(o.expires_at) - julianday('now')) * 86400.0",
    recipients=f"""(SELECT json_group_array(json_array(r.id, r.address, r.state,
            r.state = 'due' AND EXISTS (SELECT 1 FROM email_suppression s
                WHERE {_SQLITE_IN_FORCE})))
        FROM (SELECT * FROM email_recipient WHERE outbox_id = o.id ORDER BY id) r)""",
)

_SQLITE_LEASE = "strftime('%Y-%m-%d %H:%M:%f000+00:00', 'now', :lease)"


@dataclass(frozen=True)
class Statements:
    """What both dialects can say in one statement."""

    freeze_row: str
    freeze_recipients: str
    attachments: str
    begin: str
    renew: str


@dataclass(frozen=True)
class PostgresqlStatements(Statements):
    """PostgreSQL writes rows and attempts in one statement."""

    claim: str
    release: str


@dataclass(frozen=True)
class SqliteStatements(Statements):
    """SQLite has no data-modifying WITH: the same steps under its one write lock."""

    claim_rows: str
    claim_attempts: str
    claimed: str
    release_attempts: str
    release_rows: str


BEGIN = "email_begin_1(%(ids)s::bigint[], %(tokens)s::text[])"


# Only a row that is being sent has a lease token (a CHECK says so). Asking for the state besides
# would offer the planner the index of leased rows, whose dead entries it would then walk over.
POSTGRESQL = PostgresqlStatements(
    # One index probe for each priority: rows of an urgent priority that wait for their next
    # attempt would otherwise be walked over before the due rows of the next one are reached.
    # The attempt's id and tag are drawn with the row, so that the two need no join afterwards.
    claim=f"""
WITH due AS MATERIALIZED (
    SELECT lane.id FROM unnest(%(moments)s::timestamptz[], %(marks)s::bigint[])
        WITH ORDINALITY AS beyond(moment, mark, place), LATERAL (
        SELECT id FROM email_outbox
        WHERE state = 'pending' AND priority = place - 1 AND next_attempt_at <= now()
            AND (next_attempt_at, id) > (beyond.moment, beyond.mark)
            AND (expires_at IS NULL OR expires_at > now())
            AND (%(streams)s::text[] IS NULL OR stream = ANY (%(streams)s::text[]))
            AND stream <> ALL (%(other_streams)s::text[])
            AND coalesce(sender, %(default_sender)s) <> ALL (%(held_senders)s::text[])
            AND (%(only_sender)s::text IS NULL
                OR coalesce(sender, %(default_sender)s) = %(only_sender)s)
            AND (NOT %(first_sends)s OR resends = 0)
        ORDER BY next_attempt_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) AS lane LIMIT %(limit)s
), o AS (
    UPDATE email_outbox SET state = 'sending', reason = NULL, lease_token = %(token)s,
        lease_expires_at = now() + make_interval(secs => %(lease)s), last_number = last_number + 1
    FROM due WHERE email_outbox.id = due.id AND state = 'pending'
    RETURNING email_outbox.*, nextval('email_attempt_id_seq') AS attempt_id,
        replace(gen_random_uuid()::text, '-', '') AS request_tag
), a AS (
    INSERT INTO email_attempt (id, outbox_id, number, provider, lease_token, request_tag)
    SELECT attempt_id, id, last_number, %(provider)s, lease_token, request_tag FROM o
)
SELECT {_PG_FIELDS} FROM o ORDER BY o.priority, o.next_attempt_at, o.id
""",
    freeze_row="""
UPDATE email_outbox o SET message_id = %(message_id)s, fingerprint = %(fingerprint)s,
    template_version = %(template_version)s, sender = c.sender, "to" = c."to", cc = c.cc,
    bcc = c.bcc, reply_to = c.reply_to, subject = c.subject, text = c.text, html = c.html,
    headers = c.headers, attachments = c.attachments
FROM jsonb_to_record(%(columns)s::jsonb) AS c(sender text, "to" jsonb, cc jsonb, bcc jsonb,
    reply_to jsonb, subject text, text text, html text, headers jsonb, attachments jsonb)
WHERE o.id = %(id)s AND o.lease_token = %(token)s RETURNING o.id
""",
    freeze_recipients="""
INSERT INTO email_recipient (outbox_id, address, address_key, role)
SELECT %(id)s, r.address, r.address_key, r.role
FROM jsonb_to_recordset(%(recipients)s::jsonb) AS r(address text, address_key text, role text)
RETURNING id, address
""",
    attachments="SELECT attachments FROM email_outbox WHERE id = %(id)s",
    begin=f"SELECT {BEGIN}",
    renew="""
WITH held AS (
    SELECT o.id FROM unnest(%(ids)s::bigint[], %(tokens)s::text[]) AS t(id, token)
    JOIN email_outbox o ON o.id = t.id AND o.lease_token = t.token
    FOR UPDATE OF o SKIP LOCKED
)
UPDATE email_outbox o SET lease_expires_at = now() + make_interval(secs => %(lease)s)
FROM held WHERE o.id = held.id RETURNING o.id
""",
    release="""
WITH mine AS (
    SELECT o.id, a.id AS attempt_id
    FROM unnest(%(ids)s::bigint[], %(tokens)s::text[]) AS t(id, token)
    JOIN email_attempt a ON a.id = t.id AND a.lease_token = t.token
    JOIN email_outbox o ON o.id = a.outbox_id AND o.lease_token = a.lease_token
    WHERE a.state = 'claimed' FOR UPDATE SKIP LOCKED
), freed AS (
    UPDATE email_attempt a SET state = 'released', finished_at = now(), decision = 'released'
    FROM mine WHERE a.id = mine.attempt_id AND a.state = 'claimed' RETURNING a.outbox_id
)
UPDATE email_outbox o SET state = 'pending', reason = 'released', lease_token = NULL,
    lease_expires_at = NULL
FROM freed WHERE o.id = freed.outbox_id RETURNING o.id
""",
)

SQLITE = SqliteStatements(
    claim_rows=f"""
UPDATE email_outbox SET state = 'sending', reason = NULL, lease_token = :token,
    lease_expires_at = {_SQLITE_LEASE}, last_number = last_number + 1
WHERE id IN (
    SELECT id FROM email_outbox WHERE state = 'pending' AND next_attempt_at <= {SQLITE_NOW}
        AND (expires_at IS NULL OR expires_at > {SQLITE_NOW})
        AND (:streams IS NULL OR stream IN (SELECT value FROM json_each(:streams)))
        AND stream NOT IN (SELECT value FROM json_each(:other_streams))
        AND coalesce(sender, :default_sender) NOT IN (SELECT value FROM json_each(:held_senders))
        AND (:only_sender IS NULL OR coalesce(sender, :default_sender) = :only_sender)
        AND (NOT :first_sends OR resends = 0)
    ORDER BY priority, next_attempt_at, id LIMIT :limit
) RETURNING id
""",
    claim_attempts="""
INSERT INTO email_attempt (outbox_id, number, provider, lease_token, request_tag)
SELECT id, last_number, :provider, lease_token, lower(hex(randomblob(16)))
FROM email_outbox WHERE id IN (SELECT value FROM json_each(:ids)) RETURNING id
""",
    claimed=f"""
SELECT {_SQLITE_FIELDS} FROM email_outbox o
JOIN email_attempt a ON a.outbox_id = o.id AND a.number = o.last_number
WHERE o.id IN (SELECT value FROM json_each(:ids))
ORDER BY o.priority, o.next_attempt_at, o.id
""",
    freeze_row="""
UPDATE email_outbox SET message_id = :message_id, fingerprint = :fingerprint,
    template_version = :template_version, sender = :columns ->> 'sender', "to" = :columns -> 'to',
    cc = :columns -> 'cc', bcc = :columns -> 'bcc', reply_to = :columns -> 'reply_to',
    subject = :columns ->> 'subject', text = :columns ->> 'text', html = :columns ->> 'html',
    headers = :columns -> 'headers', attachments = :columns -> 'attachments'
WHERE id = :id AND lease_token = :token AND state = 'sending' RETURNING id
""",
    freeze_recipients="""
INSERT INTO email_recipient (outbox_id, address, address_key, role)
SELECT :id, value ->> 'address', value ->> 'address_key', value ->> 'role'
FROM json_each(:recipients) RETURNING id, address
""",
    attachments="SELECT attachments FROM email_outbox WHERE id = :id",
    begin=f"""
UPDATE email_attempt SET state = 'started', started_at = {SQLITE_NOW}
WHERE state = 'claimed' AND EXISTS (
    SELECT 1 FROM json_each(:ids) t JOIN email_outbox o ON o.id = email_attempt.outbox_id
    WHERE email_attempt.id = t.value ->> 0 AND email_attempt.lease_token = t.value ->> 1
        AND o.lease_token = email_attempt.lease_token AND o.state = 'sending'
        AND o.lease_expires_at > {SQLITE_NOW}
        AND (o.expires_at IS NULL OR o.expires_at > {SQLITE_NOW})
        AND NOT EXISTS (SELECT 1 FROM email_recipient r
            JOIN email_suppression s ON {_SQLITE_IN_FORCE}
            WHERE r.outbox_id = o.id AND r.state = 'due')
) AND id IN (SELECT value ->> 0 FROM json_each(:ids)) RETURNING id
""",
    renew=f"""
UPDATE email_outbox SET lease_expires_at = {_SQLITE_LEASE}
WHERE state = 'sending' AND EXISTS (SELECT 1 FROM json_each(:ids) t
    WHERE id = t.value ->> 0 AND lease_token = t.value ->> 1)
    AND id IN (SELECT value ->> 0 FROM json_each(:ids)) RETURNING id
""",
    release_attempts=f"""
UPDATE email_attempt SET state = 'released', finished_at = {SQLITE_NOW}, decision = 'released'
WHERE state = 'claimed' AND EXISTS (
    SELECT 1 FROM json_each(:ids) t JOIN email_outbox o ON o.id = email_attempt.outbox_id
    WHERE email_attempt.id = t.value ->> 0 AND email_attempt.lease_token = t.value ->> 1
        AND o.lease_token = email_attempt.lease_token AND o.state = 'sending'
) AND id IN (SELECT value ->> 0 FROM json_each(:ids)) RETURNING outbox_id, lease_token
""",
    release_rows="""
UPDATE email_outbox SET state = 'pending', reason = 'released', lease_token = NULL,
    lease_expires_at = NULL
WHERE state = 'sending' AND EXISTS (SELECT 1 FROM json_each(:ids) t
    WHERE email_outbox.id = t.value ->> 0 AND lease_token = t.value ->> 1) RETURNING id
""",
)
