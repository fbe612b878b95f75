"""The statement behind `suppressions.bar`, and its spelling in each dialect."""

import re

from mailer.database import SQLITE_NOW, is_postgresql
from mailer.facts import REASON_RANK

_RANKED = " ".join(f"WHEN '{reason}' THEN {rank}" for reason, rank in REASON_RANK.items())
_RANK = f"(CASE {{}}.reason {_RANKED} END)"
_OVER = "coalesce({}.expires_at <= {{now}}, false)"
_NEW, _OLD = "excluded", "email_suppression"

# What is in force goes before what has expired, whichever came first. Of two equals the source
# decides, for want of anything else that does not depend on the order.
_HIGHER = f"""CASE
        WHEN {_OVER.format(_NEW)} <> {_OVER.format(_OLD)} THEN {_OVER.format(_OLD)}
        WHEN {_RANK.format(_NEW)} <> {_RANK.format(_OLD)}
            THEN {_RANK.format(_NEW)} > {_RANK.format(_OLD)}
        ELSE excluded.source < email_suppression.source END"""

ADD = f"""
INSERT INTO email_suppression (address_key, reason, source, occurred_at, expires_at, event_id)
SELECT :address_key, :reason, :source, :occurred_at{{moment}}, :expires_at{{moment}}, :event_id
WHERE NOT EXISTS (SELECT 1 FROM email_suppression
    WHERE address_key = :address_key AND released_at >= :occurred_at)
ON CONFLICT (address_key) WHERE released_at IS NULL DO UPDATE SET
    source = CASE WHEN {_HIGHER} THEN excluded.source ELSE email_suppression.source END,
    event_id = CASE WHEN {_HIGHER} THEN excluded.event_id ELSE email_suppression.event_id END,
    reason = CASE WHEN {_HIGHER} THEN excluded.reason ELSE email_suppression.reason END,
    occurred_at = {{greatest}}(email_suppression.occurred_at, excluded.occurred_at),
    expires_at = CASE WHEN email_suppression.expires_at IS NULL OR excluded.expires_at IS NULL
        THEN NULL ELSE {{greatest}}(email_suppression.expires_at, excluded.expires_at) END
RETURNING id
"""


def spelled(sql: str) -> str:
    """Write a statement in the bound database's dialect."""
    if not is_postgresql():
        return sql.format(moment="", greatest="max", now=SQLITE_NOW)
    named = re.sub(r":(\w+)", r"%(\1)s", sql)
    return named.format(moment="::timestamptz", greatest="greatest", now="now()")
