"""What the database says, read through a client of our own: none of the product's code."""

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg2

from mailer.prove.kit.waiting import eventually

_ROWS = """
SELECT o.id, o.dedup_key, o.state, o.attempts, o.lease_token IS NOT NULL, o.finished_at IS NOT NULL,
    array(SELECT r.state FROM email_recipient r WHERE r.outbox_id = o.id ORDER BY r.id)
FROM email_outbox o ORDER BY o.id
"""

_TRIES = """
SELECT a.outbox_id, a.number, a.state, a.outcome, a.stage, a.rule, a.resolution, a.resolved_by
FROM email_attempt a ORDER BY a.outbox_id, a.number
"""

_HELD = """
SELECT o.id FROM email_outbox o
JOIN email_attempt a ON a.outbox_id = o.id AND a.lease_token = o.lease_token
WHERE o.state = 'sending' AND a.state = %s
"""

_OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@dataclass(frozen=True, slots=True)
class Row:
    """One message as the outbox states it."""

    outbox_id: int
    dedup_key: str
    state: str
    attempts: int
    is_leased: bool
    is_finished: bool
    recipients: list[str]


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt as it was written down."""

    outbox_id: int
    number: int
    state: str
    outcome: str | None
    stage: str | None
    rule: str | None
    resolution: str | None
    resolved_by: str | None


class Ledger:
    """One database; every question is asked over a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement, commit, and return its rows."""
        with closing(psycopg2.connect(self.url)) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values)
            connection.commit()
            return list(cursor.fetchall()) if cursor.description else []

    def rows(self) -> list[Row]:
        """Return all messages."""
        return [Row(*each) for each in self.ask(_ROWS)]

    def tries(self) -> list[Try]:
        """Return all attempts, those of one message in order."""
        return [Try(*each) for each in self.ask(_TRIES)]

    def states(self) -> Counter[str]:
        """Return how many messages are in each state."""
        found = self.ask("SELECT state, count(*) FROM email_outbox GROUP BY state")
        return Counter(dict(found))

    def held(self, attempt_state: str) -> set[int]:
        """Return the messages under a lease whose attempt is in this state."""
        return {each[0] for each in self.ask(_HELD, attempt_state)}

    def connections(self) -> int:
        """Return how many others are connected to this database."""
        return int(self.ask(f"SELECT count(*) {_OTHERS}")[0][0])

    def disconnect_others(self) -> int:
        """End the connections of everybody else; return how many."""
        return len(self.ask(f"SELECT pg_terminate_backend(pid) {_OTHERS}"))

    def wait_alone(self) -> None:
        """Return once nobody else is connected: what the dead had asked for is done or undone."""
        eventually(lambda: self.connections() == 0, "the connections of the dead are gone")

    def wait_settled(self, count: int) -> Counter[str]:
        """Return the states once there are `count` messages and none is waiting or under way."""

        def settled() -> Counter[str]:
            states = self.states()
            under_way = states["pending"] + states["sending"]
            return Counter() if under_way or states.total() < count else states

        return eventually(settled, f"{count} messages settle")

    def wait_states(self, **wanted: int) -> None:
        """Return once exactly these states hold exactly these numbers of messages."""
        eventually(lambda: self.states() == Counter(wanted), f"states {wanted}")
