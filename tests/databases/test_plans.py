"""How PostgreSQL goes about what is read of an event that its statistics do not know yet."""

import re
from typing import Any

import pytest

from holdfast.domain.outcomes import Created
from holdfast.settings import Settings
from holdfast.stores.postgres.reading import SQL
from holdfast.stores.postgres.ways import NARROW, PLANS, WIDE, of_a_batch
from tests.conftest import needed_server
from tests.databases.shops import held, plan, shop_at
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


BY_KEY = (
    *("look", "seats", "peek_holds", "holds", "peek_orders", "orders", "records", "claims"),
    *("update_seat", "update_hold", "update_order", "update_order_units"),
    *("update_claim", "delete_claim", "insert_record"),
)
CONDITIONAL = {
    "tallies": "orders_by_buyer",
    "forget_records": "commands_by_age",
    "lapsed": "claims_by_deadline",
}
"""Those who name the condition of an index go by it."""
SMALL_EVENTS = """
INSERT INTO holdfast.orders (event, id, buyer, state, seats, pools, units, amount, currency,
                             created_ms)
SELECT 'e-' || n, 'e-' || n || '.o', 'ann', 'declined', '[]', '{}', 1, 1, 'EUR', 1
FROM generate_series(1, 1000) AS n;
ANALYZE holdfast.orders
"""
"""After these the server believes that an event has one order."""
UNCONDITIONAL = """
DROP INDEX holdfast.orders_by_buyer;
CREATE INDEX orders_by_buyer ON holdfast.orders (event, buyer)
"""


async def indexes(db: Any, query: str) -> set[str]:
    """Those that a batch would go by, with a plan for whatever keys may come."""
    arguments = max(map(int, re.findall(r"\$(\d+)", SQL[query])))
    await db.execute(f"PREPARE kept AS {SQL[query]}")
    rows = await db.fetch(f"EXPLAIN EXECUTE kept ({', '.join(['NULL'] * arguments)})")
    await db.execute("DEALLOCATE kept")
    text = "\n".join(row[0] for row in rows)
    assert "Seq Scan" not in text, text
    return set(re.findall(r"Index (?:Only )?Scan (?:Backward )?(?:using|on) (\w+)", text))


async def test_whatever_a_batch_names_is_found_by_its_full_key(server):
    """Also while the server knows nothing of a table, or only of much smaller events."""
    async with shop_at(server.url) as shop:
        assert isinstance(await shop.create_event(plan()), Created)
        for n in range(1, 4):
            hold = await held(shop, f"u{n}", seats=[f"A-1-{n}"], pools={"floor": 1}, id=f"h{n}")
            await shop.confirm_hold(hold.id, order=f"o{n}", payment=f"p{n}")
        async with shop.store.session(30) as db:  # type: ignore[attr-defined]  # as above
            for way in of_a_batch(Settings()):
                await db.execute(f"SET {way}")
            for known in ("SELECT 1", SMALL_EVENTS):
                await db.execute(known)
                for query in BY_KEY:
                    used = await indexes(db, query)
                    assert all(index.endswith("_pkey") for index in used), (query, used)
            for query, index in CONDITIONAL.items():
                assert index in await indexes(db, query), query
            # The control: an index that anybody may use is used.
            await db.execute(UNCONDITIONAL)
            assert "orders_by_buyer" in await indexes(db, "update_order")
