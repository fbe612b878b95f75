"""Fixtures for what is tried on a wire."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from tests.certificates import Authority
from tests.providers.calls import Run


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run[Any]]:
    """Run on either event loop: buffers and ends differ between them."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner.run


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The certificate authority that clients under test trust."""
    return Authority(tmp_path_factory.mktemp("authority"))
