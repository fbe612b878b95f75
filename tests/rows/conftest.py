"""A migrated outbox of each kind of database, bound and connected."""

from collections.abc import Iterator

import pytest

from tests.builders import bound_to, prepare
from tests.servers import Postgres


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
