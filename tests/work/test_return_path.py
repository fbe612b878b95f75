"""Return paths in a worker: each attempt gets its own, and only where the settings name one."""

import pytest

from mailer.clock import awake_or_asleep
from mailer.flight import Flight
from mailer.loading import Loader
from mailer.provider import Call
from mailer.returnpath import ReturnPath
from mailer.settings import load
from mailer.wiring import return_path
from tests.builders import SECRET, claim_one, enqueue, freezer, insert_plainly

PATH = ReturnPath("bounces@mail.example.com", SECRET)


def call_of(path: ReturnPath | None) -> Call:
    """Claim the one due message and make it ready."""
    flight = Flight.under_lease(claim_one(), awake_or_asleep, asked_at=0.0, lease_seconds=60.0)
    loaded, failed = Loader(freezer(), path).load([flight])
    assert (loaded, failed) == ([flight], [])
    assert flight.call is not None
    return flight.call


@pytest.mark.usefixtures("outbox")
class TestCalls:
    def test_a_call_carries_the_marks_of_its_attempt(self) -> None:
        enqueue()
        call = call_of(PATH)
        assert call.return_path == PATH.address(call.request_tag)
        assert call.envelope_id == PATH.envelope_id(call.request_tag)

    def test_a_row_that_came_by_plain_insert_gets_them_too(self) -> None:
        insert_plainly("key", ["ann@example.com"], subject="Hi", text="Hi")
        call = call_of(PATH)
        assert PATH.tag_of(call.return_path or "") == call.request_tag

    def test_without_a_return_path_it_carries_none(self) -> None:
        enqueue()
        call = call_of(None)
        assert (call.return_path, call.envelope_id) == (None, None)


def test_the_settings_name_the_return_path() -> None:
    given = {"DATABASE_URL": "postgres://u:p@db.example/app", "MAILER_SECRET": SECRET}
    assert return_path(load(given)) is None
    path = return_path(load(given | {"MAILER_RETURN_PATH": "bounces@mail.example.com"}))
    assert path is not None
    assert path.address("0f" * 16) == PATH.address("0f" * 16)
