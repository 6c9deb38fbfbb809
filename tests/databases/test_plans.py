"""How PostgreSQL goes about what is read of an event that its statistics do not know yet."""

import pytest

from holdfast.domain.outcomes import Created
from holdfast.stores.postgres.reading import SQL
from holdfast.stores.postgres.ways import NARROW, PLANS, WIDE
from tests.conftest import needed_server
from tests.databases.shops import plan, shop_at
from tests.servers import Postgres

pytestmark = pytest.mark.service

BEFORE = "; ".join([NARROW, *(f"SET LOCAL enable_{each} = on" for each in PLANS)])


@pytest.fixture
def server():
    """Of its own: what others leave behind would be in its statistics too."""
    with needed_server(Postgres, autovacuum="off", fsync="off") as server:
        yield server


async def test_the_map_of_a_new_event_is_not_read_seat_by_seat_against_all_others(server):
    async with shop_at(server.url) as shop:
        old = plan(rows=100, width=100) | {"id": "known-by-statistics"}
        assert isinstance(await shop.create_event(old), Created)
        async with shop.store.session(30) as db:  # type: ignore[attr-defined]  # PostgreSQL's own
            await db.execute("ANALYZE holdfast.seats; ANALYZE holdfast.seat_plans")
            explain = f"EXPLAIN {SQL['map_seats']}".replace("$1", "'new'").replace("$2", "0")

            async def plan_after(begin: str) -> str:
                await db.execute(begin)
                rows = await db.fetch(explain)
                await db.execute("ROLLBACK")
                return "\n".join(row[0] for row in rows)

            assert "Nested Loop" not in await plan_after(WIDE)
            # The control: what it would do otherwise.
            assert "Nested Loop" in await plan_after(BEFORE)
