"""What comes in at either door: stored many in one commit, and answered after it."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from mailer import database, feedback, storing
from mailer.events import Incoming
from mailer.feed import Channel, Envelope, EnvelopeType, NotNow, Unacceptable
from mailer.ingest import Answer, Ingest
from mailer.prove.kit.servers import Postgres
from mailer.prove.kit.waiting import until
from mailer.storing import Storage, Store
from mailer.tables import Event

TOPIC = "arn:aws:sns:eu-west-1:111122223333:mail-events"
OTHER_TOPIC = TOPIC + "-2"
STORED = Answer(200, "stored")


class Believer:
    """Takes every body at its word."""

    async def verify(self, body: bytes, channel: Channel) -> Envelope:
        del channel
        said = json.loads(body)
        if "refuse" in said:
            raise Unacceptable(*said["refuse"])
        if "later" in said:
            raise NotNow(said["later"])
        kind = EnvelopeType(said.get("type", "Notification"))
        token = "token" if kind is EnvelopeType.SUBSCRIPTION else None
        return Envelope(kind, said.get("topic", TOPIC), said["id"], None, body, token)


class Confirmations:
    """Confirms, or does not as long as it is `away`; sees what is stored by then."""

    def __init__(self) -> None:
        self.away = False
        self.confirmed: list[tuple[str, str, int]] = []

    async def confirm(self, topic_arn: str, token: str) -> None:
        if self.away:
            raise NotNow("sns-confirm")
        stored = await asyncio.to_thread(count)
        self.confirmed.append((topic_arn, token, stored))


class Watched:
    """Stores as the product does, and notes the size of each statement."""

    def __init__(self, store: Store = feedback.store) -> None:
        self.sizes: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self._store = store

    def __call__(self, batch: Sequence[Incoming]) -> None:
        self.sizes.append(len(batch))
        assert self.gate.wait(20)
        self._store(batch)


class Door:
    """An ingest on the bound database, and what it stands on."""

    def __init__(self, store: Store = feedback.store) -> None:
        self.store = Watched(store)
        self.hints: list[int] = []
        self.confirmations = Confirmations()
        storage = Storage(lambda: self.hints.append(len(self.store.sizes)), self.store)
        self.ingest = Ingest(Believer(), storage, self.confirmations)

    async def take(self, name: str, **more: Any) -> Answer:
        return await self.ingest.take(body(name, **more), Channel.HTTPS)

    async def take_all(self, names: Sequence[str], **more: Any) -> list[Answer]:
        return await asyncio.gather(*(self.take(each, **more) for each in names))


def body(name: str, **more: Any) -> bytes:
    return json.dumps({"id": name, **more}).encode()


def count() -> int:
    """How many events are stored, for whoever connects anew."""
    with database.connected():
        return Event.select().count()


def names(number: int, prefix: str = "event") -> list[str]:
    return [f"{prefix}-{each}" for each in range(number)]


@contextmanager
def pool(url: str) -> Iterator[None]:
    """Have the outbox bound as a process of ours binds it."""
    earlier = database.proxy.obj
    opened: Any = database.bind(database.connect_worker(url, connections=3))
    try:
        yield
    finally:
        opened.close_all()
        database.proxy.initialize(earlier)


@pytest.mark.usefixtures("outbox")
def test_a_body_is_kept_as_it_came_and_answered() -> None:
    assert asyncio.run(Door().take("one")) == STORED
    (event,) = Event.select()
    assert (event.topic_arn, event.sns_message_id) == (TOPIC, "one")
    assert (event.channel, event.state, bytes(event.body)) == ("https", "received", body("one"))


@pytest.mark.usefixtures("outbox")
def test_whatever_waits_is_stored_by_one_statement_and_answered_after_its_commit() -> None:
    door = Door()

    async def story() -> None:
        door.store.gate.clear()
        first = asyncio.create_task(door.take("first"))
        await asyncio.to_thread(until, lambda: door.store.sizes == [1])
        others = asyncio.gather(*(door.take(each) for each in names(50)))
        await asyncio.sleep(0)
        assert not first.done()
        assert (await asyncio.to_thread(count), door.hints) == (0, [])
        door.store.gate.set()
        assert [await first, *await others] == [STORED] * 51
        assert await asyncio.to_thread(count) == 51

    asyncio.run(story())
    assert door.store.sizes == [1, 50]
    assert door.hints == [1, 2]


@pytest.mark.usefixtures("outbox")
def test_a_statement_has_an_end_in_number_and_in_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door()
    asyncio.run(door.take_all(names(storing.MOST_EVENTS + 3)))
    assert door.store.sizes == [storing.MOST_EVENTS, 3]
    monkeypatch.setattr(storing, "MOST_BYTES", 3 * len(body("large-0", text="x" * 100)))
    door = Door()
    asyncio.run(door.take_all(names(7, "large"), text="x" * 100))
    assert door.store.sizes == [3, 3, 1]
    monkeypatch.setattr(storing, "MOST_BYTES", 1)
    door = Door()
    asyncio.run(door.take_all(names(2, "huge")))
    assert door.store.sizes == [1, 1]


@pytest.mark.usefixtures("outbox")
def test_a_repetition_is_stored_once_and_answered_alike() -> None:
    door = Door()

    async def story() -> list[Answer]:
        together = await door.take_all(["one", "one", "two"])
        return [*together, await door.take("one"), await door.take("one", topic=OTHER_TOPIC)]

    assert asyncio.run(story()) == [STORED] * 5
    assert count() == 3


@pytest.mark.usefixtures("outbox")
def test_who_no_longer_waits_is_not_written_for() -> None:
    door = Door()

    async def story() -> None:
        door.store.gate.clear()
        first = asyncio.create_task(door.take("first"))
        await asyncio.to_thread(until, lambda: door.store.sizes == [1])
        gone, stays = (asyncio.create_task(door.take(each)) for each in ("gone", "stays"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        door.store.gate.set()
        assert [await first, await stays] == [STORED] * 2

    asyncio.run(story())
    assert count() == 2


def test_a_database_that_refuses_loses_nothing_and_is_found_again(
    postgres_server: Postgres, postgres_outbox_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    door = Door()
    caplog.set_level("INFO", "mailer.events")

    async def story() -> None:
        assert await door.take("before") == STORED
        with postgres_server.refusing(postgres_outbox_url):
            for _ in range(2):
                lost = await door.take_all(names(5))
                assert lost == [Answer(503, storing.AWAY_RULE)] * 5
        assert await door.take_all(names(5)) == [STORED] * 5
        assert await asyncio.to_thread(count) == 6

    with pool(postgres_outbox_url):
        asyncio.run(story())
    told = [each.message for each in caplog.records if each.message.startswith("database")]
    assert told == ["database away", "database back"]


@pytest.mark.usefixtures("postgres_outbox")
def test_one_event_that_the_database_does_not_take_holds_up_no_other() -> None:
    """A NUL gets through no verifier of ours, and into no text column."""
    door = Door()
    answers = asyncio.run(door.take_all(["one", "two\0", "three"]))
    assert answers == [STORED, Answer(503, storing.REFUSED_RULE), STORED]
    assert count() == 2


@pytest.mark.usefixtures("outbox")
def test_a_mistake_of_ours_leaves_nobody_waiting() -> None:
    def store(batch: Sequence[Incoming]) -> None:
        if any(each.sns_message_id == "odd" for each in batch):
            raise LookupError
        feedback.store(batch)

    door = Door(store)
    assert asyncio.run(door.take("odd")) == Answer(503, storing.FAULT_RULE)
    assert asyncio.run(door.take("one")) == STORED


@pytest.mark.usefixtures("outbox")
def test_what_is_refused_or_put_off_is_not_stored_and_told_by_its_rule_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    ingest = Ingest(Believer(), Storage(lambda: None), Confirmations(), clock=lambda: now[0])

    def take(**said: Any) -> Answer:
        return asyncio.run(ingest.take(json.dumps(said).encode(), Channel.SQS))

    for _ in range(3):
        assert take(refuse=[403, "sns-topic"]) == Answer(403, "sns-topic")
    assert take(later="sns-certificate-fetch") == Answer(503, "sns-certificate-fetch")
    now[0] = 10.0
    take(refuse=[403, "sns-topic"])
    told = [(each.message, vars(each)["rule"], vars(each)["times"]) for each in caplog.records]
    assert told == [
        ("event refused", "sns-topic", 1),
        ("event put off", "sns-certificate-fetch", 1),
        ("event refused", "sns-topic", 3),
    ]
    assert count() == 0


@pytest.mark.usefixtures("outbox")
class TestSubscriptions:
    def test_one_is_confirmed_after_it_is_on_record(self) -> None:
        door = Door()
        assert asyncio.run(door.take("s", type="SubscriptionConfirmation")) == STORED
        assert door.confirmations.confirmed == [(TOPIC, "token", 1)]

    def test_one_that_cannot_be_confirmed_comes_again(self) -> None:
        door = Door()
        door.confirmations.away = True
        late = asyncio.run(door.take("s", type="SubscriptionConfirmation"))
        assert late == Answer(503, "sns-confirm")
        door.confirmations.away = False
        assert asyncio.run(door.take("s", type="SubscriptionConfirmation")) == STORED
        assert door.confirmations.confirmed == [(TOPIC, "token", 1)]

    def test_the_end_of_one_is_told_and_not_undone(self, caplog: pytest.LogCaptureFixture) -> None:
        door = Door()
        assert asyncio.run(door.take("u", type="UnsubscribeConfirmation")) == STORED
        assert door.confirmations.confirmed == []
        (told,) = caplog.records
        assert (told.levelname, told.message) == ("WARNING", "subscription ended")
        assert vars(told)["topic_arn"] == TOPIC
