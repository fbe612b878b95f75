"""The tests' own servers: whichever programs are found, they start, crash, come back and go."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import psycopg2
import pytest
import redis

from mailer.prove.kit.binaries import (
    NoServer,
    system_postgres,
    system_redis,
    wheel_postgres,
    wheel_redis,
)
from mailer.prove.kit.processes import Home
from mailer.prove.kit.servers import Postgres, PostgresServer, Redis, RedisServer
from tests.conftest import server_or_skip

Finder = Callable[[], Path | None]

GONE_SECONDS = 20.0


def found(finder: Finder) -> Path:
    programs = finder()
    if programs is None:
        pytest.skip(f"{finder.__name__} finds nothing on this machine")
    return programs


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        connection.commit()
        return list(cursor.fetchall()) if cursor.description else []


@pytest.fixture(params=[system_postgres, wheel_postgres], ids=["system", "wheel"])
def durable_postgres(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with PostgresServer(found(request.param), durable=True) as server:
        yield server


def test_a_commit_survives_the_kill_of_a_durable_server(durable_postgres: PostgresServer) -> None:
    url = durable_postgres.create_database()
    rows(url, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")

    durable_postgres.kill()
    with pytest.raises(psycopg2.OperationalError):
        psycopg2.connect(url)
    durable_postgres.restart()

    assert rows(url, "SELECT n FROM kept") == [(7,)]
    assert rows(url, "SHOW fsync") == [("on",)]


def test_databases_are_new_and_copies_hold_what_the_template_holds(
    postgres_server: Postgres,
) -> None:
    def prepare(url: str) -> None:
        rows(url, "CREATE TABLE made (n int)")

    template = postgres_server.create_template(prepare)
    copy, empty = postgres_server.create_database(template), postgres_server.create_database()

    assert rows(copy, "SELECT count(*) FROM made") == [(0,)]
    assert rows(empty, "SELECT to_regclass('made')") == [(None,)]

    for url in (copy, empty, postgres_server.url(template)):
        postgres_server.drop_database(url)
    with pytest.raises(psycopg2.OperationalError):
        psycopg2.connect(copy)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders that others may not enter")
def test_programs_that_the_server_account_may_not_read_are_copied(tmp_path: Path) -> None:
    package = found(wheel_postgres).parent.parent
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for each in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(each, closed / each.name, symlinks=True)

    with PostgresServer(closed / package.name / "pginstall" / "bin") as server:
        assert rows(server.url(), "SELECT 1") == [(1,)]
    assert closed.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("finder", [system_redis, wheel_redis], ids=["system", "wheel"])
def test_a_killed_redis_comes_back_empty_on_the_same_port(finder: Finder) -> None:
    with RedisServer(found(finder)) as server, closing(redis.Redis.from_url(server.url)) as client:
        client.set("hint", "1")
        server.kill()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        server.restart()
        assert client.get("hint") is None


def test_a_redis_url_is_handed_out_empty(redis_server: Redis) -> None:
    with closing(redis.Redis.from_url(redis_server.url)) as client:
        client.set("left", "over")
        redis_server.flush()
        assert client.dbsize() == 0


LEFT_BEHIND = """
import sys, os
from mailer.prove.kit.servers import PostgresServer, RedisServer
postgres, redis = PostgresServer(), RedisServer()
postgres.start(), redis.start()
print(postgres.pid, redis.pid, postgres._home.path, redis._home.path, flush=True)
sys.stdin.read()
"""


def test_servers_and_folders_are_gone_when_the_tests_are_killed() -> None:
    tests = subprocess.Popen(
        [sys.executable, "-c", LEFT_BEHIND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    assert tests.stdout is not None
    postgres_pid, redis_pid, *homes = tests.stdout.readline().split()
    servers = [psutil.Process(int(pid)) for pid in (postgres_pid, redis_pid)]
    keepers = [process for process in psutil.process_iter() if homes_of(process) & set(homes)]

    tests.send_signal(signal.SIGKILL)
    tests.communicate()

    assert len(keepers) == len(homes)
    _, alive = psutil.wait_procs([*servers, *keepers], GONE_SECONDS)
    assert alive == []
    assert [home for home in homes if Path(home).exists()] == []


def homes_of(process: psutil.Process) -> set[str]:
    try:
        command = process.cmdline()
    except psutil.Error:
        return set()
    return {command[-1]} if command[:2] == ["/bin/sh", "-c"] else set()


def test_a_home_is_removed_with_what_is_in_it() -> None:
    home = Home()
    (home.path / "file").write_text("x")
    home.remove()
    assert not home.path.exists()


def test_a_missing_server_skips_at_home_and_fails_where_servers_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MAILER_TESTS_REQUIRE_SERVERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install it"), server_or_skip():
        raise NoServer("install it")

    monkeypatch.setenv("MAILER_TESTS_REQUIRE_SERVERS", "1")
    with pytest.raises(pytest.fail.Exception, match="install it"), server_or_skip():
        raise NoServer("install it")
