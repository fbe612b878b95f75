"""What every test may ask for: private servers, fresh databases, an environment without ours."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

from mailer.prove.kit.binaries import NoServer
from mailer.prove.kit.servers import Postgres, Redis, postgres_for_tests, redis_for_tests
from tests.builders import bound_to, prepare

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

_OURS = ("DATABASE_URL", "REDIS_URL", "PORT", "COLUMNS", "LINES")
_OUR_PREFIXES = ("MAILER_", "AWS_", "PG")
_KEPT_PREFIX = "MAILER_TESTS_"


@contextmanager
def server_or_skip() -> Iterator[None]:
    """Skip the test if a server is missing, or fail it where servers are required."""
    try:
        yield
    except NoServer as missing:
        if os.environ.get("MAILER_TESTS_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(scope="session", autouse=True)
def bare_environment() -> Iterator[None]:
    """Take from the environment all that a developer's shell may set for the product."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            ours = name in _OURS or name.startswith(_OUR_PREFIXES)
            if ours and not name.startswith(_KEPT_PREFIX):
                patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def postgres_server(bare_environment: None) -> Iterator[Postgres]:
    """A PostgreSQL server for the whole run; its commits need not survive a kill."""
    with server_or_skip(), postgres_for_tests() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server(bare_environment: None) -> Iterator[Redis]:
    """A Redis server for the whole run."""
    with server_or_skip(), redis_for_tests() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Iterator[str]:
    """The URL of a new, empty PostgreSQL database."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(params=["postgresql", "sqlite"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new, empty database of each kind: the test runs once on either."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'mailer.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def redis_url(redis_server: Redis) -> str:
    """The URL of an empty Redis database."""
    redis_server.flush()
    return redis_server.url


@pytest.fixture(scope="session")
def migrated_template(postgres_server: Postgres) -> str:
    """The name of a migrated database to copy from."""
    return postgres_server.create_template(prepare)


@pytest.fixture
def postgres_outbox_url(postgres_server: Postgres, migrated_template: str) -> Iterator[str]:
    """The URL of a migrated PostgreSQL database."""
    url = postgres_server.create_database(migrated_template)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def postgres_outbox(postgres_outbox_url: str) -> Iterator[str]:
    """The outbox bound to PostgreSQL, for what only two connections can show."""
    with bound_to(postgres_outbox_url):
        yield postgres_outbox_url


@pytest.fixture(params=["postgresql", "sqlite"])
def outbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The outbox bound to a database of each kind: the test runs once on either."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('outbox') / 'mailer.db'}"
        prepare(url)
    else:
        url = request.getfixturevalue("postgres_outbox_url")
    with bound_to(url):
        yield url
