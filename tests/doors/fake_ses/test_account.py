"""The fake SES's account: its switches, its limits, its identities."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from mailer.fake_ses import FakeSes, InvalidState
from mailer.fake_ses.limits import DAY_SECONDS, Bucket, Day
from tests.doors.fake_ses.client import refused, send, sent


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class TestSwitches:
    @pytest.mark.parametrize(
        ("switch", "code"),
        [("suspended", "AccountSuspendedException"), ("paused", "SendingPausedException")],
    )
    def test_an_account_that_may_not_send_says_so_until_it_may(
        self, fake: FakeSes, ses: Any, switch: str, code: str
    ) -> None:
        assert ses.get_account()["SendingEnabled"] is True
        fake.set_state(**{switch: True})
        with refused(code):
            send(ses)
        account = ses.get_account()
        assert account["SendingEnabled"] is False
        assert (account["EnforcementStatus"] == "HEALTHY") == (switch == "paused")
        assert fake.accepted() == ()
        fake.set_state(**{switch: False})
        send(ses)

    def test_expired_credentials_are_refused_everywhere(self, fake: FakeSes, ses: Any) -> None:
        fake.set_state(expired=True)
        for call in (send, lambda ses: ses.get_account()):
            with refused("ExpiredTokenException", 403):
                call(ses)
        assert (fake.calls(), fake.calls("GetAccount"), fake.accepted()) == (1, 1, ())

    def test_all_can_be_throttled(self, fake: FakeSes, ses: Any) -> None:
        fake.set_state(throttle_share=1)
        assert [sent(ses) for _ in range(5)] == [False] * 5
        assert fake.accepted() == ()

    def test_a_share_is_throttled_alike_with_the_same_seed(self, fake: FakeSes, ses: Any) -> None:
        runs = []
        for seed in (7, 7, 8):
            fake.set_state(throttle_share=0.3, seed=seed)
            runs.append([sent(ses) for _ in range(40)])
        assert runs[0] == runs[1] != runs[2]
        assert all(0 < run.count(False) < 30 for run in runs)
        assert len(fake.accepted()) == sum(run.count(True) for run in runs)

    def test_a_share_of_the_accepted_gets_no_answer(self, fake: FakeSes, ses: Any) -> None:
        fake.set_state(close_share=1)
        with pytest.raises(ConnectionClosedError):
            send(ses)
        with refused("TooManyRequestsException", 429):
            send(ses, "throttle@example.com")
        assert len(fake.accepted()) == 1

    @pytest.mark.parametrize(
        "changes",
        [{"suspend": True}, {"paused": 1}, {"throttle_share": 1.5}, {"max_send_rate": 0}],
    )
    def test_a_bad_switch_is_named_and_changes_nothing(
        self, fake: FakeSes, changes: dict[str, object]
    ) -> None:
        before = fake.state
        with pytest.raises(InvalidState, match=f"^{next(iter(changes))}: "):
            fake.set_state(expired=True, **changes)
        assert fake.state == before

    def test_threads_do_not_lose_each_other(self, fake: FakeSes, ses: Any) -> None:
        with ThreadPoolExecutor(8) as pool:
            ids = set(pool.map(lambda _: send(ses), range(200)))
        assert ids == {each.message_id for each in fake.accepted()}
        assert len(ids) == fake.calls() == 200


class TestLimits:
    def test_the_account_tells_its_limits_and_what_was_sent(self, fake: FakeSes, ses: Any) -> None:
        fake.set_state(max_send_rate=3.5, max_24_hour_send=200, sandbox=False)
        send(ses, "a@example.com", "b@example.com")
        account = ses.get_account()
        assert account["ProductionAccessEnabled"] is True
        assert account["SendQuota"] == {
            "Max24HourSend": 200.0,
            "MaxSendRate": 3.5,
            "SentLast24Hours": 2.0,
        }

    def test_the_days_quota_is_counted_in_recipients(self, fake: FakeSes, ses: Any) -> None:
        fake.set_state(max_24_hour_send=3)
        send(ses, "a@example.com", "b@example.com")
        with refused("LimitExceededException"):
            send(ses, "a@example.com", "b@example.com")
        send(ses)
        with refused("LimitExceededException"):
            send(ses)
        fake.set_state(max_24_hour_send=-1)
        send(ses)

    def test_the_rate_is_counted_in_recipients(self, fake: FakeSes, ses: Any) -> None:
        """What the first message takes beyond three recipients is owed for a quarter minute."""
        many = [f"a{number}@example.com" for number in range(50)]
        fake.set_state(max_send_rate=3)
        assert [sent(ses, *many), sent(ses)] == [True, True]
        fake.set_state(enforce_rate=True)
        assert [sent(ses, *many), sent(ses)] == [True, False]
        fake.set_state(enforce_rate=False)
        assert sent(ses)

    def test_a_bucket_holds_a_second_and_fills_smoothly(self) -> None:
        clock = Clock()
        bucket = Bucket(clock)
        assert [bucket.take(7, 14) for _ in range(3)] == [True, True, False]
        clock.now += 0.5
        assert [bucket.take(6, 14), bucket.take(2, 14), bucket.take(1, 14)] == [True, False, True]
        clock.now += 1_000
        assert [bucket.take(14, 14), bucket.take(1, 14)] == [True, False]

    def test_a_message_larger_than_the_bucket_needs_a_full_one_and_is_paid_for(self) -> None:
        clock = Clock()
        bucket = Bucket(clock)
        assert bucket.take(50, 10)
        clock.now += 4.9
        assert not bucket.take(10, 10)
        clock.now += 0.2
        assert bucket.take(10, 10)

    @pytest.mark.parametrize("rate", [0.5, 14, 333])
    def test_over_time_the_rate_is_kept(self, rate: float) -> None:
        clock = Clock()
        bucket = Bucket(clock)
        taken = 0
        for step in range(6_000):
            clock.now = 1_000 + step / 100
            taken += sum(bucket.take(3, rate) for _ in range(5)) * 3
        assert rate * 60 - 3 <= taken <= rate * 61 + 3

    def test_a_day_ends_after_24_hours(self) -> None:
        clock = Clock()
        day = Day(clock)
        day.add(3)
        clock.now += DAY_SECONDS - 1
        day.add(2)
        assert day.sent == 5
        clock.now += 1
        assert day.sent == 2


class TestIdentities:
    def test_any_are_there_unless_some_are_named(self, ses: Any) -> None:
        identity = ses.get_email_identity(EmailIdentity="shop@example.com")
        assert (identity["IdentityType"], identity["VerifiedForSendingStatus"]) == (
            "EMAIL_ADDRESS",
            True,
        )
        found = ses.get_configuration_set(ConfigurationSetName="tx-prod")
        assert found["ConfigurationSetName"] == "tx-prod"
        assert found["SendingOptions"] == {"SendingEnabled": True}

    def test_a_sender_must_be_verified_itself_or_by_its_domain(
        self, fake: FakeSes, ses: Any
    ) -> None:
        text = "failed the check in region EU-WEST-1: shop@example.com"
        for identities in ({}, {"example.com": False}, {"shop@example.com": False}):
            fake.set_state(identities=identities)
            with refused("MessageRejected", text=text):
                send(ses)
        for identities in ({"example.com": True}, {"shop@example.com": True}):
            fake.set_state(identities=identities)
            send(ses)

    def test_an_identity_is_found_by_its_own_name(self, fake: FakeSes, ses: Any) -> None:
        fake.set_state(identities={"example.com": True, "new.example": False})
        assert ses.get_email_identity(EmailIdentity="example.com")["IdentityType"] == "DOMAIN"
        new = ses.get_email_identity(EmailIdentity="new.example")
        assert (new["VerifiedForSendingStatus"], new["VerificationStatus"]) == (False, "PENDING")
        with refused("NotFoundException", 404):
            ses.get_email_identity(EmailIdentity="shop@example.com")

    def test_in_the_sandbox_recipients_must_be_verified_too(self, fake: FakeSes, ses: Any) -> None:
        fake.set_state(sandbox=True, identities={"example.com": True})
        assert ses.get_account()["ProductionAccessEnabled"] is False
        send(ses, "ann@example.com")
        with refused("MessageRejected", text="EU-WEST-1: bob@example.net"):
            send(ses, "ann@example.com", "bob@example.net")

    def test_a_configuration_set_must_be_there_and_send(self, fake: FakeSes, ses: Any) -> None:
        fake.set_state(configuration_sets={"tx": True, "off": False})
        send(ses, ConfigurationSetName="tx")
        with refused("SendingPausedException", text="configuration set off"):
            send(ses, ConfigurationSetName="off")
        with refused("NotFoundException", 404, "none"):
            send(ses, ConfigurationSetName="none")
        with refused("NotFoundException", 404, "none"):
            ses.get_configuration_set(ConfigurationSetName="none")
        off = ses.get_configuration_set(ConfigurationSetName="off")
        assert off["SendingOptions"] == {"SendingEnabled": False}
