"""The bench on a database server: its comparison needs rights of its own, and says so."""

import warnings

import pytest

from holdfast.lab.bench import baseline
from tests.databases.shops import shop_at
from tests.databases.test_schema import complaint

pytestmark = pytest.mark.service

MADE = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'holdfast_base%'"


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr(baseline, "CONNECTIONS", (1, 2))
    monkeypatch.setattr(baseline, "SEATS", 2_000)


async def test_the_comparison_leaves_no_table_and_no_warning(database, url, session, brief):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            connections, rate = await baseline.best_rate(url, 0.05)
    assert connections in (1, 2)
    assert rate > 0
    assert await session.rows(MADE) == []


async def test_the_comparison_understands_the_options_of_an_address(database, url, brief):
    server = database.shared()
    if database.name == "mysql":
        nowhere = url.replace("127.0.0.1", "nowhere.invalid")
        with_options = f"{nowhere}?unix_socket={server.folder / 'socket'}"
    else:
        with_options = f"{url}?sslmode=disable&application_name=bench"
    assert (await baseline.best_rate(with_options, 0.05))[1] > 0


@pytest.mark.slow
async def test_without_the_right_to_make_tables_it_is_one_line(database, url, session):
    async with shop_at(url):
        pass
    async with database.login(database.shared(), url) as login:
        for grant in database.grants(url, login):
            await session.execute(grant)
        said = await complaint("bench", "--quick", "--only", "baskets", "--store", login)
        assert "holdfast_baseline_*" in said
        assert "right to create and drop tables" in said
        assert "right-word" not in said
