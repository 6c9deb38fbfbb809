"""The auditor on a log whose oldest facts were pruned: no drift where there is none, and what the
rest can tell is still found."""

import apsw
import pytest

from holdfast import Confirmed, Holdfast, Placed, Pruned
from holdfast.domain.audit import LogAudit
from holdfast.domain.views import Census
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.upkeep import check
from holdfast.upkeep.check import Checked, check_event
from holdfast.upkeep.pruned import note_pruned
from tests.conftest import Clock, drift
from tests.contract.helpers import E1, SOFT_MS, held, on_sale, sold


async def busy(shop: Holdfast, clock: Clock) -> None:
    """Of everything something: sold, sold again, given back in part, expired, extended."""
    await on_sale(shop)
    ann = await held(shop, seats=["A-1-1", "A-1-2"], pools={"floor": 2})
    bob = await held(shop, "bob", seats=["A-1-3"], pools={"floor": 1})
    await shop.extend_hold(ann.id)
    bought = await shop.confirm_hold(ann.id, payment="p1")
    assert isinstance(bought, Confirmed)
    cid = await sold(shop, "cid", seats=["A-2-1", "A-2-2", "A-2-3"], pools={"floor": 3})
    await shop.cancel_order(cid.id, seats=["A-2-2"], pools={"floor": 1})
    await shop.release_hold(bob.id)
    dan = await held(shop, "dan", seats=["A-1-3", "A-2-2"])
    await shop.cancel_order(bought.order.id)
    clock.advance(SOFT_MS + 1)
    await shop.expire(E1, limit=10)
    assert isinstance(await shop.place_hold(E1, buyer="eve", seats=list(dan.seats)), Placed)
    await shop.cancel_order(cid.id, seats=["A-2-1"])
    await shop.cancel_order(cid.id)
    fay = await held(shop, "fay", seats=["A-1-1"], pools={"floor": 4})
    await shop.pay_hold(fay.id)
    await shop.pause_event(E1)


@pytest.fixture
async def shop(clock):
    store = MemoryStore(clock)
    async with Holdfast(store, Settings(store=store.url), upkeep=False, clock=clock) as shop:
        await busy(shop, clock)
        yield shop


async def checked(shop: Holdfast) -> Checked:
    found = await check_event(shop.store, E1)
    assert found is not None
    return found


async def census_of(shop: Holdfast) -> Census:
    found = await shop.store.census(E1)
    assert found is not None
    return found


async def prune(shop: Holdfast, through: int, limit: int = 1_000) -> int:
    """As the pruner does."""
    await note_pruned(shop.store, E1, through)
    return await shop.store.prune(E1, through, limit)


async def test_wherever_a_log_begins_there_is_no_drift_where_there_is_none(shop):
    facts = (await checked(shop)).facts
    assert facts > 15
    for pruned in range(1, facts):
        assert await prune(shop, pruned, 1) == 1
        found = await checked(shop)
        assert found.drift == []
        assert (found.pruned, found.facts) == (pruned, facts - pruned)


async def test_what_the_rest_of_the_log_tells_is_still_compared(shop):
    """Whoever is told of after the beginning must be as the rows have him."""
    entries = await shop.store.log(E1, 0, 1_000)
    [placed] = [e.seq for e in entries if e.data.get("buyer") == "fay" and e.type == "hold.placed"]
    assert await prune(shop, placed - 1) == placed - 1
    rows = shop.store._events[E1]
    [fay] = [hold for hold in rows.holds.values() if hold.buyer == "fay"]
    del rows.holds[fay.id], rows.open[fay.id]
    assert any(f"hold {fay.id}" in str(each) for each in (await checked(shop)).drift)


async def test_a_unit_with_two_owners_after_the_beginning_is_found(shop):
    census, entries = await census_of(shop), await shop.store.log(E1, 0, 1_000)
    placed = next(entry for entry in entries if entry.type == "hold.placed")
    audit = LogAudit(E1, pruned=placed.seq - 1)
    audit.read([placed])
    other = entries[placed.seq]
    audit.read([type(other)(E1, other.seq, "hold.placed", 0, placed.data | {"hold": "other"})])
    assert any("A-1-1" in str(each) for each in audit.finish(census))


async def test_facts_that_are_pruned_while_they_are_read_are_no_drift(shop, monkeypatch):
    """The pruner may overtake the auditor, page by page, and even run past his snapshot."""
    monkeypatch.setattr(check, "LOG_PAGE", 3)
    head = (await checked(shop)).facts
    read = shop.store.log

    async def pruning(event: str, after: int, limit: int):
        page = await read(event, after, limit)
        if limit > 1:
            await prune(shop, after + 5)
        return page

    monkeypatch.setattr(shop.store, "log", pruning)
    assert (await checked(shop)).drift == []
    monkeypatch.setattr(shop.store, "log", read)
    assert (await checked(shop)).pruned > 0

    census = await census_of(shop)
    await shop.open_event(E1)
    await prune(shop, head + 1)
    monkeypatch.setattr(shop.store, "census", lambda event: answered(census))
    assert (await checked(shop)).drift == []


async def answered(census: Census) -> Census:
    return census


@pytest.fixture
async def on_file(tmp_path, clock):
    store = SqliteStore(str(tmp_path / "shop.db"), clock, "NORMAL")
    async with Holdfast(store, Settings(store=store.url), upkeep=False, clock=clock) as shop:
        await busy(shop, clock)
        yield shop


@pytest.mark.parametrize("pruned", [0, 4])
async def test_a_gap_in_the_middle_is_found(on_file, tmp_path, pruned):
    await prune(on_file, pruned)
    assert await drift(on_file.store) == []
    db = apsw.Connection(str(tmp_path / "shop.db"))
    db.execute("DELETE FROM log WHERE seq IN (8, 9)")
    db.close()
    assert f"{E1}: log: expected number 8, found number 10" in await drift(on_file.store)


@pytest.mark.parametrize("pruned", [0, 4])
async def test_a_log_that_lost_its_beginning_is_found(on_file, tmp_path, pruned):
    """No other than the pruner may take facts: those that went without him were lost."""
    await prune(on_file, pruned)
    db = apsw.Connection(str(tmp_path / "shop.db"))
    db.execute("DELETE FROM log WHERE seq <= 6")
    db.close()
    expected = f"{E1}: log: expected number {pruned + 1}, found number 7"
    assert await drift(on_file.store) == [expected]
    await note_pruned(on_file.store, E1, 6)
    assert await drift(on_file.store) == [], "the control: pruned, it is as it should be"


async def test_a_log_that_lost_its_end_is_found(on_file, tmp_path):
    await prune(on_file, 4)
    db = apsw.Connection(str(tmp_path / "shop.db"))
    db.execute("DELETE FROM log WHERE seq >= 15")
    db.close()
    assert any("log: expected" in line for line in await drift(on_file.store))


async def test_whoever_reads_before_the_beginning_is_told_where_it_is(shop):
    assert len(await shop.log(E1)) > 15
    await prune(shop, 6)
    for after in (0, 5):
        with pytest.raises(Pruned) as pruned:
            await shop.log(E1, after=after)
        assert (pruned.value.event, pruned.value.first) == (E1, 7)
    assert [entry.seq for entry in await shop.log(E1, after=6, limit=2)] == [7, 8]
    assert await shop.log(E1, after=1_000) == await shop.log("nowhere") == []
