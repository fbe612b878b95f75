"""The bulk statement behind `results.finish` on PostgreSQL."""

POSTGRESQL_FINISH = """
WITH r AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS t(outbox_id bigint, attempt_id bigint,
        token text, evidence integer, state text, state_reason text, charge integer, delay float8,
        final boolean, outcome text, scope text, stage text, rule text, code text, reason text,
        provider_id text, decision text)
), moved AS (
    UPDATE email_outbox o SET state = r.state, reason = r.state_reason, lease_token = NULL,
        lease_expires_at = NULL, attempts = o.attempts + r.charge,
        next_attempt_at = CASE WHEN r.delay IS NULL THEN o.next_attempt_at
            ELSE now() + make_interval(secs => r.delay) END,
        finished_at = CASE WHEN r.final THEN now() END
    FROM r WHERE o.id = r.outbox_id AND o.lease_token = r.token AND o.evidence = r.evidence
    RETURNING o.id, r.attempt_id
), ended AS (
    UPDATE email_attempt a SET state = 'finished', finished_at = now(), outcome = r.outcome,
        scope = r.scope, stage = r.stage, rule = r.rule, code = r.code, reason = r.reason,
        provider_id = r.provider_id, decision = r.decision
    FROM r JOIN moved ON moved.attempt_id = r.attempt_id WHERE a.id = r.attempt_id
), told AS (
    UPDATE email_recipient p SET state = c.state, rule = c.rule, code = c.code, text = c.text,
        updated_at = now()
    FROM json_to_recordset(%(recipients)s::json) AS c(outbox_id bigint, id bigint, state text,
        rule text, code text, text text)
    JOIN moved ON moved.id = c.outbox_id WHERE p.id = c.id AND p.outbox_id = c.outbox_id
)
SELECT attempt_id FROM moved
"""
