"""A fake SES of each test module, without a past in each test, and a client of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from mailer import fake_ses
from mailer.fake_ses import FakeSes
from tests.doors.fake_ses.client import client_of


@pytest.fixture(scope="module")
def server() -> Iterator[FakeSes]:
    with fake_ses.running() as fake:
        yield fake


@pytest.fixture(scope="module")
def client(server: FakeSes) -> Iterator[Any]:
    with client_of(server.url) as client:
        yield client


@pytest.fixture
def fake(server: FakeSes) -> FakeSes:
    """A fake without a past."""
    server.reset()
    return server


@pytest.fixture
def ses(fake: FakeSes, client: Any) -> Any:
    """A client of a fake without a past."""
    return client
