"""The account's suppression list, over HTTP: pages, spellings, and a mend for each refusal."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mailer import fake_ses
from mailer.account_list import AccountListError
from mailer.errors import SettingsError
from mailer.facts import SuppressionReason
from mailer.fake_ses import FakeSes
from mailer.prove.kit.smtp_script import Acts
from providers import catalog, ses_client
from providers.ses_suppression import SesSuppressionList
from tests.ses_endpoint import END, SECRET, SesEndpoint, answer, aws_environment, refusal

R = SuppressionReason
REGION = "eu-west-1"
ANN = "ann@example.com"
SUMMARIES = "SuppressedDestinationSummaries"


@pytest.fixture(autouse=True, scope="module")
def credentials() -> Iterator[None]:
    with aws_environment():
        yield


@pytest.fixture(scope="module")
def server() -> Iterator[FakeSes]:
    with fake_ses.running() as fake:
        yield fake


@pytest.fixture(scope="module")
def client(server: FakeSes) -> Iterator[SesSuppressionList]:
    with closing(SesSuppressionList(REGION, server.url, page_size=2)) as found:
        yield found


@pytest.fixture
def fake(server: FakeSes) -> FakeSes:
    """A fake without a past."""
    server.reset()
    return server


@pytest.fixture
def listed(fake: FakeSes, client: SesSuppressionList) -> SesSuppressionList:
    """The list of a fake without a past."""
    return client


class Script:
    """One endpoint for all, because making a client takes longer than a test, and its list."""

    def __init__(self, endpoint: SesEndpoint) -> None:
        self.endpoint = endpoint
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(ses_client._REPEATED, "total_max_attempts", 1)
            self.listed = SesSuppressionList(REGION, endpoint.url)

    def __call__(self, *acts: Acts) -> SesSuppressionList:
        """Return the list that will do this, call by call."""
        self.endpoint.steps["unknown"] = list(acts)
        self.endpoint.requests.clear()
        return self.listed


@pytest.fixture(scope="module")
def scripted() -> Iterator[Script]:
    """A list that tries once."""
    with SesEndpoint() as endpoint:
        script = Script(endpoint)
        with closing(script.listed):
            yield script


def page(*entries: Any, token: str | None = None) -> Acts:
    body = {SUMMARIES: list(entries)} | ({"NextToken": token} if token else {})
    return answer(200, body)


def entry(address: Any = ANN, **changes: Any) -> dict[str, Any]:
    return {"EmailAddress": address, "Reason": "BOUNCE", "LastUpdateTime": 1773144000} | changes


def test_all_pages_come(fake: FakeSes, listed: SesSuppressionList) -> None:
    assert list(listed.entries()) == []
    names = [f"{name}@example.com" for name in "abcde"]
    for each in names:
        listed.add(each, R.BOUNCE)
    fake_calls = fake.calls("ListSuppressedDestinations")
    found = list(listed.entries())
    assert [each.address for each in found] == names
    assert fake.calls("ListSuppressedDestinations") - fake_calls == 3
    recent = datetime.now(UTC) - timedelta(hours=1)
    assert all(each.updated_at.tzinfo and each.updated_at > recent for each in found)


def test_a_page_is_asked_for_when_it_is_wanted(fake: FakeSes, listed: SesSuppressionList) -> None:
    for name in "abc":
        listed.add(f"{name}@example.com", R.BOUNCE)
    found = listed.entries()
    assert fake.calls("ListSuppressedDestinations") == 0
    next(found)
    assert fake.calls("ListSuppressedDestinations") == 1


def test_only_what_changed_since(listed: SesSuppressionList) -> None:
    listed.add(ANN, R.BOUNCE)
    now = datetime.now(UTC)
    assert len(list(listed.entries(now - timedelta(hours=1)))) == 1
    assert list(listed.entries(now + timedelta(hours=1))) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [(R.COMPLAINT, R.COMPLAINT), (R.BOUNCE, R.BOUNCE), (R.MANUAL, R.BOUNCE)],
)
def test_an_address_is_added_by_its_key(listed: SesSuppressionList, given: R, told: R) -> None:
    listed.add("Ann@BÜCHER.example", given)
    (found,) = listed.entries()
    assert (found.address, found.key) == ("ann@xn--bcher-kva.example",) * 2
    assert found.reason is told


def test_an_address_is_removed_once(fake: FakeSes, listed: SesSuppressionList) -> None:
    listed.add("a/b+c%d=e@example.com", R.BOUNCE)
    assert listed.remove("A/B+c%d=e@Example.com")
    assert not listed.remove("A/B+c%d=e@Example.com")
    assert list(listed.entries()) == []


def test_both_spellings_are_removed(scripted: Script) -> None:
    gone = refusal(404, "NotFoundException", f"{ANN} is not there")
    assert scripted(gone, answer(200, {})).remove("Ann@Example.com")
    asked = [each.line.rpartition("/")[2] for each in scripted.endpoint.requests]
    assert asked == ["ann%40example.com", "Ann%40Example.com"]


def test_one_spelling_is_removed_by_one_call(fake: FakeSes, listed: SesSuppressionList) -> None:
    assert not listed.remove(ANN)
    assert fake.calls("DeleteSuppressedDestination") == 1


@pytest.mark.parametrize("address", ["", "ann", "a@b@example.com", "ann@example.com\r\nX: y"])
def test_what_is_no_address_is_not_asked(
    fake: FakeSes, listed: SesSuppressionList, address: str
) -> None:
    with pytest.raises(AccountListError, match="give one address"):
        listed.add(address, R.BOUNCE)
    with pytest.raises(AccountListError, match="give one address"):
        listed.remove(address)
    assert fake.calls("PutSuppressedDestination") == 0


def test_reasons_that_are_not_known_are_the_provider_s_own(scripted: Script) -> None:
    (found,) = scripted(page(entry(Reason="FUTURE"))).entries()
    assert found.reason is R.PROVIDER


@pytest.mark.parametrize(
    "odd",
    [
        {},
        entry("nobody"),
        entry(""),
        entry("a@b@example.com"),
        entry(LastUpdateTime=None),
        {"EmailAddress": ANN},
    ],
)
def test_an_odd_entry_is_left_out(scripted: Script, odd: Any) -> None:
    found = list(scripted(page(odd, entry("Bob@Example.com"))).entries())
    assert [(each.address, each.key) for each in found] == [("Bob@Example.com", "bob@example.com")]
    assert "example" not in repr(found)


def test_pages_in_a_circle(scripted: Script) -> None:
    listed = scripted(page(entry(), token="again"))
    with pytest.raises(AccountListError, match="endpoint_url"):
        list(listed.entries())


def test_a_call_that_was_too_fast_is_repeated() -> None:
    acts: list[Acts] = [refusal(429, "TooManyRequestsException"), page(entry())]
    with (
        SesEndpoint({"unknown": acts}) as endpoint,
        closing(SesSuppressionList(REGION, endpoint.url)) as listed,
    ):
        assert [each.key for each in listed.entries()] == [ANN]


@pytest.mark.parametrize(
    ("acts", "named"),
    [
        (refusal(429, "TooManyRequestsException", ANN), "fewer calls"),
        (refusal(403, "AccessDeniedException", ANN), "ses:ListSuppressedDestinations in IAM"),
        (refusal(403, "ExpiredTokenException", ANN), "AWS_ACCESS_KEY_ID"),
        (refusal(400, "BadRequestException", ANN), "sandbox"),
        (refusal(400, "InvalidNextTokenException"), "begin again"),
        (refusal(500, "InternalFailure", ANN), "InternalFailure: SES says no more"),
        (refusal(404, "NotFoundException"), "NotFoundException"),
        (refusal(400, ANN, ANN), "refused: SES says no more"),
        (refusal(400, "{operation.__class__}"), "refused"),
        (answer(200, "<html>", {}), "somebody else than SES"),
        (answer(200, [1]), "endpoint_url in MAILER_PROVIDERS"),
        (page(entry(LastUpdateTime="soon")), "endpoint_url in MAILER_PROVIDERS"),
        (page(entry(LastUpdateTime=1e40)), "endpoint_url in MAILER_PROVIDERS"),
        (END, "endpoint_url in MAILER_PROVIDERS"),
    ],
)
def test_what_is_wrong_is_said_with_its_mend(scripted: Script, acts: Acts, named: str) -> None:
    listed = scripted(acts)
    with pytest.raises(AccountListError) as caught:
        list(listed.entries())
    text = str(caught.value)
    assert named in text
    assert text.startswith("suppression list ses:eu-west-1+127.0.0.1:")
    assert ANN not in text
    assert SECRET not in text


def test_the_permission_is_that_of_the_call(scripted: Script) -> None:
    listed = scripted(refusal(403, "AccessDeniedException", ANN))
    with pytest.raises(AccountListError, match="ses:PutSuppressedDestination"):
        listed.add(ANN, R.BOUNCE)
    with pytest.raises(AccountListError, match="ses:DeleteSuppressedDestination"):
        listed.remove(ANN)


def test_what_came_before_a_fault_has_come(scripted: Script) -> None:
    listed = scripted(page(entry(), token="more"), refusal(500, "InternalFailure"))
    found = listed.entries()
    assert next(found).key == ANN
    with pytest.raises(AccountListError):
        next(found)


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with SesEndpoint() as endpoint, closing(SesSuppressionList(REGION, endpoint.url)) as listed:
        with pytest.raises(AccountListError, match="AWS_ACCESS_KEY_ID"):
            list(listed.entries())
        assert endpoint.connections == 0


def test_an_account_that_has_lapsed(fake: FakeSes, listed: SesSuppressionList) -> None:
    fake.set_state(expired=True)
    with pytest.raises(AccountListError, match="ExpiredTokenException"):
        list(listed.entries())


def test_settings_of_aws_that_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nowhere")
    with pytest.raises(SettingsError, match="AWS_PROFILE"):
        catalog.suppression_list("ses://eu-west-1")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("ses://eu-west-1", "ses:eu-west-1"),
        ("ses://us-east-1?configuration_set=main&rate=3", "ses:us-east-1"),
        ("ses://eu-west-1?endpoint_url=http://127.0.0.1:4579", "ses:eu-west-1+127.0.0.1:4579"),
        ("smtp://127.0.0.1", None),
        ("file:///tmp/mail", None),
    ],
)
def test_a_list_of_a_provider_s_url(url: str, name: str | None) -> None:
    found = catalog.suppression_list(url)
    assert (found and found.name) == name


def test_a_url_that_is_wrong() -> None:
    with pytest.raises(SettingsError, match="region"):
        catalog.suppression_list("ses://nowhere")
