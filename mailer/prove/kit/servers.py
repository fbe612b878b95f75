"""Private PostgreSQL and Redis servers: started for a run, and gone with it.

A server that is not started here is touched only if TEST_DATABASE_URL or TEST_REDIS_URL gives it.
"""

import itertools
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg2

from mailer.prove.kit.binaries import find_postgres, find_redis, unprivileged, within_reach
from mailer.prove.kit.processes import Home, OwnServer, ServerProcess

_POSTGRES_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
}
_REDIS_SECONDS = 5.0
_FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Postgres:
    """A PostgreSQL server that may be used; each test gets a database of its own in it."""

    _numbers = itertools.count(1)

    def __init__(self, admin_url: str) -> None:
        self._admin_url = admin_url

    def url(self, database: str = "postgres") -> str:
        """Return the URL of one of the server's databases."""
        return urlsplit(self._admin_url)._replace(path=f"/{database}").geturl()

    def create_database(self, template: str = "template1") -> str:
        """Return the URL of a new database, a copy of `template`."""
        name = f"mailer_test_{os.getpid()}_{next(self._numbers)}"
        self._administer(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def create_template(self, prepare: Callable[[str], None]) -> str:
        """Return the name of a new database that `prepare` has filled, for copies to be made of.

        `prepare` is given the URL and leaves no connection open.
        """
        url = self.create_database()
        prepare(url)
        return urlsplit(url).path[1:]

    def drop_database(self, url: str) -> None:
        """Drop the database of this URL, whoever is still connected to it."""
        self._administer(f'DROP DATABASE IF EXISTS "{urlsplit(url).path[1:]}" WITH (FORCE)')

    @contextmanager
    def refusing(self, url: str) -> Iterator[None]:
        """Cut every connection to this database, and let nobody in, for the length of the block."""
        name = urlsplit(url).path[1:]
        self._administer(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
        try:
            self._administer(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                f" WHERE datname = '{name}'"
            )
            yield
        finally:
            self._administer(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS true')

    def _administer(self, statement: str) -> None:
        with closing(psycopg2.connect(self._admin_url)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)


class PostgresServer(OwnServer, Postgres):
    """A PostgreSQL server of our own, in a folder of its own.

    `programs` is the folder that holds `postgres` and `initdb`. With `durable` a commit survives
    `kill`; without, it is faster and a kill may cost the data. Raises NoServer.
    """

    # Immediate shutdown: the next start recovers, and no client can hold it up.
    stop_signal = signal.SIGQUIT

    def __init__(self, programs: Path | None = None, *, durable: bool = False) -> None:
        programs = programs or find_postgres()
        self._account = unprivileged()
        self._options = _POSTGRES_OPTIONS | ({} if durable else _FORGETFUL)
        super().__init__(Home(self._account))
        self._programs = within_reach(programs, self._account, self._home.path)
        self._data = self._home.path / "data"

    def start(self) -> None:
        """Make the data folder, start, and return once connections are accepted."""
        self._initialise()
        super().start()

    def _initialise(self) -> None:
        account = self._account
        subprocess.run(
            [
                self._programs / "initdb",
                f"--pgdata={self._data}",
                "--username=mailer",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ],
            check=True,
            capture_output=True,
            cwd=self._home.path,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )

    def _settle_on(self, port: int) -> None:
        self._port = port
        self._admin_url = f"postgresql://mailer@127.0.0.1:{port}/postgres"

    def _launch(self) -> ServerProcess:
        return ServerProcess(
            [
                str(self._programs / "postgres"),
                *("-D", str(self._data), "-p", str(self._port)),
                *_flags("-c", self._options),
            ],
            self._home,
            ready="database system is ready to accept connections",
            account=self._account,
        )


class Redis:
    """A Redis database that may be used and emptied."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def url(self) -> str:
        """Return the URL of the database."""
        return self._url

    def flush(self) -> None:
        """Empty the database of this URL."""
        flush(self.url)


class RedisServer(OwnServer, Redis):
    """A Redis or Valkey server of our own, which keeps nothing over `kill`. Raises NoServer."""

    def __init__(self, program: Path | None = None) -> None:
        self._program = program or find_redis()
        super().__init__(Home())

    def _settle_on(self, port: int) -> None:
        self._port = port
        self._url = f"redis://127.0.0.1:{port}/0"

    def _launch(self) -> ServerProcess:
        options = {
            "port": str(self._port),
            "bind": "127.0.0.1",
            "dir": str(self._home.path),
            "save": "",
            "appendonly": "no",
            "maxmemory-policy": "noeviction",
        }
        return ServerProcess(
            [
                str(self._program),
                *(word for name in options for word in (f"--{name}", options[name])),
            ],
            self._home,
            ready="Ready to accept connections",
        )


@contextmanager
def postgres_for_tests() -> Iterator[Postgres]:
    """Give the server of TEST_DATABASE_URL, else one of our own; raises NoServer."""
    if given := os.environ.get("TEST_DATABASE_URL"):
        yield Postgres(given)
    else:
        with PostgresServer() as server:
            yield server


@contextmanager
def redis_for_tests() -> Iterator[Redis]:
    """Give the database of TEST_REDIS_URL, else a server of our own; raises NoServer."""
    if given := os.environ.get("TEST_REDIS_URL"):
        yield Redis(given)
    else:
        with RedisServer() as server:
            yield server


def flush(redis_url: str) -> None:
    """Empty a Redis database; raises OSError where it is away or refuses.

    Spoken by hand (RESP, inline commands), because the client is the worker's own affair.
    """
    parts = urlsplit(redis_url)
    commands = [f"SELECT {parts.path.lstrip('/') or '0'}", "FLUSHDB"]
    if parts.password:
        commands.insert(0, f"AUTH {parts.username or 'default'} {unquote(parts.password)}")
    address = (parts.hostname or "127.0.0.1", parts.port or 6379)
    with (
        socket.create_connection(address, timeout=_REDIS_SECONDS) as connection,
        connection.makefile("rb") as answers,
    ):
        for command in commands:
            connection.sendall(f"{command}\r\n".encode())
            if answers.readline() != b"+OK\r\n":
                raise OSError(f"Redis refused {command.split()[0]}")


def _flags(flag: str, options: Mapping[str, str]) -> list[str]:
    return [word for name in options for word in (flag, f"{name}={options[name]}")]
