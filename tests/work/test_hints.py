"""Hints: sent after commits by a thread of their own, and never anybody's trouble."""

import json
import os
import threading
from contextlib import closing

import pytest
import redis

from mailer import database
from mailer.hints import INTERPRET, Hinter
from mailer.prove.kit.processes import free_port
from mailer.prove.kit.waiting import until
from tests.builders import enqueue


def hints_in(url: str) -> list[dict[str, object]]:
    """The messages that wait in the broker."""
    with closing(redis.Redis.from_url(url)) as client:
        stored = client.hgetall("mailer:mailer.msgs")
        return [json.loads(each) for each in stored.values()]


@pytest.mark.parametrize(("chosen", "actor"), [((), "deliver"), ((INTERPRET,), "interpret")])
def test_a_hint_names_the_actor_and_nothing_else(
    chosen: tuple[str, ...], actor: str, redis_url: str
) -> None:
    hinter = Hinter(redis_url, *chosen)
    hinter.nudge()
    hinter.last_word()
    (hint,) = hints_in(redis_url)
    assert (hint["actor_name"], hint["args"], hint["kwargs"]) == (actor, [], {})


@pytest.mark.usefixtures("outbox")
def test_many_commits_in_a_row_become_few_hints(redis_url: str) -> None:
    hinter = Hinter(redis_url)
    hinter.nudge()
    hinter.last_word()
    with database.transaction():
        for number in range(50):
            enqueue(f"k{number}", nudge=hinter.nudge)
    hinter.last_word()
    assert 2 <= len(hints_in(redis_url)) < 51


@pytest.mark.usefixtures("outbox")
def test_a_broker_that_is_down_is_nobodys_trouble() -> None:
    hinter = Hinter(f"redis://127.0.0.1:{free_port()}/0")
    with database.transaction():
        assert enqueue(nudge=hinter.nudge).created
    hinter.last_word()
    assert enqueue("second", nudge=hinter.nudge).created


@pytest.mark.usefixtures("outbox")
def test_the_caller_does_not_wait_for_a_broker_that_hangs() -> None:
    """The hint's own thread is the one that meets the silence."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        hinter = Hinter(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        assert enqueue(nudge=hinter.nudge).created
        connection, _ = silent.accept()
        with closing(connection):
            names = {each.name for each in threading.enumerate()}
            assert "mailer-hints" in names
            hinter.last_word()


def test_a_forked_child_has_hints_of_its_own(redis_url: str) -> None:
    hinter = Hinter(redis_url)
    hinter.nudge()
    hinter.last_word()
    child = os.fork()
    if child == 0:
        hinter.nudge()
        hinter.last_word()
        os._exit(0)
    os.waitpid(child, 0)
    until(lambda: len(hints_in(redis_url)) == 2)
