"""One turn of a worker: what has ended is written and what begins is marked, in one commit."""

from collections.abc import Sequence
from dataclasses import dataclass

from mailer import claims, results
from mailer.claims import Claimed
from mailer.claims_sql import BEGIN
from mailer.database import is_postgresql, rows, transaction
from mailer.results import FINISH, Bulk, Ended, Written
from mailer.retry import Jitter, RetryPolicy

_TURN = f"SELECT true, {FINISH} UNION ALL SELECT false, {BEGIN}"


@dataclass(frozen=True, slots=True)
class Turned:
    """What a turn has committed: results and what they made, and the attempts that may go.

    Results in `left` are not written yet: each is to be settled under its row's lock, and may fail
    there, while those that may go have begun all the same.
    """

    ended: list[Ended]
    written: list[Written]
    left: list[Ended]
    begun: set[int]


def turn(
    ended: Sequence[Ended], group: Sequence[Claimed], policy: RetryPolicy, jitter: Jitter
) -> Turned:
    """Write results and begin attempts in one commit; where it raises, none of that is done.

    See `results.finish` and `claims.begin`. On PostgreSQL it is one statement, and so one way to
    the server and back.
    """
    if not is_postgresql():
        with transaction():
            written = results.finish(ended, policy, jitter)
            return Turned(list(ended), written, [], claims.begin(group))
    bulk = Bulk.of(ended, policy, jitter)
    answers = rows(_TURN, {**bulk.params, **claims.begin_params(group)})
    begun = {attempt_id for is_end, attempt_id in answers if not is_end}
    moved = bulk.written({attempt_id for is_end, attempt_id in answers if is_end})
    done = [each for each in ended if each.attempt_id in moved]
    left = [each for each in ended if each.attempt_id not in moved]
    return Turned(done, [moved[each.attempt_id] for each in done], left, begun)
