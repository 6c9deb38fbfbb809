"""What is SQLite's alone: its file, its locks, its write-ahead log."""

import subprocess
import sys
import threading

import apsw
import pytest

from holdfast import Cancelled, Confirmed, Holdfast, Placed, Refused, StoreError
from holdfast.domain.model import NO_CHECKOUT
from holdfast.domain.views import DOCUMENT_BODY_BYTES_MAX, Document, Move
from holdfast.stores.sqlite.turn import Turn

TALK = {"id": "talk", "prices": {"any": 1}, "pools": [{"id": "room", "tier": "any", "capacity": 1}]}

LOOK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("SELECT count(*) FROM events").fetchone()[0])
db.close()
"""


MAKE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute(sys.argv[2])
db.commit()
"""


def in_another_process(program: str, *args: object) -> bytes:
    """With the SQLite of Python's own library, as any other program has it."""
    command = [sys.executable, "-c", program, *map(str, args)]
    return subprocess.run(command, capture_output=True, check=True).stdout


async def test_a_second_shop_in_the_process_does_not_drop_the_locks_of_the_first(tmp_path):
    """Else another program that closes the file believes to be the last, and removes the log
    from under the shop: what is sold from then on, nobody else sees."""
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    async with Holdfast.open(url, upkeep=False) as shop:
        await shop.create_event(TALK)
        async with Holdfast.open(url, upkeep=False):
            pass
        assert in_another_process(LOOK, tmp_path / "shop.db") == b"1\n"
        assert (tmp_path / "shop.db-wal").exists()
        assert isinstance(await shop.place_hold("talk", buyer="a", pools={"room": 1}), Placed)
        async with Holdfast.open(url, upkeep=False) as other:
            assert isinstance(await other.place_hold("talk", buyer="b", pools={"room": 1}), Refused)


async def test_who_comes_while_another_makes_the_file_waits(tmp_path):
    """Making the file, and being the last to leave it, locks it against readers for a moment."""
    maker = apsw.Connection(str(tmp_path / "shop.db"))
    maker.execute("BEGIN EXCLUSIVE; CREATE TABLE mine (x)")
    done = threading.Timer(0.3, maker.execute, ["ROLLBACK"])
    done.start()
    async with Holdfast.open(f"sqlite:///{tmp_path / 'shop.db'}", upkeep=False) as shop:
        assert await shop.events() == []
    done.join()
    maker.close()


@pytest.mark.parametrize("made", ["CREATE TABLE mine (x)", "PRAGMA user_version = 99"])
async def test_the_database_of_another_program_is_left_as_it_is(tmp_path, made):
    path = tmp_path / "other.db"
    in_another_process(MAKE, path, made)
    before = path.read_bytes()
    with pytest.raises(StoreError):
        async with Holdfast.open(f"sqlite:///{path}"):
            pass
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["other.db"]


UNDO_4 = (
    "DROP TABLE cursors",
    "DROP TABLE documents",
    "CREATE TABLE documents (kind TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, "
    "body TEXT NOT NULL CHECK (length(CAST(body AS BLOB)) <= 65536), PRIMARY KEY (kind, id)) "
    "WITHOUT ROWID",
)
"""What schema 4 added is not there."""
UNDO = (
    *UNDO_4,
    *("DROP TABLE order_keys", "DROP INDEX orders_by_due", "DROP INDEX orders_in_trouble"),
    *(
        f"ALTER TABLE orders DROP COLUMN {column}"
        for column in ("version", "due_ms", "trouble", "checkout")
    ),
)
"""Nor is what schema 3 added."""


async def test_a_file_of_an_older_schema_is_brought_forward_with_what_is_in_it(tmp_path):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    async with Holdfast.open(url, upkeep=False) as shop:
        await shop.create_event(TALK)
        await shop.place_hold("talk", buyer="a", pools={"room": 1})
    for left_by_schema_1 in (*UNDO, "DROP TABLE documents", "PRAGMA user_version = 1"):
        in_another_process(MAKE, tmp_path / "shop.db", left_by_schema_1)
    async with Holdfast.open(url, upkeep=False) as shop:
        assert isinstance(await shop.place_hold("talk", buyer="b", pools={"room": 1}), Refused)
        assert await shop.store.put(Document("key", "k1", 1, "{}"))
        assert (await shop.store.documents("key"))[0] == [Document("key", "k1", 1, "{}")]


async def test_an_order_from_before_checkout_has_nothing_to_be_done(tmp_path):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    async with Holdfast.open(url, upkeep=False) as shop:
        await shop.create_event(TALK)
        sold = await shop.sell("talk", buyer="a", pools={"room": 1})
        assert isinstance(sold, Confirmed)
    for left_by_schema_2 in (*UNDO, "PRAGMA user_version = 2"):
        in_another_process(MAKE, tmp_path / "shop.db", left_by_schema_2)
    async with Holdfast.open(url, upkeep=False) as shop:
        order = await shop.order(sold.order.id)
        assert order is not None
        assert (order.version, order.due_ms, order.trouble) == (1, None, None)
        assert order.checkout == NO_CHECKOUT
        assert await shop.store.claim_keys([("k1", "d1")]) == ["d1"]
        assert isinstance(await shop.cancel_order(order.id), Cancelled)


async def test_documents_from_before_they_could_be_large_are_kept_and_may_grow(tmp_path):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    async with Holdfast.open(url, upkeep=False) as shop:
        await shop.create_event(TALK)
    made = "INSERT INTO documents VALUES ('key', 'k1', 7, printf('%.*c', 65536, 's'))"
    for left_by_schema_3 in (*UNDO_4, made, "PRAGMA user_version = 3"):
        in_another_process(MAKE, tmp_path / "shop.db", left_by_schema_3)
    async with Holdfast.open(url, upkeep=False) as shop:
        kept, _ = await shop.store.documents("key")
        assert kept == [Document("key", "k1", 7, "s" * 65_536)]
        grown = Document("key", "k1", 8, "g" * DOCUMENT_BODY_BYTES_MAX)
        assert await shop.store.put(grown)
        with pytest.raises(StoreError, match="refused"):
            await shop.store.put(Document("key", "k1", 9, "g" * (DOCUMENT_BODY_BYTES_MAX + 1)))
        assert await shop.store.move("mails", [Move("talk", 0, 1, 1)]) == {"talk"}


async def test_by_whatever_name_they_come_all_queue_at_one_place(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "shop.db")
    for name in ("shop.db", "link.db"):
        async with Holdfast.open(f"sqlite:///{tmp_path / name}", upkeep=False):
            pass
    assert [file.name for file in tmp_path.glob("*-turn")] == ["shop.db-turn"]


def test_one_at_a_time_and_nobody_overtakes(tmp_path):
    turns = [Turn(tmp_path / "shop.db") for _ in range(3)]
    inside: list[int] = []
    order: list[int] = []
    crowded = []

    def write(nth: int) -> None:
        for _ in range(200):
            with turns[nth].taken():
                inside.append(nth)
                crowded.append(len(inside) > 1)
                order.append(nth)
                inside.remove(nth)

    threads = [threading.Thread(target=write, args=(nth,)) for nth in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for turn in turns:
        turn.close()
    assert not any(crowded)
    assert sorted(order) == sorted([0, 1, 2] * 200)


HALL = {
    "id": "hall",
    "prices": {"any": 1},
    "sections": [{"id": "A", "tier": "any", "rows": 1, "seats_per_row": 4}],
}


async def test_a_house_that_missed_facts_which_were_pruned_is_read_anew(tmp_path):
    """It follows the log, and a choice of best seats relies on it: what others took or gave back
    may no longer be told there."""
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    async with (
        Holdfast.open(url, upkeep=False) as here,
        Holdfast.open(url, upkeep=False) as there,
    ):
        await here.create_event(HALL)
        mine = await here.place_hold("hall", buyer="a", best=1)
        assert isinstance(mine, Placed)
        theirs = await there.place_hold("hall", buyer="b", best=2)
        assert isinstance(theirs, Placed)
        assert await there.store.prune("hall", 100, 100) == 2
        await there.pause_event("hall")
        await there.open_event("hall")
        assert await there.store.prune("hall", 100, 100) == 2

        last = await here.place_hold("hall", buyer="a", best=1)
        assert isinstance(last, Placed), "a seat that is taken was chosen"
        assert not {*last.hold.seats} & {*mine.hold.seats, *theirs.hold.seats}

        await there.release_hold(theirs.hold.id)
        await there.pause_event("hall")
        await there.open_event("hall")
        assert await there.store.prune("hall", 100, 100) > 1
        again = await here.place_hold("hall", buyer="a", best=2)
        assert isinstance(again, Placed), "seats that are free were passed over"
        assert {*again.hold.seats} == {*theirs.hold.seats}
