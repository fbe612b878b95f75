"""The two statements of every turn, as functions: PostgreSQL plans them once a session.

Planned anew at each call they cost more to plan than to run, and a plan made for stale statistics
may walk a whole table. Here the plan is one of index lookups, whatever the statistics say, also
behind a pooler that shares sessions.

A later version of a statement is a new function with the next number: workers of both versions run
during a deploy.
"""

from peewee import Database

from mailer.database import is_postgresql

_HOW = """
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
{body};
END
$function$
"""

# Only a row that is being sent has a lease token (a CHECK says so). Asking for the state besides
# would offer the planner the index of leased rows, whose dead entries it would then walk over.
BEGIN = """
CREATE OR REPLACE FUNCTION email_begin_1(attempt_ids bigint[], lease_tokens text[])
RETURNS SETOF bigint""" + _HOW.format(
    body="""
    WITH mine AS MATERIALIZED (
        SELECT a.id FROM unnest(attempt_ids, lease_tokens) AS t(id, token)
        JOIN email_attempt a ON a.id = t.id AND a.lease_token = t.token
        JOIN email_outbox o ON o.id = a.outbox_id AND o.lease_token = a.lease_token
        WHERE a.state = 'claimed' AND o.lease_expires_at > now()
            AND (o.expires_at IS NULL OR o.expires_at > now())
            AND NOT EXISTS (SELECT 1 FROM email_recipient r
                JOIN email_suppression s ON s.address_key = r.address_key
                    AND s.released_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > now())
                WHERE r.outbox_id = o.id AND r.state = 'due')
        FOR UPDATE OF a SKIP LOCKED
    )
    UPDATE email_attempt a SET state = 'started', started_at = now()
    FROM mine WHERE a.id = mine.id AND a.state = 'claimed' RETURNING a.id"""
)

# What a row needs further on is returned with it: joining the lists would compare each with each.
FINISH = """
CREATE OR REPLACE FUNCTION email_finish_1(results json)
RETURNS SETOF bigint""" + _HOW.format(
    body="""
    WITH moved AS (
        UPDATE email_outbox o SET state = r.state, reason = r.state_reason, lease_token = NULL,
            lease_expires_at = NULL, attempts = o.attempts + r.charge,
            next_attempt_at = CASE WHEN r.delay IS NULL THEN o.next_attempt_at
                ELSE now() + make_interval(secs => r.delay) END,
            finished_at = CASE WHEN r.final THEN now() END
        FROM json_to_recordset(results) AS r(outbox_id bigint, attempt_id bigint,
            token text, evidence integer, state text, state_reason text, charge integer,
            delay float8, final boolean, outcome text, scope text, stage text, rule text,
            code text, reason text, provider_id text, decision text, bytes_sent bigint,
            doubtful jsonb, recipients json)
        WHERE o.id = r.outbox_id AND o.lease_token = r.token AND o.evidence = r.evidence
        RETURNING o.id, r.attempt_id, r.outcome, r.scope, r.stage, r.rule, r.code,
            r.reason AS said, r.provider_id, r.decision, r.bytes_sent, r.doubtful, r.recipients
    ), ended AS (
        UPDATE email_attempt a SET state = 'finished', finished_at = now(), outcome = m.outcome,
            scope = m.scope, stage = m.stage, rule = m.rule, code = m.code, reason = m.said,
            provider_id = m.provider_id, decision = m.decision, bytes_sent = m.bytes_sent,
            doubtful = m.doubtful
        FROM moved m WHERE a.id = m.attempt_id
    ), told AS (
        UPDATE email_recipient p SET state = c.state, rule = c.rule, code = c.code, text = c.text,
            updated_at = now()
        FROM moved m, json_to_recordset(m.recipients) AS c(id bigint, state text, rule text,
            code text, text text)
        WHERE p.id = c.id AND p.outbox_id = m.id
    ), awaited AS (
        -- Events that came before the provider's id was known: whoever interprets them finds it.
        UPDATE email_event SET state = 'received' WHERE id IN (
            SELECT e.id FROM moved m
            JOIN email_event e ON e.provider_id = m.provider_id AND e.state = 'unmatched'
            FOR UPDATE OF e SKIP LOCKED)
    )
    SELECT attempt_id FROM moved"""
)


def up(_: object, db: Database) -> None:
    """Create the functions; SQLite has none and keeps to its own statements."""
    if is_postgresql():
        db.execute_sql(BEGIN)
        db.execute_sql(FINISH)
