"""Results that went through the broker: the same outcome, without a text that could quote mail."""

import json

import pytest

from mailer.outcome import CallResult, Outcome, RecipientVerdict, Scope
from mailer.record import Recorder, pack, unpack
from mailer.results import Ended
from tests.builders import (
    POLICY,
    attempt_of,
    ended,
    lose_lease,
    middle,
    recipient_states,
    result_of,
    row_of,
    started,
)


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.usefixtures("outbox")
def test_a_carried_result_is_written_as_one_in_hand(outcome: Outcome) -> None:
    claimed = started(to=["a@example.com", "b@example.com"])
    carried = json.loads(json.dumps(pack(ended(claimed, result_of(claimed, outcome)))))
    Recorder(POLICY, middle).record([carried])
    assert attempt_of(claimed).outcome == outcome
    expected = {"accepted": "accepted", "retryable": "due", "permanent": "refused"}
    assert set(recipient_states(claimed.outbox_id)) == {expected.get(outcome, "ambiguous")}
    before = row_of(claimed.outbox_id).__data__
    Recorder(POLICY, middle).record([carried])
    assert row_of(claimed.outbox_id).__data__ == before


@pytest.mark.usefixtures("outbox")
def test_a_result_carried_past_its_lease_is_evidence() -> None:
    claimed = started()
    carried = pack(ended(claimed, result_of(claimed, Outcome.ACCEPTED)))
    lose_lease(claimed)
    Recorder(POLICY, middle).record([carried])
    assert row_of(claimed.outbox_id).state == "submitted"
    assert attempt_of(claimed).resolution == "accepted"


def test_no_text_of_the_provider_is_carried() -> None:
    quoting = "550 no such user canary@example.com"
    verdict = RecipientVerdict(3, Outcome.PERMANENT, Scope.RECIPIENT, "rule", "550", quoting)
    result = CallResult(
        Outcome.PERMANENT, Scope.RECIPIENT, "rcpt", "rule", (verdict,), "550", quoting, quoting, 5.0
    )
    carried = pack(Ended(1, 2, "t" * 32, result))
    assert "canary" not in json.dumps(carried)
    back = unpack(carried).result
    assert (back.outcome, back.stage, back.code, back.retry_after_seconds) == (
        Outcome.PERMANENT,
        "rcpt",
        "550",
        5.0,
    )
