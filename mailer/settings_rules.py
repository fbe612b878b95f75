"""What a role cannot do without, and which settings do not go together: data, one row a rule."""

from collections.abc import Callable
from dataclasses import dataclass

from mailer.settings_fields import Settings

SHORTEST_LEASE_SECONDS = 3.0
"""A lease is renewed at a third of its life, and a renewal is allowed a second to come through."""

PLANNED_CALL_SECONDS = 1.0
"""What one provider call is assumed to take when a batch is measured against the lease."""

WORKER = frozenset({"worker"})
APPLICATION = frozenset({"application"})
OPERATOR = frozenset({"operator"})
WEB = frozenset({"web"})
CONSUMER = frozenset({"consumer"})


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that each setting by itself does not show.

    The first of `variables` heads the line; the rule is passed over while any of them is wrong.
    """

    variables: tuple[str, ...]
    broken: Callable[[Settings], bool]
    mend: Callable[[Settings], str]
    roles: frozenset[str] = WORKER | APPLICATION | OPERATOR


def largest_batch(settings: Settings) -> int:
    """Return how many calls fit into one lease at the planned call time."""
    return int(settings.lease_seconds / PLANNED_CALL_SECONDS * settings.concurrency)


NEEDS = (
    Rule(
        ("DATABASE_URL",),
        lambda s: s.database_url is None,
        lambda _: "is not set; give the URL of the outbox's database",
        roles=WORKER | OPERATOR | WEB | CONSUMER,
    ),
    Rule(
        ("MAILER_PROVIDERS",),
        lambda s: not s.providers,
        lambda _: "is not set; name one, such as smtp://user:password@host:587?tls=starttls",
        roles=WORKER,
    ),
    Rule(
        ("MAILER_FROM",),
        lambda s: s.sender is None,
        lambda _: "is not set; give the address that mail comes from when a message names none",
        roles=WORKER,
    ),
    Rule(
        ("MAILER_SECRET",),
        lambda s: s.secret is None,
        lambda _: "is not set; give at least 16 random characters, the same in every process",
        roles=WORKER | APPLICATION,
    ),
    Rule(
        ("MAILER_MESSAGE_ID_DOMAIN", "MAILER_FROM"),
        lambda s: s.message_id_domain is None,
        lambda _: "is not set, and neither is MAILER_FROM, whose domain would do; set either",
        roles=APPLICATION,
    ),
    Rule(
        ("MAILER_SQS_QUEUE_URL",),
        lambda s: s.sqs_queue_url is None,
        lambda _: "is not set; give the URL of the queue that the topics publish to",
        roles=CONSUMER,
    ),
    Rule(
        ("MAILER_SNS_TOPIC_ARNS",),
        lambda s: not s.sns_topic_arns,
        lambda _: "is not set; name the topics that may speak",
        roles=CONSUMER,
    ),
)

CLASHES = (
    Rule(
        ("MAILER_LEASE_SECONDS",),
        lambda s: s.lease_seconds < SHORTEST_LEASE_SECONDS,
        lambda _: f"must be at least {SHORTEST_LEASE_SECONDS:g} s: three renewals of 1 s each",
    ),
    Rule(
        ("MAILER_POLL_SECONDS", "MAILER_LEASE_SECONDS"),
        lambda s: s.poll_seconds >= s.lease_seconds,
        lambda s: f"must be shorter than MAILER_LEASE_SECONDS ({s.lease_seconds:g} s)",
    ),
    Rule(
        ("MAILER_BATCH", "MAILER_CONCURRENCY", "MAILER_LEASE_SECONDS"),
        lambda s: s.batch > largest_batch(s),
        lambda s: (
            f"{s.batch} calls of {PLANNED_CALL_SECONDS:g} s, {s.concurrency} at a time, do not fit "
            f"into a lease of {s.lease_seconds:g} s; lower it to {largest_batch(s)}, "
            "or raise MAILER_CONCURRENCY or MAILER_LEASE_SECONDS"
        ),
    ),
    Rule(
        ("MAILER_RETRY_CAP", "MAILER_RETRY_BASE"),
        lambda s: s.retry_cap_seconds < s.retry_base_seconds,
        lambda s: f"must not be shorter than MAILER_RETRY_BASE ({s.retry_base_seconds:g} s)",
    ),
    Rule(
        ("MAILER_MAX_AGE", "MAILER_LEASE_SECONDS"),
        lambda s: s.max_age_seconds < s.lease_seconds,
        lambda s: f"must not be shorter than MAILER_LEASE_SECONDS ({s.lease_seconds:g} s)",
    ),
    Rule(
        ("DATABASE_URL",),
        lambda s: s.database_url is not None and ":memory:" in s.database_address,
        lambda _: "is in memory, where no other process sees it; a worker needs a file or a server",
        roles=WORKER | WEB | CONSUMER,
    ),
)

RULES = NEEDS + CLASHES
