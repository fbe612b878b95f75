"""Every event vector, posted with its real signature through the real door.

`VECTORS_EVENTS` names another file of the same form. A case is played from its fields, not from its
id, so that any combination of them can be tried.
"""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailer import suppressions
from mailer.addresses import address_key
from mailer.database import bound, now
from mailer.facts import NOT_SENT, SuppressionReason
from mailer.feed import Channel
from mailer.feedback import Feedback
from mailer.prove.kit.servers import Postgres
from mailer.suppressions import Barred, bar
from mailer.tables import Attempt, Event, Fact, Suppression
from providers.ses_events import SesEvents
from tests.builders import bound_to, prepare
from tests.vectors.event_scenes import Case, Entrance, Scene, body_of, door, post, write_attempts

FILE = Path(os.environ.get("VECTORS_EVENTS") or Path(__file__).with_name("events.json"))
VECTORS: Any = json.loads(FILE.read_text("utf-8"))
META, CASES = VECTORS["meta"], VECTORS["vectors"]

pytestmark = pytest.mark.usefixtures("scene_database")


_KEPT = ("email_outbox", "email_recipient", "email_attempt")
_EMPTIED = "TRUNCATE email_fact, email_event, email_suppression, email_attempt, email_recipient,"


@pytest.fixture(scope="module")
def filled_database(postgres_server: Postgres) -> Iterator[None]:
    """One database for all cases, with copies of the vectors' attempts to begin each case from."""
    url = postgres_server.create_database()
    prepare(url)
    with bound_to(url):
        write_attempts(META["attempts"])
        for table in _KEPT:
            bound().execute_sql(f"CREATE TABLE kept_{table} AS TABLE {table}")
        yield
    postgres_server.drop_database(url)


@pytest.fixture
def scene_database(filled_database: None) -> None:
    """The vectors' attempts, and nothing that another case has left."""
    bound().execute_sql(f"{_EMPTIED} email_outbox CASCADE")
    for table in _KEPT:
        bound().execute_sql(f"INSERT INTO {table} SELECT * FROM kept_{table}")


@pytest.fixture(scope="module")
def entrance() -> Iterator[tuple[Entrance, int]]:
    """The door, for all cases."""
    with door() as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: Case, entrance: tuple[Entrance, int]) -> None:
    config = {**META["config_defaults"], **case.get("config", {})}
    scene = Scene(META, config)
    entrance[0].scene = scene
    ses = SesEvents(tag_name=config["tag_key"])
    feedback = Feedback({Channel.HTTPS: ses, Channel.SQS: ses})
    in_doubt = _in_doubt()
    status = 0
    for step in case.get("steps", [case]):
        if "action" in step:
            _act(step)
            continue
        status = _hand_in(step, case, entrance[1], scene)
        assert status == step.get("http_status", status)
        feedback.interpret()
    _check(case["expect"], status, scene, in_doubt)


def _act(step: Case) -> None:
    assert step["action"] == "release_suppression"
    key = address_key(step["address"])
    bar([Barred(key, SuppressionReason.MANUAL, "of the vectors", _moment_before_all())])
    assert suppressions.release(key, by="somebody", why="of the vectors") is not None
    Suppression.update(released_at=step.get("at") or now()).execute()


def _moment_before_all() -> Any:
    return Attempt.select(Attempt.started_at).limit(1).scalar()


def _hand_in(step: Case, case: Case, port: int, scene: Scene) -> int:
    given = {**case, **step}
    scene.host.failing = step.get("inject", {}).get("cert_fetch", {})
    if step.get("channel", case["channel"]) == "sqs":
        return asyncio.run(scene.ingest.take(body_of(given), Channel.SQS)).status
    return post(port, body_of(given), given.get("headers", {}))


def _in_doubt() -> set[str]:
    query = Attempt.select().where((Attempt.outcome == "ambiguous") | (Attempt.state == "started"))
    return {each.request_tag for each in query}


def _check(expect: Case, status: int, scene: Scene, in_doubt: set[str]) -> None:
    assert status == expect["http_status"]
    assert Event.select().count() == expect.get("rows", int(expect["stored"]))
    if "fetches" in expect:
        assert scene.host.asked == expect["fetches"]
    _check_subscription(expect, scene)
    assert _facts() == {who: set(kinds) for who, kinds in expect["recipients"].items()}
    # Some of them expire, by the vectors' clock and not by the database's.
    held = Suppression.select().where(Suppression.released_at.is_null())
    assert {each.address_key for each in held} == set(expect["suppress"])
    if "unlisted" in expect:
        unlisted = Fact.select().where(Fact.unlisted)
        assert {each.address_key for each in unlisted} == set(expect["unlisted"])
    if expect["stored"]:
        _check_last_event(expect, in_doubt)


def _check_subscription(expect: Case, scene: Scene) -> None:
    match expect.get("subscription_action"):
        case "confirm_via_api":
            ((topic, token),) = scene.confirmations.confirmed
            assert topic.startswith("arn:")
            assert token
        case "alert":
            assert scene.confirmations.confirmed == []
            assert Event.get().kind == "UnsubscribeConfirmation"
        case _:
            assert scene.confirmations.confirmed == []


def _facts() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for each in Fact.select():
        found.setdefault(each.address_key or "*", set()).add(each.kind)
    return found


def _check_last_event(expect: Case, in_doubt: set[str]) -> None:
    event = Event.select().order_by(Event.id.desc()).get()
    assert event.matched_by == expect["matched_by"]
    assert event.state == expect.get("status", event.state)
    assert event.conflict == expect.get("conflict", False)
    attempt = event.attempt
    if "attempt" in expect:
        (wanted,) = [each for each in META["attempts"] if each["id"] == expect["attempt"]]
        assert attempt is not None
        assert attempt.request_tag == wanted["tag"]
    settled = attempt is not None and attempt.request_tag in in_doubt and _is_accepted(attempt)
    assert settled == expect["resolves_ambiguous"]
    if "resolution" in expect:
        assert attempt is not None
        thrown_away = Fact.select().where(Fact.kind.in_(NOT_SENT)).exists()
        told = "accepted_not_sent" if thrown_away else "accepted"
        assert _is_accepted(attempt)
        assert told == expect["resolution"]


def _is_accepted(attempt: Attempt) -> bool:
    return attempt.resolution == "accepted" or attempt.outcome == "accepted"
