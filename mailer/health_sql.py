"""The statement behind `health.take`: the rules of `circuit.Bucket`, in one row."""

from mailer.circuit import RECOVERY_SECONDS

POSTGRESQL_TAKE = f"""
WITH p AS (
    SELECT id, rate, slowed, tokens,
        greatest(0.0, extract(epoch FROM clock_timestamp() - refilled_at)) AS elapsed
    FROM email_provider WHERE name = %(name)s AND rate IS NOT NULL FOR UPDATE
), b AS (
    SELECT id, least(1.0, slowed + elapsed / {RECOVERY_SECONDS}) AS slowed,
        greatest(1.0, rate / 10.0) AS burst,
        least(greatest(1.0, rate / 10.0), tokens + elapsed * rate * slowed) AS held
    FROM p
), g AS (
    SELECT b.*, CASE WHEN held >= %(want)s OR held >= burst AND %(want)s > burst THEN %(want)s
        ELSE greatest(0, floor(held)) END AS granted
    FROM b
)
UPDATE email_provider e SET tokens = g.held - g.granted, slowed = g.slowed,
    refilled_at = clock_timestamp()
FROM g WHERE e.id = g.id RETURNING g.granted
"""
