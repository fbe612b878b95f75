"""A fake SES that tells of what it accepted, and the endpoint that it tells."""

from collections.abc import Iterator

import pytest

from mailer import fake_ses
from mailer.fake_ses import Events, FakeSes
from tests.doors.fake_ses.events.receiver import TOPIC, Receiver, receiving


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiving(tmp_path_factory.mktemp("certificates")) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def server(endpoint: Receiver) -> Iterator[FakeSes]:
    """A fake with a topic, which the fixtures of the package above work with."""
    events = Events(endpoint.url, TOPIC, endpoint.certificates, delays=(0.0, 0.0))
    with fake_ses.running(events=events) as fake:
        yield fake


@pytest.fixture
def receiver(fake: FakeSes, endpoint: Receiver) -> Iterator[Receiver]:
    """What is subscribed, without a past."""
    endpoint.received.clear()
    yield endpoint
    endpoint.answers.clear()
    endpoint.before_answer = lambda: None
