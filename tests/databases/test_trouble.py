"""Bad luck with a database is survived: batches run again, connections are opened again, lost
replies are found out."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest

from holdfast import Confirmed, Holdfast, Placed, Reason, Refused
from holdfast.domain.commands import Command
from holdfast.domain.outcomes import Answer
from holdfast.errors import StoreBusy, StoreError
from holdfast.ports import Committed, nothing
from holdfast.settings import Settings
from holdfast.wiring import make_store
from tests.contract.helpers import said, summary
from tests.databases.kinds import DATABASES
from tests.databases.shops import (
    E1,
    audited,
    count_rows,
    held,
    lock_seats,
    plan,
    selling,
    sold,
    somebody_waits,
    until,
)

pytestmark = pytest.mark.service

PASSING = [
    pytest.param(name, error, id=f"{name}-{error}")
    for name, database in DATABASES.items()
    for error in database.again
]


@pytest.mark.parametrize(("database", "error"), PASSING, indirect=["database"])
async def test_a_passing_error_runs_the_batch_again_and_nobody_notices(
    database, url, session, error
):
    async with selling(url) as shop:
        await database.fail_updates(session, "seats", error, times=2)
        asks = (shop.place_hold(E1, buyer=f"u{n}", seats=[f"A-1-{n % 5 + 1}"]) for n in range(20))
        said = await asyncio.gather(*asks)
        assert await database.failures(session) >= 3, "twice in vain, then it went through"
        assert Counter(type(each) for each in said) == {Placed: 5, Refused: 15}
        assert await count_rows(database, session, "holds") == 5


@pytest.mark.parametrize(("database", "error"), PASSING, indirect=["database"])
async def test_a_batch_that_runs_again_is_decided_again(database, url, session, error):
    """Between its two runs a rival buys the seat: the second run says so."""
    settings = Settings(store=url)
    store = make_store(settings)
    apply = store.apply

    async with selling(url) as rival:

        async def apply_beside_a_rival(
            commands: Sequence[Command], committed: Committed = nothing
        ) -> list[Answer]:
            try:
                return await apply(commands, committed)
            except StoreBusy:
                await sold(rival, "rival", seats=["A-1-1"])
                raise

        store.apply = apply_beside_a_rival  # type: ignore[method-assign]
        async with Holdfast(store, settings, upkeep=False) as shop:
            await database.fail_updates(session, "seats", error, times=1)
            taken, other = await asyncio.gather(
                shop.place_hold(E1, buyer="ann", seats=["A-1-1"]),
                shop.place_hold(E1, buyer="ann", seats=["A-1-2"]),
            )
    assert taken == Refused(Reason.TAKEN, seats=("A-1-1",))
    assert isinstance(other, Placed)


async def test_trouble_that_does_not_pass_is_an_error_and_nothing_else(database, url, session):
    async with selling(url) as shop:
        await database.fail_updates(session, "seats", database.again[0], times=1_000_000)
        with pytest.raises(StoreBusy):
            await shop.place_hold(E1, buyer="ann", seats=["A-1-1"])
        assert await count_rows(database, session, "holds") == 0
        assert [entry.type for entry in await shop.log(E1)] == ["event.created"]


async def test_one_poisonous_command_does_not_take_others_down(database, url, session):
    async with selling(url) as shop:
        await database.fail_updates(session, "pools", database.again[0], times=1_000_000)
        asks = [shop.place_hold(E1, buyer=f"u{n}", seats=[f"A-1-{n}"]) for n in range(1, 10)]
        asks.insert(4, shop.place_hold(E1, buyer="poison", pools={"floor": 1}))
        answers = await asyncio.gather(*asks, return_exceptions=True)
        assert isinstance(answers.pop(4), StoreBusy)
        assert all(isinstance(answer, Placed) for answer in answers)


async def test_connections_cut_in_the_middle_of_a_sale_lose_nothing(database, url, session):
    cuts, tasks = 5, 20
    answers: dict[str, str] = {}
    errors: list[BaseException] = []
    stopping = asyncio.Event()
    async with selling(url, rows=50, width=40, stock=100_000) as shop:

        async def buyer(name: str) -> None:
            number = 0
            while not stopping.is_set():
                number += 1
                id = f"{name}-{number}"
                # An error is trouble, not an answer: the same id again, until there is one.
                while id not in answers:
                    try:
                        outcome = await shop.place_hold(
                            E1, buyer=name, best=1, pools={"floor": 1}, id=id
                        )
                        answers[id] = said(outcome)
                    except StoreError as trouble:
                        errors.append(trouble)

        async def answered(count: int) -> bool:
            return len(answers) >= count

        async def more() -> None:
            # Than now: two cuts in a row would find no connection to cut.
            await until(partial(answered, len(answers) + 50), "that the sale goes on")

        async def cutter() -> None:
            for _ in range(cuts):
                await more()
                assert await database.cut(session) > 0
            await more()
            stopping.set()

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for n in range(tasks):
                group.create_task(buyer(f"u{n}"))
            group.create_task(cutter())
        placed = [id for id, answer in answers.items() if answer == "placed"]
        assert len(placed) == len(answers)
        for id in placed:
            assert await shop.hold(f"{E1}.{id}") is not None
        assert await count_rows(database, session, "holds") == len(placed)
    # Each cut costs the batch under way one of its runs, which nobody has to hear of.
    assert errors == []


async def test_a_lost_reply_to_a_commit_is_found_out_by_ids(database, url, session, monkeypatch):
    """Every kind of command, committed and unheard: run again, each gets its first answer."""
    async with selling(url) as shop:
        paying = await held(shop, "ann", seats=["A-1-1"], pools={"floor": 1})
        longer = await held(shop, "ann", seats=["A-1-2"])
        given_back = await held(shop, "ann", seats=["A-1-3"])
        bought = await held(shop, "ann", seats=["A-1-4"], pools={"floor": 2})
        mistaken = await sold(shop, "ann", seats=["A-1-5"], pools={"floor": 3})
        before = (await summary(shop)).seq
        lost = database.lose_replies(monkeypatch, times=2)
        answers = await asyncio.gather(
            shop.place_hold(E1, buyer="bob", seats=["A-2-1"]),
            shop.place_hold(E1, buyer="bob", best=2, pools={"floor": 1}),
            shop.place_hold(E1, buyer="bob", seats=["A-2-2"], id="mine"),
            shop.pay_hold(paying.id),
            shop.extend_hold(longer.id),
            shop.release_hold(given_back.id),
            shop.confirm_hold(bought.id, payment="p1"),
            shop.cancel_order(mistaken.id),
            shop.sell(E1, buyer="bob", seats=["A-2-3"], pools={"floor": 1}, payment="p2"),
            shop.sell(E1, buyer="bob", best=1, order="mine"),
            shop.place_hold(E1, buyer="eve", seats=["A-1-4"]),
        )
        assert lost["replies"] == 1, "the second run found everything done, and committed nothing"
        assert [said(answer) for answer in answers] == [
            *("placed", "placed", "placed", "paying", "extended", "released"),
            *("confirmed", "cancelled", "confirmed", "confirmed", "no.taken"),
        ]
        assert (await summary(shop)).seq == before + 10, "one fact each, none doubled"
        assert await count_rows(database, session, "holds") == 4 + 3
        assert await count_rows(database, session, "orders") == 1 + 3


async def test_a_lost_reply_to_a_change_of_the_event_is_found_out_too(database, url, monkeypatch):
    async with audited(url) as shop:
        lost = database.lose_replies(monkeypatch, times=1)
        created = await shop.create_event(plan())
        assert (said(created), lost["replies"]) == ("created", 1)
        lost["replies"] = 0
        changed = await shop.add_capacity(E1, {"pools": [{"id": "floor", "capacity": 5}]})
        assert (said(changed), lost["replies"]) == ("changed", 1)
        lost["replies"] = 0
        withdrawn = await shop.withdraw(E1, seats=["A-1-1"], pools={"floor": 1})
        assert (said(withdrawn), lost["replies"]) == ("changed", 1)
        now = await summary(shop)
        assert (now.seq, now.capacity) == (3, 40 + 100 + 5 - 2)


async def test_the_same_id_from_two_processes_at_once_makes_one_hold_and_gets_one_answer(
    database, url, session
):
    rounds = 40
    async with selling(url, rows=10, width=20) as one, audited(url) as two:
        for n in range(rounds):
            answers = await asyncio.gather(
                *(
                    shop.place_hold(E1, buyer="ann", best=2, pools={"floor": 1}, id=f"same-{n}")
                    for shop in (one, two)
                )
            )
            assert isinstance(answers[0], Placed)
            assert answers[0] == answers[1]
        assert await count_rows(database, session, "holds") == rounds
        for n in range(rounds):
            orders = await asyncio.gather(
                *(
                    shop.confirm_hold(f"{E1}.same-{n}", payment=f"p{n}", order=f"same-{n}")
                    for shop in (one, two)
                )
            )
            assert isinstance(orders[0], Confirmed)
            assert orders[0] == orders[1]
        assert await count_rows(database, session, "orders") == rounds


async def test_one_payment_at_two_processes_at_once_pays_once(database, url, session):
    rounds = 20
    async with selling(url) as one, audited(url) as two:
        for n in range(rounds):
            answers = await asyncio.gather(
                one.sell(E1, buyer="ann", best=1, payment=f"p{n}"),
                two.sell(E1, buyer="bob", best=1, payment=f"p{n}"),
            )
            assert sorted(map(said, answers)) == ["confirmed", "no.payment_used"]
        assert await count_rows(database, session, "orders") == rounds


@pytest.mark.parametrize("how", ["price", "pause", "cap"])
async def test_a_batch_decided_under_an_older_configuration_is_decided_again(
    database, url, session, watcher, how
):
    async with selling(url) as shop, audited(url) as other:
        await held(shop, "ann", seats=["A-4-1"])
        await lock_seats(database, session, "id = 'A-1-1'")
        asked = asyncio.create_task(shop.place_hold(E1, buyer="ann", seats=["A-1-1"]))
        await somebody_waits(database, watcher)  # it has read the configuration
        changes: dict[str, dict[str, object]] = {
            "price": {"prices": {"seat": 777}},
            "pause": {"state": "paused"},
            "cap": {"max_per_buyer": 1},
        }
        await other.change_event(E1, **changes[how])
        await session.execute("COMMIT")
        outcome = await asked
    if how == "price":
        assert isinstance(outcome, Placed)
        assert outcome.hold.amount == 777
    else:
        reasons = {"pause": Reason.NOT_ON_SALE, "cap": Reason.BUYER_CAP}
        assert isinstance(outcome, Refused)
        assert outcome.reason is reasons[how]


async def test_a_cap_holds_across_processes(database, url, session):
    async with selling(url, rows=10, max_per_buyer=3) as one, audited(url) as two:
        for n in range(15):
            shops = (one, two)
            asks = [shops[k % 2].place_hold(E1, buyer=f"u{n}", best=1) for k in range(8)]
            answers = Counter(map(said, await asyncio.gather(*asks)))
            assert answers == {"placed": 3, "no.buyer_cap": 5}


async def test_one_connection_serves_any_number_of_events(url):
    events = [f"e{n}" for n in range(10)]
    async with audited(url, pool_max=1) as shop:
        for event in events:
            await shop.create_event(plan(id=event))
        asks = [
            shop.place_hold(event, buyer=f"u{n}", best=2, pools={"floor": 1})
            for n in range(10)
            for event in events
        ]
        assert Counter(map(said, await asyncio.gather(*asks))) == {"placed": 100}
