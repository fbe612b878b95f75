"""The metrics tell what stands, cost one reading every few seconds, and name nobody."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mailer import feedback
from mailer.facts import SuppressionReason
from mailer.feedback import Feedback
from mailer.outcome import Outcome
from mailer.suppressions import Barred, bar
from mailer.tables import Outbox
from mailer.vitals import Vitals, vitals
from mailer.web.metrics import CACHE_SECONDS, Metrics
from mailer.wiring import readers
from tests import builders
from tests.ses_payloads import incoming, payload


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """All samples by name and label values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@pytest.mark.usefixtures("outbox")
def test_what_stands_is_told() -> None:
    builders.finish(builders.started("lost"), Outcome.AMBIGUOUS)
    builders.finish(builders.started("sent"), Outcome.ACCEPTED, rule="taken")
    builders.enqueue("waiting")
    Outbox.update(next_attempt_at=builders.PAST).where(Outbox.dedup_key == "waiting").execute()
    feedback.store([incoming(payload("Bounce", provider_id="nobody's")), incoming("no JSON")])
    Feedback(readers()).interpret()
    feedback.store([incoming(payload("Delivery"))])
    told = samples(Metrics().text())
    assert told["mailer_database_up",] == 1
    assert told["mailer_due_rows",] == 1
    assert told["mailer_oldest_due_seconds",] > 86_400
    assert told["mailer_rows", "ambiguous"] == 1
    assert told["mailer_rows", "pending"] == 1
    assert ("mailer_rows", "submitted") not in told
    assert told["mailer_recent_attempts", "accepted", "taken"] == 1
    assert told["mailer_events", "received"] == 1
    assert told["mailer_events", "unmatched"] == 1
    assert told["mailer_events", "unparsed"] == 1
    assert told["mailer_event_lag_seconds",] >= 0
    assert told["mailer_suppressions", "bounce"] == 1
    assert told["mailer_duplicate_attempts",] == 0


@pytest.mark.usefixtures("outbox")
def test_no_address_and_no_key_is_told() -> None:
    claimed = builders.started("canary-key", "canary@example.com")
    builders.finish(claimed, Outcome.AMBIGUOUS)
    bar([Barred("canary@example.com", SuppressionReason.MANUAL, "canary", builders.PAST)])
    assert b"canary" not in Metrics().text()


def test_scrapes_share_one_reading() -> None:
    times = [0.0]
    readings: list[float] = []

    def read() -> Vitals:
        readings.append(times[0])
        return Vitals({}, 0, 0.0, 0.0, 0, (), 0, {}, 0.0, 0.0, {}, {})

    metrics = Metrics(read, clock=lambda: times[0])
    for moment in (0.0, 1.0, CACHE_SECONDS - 0.1, CACHE_SECONDS, CACHE_SECONDS + 1):
        times[0] = moment
        metrics.text()
    assert readings == [0.0, CACHE_SECONDS]


@pytest.mark.usefixtures("outbox")
def test_a_database_that_cannot_be_read_is_told_and_nothing_old() -> None:
    from mailer.database import bound

    bound().execute_sql("ALTER TABLE email_suppression RENAME TO hidden")
    told = samples(Metrics(vitals).text())
    assert told == {("mailer_database_up",): 0.0}


@pytest.mark.usefixtures("outbox")
def test_the_doors_answers_are_counted() -> None:
    told = samples(Metrics(answers={(200, "stored"): 3, (403, "sns-topic"): 1}).text())
    assert told["mailer_event_answers_total", "stored", "200"] == 3
    assert told["mailer_event_answers_total", "sns-topic", "403"] == 1
