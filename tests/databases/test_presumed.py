"""PostgreSQL: what nobody has looked at is taken for what it most probably is, and never believed.
Each test has a shop that presumes, and others who have made it wrong."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Confirmed, Holdfast, Placed, Reason, Refused
from holdfast.domain.commands import OpenOrder, SettleOrder
from holdfast.domain.model import Seat
from holdfast.domain.outcomes import Opened, OpenedBefore, Outcome
from holdfast.stores.postgres import presumed, writing
from holdfast.stores.postgres.presumed import Presumptions
from holdfast.stores.postgres.reading import SQL
from tests.conftest import drift
from tests.contract.helpers import said
from tests.databases.shops import E1, held, plan, shop_at

pytestmark = [pytest.mark.service, pytest.mark.usefixtures("postgres_only")]

SECTIONS = [{"id": "A", "tier": "seat", "rows": 4, "seats_per_row": 20}]
ODD = [
    {"id": "A-9-1", "section": "A", "row": "9", "number": 1, "tier": "floor"},
    {"id": "A-9-2", "section": "A", "row": "9", "number": 2, "tier": "seat", "channel": "press"},
]
"""Named like their neighbours, and not like them."""


@pytest.fixture
def patient(monkeypatch) -> Iterator[None]:
    """A machine that stands still for seconds is no mistake here."""
    limit = f"<= {presumed.CLOCK_OFF_MS_MAX}"
    monkeypatch.setattr(presumed, "FRESH_SECONDS", 3600.0)
    monkeypatch.setattr(presumed, "WARY_SECONDS", 3600.0)
    monkeypatch.setattr(presumed, "CLOCK_OFF_MS_MAX", 30_000)
    monkeypatch.setattr(writing, "IN_TIME", writing.IN_TIME.replace(limit, "<= 30000"))
    writing._together.cache_clear()
    yield
    writing._together.cache_clear()


@pytest.fixture
async def shop(url, patient):
    """It has looked at a seat of section A, and knows the server's time."""
    async with Holdfast.open(url, upkeep=False) as shop:
        await shop.create_event(plan(sections=SECTIONS, seats=ODD))
        for n in (1, 2):
            await held(shop, "zoe", seats=[f"A-4-{n}"])
        yield shop


@pytest.fixture
async def other(url):
    async with shop_at(url) as other:
        yield other


@pytest.fixture
def at_once(monkeypatch) -> None:
    """Whoever was wrong presumes again at once."""
    monkeypatch.setattr(presumed, "WARY_SECONDS", -1.0)


async def both(shop: Holdfast, *seats: str, **ask: Any) -> list[Any]:
    """Each seat by another buyer, in one batch."""
    asks = [shop.place_hold(E1, buyer=f"u-{id}", seats=[id], **ask) for id in seats]
    return list(await asyncio.gather(*asks))


def said_to(outcomes: list[Any]) -> list[str]:
    return [said(outcome) for outcome in outcomes]


def writes(sent: list[str]) -> list[str]:
    return [query for query in sent if query.startswith("WITH update_seat AS")]


async def test_a_crowd_on_seats_that_nobody_looked_at_is_one_statement(shop, database):
    with database.counted() as sent:
        outcomes = await both(shop, *[f"A-1-{n}" for n in range(1, 21)])
    assert set(said_to(outcomes)) == {"placed"}
    assert SQL["look"] not in sent
    assert len(writes(sent)) == 1
    assert await drift(shop.store) == []


async def test_names_that_callers_chose_are_not_looked_up(shop, database):
    with database.counted() as sent:
        asks = [
            shop.place_hold(E1, buyer="ann", seats=[f"A-1-{n}"], id=f"mine-{n}") for n in (1, 2)
        ]
        assert set(said_to(await asyncio.gather(*asks))) == {"placed"}
    assert not {SQL["look"], SQL["peek_holds"], SQL["records"]} & set(sent)
    assert await drift(shop.store) == []


async def test_a_seat_that_others_hold_is_refused(shop, other):
    theirs = await held(other, "rival", seats=["A-1-1"])
    outcomes = await both(shop, "A-1-1", "A-1-2")
    assert said_to(outcomes) == ["no.taken", "placed"]
    assert [entry.data.get("hold") for entry in await shop.log(E1)].count(theirs.id) == 1
    assert await drift(shop.store) == []


async def test_a_seat_that_others_have_sold_is_refused(shop, other):
    hold = await held(other, "rival", seats=["A-1-1"])
    await other.confirm_hold(hold.id)
    assert said_to(await both(shop, "A-1-1", "A-1-2")) == ["no.taken", "placed"]
    assert await drift(shop.store) == []


async def test_without_its_guard_two_would_have_one_seat(shop, other, monkeypatch):
    """The control."""
    guarded = SQL["update_seat"]
    open_to_all = guarded[: guarded.index("WHERE")] + "WHERE s.event = n.event AND s.id = n.id"
    monkeypatch.setitem(SQL, "update_seat", open_to_all)
    writing._together.cache_clear()
    try:
        await held(other, "rival", seats=["A-1-1"])
        assert said_to(await both(shop, "A-1-1", "A-1-2")) == ["placed", "placed"]
        assert await drift(shop.store) != []
    finally:
        writing._together.cache_clear()


async def test_a_seat_that_was_withdrawn_elsewhere_is_refused(shop, other):
    await other.withdraw(E1, seats=["A-1-1"])
    shop.store._configs[E1] = other.store._configs[E1]  # it has heard of that in another batch
    assert said_to(await both(shop, "A-1-1", "A-1-2")) == ["no.taken", "placed"]
    assert await drift(shop.store) == []


async def test_a_seat_of_another_tier_than_its_neighbours_has_its_own_price(shop):
    odd, plain = await both(shop, "A-9-1", "A-1-1")
    assert (odd.hold.amount, plain.hold.amount) == (50, 100)
    assert await drift(shop.store) == []


async def test_a_seat_of_a_channel_among_others_is_not_offered_to_everybody(shop):
    assert said_to(await both(shop, "A-9-2", "A-1-1")) == ["no.taken", "placed"]
    assert said_to(await both(shop, "A-9-2", channels=["press"])) == ["placed"]
    assert await drift(shop.store) == []


async def test_a_seat_that_there_is_not_is_unknown(shop):
    outcomes = await both(shop, "A-77-1", "A-1-1")
    assert said_to(outcomes) == ["no.unknown_unit", "placed"]


async def test_an_event_that_was_paused_elsewhere_sells_nothing(shop, other):
    await other.change_event(E1, state="paused")
    assert said_to(await both(shop, "A-1-1", "A-1-2")) == ["no.not_on_sale"] * 2
    assert await drift(shop.store) == []


async def test_a_price_that_was_changed_elsewhere_counts(shop, other):
    await other.change_event(E1, prices={"seat": 700, "floor": 50})
    (placed,) = await both(shop, "A-1-1")
    assert placed.hold.amount == 700


async def test_what_was_done_elsewhere_under_the_same_name_is_told_again(shop, other):
    ask: dict[str, Any] = {"buyer": "ann", "id": "mine", "seats": ["A-1-1"]}
    first = await other.place_hold(E1, **ask)
    again, beside = await asyncio.gather(
        shop.place_hold(E1, **ask), shop.place_hold(E1, buyer="bob", seats=["A-1-2"])
    )
    assert again == first
    assert isinstance(beside, Placed)
    assert await drift(shop.store) == []


async def test_a_key_that_was_used_elsewhere_for_something_else_is_refused(shop, other, at_once):
    await other.place_hold(E1, buyer="ann", seats=["A-1-1"], idempotency_key="k")
    no = await shop.place_hold(E1, buyer="ann", seats=["A-1-2"], idempotency_key="k")
    assert isinstance(no, Refused)
    assert no.reason is Reason.IDEMPOTENCY_MISMATCH
    assert await drift(shop.store) == []


async def test_copies_of_one_ask_in_one_batch_are_one_hold(shop):
    ask: dict[str, Any] = {"buyer": "ann", "seats": ["A-1-1"], "idempotency_key": "k"}
    outcomes = await asyncio.gather(*[shop.place_hold(E1, **ask) for _ in range(20)])
    assert len({outcome.hold.id for outcome in outcomes}) == 1
    assert await drift(shop.store) == []


async def test_two_who_want_one_seat_that_nobody_looked_at_do_not_both_get_it(shop):
    asks = [shop.place_hold(E1, buyer=f"u{n}", seats=["A-1-1"]) for n in range(20)]
    answers = sorted(said_to(await asyncio.gather(*asks)))
    assert answers == ["no.taken"] * 19 + ["placed"]
    assert await drift(shop.store) == []


async def test_an_order_of_a_hold_from_elsewhere_is_opened_beside_what_is_presumed(shop, other):
    theirs = await held(other, "ann", seats=["A-1-1"])
    opening = shop.clerk.open_order(E1, theirs.id, "sandbox:ok", driver="d", lease_ms=60_000)
    answer, placed = await asyncio.gather(
        shop.submit(opening), shop.place_hold(E1, buyer="bob", seats=["A-1-2"])
    )
    assert isinstance(answer.outcome, Opened)
    assert isinstance(placed, Placed)
    assert await drift(shop.store) == []


async def test_after_one_mistake_the_event_is_looked_at_for_a_while(shop, other, database):
    await held(other, "rival", seats=["A-1-1"])
    presumptions = shop.store._presumptions
    assert presumptions.of(E1) is not None
    assert said_to(await both(shop, "A-1-1", "A-1-2")) == ["no.taken", "placed"]
    assert presumptions.of(E1) is None
    with database.counted() as sent:
        assert said_to(await both(shop, "A-1-3")) == ["placed"]
    assert len(writes(sent)) == 1
    assert SQL["look"] in sent or SQL["seats"] in sent
    presumptions._events[E1].wary_until = asyncio.get_running_loop().time()
    with database.counted() as sent:
        assert said_to(await both(shop, "A-1-4")) == ["placed"]
    assert SQL["look"] not in sent


def off_by(ms: int) -> Callable[[Presumptions], int]:
    """The server's clock as it was when the last batch was written, and so much."""
    return lambda presumptions: presumptions._read[0] + ms


async def test_a_reply_that_waited_here_does_not_put_the_time_back():
    clock = Presumptions()
    assert clock.now() is None
    clock.told(10_000)
    clock.told(9_700)
    assert (clock.now() or 0) >= 10_000
    clock.told(10_000 - 2 * presumed.CLOCK_OFF_MS_MAX)
    assert (clock.now() or 0) < 9_000, "the server's clock was put back"


async def test_a_clock_of_ours_that_is_faster_does_not_run_away(monkeypatch):
    """Twice as fast, and told of the server's every 100 ms: never further ahead than that."""
    loop, clock, at = asyncio.get_running_loop(), Presumptions(), 0.0
    with monkeypatch.context() as patched:
        patched.setattr(loop, "time", lambda: at)
        for n in range(1, 200):
            clock.told(50 * n)
            at += 0.1
            assert 50 * n <= (clock.now() or 0) <= 50 * n + 100


async def test_an_event_that_was_quiet_is_looked_at_first(shop, database, monkeypatch):
    """Others may have gone on far, and a refusal tells from where its reason is on the log."""
    shop.store._presumptions._events[E1].heard_at -= 2 * presumed.FRESH_SECONDS
    with database.counted() as sent:
        assert said_to(await both(shop, "A-1-1")) == ["placed"]
    assert SQL["look"] in sent


@pytest.mark.parametrize("ms", [-60_000, 60_000])
async def test_a_wrong_clock_decides_nothing(shop, monkeypatch, ms):
    """As after a long sleep of this process, or a step of the server's clock."""
    before = await server_ms(shop)
    monkeypatch.setattr(Presumptions, "now", off_by(ms))
    (placed,) = await both(shop, "A-1-1")
    assert before <= placed.hold.placed_ms <= await server_ms(shop)


async def test_without_its_check_a_wrong_clock_would_place_holds_in_the_past(shop, monkeypatch):
    """The control."""
    monkeypatch.setattr(writing, "IN_TIME", "")
    writing._together.cache_clear()
    try:
        before = await server_ms(shop)
        monkeypatch.setattr(Presumptions, "now", off_by(-60_000))
        (placed,) = await both(shop, "A-1-1")
        assert placed.hold.placed_ms < before - 50_000
    finally:
        writing._together.cache_clear()


async def server_ms(shop: Holdfast) -> int:
    async with shop.store.session(10.0) as db:  # type: ignore[attr-defined]  # PostgreSQL's
        now: int = await db.fetchval(SQL["now"])
        return now


async def test_time_goes_on_between_two_looks_at_the_server_and_never_back(shop, database):
    placed = []
    for n in range(1, 9):
        with database.counted() as sent:
            placed += await both(shop, f"A-2-{n}")
        assert SQL["look"] not in sent
    times = [each.hold.placed_ms for each in placed]
    assert times == sorted(times)
    assert await server_ms(shop) - times[-1] < presumed.CLOCK_OFF_MS_MAX


async def test_the_server_is_asked_for_the_time_where_that_is_long_ago(shop, database, monkeypatch):
    monkeypatch.setattr(presumed, "FRESH_SECONDS", -1.0)
    with database.counted() as sent:
        assert said_to(await both(shop, "A-1-1")) == ["placed"]
    assert SQL["look"] in sent


async def test_what_seats_have_in_common_is_learnt_section_by_section():
    found = presumed.Neighbours()
    assert found.seat("A-1-1") is None
    found.learn([Seat("A-1-1", "gold"), Seat("B-1-1", "silver"), Seat("C-1", "gold", "press")])
    assert found.seat("A-7-7") == Seat("A-7-7", "gold")
    assert found.seat("C-2") == Seat("C-2", "gold", "press")
    found.learn([Seat("A-1-2", "silver")])
    assert found.seat("A-7-7") is None
    found.learn([Seat(f"S{n}-1", "gold") for n in range(presumed.SECTIONS_MAX)])
    assert found.seat("B-1-2") is None, "it has a limit"


async def test_orders_of_the_same_key_elsewhere_are_one(shop, other):
    mine = await held(shop, "ann", seats=["A-1-1"])

    async def opened(at: Holdfast) -> Outcome:
        command = at.clerk.open_order(
            E1, mine.id, "sandbox:ok", driver="d", lease_ms=60_000, key="key:k"
        )
        return (await at.submit(command)).outcome

    first, again = await opened(other), await opened(shop)
    assert isinstance(first, Opened)
    assert again == OpenedBefore(first.order.id, first.until_ms)
    assert await drift(shop.store) == []


def opening(at: Holdfast, hold: str, key: str) -> OpenOrder:
    event = hold.partition(".")[0]
    return at.clerk.open_order(event, hold, "sandbox:ok", key=key, used_for=hold)


async def two_of_one_key(shop, other) -> list[Outcome]:
    """Orders of one key in two events, of two processes; and of another key, beside the later."""
    await other.create_event(plan(id="e2", sections=SECTIONS))
    theirs = await other.place_hold("e2", buyer="ann", seats=["A-1-1"])
    await other.submit(opening(other, theirs.hold.id, "key:k"))
    holds = [await held(shop, "ann", seats=[f"A-1-{n}"]) for n in (1, 2)]
    asked = [
        shop.submit(opening(shop, hold.id, key))
        for hold, key in zip(holds, ("key:k", "key:new"), strict=True)
    ]
    return [answer.outcome for answer in await asyncio.gather(*asked)]


async def test_a_key_of_an_order_of_another_event_elsewhere_is_refused(shop, other):
    refused, beside = await two_of_one_key(shop, other)
    assert said(refused) == "no.idempotency_mismatch"
    assert isinstance(beside, Opened)
    assert await drift(shop.store) == []


async def test_whoever_insists_on_a_used_key_takes_nobody_elses_batch_down(
    shop, other, database, at_once
):
    await two_of_one_key(shop, other)
    mine, beside = [await held(shop, "ann", seats=[f"A-1-{n}"]) for n in (5, 6)]
    with database.counted() as sent:
        asked = [opening(shop, mine.id, "key:k"), opening(shop, beside.id, "key:other")]
        answers = await asyncio.gather(*map(shop.submit, asked))
    refused, opened = [answer.outcome for answer in answers]
    assert said(refused) == "no.idempotency_mismatch"
    assert isinstance(opened, Opened)
    assert len(writes(sent)) == 1, "nothing was written in vain"
    assert SQL["key_uses"] in sent


async def test_without_its_guard_a_key_would_be_used_twice(shop, other, monkeypatch):
    """The control."""
    lax = SQL["insert_key"].rstrip().rstrip(";")
    lax += " ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms"
    monkeypatch.setitem(SQL, "insert_key", lax)
    writing._together.cache_clear()
    try:
        assert all(isinstance(each, Opened) for each in await two_of_one_key(shop, other))
    finally:
        writing._together.cache_clear()


async def test_keys_of_orders_are_not_looked_up(shop, database):
    holds = [await held(shop, "ann", seats=[f"A-1-{n}"]) for n in (1, 2)]
    with database.counted() as sent:
        asked = [shop.submit(opening(shop, hold.id, f"key:{hold.id}")) for hold in holds]
        answers = await asyncio.gather(*asked)
    assert all(isinstance(answer.outcome, Opened) for answer in answers)
    assert not {SQL["look"], SQL["records"], SQL["key_uses"]} & set(sent)
    assert len(writes(sent)) == 1


@pytest.mark.parametrize("at_home", [True, False])
async def test_a_name_that_a_hold_has_is_not_new_beside_the_sale_of_that_hold(shop, other, at_home):
    at = shop if at_home else other
    mine = await held(at, "ann", seats=["A-1-1"], id="mine")
    opening = at.clerk.open_order(E1, mine.id, "sandbox:ok", driver="d", lease_ms=60_000)
    order = (await at.submit(opening)).outcome.order
    settling = SettleOrder(
        id=shop.clerk.ids.new(),
        event=E1,
        order=order.id,
        hold=mine.id,
        fence=order.version,
        payment="sandbox:p1",
        lease_ms=60_000,
    )
    other_ask = {"buyer": "bob", "seats": ["A-1-2"], "id": "mine", "idempotency_key": "k"}
    no, settled = await asyncio.gather(shop.place_hold(E1, **other_ask), shop.submit(settling))
    assert no == Refused(Reason.EXISTS, mine.id)
    assert isinstance(settled.outcome, Confirmed)
    assert await drift(shop.store) == []


async def test_what_is_held_at_new_prices_is_not_held_before_they_came(shop, other, monkeypatch):
    """The presumed time is a little behind the server's; what is refunded goes by prices at a
    time."""
    mine = await held(shop, "eve", seats=["A-4-5"])
    await other.change_event(E1, prices={"seat": 700, "floor": 50})
    await shop.release_hold(mine.id)  # under locks: it hears of the prices
    before = await server_ms(shop)
    monkeypatch.setattr(Presumptions, "now", lambda _: before - 900)
    (placed,) = await both(shop, "A-1-1")
    config = shop.store._configs[E1]
    assert placed.hold.amount == 700
    assert config.prices_at(placed.hold.placed_ms)["seat"] == 700


async def test_what_was_known_of_an_event_does_not_outlive_the_connection(
    shop, database, monkeypatch
):
    """A new connection may be to a server that has forgotten a change since it crashed."""
    acquired = shop.store._acquired

    @asynccontextmanager
    async def anew() -> AsyncIterator[Any]:
        async with acquired() as db:
            shop.store._configs.clear()
            yield db

    monkeypatch.setattr(shop.store, "_acquired", anew)
    with database.counted() as sent:
        assert said_to(await both(shop, "A-1-1")) == ["placed"]
    assert any(query.startswith("BEGIN ISOLATION LEVEL READ COMMITTED") for query in sent)
