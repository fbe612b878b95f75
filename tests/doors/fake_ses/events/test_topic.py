"""The fake SES's topic: how events are handed over, in what order, and to whom."""

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from mailer import fake_ses
from mailer.fake_ses import Events, FakeSes, InvalidEvents, NotListening
from mailer.prove.kit.processes import free_port
from mailer.prove.kit.waiting import until
from tests.doors.fake_ses.client import client_of, outbox_tag, send
from tests.doors.fake_ses.events.receiver import DELIVERED, TOPIC, Receiver, receiving
from tests.doors.fake_ses.test_serving import ask, command


class TestHandingOver:
    @pytest.mark.parametrize("answer", [500, 503, None])
    def test_what_was_not_taken_comes_again_the_same(
        self, fake: FakeSes, ses: Any, receiver: Receiver, answer: int | None
    ) -> None:
        receiver.answers = [answer, answer]
        send(ses)
        until(lambda: fake.waiting() == 0)
        bodies = [each.envelope.body for each in receiver.received]
        assert (len(bodies), len(set(bodies))) == (4, 2)
        assert sorted(map(str, (each.status for each in fake.posted()))) == sorted(
            map(str, [answer, answer, 200, 200])
        )

    @pytest.mark.parametrize("answer", [301, 400, 403, 429])
    def test_what_was_refused_does_not(
        self, fake: FakeSes, ses: Any, receiver: Receiver, answer: int
    ) -> None:
        receiver.answers = [answer]
        send(ses)
        until(lambda: fake.waiting() == 0)
        assert [each.status for each in fake.posted()] == [answer, 200]
        receiver.wait_for(*DELIVERED)

    def test_tries_come_to_an_end(self, fake: FakeSes, ses: Any, receiver: Receiver) -> None:
        receiver.answers = [503] * 100
        send(ses)
        until(lambda: fake.waiting() == 0)
        assert [each.status for each in fake.posted()] == [503] * 6

    def test_an_endpoint_that_is_not_there_yet_is_found_later(self, tmp_path: Path) -> None:
        port = free_port()
        events = Events(f"http://127.0.0.1:{port}/", TOPIC, tmp_path)
        with fake_ses.running(events=events) as fake, client_of(fake.url) as ses:
            send(ses)
            until(lambda: len(fake.posted()) >= 2)
            assert {each.status for each in fake.posted()} == {None}
            with receiving(tmp_path, port) as receiver:
                until(lambda: fake.waiting() == 0)
                assert sorted(receiver.types()) == sorted(DELIVERED)

    def test_what_became_of_each_try_is_told_as_json(
        self, fake: FakeSes, ses: Any, receiver: Receiver
    ) -> None:
        message_id = send(ses)
        until(lambda: fake.waiting() == 0)
        answer = json.loads(ask(fake, "/admin/events"))
        assert answer["waiting"] == 0
        assert [each["status"] for each in answer["posted"]] == [200, 200]
        assert [each["kind"] for each in answer["posted"]] == list(DELIVERED)
        assert {each["message_id"] for each in answer["posted"]} == {message_id}

    def test_the_page_says_where_events_go(self, fake: FakeSes) -> None:
        page = ask(fake, "/")
        assert "No events" not in page
        for words in (TOPIC, "/events/sns", "<code>bounce</code>", "nothing here is delivered"):
            assert words in page

    def test_a_stop_waits_for_no_answer(self, tmp_path: Path) -> None:
        before = set(threading.enumerate())
        with ThreadPoolExecutor(1) as pool, socket.create_server(("127.0.0.1", 0)) as silent:
            events = Events(f"http://127.0.0.1:{silent.getsockname()[1]}/", TOPIC, tmp_path)
            with fake_ses.running(events=events) as fake, client_of(fake.url) as ses:
                fake.set_state(events_first=True)
                call = pool.submit(send, ses)
                connection = silent.accept()[0]
                assert connection.recv(100)
                assert not call.done()
            with connection:
                assert call.result() == fake.accepted()[0].message_id
        assert set(threading.enumerate()) <= before


class TestOrder:
    def test_held_events_come_when_they_are_let_go(
        self, fake: FakeSes, ses: Any, receiver: Receiver
    ) -> None:
        fake.set_state(hold_events=True)
        send(ses)
        send(ses, "bounce@example.com")
        assert (fake.waiting(), receiver.received) == (4, [])
        fake.set_state(hold_events=False)
        receiver.wait_for("Send", "Delivery", "Send", "Bounce")

    def test_copies_have_one_id(self, fake: FakeSes, ses: Any, receiver: Receiver) -> None:
        fake.set_state(event_copies=3)
        send(ses)
        receiver.wait_for(*["Send"] * 3, *["Delivery"] * 3)
        assert len({each.envelope.message_id for each in receiver.received}) == 2

    def test_the_order_is_a_seeds(self, fake: FakeSes, ses: Any, receiver: Receiver) -> None:
        orders = []
        for seed in (3, 3, 4):
            fake.reset()
            receiver.received.clear()
            fake.set_state(hold_events=True, shuffle_events=True, seed=seed)
            for number in range(6):
                send(ses, f"complaint-{number}@example.com")
            fake.set_state(hold_events=False)
            until(lambda: len(receiver.received) == 18)
            orders.append(
                [
                    (each.event["mail"]["destination"], each.event["eventType"])
                    for each in receiver.received
                ]
            )
        assert orders[0] == orders[1] != orders[2]
        assert sorted(orders[0]) == sorted(orders[2])

    def test_events_can_overtake_the_answer(
        self, fake: FakeSes, ses: Any, receiver: Receiver
    ) -> None:
        """The answer waits until the last of them was taken, also over a second try."""
        fake.set_state(events_first=True)
        receiver.answers = [503]
        with ThreadPoolExecutor(1) as pool:
            came, go = threading.Semaphore(0), threading.Semaphore(0)

            def wait() -> None:
                came.release()
                assert go.acquire(timeout=20)

            receiver.before_answer = wait
            call = pool.submit(send, ses)
            for _ in range(3):
                assert came.acquire(timeout=20)
                assert not call.done()
                go.release()
            assert call.result() == fake.accepted()[0].message_id
        assert fake.waiting() == 0

    def test_events_that_are_held_overtake_nothing(
        self, fake: FakeSes, ses: Any, receiver: Receiver
    ) -> None:
        fake.set_state(events_first=True, hold_events=True)
        send(ses)
        assert fake.waiting() == 2

    def test_all_is_forgotten_on_demand(self, fake: FakeSes, ses: Any, receiver: Receiver) -> None:
        fake.set_state(hold_events=True, event_copies=2)
        send(ses)
        fake.reset()
        assert (fake.waiting(), fake.posted()) == (0, ())
        send(ses)
        receiver.wait_for(*DELIVERED)


@contextmanager
def sns_of(fake: FakeSes) -> Iterator[Any]:
    client = boto3.Session().client(
        "sns",
        region_name="eu-west-1",
        endpoint_url=fake.url,
        aws_access_key_id="fake",
        aws_secret_access_key="fake",
    )
    with closing(client):
        yield client


class TestSubscription:
    def test_events_wait_for_a_confirmation(self, tmp_path: Path) -> None:
        with (
            receiving(tmp_path) as receiver,
            fake_ses.running(events=Events(receiver.url, TOPIC, tmp_path, confirm=True)) as fake,
            client_of(fake.url) as ses,
            sns_of(fake) as sns,
        ):
            send(ses)
            until(lambda: fake.waiting() == 2)
            (asked,) = receiver.received
            assert asked.envelope.token is not None
            assert asked.headers["x-amz-sns-message-type"] == "SubscriptionConfirmation"
            for wrong in ({"Token": "none"}, {"TopicArn": f"{TOPIC}-2"}):
                with pytest.raises(ClientError) as caught:
                    sns.confirm_subscription(
                        **{"TopicArn": TOPIC, "Token": asked.envelope.token, **wrong}
                    )
                assert caught.value.response["Error"]["Code"] == "InvalidParameter"
            assert fake.waiting() == 2
            told = sns.confirm_subscription(TopicArn=TOPIC, Token=asked.envelope.token)
            assert told["SubscriptionArn"].startswith(f"{TOPIC}:")
            until(lambda: fake.waiting() == 0)
            assert [each.event["eventType"] for each in receiver.received[1:]] == list(DELIVERED)
            assert fake.calls("ConfirmSubscription") == 3

    def test_there_is_no_more_of_sns(self, fake: FakeSes) -> None:
        with sns_of(fake) as sns, pytest.raises(ClientError) as caught:
            sns.list_topics()
        assert caught.value.response["Error"]["Code"] == "InvalidAction"


class TestStart:
    @pytest.mark.parametrize(
        ("part", "value"),
        [
            ("topic", "mail-events"),
            ("topic", f"{TOPIC}.fifo"),
            ("certificates", Path("/nonexistent")),
            ("events", "ftp://127.0.0.1/"),
            ("events", "http://"),
            ("events", "http://127.0.0.1:port/"),
            ("events", "http://127.0.0.1/a b"),
        ],
    )
    def test_what_cannot_work_is_named(self, tmp_path: Path, part: str, value: Any) -> None:
        names = {"topic": "topic_arn", "events": "url", "certificates": "certificates"}
        good: dict[str, Any] = {
            "url": "http://127.0.0.1/",
            "topic_arn": TOPIC,
            "certificates": tmp_path,
        }
        Events(**good)
        with pytest.raises(InvalidEvents, match=f"^{part}: "):
            Events(**{**good, names[part]: value})

    def test_a_folder_that_cannot_be_written_is_refused(self, tmp_path: Path) -> None:
        folder = tmp_path / "folder"
        folder.mkdir()
        events = Events("http://127.0.0.1/", TOPIC, folder)
        folder.rmdir()
        with (
            pytest.raises(NotListening, match=r"^certificates: "),
            fake_ses.running(events=events),
        ):
            pass

    def test_without_a_topic_nothing_is_told(self) -> None:
        with fake_ses.running() as fake, client_of(fake.url) as ses:
            fake.set_state(events_first=True)
            send(ses, EmailTags=outbox_tag("1"))
            assert (fake.posted(), fake.waiting()) == ((), 0)
            assert json.loads(ask(fake, "/admin/events")) == {"posted": [], "waiting": 0}
            with sns_of(fake) as sns, pytest.raises(ClientError):
                sns.confirm_subscription(TopicArn=TOPIC, Token="none")

    def test_the_command_posts_events_and_says_what_to_set(self, tmp_path: Path) -> None:
        with receiving(tmp_path) as receiver:
            given = ("--events", receiver.url, "--topic", TOPIC, "--certificates", tmp_path)
            with command(tmp_path, "--port", 0, *given) as process:
                assert process.stdout is not None
                url = process.stdout.readline().split()[-1]
                told = [process.stdout.readline().strip() for _ in range(7)]
                with client_of(url) as ses:
                    send(ses)
                receiver.wait_for(*DELIVERED)
                process.terminate()
                _, said = process.communicate(timeout=30)
        assert (process.returncode, said) == (0, "")
        assert f"MAILER_SNS_TOPIC_ARNS={TOPIC}" in told
        assert f"MAILER_SNS_CERTIFICATES={tmp_path}" in told

    def test_options_of_events_go_together(self, tmp_path: Path) -> None:
        with command(tmp_path, "--port", 0, "--topic", TOPIC) as process:
            _, said = process.communicate(timeout=30)
        assert process.returncode == 2
        assert "--certificates go together" in said
