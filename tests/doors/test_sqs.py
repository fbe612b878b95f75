"""The queue's consumer: what it deletes, what it leaves, and what it survives."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mailer import database, feedback
from mailer.consume import Consumer
from mailer.errors import SettingsError
from mailer.events import Incoming
from mailer.feed import NotNow
from mailer.ingest import Ingest
from mailer.prove.kit.fleet import process_environment
from mailer.prove.kit.servers import Postgres
from mailer.prove.kit.waiting import until
from mailer.storing import Storage, Store, database_answers
from mailer.tables import Event
from providers.sns import SnsVerifier
from providers.sns_certificates import Certificates
from providers.sqs import SqsQueue
from tests import sns_kit
from tests.builders import bound_to, prepare
from tests.ses_endpoint import aws_environment
from tests.sns_kit import TOPIC, CertificateHost, signed
from tests.sqs_endpoint import SqsEndpoint

SCRIPT = (sys.executable, "-W", "error", "-c", "from mailer.cli import main; main()")


class Nobody:
    """Confirms nothing."""

    async def confirm(self, topic_arn: str, token: str) -> None:
        raise AssertionError


@dataclass
class Running:
    """A consumer at work on a thread."""

    stop: threading.Event
    thread: threading.Thread

    def ends(self) -> None:
        """Ask for the end, and see it come while the queue still waits for messages."""
        self.stop.set()
        self.thread.join(20)
        assert not self.thread.is_alive()


@contextmanager
def consuming(
    endpoint: SqsEndpoint, store: Store = feedback.store, **options: Any
) -> Iterator[Running]:
    """Consume what is in the queue, for the length of the block."""
    queue = SqsQueue(endpoint.queue_url)
    verifier = SnsVerifier([TOPIC], Certificates(CertificateHost()))
    ingest = Ingest(verifier, Storage(lambda: None, store), Nobody())
    consumer = Consumer(queue, ingest, **{"pause_seconds": 0.01, **options})
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(consumer.run(stop)))
    running = Running(stop, thread)
    thread.start()
    try:
        yield running
    finally:
        running.ends()
        queue.close()


@pytest.fixture
def endpoint() -> Iterator[SqsEndpoint]:
    """An empty queue, to which boto3 is led by the environment."""
    with SqsEndpoint() as found, aws_environment(AWS_ENDPOINT_URL_SQS=found.url):
        yield found


@pytest.fixture
def outbox_pool(postgres_outbox_url: str) -> Iterator[str]:
    """The outbox bound as the consumer's process binds it."""
    opened: Any = database.bind(database.connect_worker(postgres_outbox_url, connections=3))
    yield postgres_outbox_url
    opened.close_all()
    database.proxy.initialize(None)


def stored() -> int:
    with database.connected():
        return Event.select().count()


def bodies(number: int) -> list[str]:
    return [sns_kit.body(signed(str(each))).decode() for each in range(number)]


@pytest.mark.usefixtures("outbox_pool")
class TestConsumer:
    def test_what_is_committed_is_deleted_and_not_before(self, endpoint: SqsEndpoint) -> None:
        def before_delete(gone: list[str]) -> None:
            with database.connected():
                found = {bytes(each.body).decode() for each in Event.select()}
            assert set(gone) <= found

        endpoint.before_delete = before_delete
        endpoint.put(*bodies(23))
        with consuming(endpoint):
            until(lambda: not endpoint.messages)
        assert stored() == 23
        with database.connected():
            assert {each.channel for each in Event.select()} == {"sqs"}

    def test_what_can_never_become_valid_is_left_for_a_person(
        self, endpoint: SqsEndpoint, caplog: pytest.LogCaptureFixture
    ) -> None:
        raw, forged = '{"eventType": "Bounce"}', json.dumps(signed() | {"Message": "x"})
        endpoint.put(raw, forged, *bodies(1))
        with consuming(endpoint):
            until(lambda: len(endpoint.messages) == 2 and endpoint.polling)
            endpoint.time_passes()
            until(lambda: [each.received for each in endpoint.messages] == [2, 2])
        assert {each.body for each in endpoint.messages} == {raw, forged}
        assert stored() == 1
        told = {(vars(each)["rule"], vars(each)["channel"]) for each in caplog.records}
        assert told == {("sns-field-Type", "sqs"), ("sns-signature", "sqs")}

    def test_what_is_not_deleted_comes_again_and_is_known(
        self, endpoint: SqsEndpoint, caplog: pytest.LogCaptureFixture
    ) -> None:
        given = bodies(3)
        endpoint.undeletable = {given[1]}
        endpoint.put(*given)
        with consuming(endpoint):
            until(lambda: len(endpoint.messages) == 1 and endpoint.polling)
            endpoint.undeletable = set()
            endpoint.time_passes()
            until(lambda: not endpoint.messages)
        assert stored() == 3
        (told,) = caplog.records
        assert (told.message, vars(told)["count"]) == ("events not deleted from the queue", 1)

    def test_a_queue_that_is_away_is_told_once_and_found_again(
        self, endpoint: SqsEndpoint, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "mailer.events")
        endpoint.failing = 503
        with consuming(endpoint):
            until(lambda: endpoint.count("ReceiveMessage") > 3)
            endpoint.failing = None
            endpoint.put(*bodies(1))
            until(lambda: not endpoint.messages)
        told = [(each.message, vars(each).get("error")) for each in caplog.records]
        assert told == [("queue away", "sqs-Broken"), ("queue back", None)]
        assert stored() == 1

    def test_one_told_to_stop_finishes_what_it_has_in_hand(self, endpoint: SqsEndpoint) -> None:
        gate, reached = threading.Event(), threading.Event()

        def store(batch: Sequence[Incoming]) -> None:
            reached.set()
            assert gate.wait(20)
            feedback.store(batch)

        endpoint.put(*bodies(2))
        with consuming(endpoint, store) as running:
            assert reached.wait(20)
            running.stop.set()
            gate.set()
            running.ends()
        assert (endpoint.messages, stored()) == ([], 2)
        assert endpoint.count("ReceiveMessage") == 1

    def test_one_told_to_stop_does_not_wait_for_messages(self, endpoint: SqsEndpoint) -> None:
        with consuming(endpoint) as running:
            until(lambda: endpoint.polling)
            running.ends()
            assert endpoint.polling


def test_while_the_database_is_away_nothing_more_is_taken_from_the_queue(
    endpoint: SqsEndpoint, postgres_server: Postgres, outbox_pool: str
) -> None:
    """Each time that a message is handed out counts against it there."""
    looks: list[bool] = []

    def look() -> bool:
        looks.append(database_answers())
        return looks[-1]

    endpoint.put(*bodies(12))
    with ExitStack() as outage:
        outage.enter_context(postgres_server.refusing(outbox_pool))
        with consuming(endpoint, database_answers=look):
            until(lambda: len(looks) > 3)
            assert not any(looks)
            assert endpoint.calls == ["ReceiveMessage"]
            outage.close()
            until(lambda: len(endpoint.messages) == 10 and endpoint.polling)
            endpoint.time_passes()
            until(lambda: not endpoint.messages)
    assert stored() == 12


@pytest.mark.usefixtures("outbox_pool")
def test_a_queue_that_answers_at_once_with_nothing_is_not_asked_in_a_loop(
    endpoint: SqsEndpoint,
) -> None:
    endpoint.answers["ReceiveMessage"] = b"{}"
    with consuming(endpoint, pause_seconds=20.0) as running:
        until(lambda: endpoint.calls)
        running.ends()
    assert len(endpoint.calls) == 1


class TestQueue:
    @pytest.mark.parametrize(
        ("url", "region"),
        [
            ("https://sqs.eu-west-1.amazonaws.com/1/q", "eu-west-1"),
            ("https://sqs.cn-north-1.amazonaws.com.cn/1/q", "cn-north-1"),
            ("https://sqs-fips.us-gov-west-1.amazonaws.com/1/q", "us-gov-west-1"),
            ("https://vpce-1a.sqs.eu-south-2.vpce.amazonaws.com/1/q", "eu-south-2"),
            ("http://localhost:9324/queue/q", "ap-south-1"),
        ],
    )
    def test_the_region_is_the_urls_else_the_environments(self, url: str, region: str) -> None:
        with aws_environment(AWS_DEFAULT_REGION="ap-south-1"):
            queue = SqsQueue(url)
            assert queue._client.meta.region_name == region
            queue.close()

    def test_without_a_region_it_is_told_what_to_set(self) -> None:
        with aws_environment(), pytest.raises(SettingsError, match="AWS_REGION"):
            SqsQueue("http://localhost/queue/q")

    @pytest.mark.parametrize(
        ("answer", "bodies"),
        [
            (b"", []),
            (b"<html>", []),
            (b"{}", []),
            (b'{"Messages": null}', []),
            (b'{"Messages": [{}, {"Body": "x"}, {"ReceiptHandle": "r"}]}', []),
            (b'{"Messages": [{"Body": "\\ud800", "ReceiptHandle": "r"}]}', [b"\xed\xa0\x80"]),
        ],
    )
    def test_an_answer_holds_what_can_be_used(
        self, answer: bytes, bodies: list[bytes], endpoint: SqsEndpoint
    ) -> None:
        endpoint.answers["ReceiveMessage"] = answer
        queue = SqsQueue(endpoint.queue_url)
        assert [each.body for each in queue.receive()] == bodies
        queue.close()

    @pytest.mark.parametrize("answer", [b"[]", b"\xff", b'{"Messages": 1}'])
    def test_an_answer_that_is_none_is_no_message(
        self, answer: bytes, endpoint: SqsEndpoint
    ) -> None:
        endpoint.answers["ReceiveMessage"] = answer
        queue = SqsQueue(endpoint.queue_url)
        with pytest.raises(NotNow, match="sqs-"):
            queue.receive()
        queue.close()


class TestCommand:
    @pytest.fixture
    def variables(self, endpoint: SqsEndpoint, tmp_path: Path) -> dict[str, str]:
        url = f"sqlite:///{tmp_path / 'mailer.db'}"
        prepare(url)
        return process_environment(
            {
                "DATABASE_URL": url,
                "MAILER_SNS_TOPIC_ARNS": TOPIC,
                "MAILER_SNS_CERTIFICATES": str(CertificateHost().write(tmp_path)),
                "MAILER_SQS_QUEUE_URL": endpoint.queue_url,
                "AWS_ENDPOINT_URL_SQS": endpoint.url,
                "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
                "AWS_SECRET_ACCESS_KEY": "secret",
            }
        )

    def test_it_consumes_until_it_is_told_to_stop(
        self, variables: dict[str, str], endpoint: SqsEndpoint, tmp_path: Path
    ) -> None:
        endpoint.put(*bodies(1))
        with subprocess.Popen(
            [*SCRIPT, "events", "consume"],
            env=variables,
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            until(
                lambda: process.poll() is not None or (not endpoint.messages and endpoint.polling)
            )
            process.send_signal(signal.SIGTERM)
            _, told = process.communicate(timeout=25)
        assert process.returncode == 0, told
        ours = [each for each in map(json.loads, told.splitlines()) if "mailer" in each["logger"]]
        assert [each["event"] for each in ours] == ["consumer started", "consumer stopped"]
        with bound_to(variables["DATABASE_URL"]):
            assert Event.select().count() == 1
