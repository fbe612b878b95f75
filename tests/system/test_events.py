"""What SES tells later: real processes, from the application to the suppression and back."""

from collections import Counter
from pathlib import Path

from mailer.prove.kit.application import Message
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.servers import RedisServer
from mailer.prove.kit.waiting import eventually
from tests.system.application import welcome
from tests.system.scene import scene
from tests.system.test_ses import close_circuit

LOST = 200
SLOW_SECONDS = 1.5
"""Within a lease, and long enough for an event to be stored and interpreted."""

SUPPRESSED = "SELECT address_key, reason FROM email_suppression WHERE released_at IS NULL"
ENDS = """
SELECT a.outcome, a.stage, a.rule, a.provider_id
FROM email_attempt a JOIN email_outbox o ON o.id = a.outbox_id WHERE o.dedup_key = %s
"""
RESOLVED = """
SELECT o.state, a.outcome, a.resolution, a.resolved_by LIKE 'event %%', a.duplicate,
    a.request_tag, a.provider_id
FROM email_attempt a JOIN email_outbox o ON o.id = a.outbox_id WHERE a.started_at IS NOT NULL
"""

FATES = {
    "bounce": {"accepted", "bounced_permanent"},
    "bouncelater": {"accepted", "delivered", "bounced_permanent"},
    "complaint": {"accepted", "delivered", "complained"},
    "ooto": {"accepted", "delivered", "bounced_transient"},
    "suppressionlist": {"accepted", "suppressed_by_provider"},
    "delay": {"accepted", "delayed", "delivered"},
}
"""What becomes known of a recipient whose address begins with this word."""
BARRED = {
    "bounce": "bounce",
    "bouncelater": "bounce",
    "complaint": "complaint",
    "suppressionlist": "provider",
}
"""The reasons for which some of them get no further mail."""


def ends_of(ledger: Ledger, key: str) -> tuple[str | None, ...]:
    """Return how the one attempt on a message ended, and the provider's id."""
    (ends,) = ledger.ask(ENDS, key)
    return ends


def mail(word: str, key: str) -> Message:
    return welcome(key, to=f"{word}-{word}@example.com")


def test_what_ses_tells_later_is_known_and_bars_whom_it_should(
    ledger: Ledger, redis: RedisServer, tmp_path: Path
) -> None:
    with scene(ledger, redis.url, tmp_path) as it:
        it.fake.set_state(events_first=True, slow_seconds=SLOW_SECONDS)
        it.commit(mail("slow", "slow"), mail("plain", "plain"))
        eventually(lambda: it.facts().get("slow"), "an event overtakes the answer")
        overtaken = ends_of(ledger, "slow")
        ledger.wait_states(submitted=2)

        it.fake.set_state(event_copies=3, shuffle_events=True, seed=7, hold_events=True)
        it.commit(*[mail(word, word) for word in FATES])
        ledger.wait_states(submitted=2 + len(FATES))
        it.fake.set_state(hold_events=False)
        told = it.wait_interpreted()
        known = it.facts()
        barred = dict(ledger.ask(SUPPRESSED))

        before = len(it.fake.taken())
        it.commit(*[mail(word, f"{word} again") for word in FATES])
        passed = len(FATES) - len(BARRED)
        ledger.wait_states(submitted=2 + len(FATES) + passed, suppressed=len(BARRED))
        taken = len(it.fake.taken()) - before

    assert overtaken[:3] == ("accepted", "evidence", "proven")
    assert overtaken[3] is not None
    assert ends_of(ledger, "slow") == overtaken, "the late answer changed the record"
    delivered = {"accepted", "delivered"}
    expected = {**FATES, "slow": delivered, "plain": delivered}
    assert known == {word: Counter(dict.fromkeys(kinds, 1)) for word, kinds in expected.items()}
    assert told == {"processed": sum(map(len, expected.values())), "control": 1}
    assert barred == {f"{word}-{word}@example.com": reason for word, reason in BARRED.items()}
    assert taken == passed
    refused = {each.dedup_key for each in ledger.rows() if each.state == "suppressed"}
    assert refused == {f"{word} again" for word in BARRED}
    assert set(it.fake.times().values()) == {1}


def test_two_hundred_sends_in_doubt_are_settled_by_their_events(
    ledger: Ledger, redis: RedisServer, tmp_path: Path
) -> None:
    more = {"MAILER_CONCURRENCY": "16", "MAILER_BATCH": "48"}
    with scene(ledger, redis.url, tmp_path, **more) as it:
        it.fake.set_state(close_share=1.0, hold_events=True)
        it.commit(*[welcome(f"key-{number}") for number in range(LOST)])
        insist_until_in_doubt(ledger)
        it.fake.set_state(close_share=0.0, hold_events=False)
        eventually(
            lambda: ledger.states() == {"submitted": LOST}, "all settle", patience_seconds=60
        )
        told = it.wait_interpreted()
        calls = it.fake.calls()

    logged = {each.tag for each in it.fake.taken()}
    assert it.fake.times() == Counter(each.outbox_id for each in ledger.rows())
    assert len(logged) == calls == LOST
    ends = ledger.ask(RESOLVED)
    assert {each[:5] for each in ends} == {("submitted", "ambiguous", "accepted", True, False)}
    assert {tag for *_, tag, _ in ends} == logged
    assert len({provider_id for *_, provider_id in ends}) == LOST
    assert told == {"processed": 2 * LOST, "control": 1}


def insist_until_in_doubt(ledger: Ledger) -> None:
    """Close the circuit each time that it opens, until all sends are in doubt."""

    def in_doubt() -> bool:
        close_circuit(ledger)
        return ledger.states() == {"ambiguous": LOST}

    eventually(in_doubt, "all are in doubt")
