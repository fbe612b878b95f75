"""The fake SES's suppression list, as boto3 reads and writes it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mailer.fake_ses import FakeSes
from tests.doors.fake_ses.client import refused, send


def put(ses: Any, *addresses: str, reason: str = "BOUNCE") -> None:
    for each in addresses:
        ses.put_suppressed_destination(EmailAddress=each, Reason=reason)


def pages(ses: Any, **query: Any) -> list[list[str]]:
    found = []
    while True:
        page = ses.list_suppressed_destinations(**query)
        found.append([each["EmailAddress"] for each in page["SuppressedDestinationSummaries"]])
        if "NextToken" not in page:
            return found
        query["NextToken"] = page["NextToken"]


@pytest.mark.parametrize("address", ["Ann@Example.com", "a/b+c%d=e@example.com"])
def test_an_address_is_put_found_and_removed(ses: Any, address: str) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    put(ses, address)
    put(ses, address, reason="COMPLAINT")
    found = ses.get_suppressed_destination(EmailAddress=address.upper())
    entry = found["SuppressedDestination"]
    assert (entry["EmailAddress"], entry["Reason"]) == (address, "COMPLAINT")
    assert before < entry["LastUpdateTime"] <= datetime.now(UTC)
    ses.delete_suppressed_destination(EmailAddress=address)
    for call in (ses.get_suppressed_destination, ses.delete_suppressed_destination):
        with refused("NotFoundException", 404):
            call(EmailAddress=address)


def test_a_suppressed_address_is_accepted_as_ses_does(fake: FakeSes, ses: Any) -> None:
    put(ses, "ann@example.com")
    send(ses, "ann@example.com")
    assert len(fake.accepted()) == 1


def test_a_list_comes_in_pages(ses: Any) -> None:
    assert pages(ses) == [[]]
    put(ses, *[f"{name}@example.com" for name in "edcba"])
    found = pages(ses, PageSize=2)
    assert [[each[0] for each in page] for page in found] == [["a", "b"], ["c", "d"], ["e"]]
    assert [len(page) for page in pages(ses, PageSize=5)] == [5]


def test_pages_hold_while_entries_come_and_go(ses: Any) -> None:
    put(ses, *[f"{name}@example.com" for name in "bcde"])
    first = ses.list_suppressed_destinations(PageSize=2)
    put(ses, "a@example.com")
    ses.delete_suppressed_destination(EmailAddress="c@example.com")
    rest = pages(ses, PageSize=2, NextToken=first["NextToken"])
    assert rest == [["d@example.com", "e@example.com"]]


def test_a_list_is_narrowed_by_reason_and_time(ses: Any) -> None:
    put(ses, "a@example.com", "b@example.com", "c@example.com")
    put(ses, "x@example.com", reason="COMPLAINT")
    assert pages(ses, Reasons=["COMPLAINT"]) == [["x@example.com"]]
    assert len(pages(ses, Reasons=["COMPLAINT", "BOUNCE"])[0]) == 4
    assert len(pages(ses, Reasons=["BOUNCE"], PageSize=1)) == 3
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    assert len(pages(ses, StartDate=now - hour, EndDate=now + hour)[0]) == 4
    assert pages(ses, StartDate=now + hour) == pages(ses, EndDate=now - hour) == [[]]


def test_what_cannot_be_is_refused(ses: Any) -> None:
    with refused("InvalidNextTokenException"):
        ses.list_suppressed_destinations(NextToken="?")
    for asked in ({"PageSize": 0}, {"PageSize": 1_001}, {"Reasons": ["HATE"]}):
        with refused("BadRequestException"):
            ses.list_suppressed_destinations(**asked)
    with refused("BadRequestException"):
        put(ses, "ann@example.com", reason="HATE")
    with refused("BadRequestException"):
        put(ses, "ann")
