"""The statements that insert an intent with its recipients."""

from mailer.database import SQLITE_NOW

_COLUMNS = (
    "dedup_key", "fingerprint", "message_id", "sender", '"to"', "cc", "bcc", "reply_to", "subject",
    "text", "html", "headers", "attachments", "template", "template_version", "context", "stream",
    "priority", "on_ambiguous", "expires_at",
)  # fmt: skip
_NAMES = tuple(each.strip('"') for each in _COLUMNS)

POSTGRESQL_INSERT = f"""
WITH o AS (
    INSERT INTO email_outbox ({", ".join(_COLUMNS)}, next_attempt_at)
    VALUES ({", ".join(f"%({name})s" for name in _NAMES)},
        coalesce(%(send_at)s::timestamptz, now()))
    ON CONFLICT (dedup_key) DO NOTHING RETURNING id, created_at, next_attempt_at
), r AS (
    INSERT INTO email_recipient (outbox_id, address, address_key, role)
    SELECT o.id, t.address, t.address_key, t.role FROM o,
        json_to_recordset(%(recipients)s::json) AS t(address text, address_key text, role text)
)
SELECT id, created_at, next_attempt_at FROM o
"""

SQLITE_INSERT_ROW = f"""
INSERT INTO email_outbox ({", ".join(_COLUMNS)}, next_attempt_at)
VALUES ({", ".join(f":{name}" for name in _NAMES)},
    coalesce(:send_at, {SQLITE_NOW}))
ON CONFLICT (dedup_key) DO NOTHING RETURNING id, created_at, next_attempt_at
"""

SQLITE_INSERT_RECIPIENTS = """
INSERT INTO email_recipient (outbox_id, address, address_key, role)
SELECT :id, value ->> 'address', value ->> 'address_key', value ->> 'role'
FROM json_each(:recipients) RETURNING id
"""
