"""One turn of a worker: what has ended is written and what begins is marked, in one commit."""

from collections.abc import Sequence

from mailer import claims, results
from mailer.claims import Claimed
from mailer.claims_sql import BEGIN
from mailer.database import is_postgresql, rows, transaction
from mailer.results import FINISH, Bulk, Ended, Written
from mailer.retry import Jitter, RetryPolicy

_TURN = f"SELECT true, {FINISH} UNION ALL SELECT false, {BEGIN}"


def turn(
    ended: Sequence[Ended], group: Sequence[Claimed], policy: RetryPolicy, jitter: Jitter
) -> tuple[list[Written], set[int]]:
    """Write results and begin attempts; return what each result made, and who may go.

    See `results.finish` and `claims.begin`. On PostgreSQL it is one statement, and so one way to
    the server and back; results that it cannot settle follow by themselves.
    """
    if not is_postgresql():
        with transaction():
            return results.finish(ended, policy, jitter), claims.begin(group)
    if not ended or not group:
        return results.finish(ended, policy, jitter), claims.begin(group)
    bulk = Bulk.of(ended, policy, jitter)
    answers = rows(_TURN, {**bulk.params, **claims.begin_params(group)})
    moved = {attempt_id for is_end, attempt_id in answers if is_end}
    begun = {attempt_id for is_end, attempt_id in answers if not is_end}
    return results.finish_rest(ended, bulk.written(moved), policy, jitter), begun
