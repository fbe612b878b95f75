"""Claims in quick succession miss nothing for long, and walk over no dead index entries."""

import json
from typing import Any

import psycopg2
import pytest

from mailer import claims
from mailer.claimant import TOP_SECONDS, Claimant
from mailer.claims import EVERYTHING, Frontier, Scope
from mailer.claims_sql import POSTGRESQL
from mailer.database import bound
from mailer.routing import Errand
from mailer.tables import Outbox
from tests.builders import PAST, PROVIDER, claim, enqueue

LIMIT = 2


class Clock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def claimed(claimant: Claimant, limit: int = LIMIT) -> list[str]:
    """Claim once; return the keys."""
    return [each.dedup_key for each in claimant.claim(Errand(PROVIDER, EVERYTHING, limit))]


def due(key: str, minutes: int, **changes: Any) -> None:
    """A row that is due since so many minutes after a moment long past."""
    row, _ = enqueue(key, **changes)
    moment = PAST.replace(minute=minutes)
    Outbox.update(next_attempt_at=moment).where(Outbox.id == row.id).execute()


@pytest.mark.usefixtures("postgres_outbox")
class TestOnPostgresql:
    def test_a_row_behind_the_frontier_waits_while_the_queue_is_full_and_no_longer(self) -> None:
        clock = Clock()
        claimant = Claimant(60, clock)
        for number in range(1, 9):
            due(str(number), number)
        assert claimed(claimant) == ["1", "2"]
        due("behind", 0)
        assert claimed(claimant) == ["3", "4"]
        clock.now = TOP_SECONDS
        assert claimed(claimant) == ["behind", "5"]

    def test_a_claim_that_finds_too_little_looks_behind_at_once(self) -> None:
        claimant = Claimant(60, Clock())
        for number in range(1, 4):
            due(str(number), number)
        assert claimed(claimant) == ["1", "2"]
        due("behind", 0)
        assert claimed(claimant) == ["3", "behind"]
        assert claimed(claimant) == []
        due("behind again", 0)
        assert claimed(claimant) == ["behind again"]

    def test_urgent_rows_are_found_while_the_queue_is_full(self) -> None:
        claimant = Claimant(60, Clock())
        for number in range(1, 9):
            due(str(number), number)
        assert claimed(claimant) == ["1", "2"]
        due("urgent", 0, priority=0)
        assert claimed(claimant) == ["urgent", "3"]
        due("more urgent than the frontier of its lane", 1, priority=0)
        assert claimed(claimant)[0] == "more urgent than the frontier of its lane"

    def test_rows_of_one_moment_are_told_apart_by_their_ids(self) -> None:
        claimant = Claimant(60, Clock())
        for number in range(5):
            due(str(number), 7)
        assert [claimed(claimant) for _ in range(3)] == [["0", "1"], ["2", "3"], ["4"]]

    def test_each_scope_has_its_own_frontier(self) -> None:
        claimant = Claimant(60, Clock())
        for number in range(1, 9):
            due(str(number), number, stream="news" if number < 5 else "default")
        other = Errand(PROVIDER, Scope(other_streams=("news",)), LIMIT)
        assert [each.dedup_key for each in claimant.claim(other)] == ["5", "6"]
        assert claimed(claimant) == ["1", "2"]


def test_a_transaction_that_stays_open_does_not_make_continued_claims_dearer(
    postgres_outbox: str,
) -> None:
    for number in range(600):
        enqueue(str(number))
    bound().execute_sql("ANALYZE")
    frontier = Frontier()
    first = buffers(frontier)
    with psycopg2.connect(postgres_outbox) as holder, holder.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT count(*) FROM email_outbox")
        for _ in range(10):
            frontier.advance(claim(50))
        continued, from_the_top = buffers(frontier), buffers(Frontier())
    assert continued <= first
    assert from_the_top > first + 10


def buffers(frontier: Frontier) -> int:
    """How many pages finding the next ten due rows touches."""
    params = {
        "limit": 10,
        "only_sender": None,
        "default_sender": "",
        "first_sends": False,
        "streams": None,
        "other_streams": [],
        "held_senders": [],
        **frontier.params(),
    }
    find = POSTGRESQL.claim.partition("), o AS (")[0] + ") SELECT id FROM due"
    ((plan,),) = (
        bound().execute_sql("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + find, params).fetchall()
    )
    parsed = plan if isinstance(plan, list) else json.loads(plan)
    return int(parsed[0]["Plan"]["Shared Hit Blocks"])


@pytest.mark.usefixtures("outbox")
def test_what_is_claimed_says_where_it_stood() -> None:
    due("key", 3, priority=7)
    (only,) = claims.claim_due(1, provider=PROVIDER, lease_seconds=60)
    assert (only.priority, only.due_at) == (7, PAST.replace(minute=3))
