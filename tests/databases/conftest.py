"""Every test of this folder runs on each database that it concerns, in a database of its own."""

import pytest

from tests import services
from tests.databases.kinds import DATABASES, Database
from tests.servers import MissingServer, own_server


def found(database: Database) -> Database:
    """A database whose server the machine may lack: then its tests are skipped, but not in CI."""
    try:
        database.shared()
    except MissingServer as missing:
        if services.strict():
            raise
        pytest.skip(str(missing))
    return database


@pytest.fixture(params=DATABASES)
def database(request) -> Database:
    return found(DATABASES[request.param])


@pytest.fixture
async def url(database):
    """The address of an empty database on the server that tests share."""
    async with database.empty(database.shared()) as url:
        yield url


@pytest.fixture
async def session(database, url):
    """A connection beside the store's own, to lock and to look."""
    async with database.sessions(url) as (session,):
        yield session


@pytest.fixture
async def watcher(database, url):
    """One more, to look while the first is in a transaction."""
    async with database.sessions(url) as (session,):
        yield session


@pytest.fixture
def killable(database):
    """A server of the test's own, durable, to be killed and frozen."""
    with own_server(database.kind) as server:
        yield server


@pytest.fixture
def postgres_only(database):
    if database.name != "postgres":
        pytest.skip("PostgreSQL only")
