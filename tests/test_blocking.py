"""The blocking API is the asynchronous one, waited for: the same calls, outcomes and errors."""

import asyncio
import gc
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast import Confirmed, Invalid, Placed, Reason, Refused, SettingsError, blocking, engine
from holdfast.domain.views import Summary
from holdfast.errors import HoldfastError, NotOpen
from tests.contract.helpers import description, said

E1 = "e1"
URLS = {"memory": "memory://", "sqlite": "sqlite:///{folder}/shop.db"}


@pytest.fixture(params=URLS)
def url(request, tmp_path: Path) -> str:
    return URLS[request.param].format(folder=tmp_path)


@pytest.fixture
def shop(url):
    with blocking.Holdfast.open(url, upkeep=False) as shop:
        shop.create_event(description())
        yield shop


def methods(cls: type) -> dict[str, object]:
    found = inspect.getmembers(cls, inspect.isfunction)
    return {name: method for name, method in found if not name.startswith("_")}


ASYNC = {
    name: method
    for name, method in methods(engine.Holdfast).items()
    if inspect.iscoroutinefunction(method) and name != "submit"
}


@pytest.mark.parametrize("name", ASYNC)
def test_every_asynchronous_method_has_its_blocking_twin(name):
    twin = getattr(blocking.Holdfast, name)
    assert not inspect.iscoroutinefunction(twin)
    assert twin.__name__ == name
    assert twin.__doc__ == ASYNC[name].__doc__


def test_there_are_no_other_methods():
    assert methods(blocking.Holdfast).keys() == ASYNC.keys()
    assert len(ASYNC) > 20


def test_a_sale_from_beginning_to_end(shop):
    placed = shop.place_hold(E1, buyer="ann", id="h1", seats=["A-1-1"], pools={"floor": 2})
    assert isinstance(placed, Placed)
    assert shop.hold("e1.h1") == placed.hold
    assert said(shop.extend_hold("e1.h1")) == "extended"
    assert said(shop.pay_hold("e1.h1", buyer="ann")) == "paying"
    confirmed = shop.confirm_hold("e1.h1", order="o1", payment="pay-1")
    assert isinstance(confirmed, Confirmed)
    assert shop.order("e1.o1") == confirmed.order
    assert shop.place_hold(E1, buyer="bob", seats=["A-1-1"]) == Refused(
        Reason.TAKEN, seats=("A-1-1",)
    )
    assert said(shop.cancel_order("e1.o1")) == "cancelled"
    assert said(shop.sell(E1, buyer="bob", best=2)) == "confirmed"
    assert said(shop.release_hold(shop.place_hold(E1, buyer="cid", best=1).hold.id)) == "released"
    assert said(shop.expire(E1, 10)) == "expired"
    assert said(shop.withdraw(E1, pools={"floor": 1})) == "changed"
    more = {"pools": [{"id": "floor", "capacity": 1, "tier": "floor"}]}
    assert said(shop.add_capacity(E1, more)) == "changed"
    for change in (shop.pause_event, shop.open_event, shop.close_event):
        assert said(change(E1)) == "changed"
    assert said(shop.change_event(E1, name="Second night")) == "changed"
    summary = shop.event(E1)
    assert (summary.sold, summary.event.name) == (2, "Second night")
    assert [each.event.id for each in shop.events()] == [E1]
    assert shop.seats(E1).seq == shop.log(E1, limit=1_000)[-1].seq == summary.seq


def test_many_threads_sell_each_seat_once(shop):
    everybody = threading.Barrier(16)

    def buy(buyer: int) -> list[str]:
        everybody.wait(timeout=30)
        outcomes = [
            shop.place_hold(E1, buyer=f"u{buyer}", seats=[f"A-{row}-{number}"])
            for row in (1, 2)
            for number in range(1, 6)
        ]
        return [o.hold.seats[0] for o in outcomes if isinstance(o, Placed)]

    with ThreadPoolExecutor(16) as threads:
        got = [seat for seats in threads.map(buy, range(16)) for seat in seats]
    assert sorted(got) == [f"A-{row}-{number}" for row in (1, 2) for number in range(1, 6)]
    assert shop.event(E1).held == 10


def test_copies_from_many_threads_are_one(shop):
    with ThreadPoolExecutor(8) as threads:
        calls = [
            threads.submit(shop.place_hold, E1, buyer="ann", id="h1", best=2) for _ in range(40)
        ]
    assert {call.result().hold.id for call in calls} == {"e1.h1"}
    assert len(shop.log(E1)) == 2
    assert shop.event(E1).held == 2


@pytest.mark.parametrize(
    ("ask", "path"),
    [({"seats": "A-1-1"}, "seats"), ({"best": 0}, "best[0].quantity"), ({}, "seats")],
)
def test_errors_pass_through(shop, ask, path):
    with pytest.raises(Invalid) as caught:
        shop.place_hold(E1, buyer="ann", **ask)
    assert [fault.path for fault in caught.value.faults] == [path]


def test_a_wrong_address_is_an_error_before_anything_is_opened():
    with pytest.raises(SettingsError):
        blocking.Holdfast.open("nosuch://store")


def test_a_store_that_cannot_be_opened_is_an_error_and_leaves_no_loop_running(tmp_path):
    (tmp_path / "shop.db").write_bytes(b"this is no database" * 100)
    shop = blocking.Holdfast.open(f"sqlite:///{tmp_path}/shop.db")
    with pytest.raises(HoldfastError, match="not a SQLite database"):
        shop.__enter__()
    assert "holdfast" not in [thread.name for thread in threading.enumerate()]


def test_before_it_is_opened_it_says_how_to_open_it(url):
    shop = blocking.Holdfast.open(url, upkeep=False)
    with pytest.raises(NotOpen, match="not open: use it inside"):
        shop.events()
    # Nothing was opened, so there is nothing to close: what is left open warns when collected.
    del shop
    gc.collect()


def test_after_it_was_closed_it_says_so_too(url):
    with blocking.Holdfast.open(url, upkeep=False) as shop:
        assert shop.events() == []
    with pytest.raises(NotOpen, match="not open"):
        shop.place_hold(E1, buyer="ann", seats=["A-1-1"])


def test_what_was_sold_is_there_when_the_shop_is_opened_again(tmp_path):
    url = f"sqlite:///{tmp_path}/shop.db"
    with blocking.Holdfast.open(url, upkeep=False) as shop:
        shop.create_event(description())
        outcome = shop.sell(E1, buyer="ann", seats=["A-1-1"])
        assert isinstance(outcome, Confirmed)
    with blocking.Holdfast.open(url, upkeep=False) as shop:
        assert shop.order(outcome.order.id) == outcome.order


def test_an_exception_inside_leaves_the_shop_closed(url):
    shop = blocking.Holdfast.open(url, upkeep=False)

    def trip() -> None:
        with shop:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trip()
    with pytest.raises(NotOpen):
        shop.events()


def test_a_call_under_way_when_the_shop_closes_is_answered_or_refused(url, monkeypatch):
    """It must not wait for ever for a loop that has stopped."""
    under_way, closed = threading.Event(), asyncio.Event()
    ends: list[object] = []

    async def slow(event: str | None = None) -> list[Summary]:
        under_way.set()
        await closed.wait()
        for _ in range(10_000):
            await asyncio.sleep(0)
        return []

    async def close() -> None:
        await close_store()
        closed.set()

    def ask(shop: blocking.Holdfast) -> None:
        try:
            ends.append(shop.events())
        except NotOpen as end:
            ends.append(end)

    with blocking.Holdfast.open(url, upkeep=False) as shop:
        store = shop._inner.store
        close_store = store.close
        monkeypatch.setattr(store, "summaries", slow)
        monkeypatch.setattr(store, "close", close)
        thread = threading.Thread(target=ask, args=(shop,), daemon=True)
        thread.start()
        assert under_way.wait(timeout=30)
    thread.join(timeout=5)
    assert len(ends) == 1
