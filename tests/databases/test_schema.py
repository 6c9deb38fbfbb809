"""The schema: made once whoever comes first, never mistaken for another version, usable by a user
with few rights, and exact about every byte of an id."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.domain.commands import CreateEvent, PlaceHold, Sell
from holdfast.domain.model import NO_CHECKOUT, Ask, Pool, SeatPlan
from holdfast.domain.outcomes import Confirmed, Placed
from holdfast.domain.plan import EventPlan, read_event
from holdfast.domain.views import DOCUMENT_BODY_BYTES_MAX, Document, Move
from holdfast.errors import StoreError, StoreUnavailable
from holdfast.stores.mysql import schema as mysql
from holdfast.stores.postgres import schema as postgres
from holdfast.upkeep.pruned import note_pruned
from tests.contract.helpers import said
from tests.databases.shops import E1, ROOT, audited, held, plan, selling, shop_at
from tests.servers import free_port

pytestmark = pytest.mark.service


async def cli(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `python -m holdfast ...`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", *args),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return process.returncode, stdout.decode(), stderr.decode()


async def complaint(*args: str) -> str:
    """The one line of a command that must fail for a wrong value."""
    code, stdout, stderr = await cli(*args)
    assert (code, stdout) == (2, ""), stderr
    assert stderr.startswith("holdfast: ")
    assert len(stderr.splitlines()) == 1, stderr
    return stderr


async def test_processes_that_migrate_an_empty_database_at_once_all_succeed(url):
    done = await asyncio.gather(*(cli("migrate", "--store", url) for _ in range(3)))
    assert [code for code, _, _ in done] == [0, 0, 0], done
    assert sorted("nothing to do" in stdout for _, stdout, _ in done) == [False, True, True]
    async with selling(url) as shop:
        await held(shop, best=1)


async def test_shops_that_open_an_empty_database_at_once_all_succeed(url):
    shops = [shop_at(url) for _ in range(5)]
    await asyncio.gather(*(shop.__aenter__() for shop in shops))
    try:
        await shops[0].create_event(plan())
        assert {said(await shop.place_hold(E1, buyer="ann", best=1)) for shop in shops} == {
            "placed"
        }
    finally:
        for shop in shops:
            await shop.__aexit__()


async def test_a_schema_newer_than_the_program_is_left_alone(database, url, session):
    async with selling(url):
        pass
    await session.execute(f"UPDATE {database.table('schema_version')} SET version = 99")
    said = await complaint("check", "--store", url)
    assert "schema 99" in said
    assert "upgrade holdfast" in said
    assert "upgrade holdfast" in await complaint("migrate", "--store", url)


@pytest.mark.parametrize("version", [-1, 0, None])
async def test_a_schema_whose_version_is_lost_is_one_line(database, url, session, version):
    async with selling(url):
        pass
    table = database.table("schema_version")
    lost = f"UPDATE {table} SET version = {version}" if version is not None else ""
    await session.execute(lost or f"DELETE FROM {table}")
    if database.name == "mysql" and version is None:
        # As after a crash in the middle of making it, which is not one transaction there.
        assert "schema 0 -> 1" in (await cli("migrate", "--store", url))[1]
        return
    for command in (["migrate"], ["check"], ["events", "list"]):
        assert "does not tell a version: restore it" in await complaint(*command, "--store", url)


@pytest.mark.parametrize(
    "what", ["check", "repair", "events list", "followers list", "log export --all"]
)
async def test_looking_after_an_empty_database_makes_nothing(database, url, session, what):
    said = await complaint(*what.split(), "--store", url)
    assert "no Holdfast schema in " in said
    assert "holdfast migrate makes it" in said
    assert await session.rows(EVERY_TABLE[database.name]) == []


EVERY_TABLE = {
    "postgres": "SELECT nspname FROM pg_namespace WHERE nspname = 'holdfast'",
    "mysql": "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
}


async def test_check_lists_events_in_the_order_of_their_ids(url):
    ids = ["b", "a", "d", "c"]
    async with audited(url) as shop:
        for id in ids:
            await shop.create_event(plan(id=id))
        await shop.place_hold("a", buyer="ann", best=1)  # its row moves to the end
        assert list(await shop.store.heads()) == sorted(ids)


ADDED = {
    2: ["DROP TABLE {documents}"],
    3: [
        "DROP TABLE {order_keys}",
        "ALTER TABLE {orders} DROP COLUMN version, DROP COLUMN due_ms, DROP COLUMN trouble, "
        "DROP COLUMN checkout",
    ],
    4: ["DROP TABLE {cursors}"],
}
"""How to take away again what a version added; indexes go with their columns."""
NEWEST = {"postgres": postgres.SCHEMA_VERSION, "mysql": mysql.SCHEMA_VERSION}
LIMITS = {
    "postgres": {
        5: [
            "DROP INDEX holdfast.orders_by_buyer",
            "CREATE INDEX orders_by_buyer ON holdfast.orders (event, buyer)",
            "DROP INDEX holdfast.commands_by_age",
            "CREATE INDEX commands_by_age ON holdfast.commands (event, at_ms)",
            "DROP INDEX holdfast.claims_by_deadline",
            "CREATE INDEX claims_by_deadline ON holdfast.claims (event, pool, until_ms)",
        ],
        4: [
            "ALTER TABLE {documents} DROP CONSTRAINT documents_body_check, "
            "ADD CONSTRAINT documents_body_check CHECK (octet_length(body) <= 65536)"
        ],
    },
    "mysql": {
        4: [
            "ALTER TABLE {documents} DROP CONSTRAINT holdfast_documents_body, "
            "ADD CONSTRAINT holdfast_documents_small CHECK (LENGTH(body) <= 65536)"
        ]
    },
}
"""The same of limits and indexes, of which each server has its own way to speak."""


async def left_at(database, url: str, version: int) -> str:
    """The address of a shop that was left by the program that knew this version."""
    async with selling(url) as shop:
        hold = await held(shop, best=2, pools={"floor": 1}, id="kept")
        await shop.confirm_hold(hold.id, order="kept", payment="p1")
    names = ("documents", "order_keys", "orders", "cursors")
    tables = {name: database.table(name) for name in names}
    async with database.sessions(url) as (session,):
        for added in range(NEWEST[database.name], version, -1):
            for undo in (*ADDED.get(added, []), *LIMITS[database.name].get(added, [])):
                await session.execute(undo.format(**tables))
        await session.execute(f"UPDATE {database.table('schema_version')} SET version = {version}")
    return url


@pytest.fixture
async def older(database, url):
    return await left_at(database, url, 1)


def test_a_schema_older_than_the_program_is_one_line_and_exit_code_2(older, capfd):
    assert main(["check", "--store", older]) == 2
    stdout, stderr = capfd.readouterr()
    assert stdout == ""
    assert stderr.startswith("holdfast: ")
    assert "run holdfast migrate" in stderr
    assert len(stderr.splitlines()) == 1


def test_an_upgrade_keeps_the_data(older, database, capfd):
    assert main(["migrate", "--store", older]) == 0
    steps = [f"schema {n} -> {n + 1}" for n in range(1, NEWEST[database.name])]
    assert re.findall(r"schema \d -> \d", capfd.readouterr().out) == steps
    assert main(["migrate", "--store", older]) == 0
    assert "nothing to do" in capfd.readouterr().out

    async def look() -> None:
        async with audited(older) as shop:
            order = await shop.order(f"{E1}.kept")
            assert order is not None
            assert order.units == 3
            await held(shop, best=2)
            assert await shop.store.put(Document("key", "k1", 1, "{}"))

    asyncio.run(look())


async def test_an_order_from_before_checkout_has_nothing_to_be_done(database, url):
    await left_at(database, url, 2)
    assert "schema 2 -> 3" in (await cli("migrate", "--store", url))[1]
    async with audited(url) as shop:
        order = await shop.order(f"{E1}.kept")
        assert order is not None
        assert (order.units, order.payment, order.sold) == (3, "p1", True)
        assert (order.version, order.due_ms, order.trouble) == (1, None, None)
        assert order.checkout == NO_CHECKOUT
        assert await shop.store.due_orders(10) == await shop.store.troubled_orders(10) == []
        assert await shop.store.claim_keys([("k1", "d1")]) == ["d1"]
        assert said(await shop.cancel_order(order.id)) == "cancelled"


async def test_documents_from_before_they_could_be_large_are_kept_and_may_grow(database, url):
    small = Document("key", "k1", 1, "s" * 65_536)
    async with shop_at(url) as shop:
        assert await shop.store.put(small)
    await left_at(database, url, 3)
    assert "schema 3 -> 4" in (await cli("migrate", "--store", url))[1]
    async with audited(url) as shop:
        assert (await shop.store.documents("key"))[0] == [small]
        grown = Document("key", "k1", 2, "g" * DOCUMENT_BODY_BYTES_MAX)
        assert await shop.store.put(grown)
        assert (await shop.store.documents("key"))[0] == [grown]
        with pytest.raises(StoreError, match="refused"):
            await shop.store.put(Document("key", "k1", 3, "g" * (DOCUMENT_BODY_BYTES_MAX + 1)))
        assert await shop.store.move("mails", [Move(E1, 0, 2, 1)]) == {E1}
        [cursor], _ = await shop.store.cursors()
        assert (cursor.follower, cursor.event, cursor.seq) == ("mails", E1, 2)


async def test_without_the_upgrade_a_large_document_is_refused(database, url, session):
    """The control: the limit that the upgrade lifts was there."""
    await left_at(database, url, 3)
    large = "g" * 65_537
    table = database.table("documents")
    with pytest.raises(Exception, match="documents_"):
        await session.execute(
            f"INSERT INTO {table} (kind, id, version, body) VALUES ('key', 'k1', 1, '{large}')"
        )


SLEEP = {"postgres": "SELECT pg_sleep(2);\n", "mysql": "DO SLEEP(2);\n"}


@pytest.mark.slow
def test_an_upgrade_may_take_longer_than_a_statement_of_a_batch(
    database, older, monkeypatch, tmp_path, capfd
):
    """It may rebuild a table of many millions of rows."""
    schema = database.schema()
    step = Path(schema.__file__).with_name(schema.MIGRATIONS[2])
    slow = tmp_path / "slow.sql"
    slow.write_text(SLEEP[database.name] + step.read_text())
    monkeypatch.setitem(schema.MIGRATIONS, 2, str(slow))
    monkeypatch.setenv("HOLDFAST_STATEMENT_TIMEOUT_MS", "100")
    assert main(["migrate", "--store", older]) == 0, capfd.readouterr().err
    assert "schema 1 -> 2" in capfd.readouterr().out


async def test_processes_that_upgrade_at_once_all_succeed(older):
    done = await asyncio.gather(*(cli("migrate", "--store", older) for _ in range(2)))
    assert [code for code, _, _ in done] == [0, 0], done
    assert sorted("nothing to do" in stdout for _, stdout, _ in done) == [False, True]


@pytest.mark.parametrize(("version", "done"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2)])
async def test_an_upgrade_that_was_interrupted_is_finished_by_the_next(
    database, url, session, version, done
):
    """Where a table is made at once, the process may have died before it could say so."""
    if database.name == "postgres":
        pytest.skip("all of it or nothing")
    await left_at(database, url, version - 1)
    made = database.schema().statements(database.schema().MIGRATIONS[version])
    for statement in made[:done]:
        await session.execute(statement)
    step = f"schema {version - 1} -> {version}"
    assert step in (await cli("migrate", "--store", url))[1]
    assert "nothing to do" in (await cli("migrate", "--store", url))[1]


@pytest.fixture
async def clerk(database, url):
    """The address of the database for a user with a password and no rights in it."""
    async with database.login(database.shared(), url) as login:
        yield login


async def test_a_wrong_password_is_one_line_without_the_password(clerk):
    wrong = clerk.replace("right-word", "wrong-word")
    said = await complaint("check", "--store", wrong)
    assert "password" in said
    assert "wrong-word" not in said


async def test_missing_rights_are_one_line_that_says_so(url, clerk):
    async with selling(url):
        pass
    said = await complaint("check", "--store", clerk)
    assert "right" in said or "denied" in said
    assert "right-word" not in said


@pytest.mark.parametrize("what", ["check", "repair", "migrate"])
async def test_a_database_that_is_not_there_is_one_line(database, what):
    missing = database.at(database.shared(), "nosuch")
    assert "no such database" in await complaint(what, "--store", missing)


async def test_an_address_without_a_database_names_the_one_that_was_tried(database, postgres_only):
    nameless = database.at(database.shared(), "").removesuffix("/")
    assert 'database "holdfast" does not exist' in await complaint("check", "--store", nameless)


READ_ONLY = {
    "postgres": "ALTER DATABASE {name} SET default_transaction_read_only = on",
    "mysql": "SET GLOBAL read_only = 1",
}


@pytest.mark.slow
async def test_a_server_that_is_read_only_says_so(database, killable):
    url = await database.created(killable)
    async with selling(url):
        pass
    async with database.login(killable, url) as login, database.sessions(url) as (session,):
        for grant in database.grants(url, login):
            await session.execute(grant)
        await session.execute(READ_ONLY[database.name].format(name=url.rpartition("/")[2]))
        async with shop_at(login) as shop:
            with pytest.raises(StoreUnavailable, match="takes no writes"):
                await shop.place_hold(E1, buyer="ann", seats=["A-1-1"])
        await session.execute(WRITABLE[database.name].format(name=url.rpartition("/")[2]))


WRITABLE = {
    "postgres": "ALTER DATABASE {name} RESET default_transaction_read_only",
    "mysql": "SET GLOBAL read_only = 0",
}


async def test_a_server_that_does_not_run_is_one_line(database):
    class Nowhere:
        port = free_port()

    said = await complaint("check", "--store", database.at(Nowhere(), "shop"))
    assert "cannot be reached" in said


@pytest.mark.parametrize("netloc", ["127.0.0.1:port", "127.0.0.1:99999", "[::1"])
async def test_an_address_that_makes_no_sense_is_one_line(database, netloc):
    scheme = database.home(database.shared()).partition("//")[0]
    await complaint("check", "--store", f"{scheme}//ann@{netloc}/shop")


async def test_a_user_with_few_rights_can_do_everything_but_migrate(database, url, session, clerk):
    if database.name == "mysql":  # without any right there he could not even connect
        for grant in database.grants(url, clerk):
            await session.execute(grant)
    with pytest.raises(StoreUnavailable, match=r"schema is not there.*owner runs holdfast migrate"):
        async with shop_at(clerk):
            pass
    async with shop_at(url):
        pass  # made by a user who may
    for grant in database.grants(url, clerk):
        await session.execute(grant)
    async with selling(clerk, hold_seconds=60, max_per_buyer=20) as shop:
        hold = await held(shop, seats=["A-1-1"], best=2, pools={"floor": 3})
        assert said(await shop.extend_hold(hold.id)) == "extended"
        assert said(await shop.pay_hold(hold.id)) == "paying"
        assert said(await shop.confirm_hold(hold.id, payment="p1")) == "confirmed"
        assert said(await shop.release_hold((await held(shop, best=1)).id)) == "released"
        order = await shop.sell(E1, buyer="bob", pools={"floor": 2}, payment="p2")
        assert isinstance(order, Confirmed)
        assert said(await shop.cancel_order(order.order.id)) == "cancelled"
        assert said(await shop.pause_event(E1)) == "changed"
        added = await shop.add_capacity(E1, {"pools": [{"id": "floor", "capacity": 5}]})
        assert said(added) == "changed"
        assert said(await shop.withdraw(E1, seats=["A-4-1"])) == "changed"
        assert said(await shop.expire(E1, limit=10)) == "expired"
        await shop.store.wake(0.01)
        assert await shop.store.mend(E1) == []
        assert await shop.store.due() == []
        assert await shop.store.strays() == []
        assert await shop.store.move("mails", [Move(E1, 0, 2, 1)]) == {E1}
        assert len((await shop.store.cursors())[0]) == 1
        await shop.store.forget("mails")
        await note_pruned(shop.store, E1, 2)
        assert await shop.store.prune(E1, 2, 10) == 2
        assert (await shop.store.tails({E1: 0}, 1))[0].seq == 3
    code, stdout, _ = await cli("check", "--store", clerk)
    assert (code, "clean" in stdout) == (0, True)


ALIKE = (
    *("a-1", "A-1", "á-1", "a\u0301-1", "\uff41-1", "a-1 ", "a-1  "),
    *("ss", "ß", "İ", "i", "I", "\u0131"),
)
"""Different to a byte, the same to one collation or another: case, accents, composed and not,
width, blanks at the end, ligatures, the Turkish i."""


def event_of_look_alikes() -> EventPlan:
    """Past the checks of the input, which allow no blanks at the ends: the schema is tested."""
    template = read_event(plan(prices={"seat": 1}, pools=[]))
    assert isinstance(template, EventPlan)
    return EventPlan(
        template.event,
        tuple(SeatPlan(id, "A", "1", n, "seat", n, 1) for n, id in enumerate(ALIKE)),
        tuple(Pool(id, "seat", n + 1) for n, id in enumerate(ALIKE)),
    )


async def test_ids_that_look_alike_are_different(url):
    async with audited(url) as shop:
        create = CreateEvent(id="create", event=E1, plan=event_of_look_alikes())
        assert said((await shop.submit(create)).outcome) == "created"
        for id in ALIKE:
            seat = PlaceHold(
                id=f"place {id}",
                event=E1,
                hold=f"{E1}.{id}",
                buyer=id,
                ask=Ask(seats=(id,)),
                cap=1,
                digest=id,
            )
            first = await shop.submit(seat)
            assert isinstance(first.outcome, Placed), id
            assert not first.replayed
            assert first.outcome.hold.seats == (id,)
            assert (await shop.submit(seat)).replayed
        for n, id in enumerate(ALIKE):
            sale = Sell(
                id=f"sell {id}",
                event=E1,
                order=f"{E1}.{id}",
                buyer="ann",
                ask=Ask(pools={id: n + 1}),
                payment=id,
                digest=id,
            )
            outcome = (await shop.submit(sale)).outcome
            assert isinstance(outcome, Confirmed), (id, outcome)
        census = await shop.store.census(E1)
        assert census is not None
        assert sorted(hold.buyer for hold in census.holds) == sorted(ALIKE)
        assert sorted(order.payment or "" for order in census.orders) == sorted(ALIKE)
        assert [pool.id for pool in census.pools] == sorted(ALIKE, key=str.encode), "by bytes"


async def test_events_that_look_alike_are_different(url):
    async with audited(url) as shop:
        for id in ("gala", "Gala", "GALA"):
            assert said(await shop.create_event(plan(id=id))) == "created"
            assert said(await shop.place_hold(id, buyer="ann", seats=["A-1-1"])) == "placed"
        assert sorted(await shop.store.heads()) == ["GALA", "Gala", "gala"]
