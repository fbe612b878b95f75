"""The health of providers, shared by all workers: circuits, rates and quotas."""

from peewee import Database

from mailer.migrations.dialect import define

PROVIDER = """
CREATE TABLE email_provider (
    id {serial},
    -- A provider, or something narrower that a fault was about.
    name varchar(600) NOT NULL UNIQUE,
    provider varchar(255) NOT NULL,
    sender text,
    state varchar(16) NOT NULL DEFAULT 'closed' CHECK (state IN ('closed', 'open', 'half_open')),
    reason text,
    since {moment} NOT NULL DEFAULT {now},
    until {moment},
    permanents integer NOT NULL DEFAULT 0,
    permanent_rule varchar(80),
    ambiguous integer NOT NULL DEFAULT 0,
    ambiguous_since {moment} NOT NULL DEFAULT {now},
    connection_failures integer NOT NULL DEFAULT 0,
    openings integer NOT NULL DEFAULT 0,
    -- Recipients a second; null where there is no limit.
    rate double precision CHECK (rate > 0),
    slowed double precision NOT NULL DEFAULT 1 CHECK (slowed > 0 AND slowed <= 1),
    tokens double precision NOT NULL DEFAULT 0,
    refilled_at {moment} NOT NULL DEFAULT {now},
    left_today double precision,
    limits_at {moment},
    -- An open circuit that never ends would be forgotten mail.
    CONSTRAINT email_provider_until CHECK ((state = 'closed') = (until IS NULL)),
    CONSTRAINT email_provider_reason CHECK (state = 'closed' OR reason IS NOT NULL)
)
"""


def up(_: object, db: Database) -> None:
    """Create the table."""
    db.execute_sql(define(PROVIDER))
