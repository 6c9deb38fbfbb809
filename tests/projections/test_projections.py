"""Documents that are always right: whoever folds, whoever saves, and whatever is lost meanwhile."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from holdfast.domain.facts import Entry
from holdfast.domain.stats import Stats
from holdfast.domain.views import Document
from holdfast.errors import Pruned, SchemaMismatch
from holdfast.followers import projections as module
from holdfast.followers.projections import BASELINE, KEPT_SECONDS, KIND, LEASE, Projections
from holdfast.stores.memory import MemoryStore
from holdfast.upkeep.lease import LEASE_MS, Lease
from holdfast.upkeep.pruned import note_pruned
from tests.conftest import Setup
from tests.contract.helpers import E1, description, held, on_sale, sold

pytestmark = pytest.mark.parametrize("setup", [Setup("memory")], ids=str)

WAIT_SECONDS = 20


async def saved(shop, event: str = E1) -> dict[str, Any]:
    """What the document says; nothing where there is none."""
    documents, _ = await shop.store.documents(KIND, event)
    return msgspec.json.decode(documents[0].body)["stats"] if documents else {}


async def now(projections: Projections, event: str = E1) -> Stats:
    stats = await projections.current(event)
    assert stats is not None
    return stats


async def until_saved(shop, seq: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            if (await saved(shop)).get("seq", 0) >= seq:
                return
            await asyncio.sleep(0.005)


async def test_it_is_fresh_where_nobody_saves(shop):
    await on_sale(shop)
    projections = Projections(shop.store)
    for number in range(1, 4):
        await sold(shop, seats=[f"A-1-{number}"])
        stats = await now(projections)
        assert (stats.sold, stats.seq) == (number, 1 + number)
    assert await saved(shop) == {}


async def test_there_is_nothing_of_an_event_that_is_not_there(shop):
    projections = Projections(shop.store)
    assert await projections.current("nobody") is None
    assert await projections.rebuild("nobody") == ({}, {})
    await on_sale(shop)
    assert (await now(projections)).capacity == 29


async def test_readers_who_come_at_once_share_a_read(shop, monkeypatch):
    await on_sale(shop)
    reads = 0
    log = shop.store.log

    async def counted(*args: Any) -> list[Entry]:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0)
        found: list[Entry] = await log(*args)
        return found

    monkeypatch.setattr(shop.store, "log", counted)
    projections = Projections(shop.store)
    await asyncio.gather(*[projections.current(E1) for _ in range(50)])
    assert reads <= 2
    # But whoever asks after something has happened is told of it.
    await sold(shop)
    assert (await now(projections)).sold == 4


async def test_only_so_many_events_are_kept(shop):
    projections = Projections(shop.store, kept_max=2)
    for number in range(5):
        await shop.create_event(description(id=f"night-{number}"))
    for _ in range(2):
        for number in range(5):
            stats = await now(projections, f"night-{number}")
            assert (stats.event, stats.seq) == (f"night-{number}", 1)
            assert len(projections._kept) <= 2
    assert await projections.round() == 5


async def test_a_round_saves_what_has_moved_and_nothing_else(shop):
    await on_sale(shop)
    await shop.create_event(description(id="e2"))
    projections = Projections(shop.store)
    assert projections.lags() == {}
    assert [await projections.round() for _ in range(2)] == [2, 0]
    await held(shop)
    assert await projections.round() == 1
    assert projections.lags() == {E1: 0, "e2": 0}
    documents, _ = await shop.store.documents(KIND)
    assert [(each.id, each.version) for each in documents] == [(E1, 2), ("e2", 1)]
    # A process that comes later goes on where the documents are.
    assert await Projections(shop.store).round() == 0


async def test_a_long_log_that_nobody_saves_is_saved_by_who_reads_it(shop, monkeypatch):
    monkeypatch.setattr(module, "BEHIND_FACTS_MAX", 3)
    await on_sale(shop)
    projections = Projections(shop.store)
    for number in range(1, 5):
        await sold(shop, seats=[f"A-1-{number}"])
        await projections.current(E1)
    assert (await saved(shop))["seq"] == 3


class Forgetful(MemoryStore):
    """Writes whatever the version is."""

    async def put(self, document: Document) -> bool:
        self._documents[document.kind, document.id] = document
        return True


@pytest.mark.parametrize(("kind", "ends"), [(MemoryStore, 3), (Forgetful, 2)])
async def test_who_was_slow_does_not_put_back_what_was(shop, setup, clock, kind, ends):
    """With the control: without versions he does."""
    await on_sale(shop)
    shop.store.__class__ = kind
    slow, quick = Projections(shop.store), Projections(shop.store)
    await quick.round()
    await held(shop)
    kept = slow._keep(E1)
    await slow._load(kept)
    await slow._catch_up(kept)
    # Just before he writes, another takes a fact more and writes it.
    await held(shop, "bob", seats=["A-2-1"])
    await quick.round()
    await slow._save(kept)
    assert (await saved(shop))["seq"] == ends
    assert (await now(slow)).seq == 3


async def test_one_process_of_several_saves_and_another_goes_on_when_it_stops(shop, monkeypatch):
    writers: list[Projections] = []
    for each in (first := Projections(shop.store, 0.002), second := Projections(shop.store, 0.002)):
        put = each._put

        async def noted(*args: Any, each: Any = each, put: Any = put) -> bool:
            writers.append(each)
            return bool(await put(*args))

        monkeypatch.setattr(each, "_put", noted)
        each.start()
    try:
        await on_sale(shop)
        await until_saved(shop, 1)
        for number in range(1, 4):
            await sold(shop, seats=[f"A-1-{number}"])
            await until_saved(shop, 1 + number)
        assert len(set(writers)) == 1
        stopped = writers[0]
        await stopped.stop()
        await sold(shop, seats=["A-1-4"])
        await until_saved(shop, 5)
        assert writers[-1] is not stopped
    finally:
        await first.stop()
        await second.stop()


async def lost(shop) -> None:
    """The beginning of a log that nobody has settled: what was in it is not known any more."""
    await on_sale(shop)
    for seat in ("A-1-1", "A-1-2"):
        await sold(shop, seats=[seat])
    await note_pruned(shop.store, E1, 2)
    assert await shop.store.prune(E1, 2, 10) == 2


async def test_trouble_with_one_event_is_its_own_and_said_once(shop, caplog):
    await lost(shop)
    await shop.create_event(description(id="e2"))
    projections = Projections(shop.store)
    with caplog.at_level(logging.WARNING):
        assert [await projections.round() for _ in range(3)] == [1, 0, 0]
    [said] = caplog.messages
    assert said.startswith("e1: the projection was not saved: the log of e1 begins with 3")
    assert (await saved(shop, "e2"))["seq"] == 1
    for asked in (projections.current(E1), projections.settle(E1, 3)):
        with pytest.raises(Pruned):
            await asked


async def test_a_rebuild_of_all_goes_on_with_the_others(shop):
    await lost(shop)
    for event in ("e0", "e2"):
        await shop.create_event(description(id=event))
    rebuilt = await Projections(shop.store).rebuild()
    assert rebuilt.facts == {"e0": 1, "e2": 1}
    assert isinstance(rebuilt.failed[E1], Pruned)


class Held:
    """A lease that is ours for so many questions."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.asked = 0

    async def __call__(self) -> bool:
        self.asked += 1
        self.left -= 1
        return self.left >= 0


async def long_log(shop, monkeypatch) -> None:
    """Ten pages, to be saved after every third."""
    monkeypatch.setattr(module, "PAGE_FACTS", 2)
    monkeypatch.setattr(module, "SAVE_FACTS", 6)
    await on_sale(shop)
    for number in range(1, 10):
        hold = await held(shop, f"b{number}", pools={"floor": 1})
        await shop.release_hold(hold.id)


async def test_who_catches_up_for_long_asks_all_the_while_whether_it_is_his(shop, monkeypatch):
    await long_log(shop, monkeypatch)
    ours = Held(1_000)
    assert await Projections(shop.store).round(ours) == 4
    assert (await saved(shop))["seq"] == 19
    assert ours.asked >= 10, "before every page"


async def test_who_has_lost_the_lease_stops_and_another_goes_on_from_there(shop, monkeypatch):
    await long_log(shop, monkeypatch)
    assert await Projections(shop.store).round(Held(6)) == 1
    assert (await saved(shop))["seq"] == 6
    # A control: what the next one reads begins there.
    read: list[int] = []
    log = shop.store.log

    async def noted(event: str, after: int, limit: int) -> Any:
        read.append(after)
        return await log(event, after, limit)

    monkeypatch.setattr(shop.store, "log", noted)
    await Projections(shop.store).round()
    assert (min(read), (await saved(shop))["seq"]) == (6, 19)


async def test_a_long_round_renews_its_lease_and_ends_when_another_has_it(shop, clock, monkeypatch):
    """Each page takes two seconds, a lease five."""
    await long_log(shop, monkeypatch)
    seconds, log = 0.0, shop.store.log

    async def slow(*args: Any) -> Any:
        nonlocal seconds
        seconds += 2.0
        clock.advance(2_000)
        return await log(*args)

    monkeypatch.setattr(shop.store, "log", slow)
    working = Projections(shop.store, clock=lambda: seconds)
    other = Lease(shop.store, LEASE, "another")
    taken: list[bool] = []

    async def ours() -> bool:
        taken.append(await other.hold())
        return await working._ours()

    assert await working._ours()
    assert await working.round(ours) == 4
    assert len(taken) > 10
    assert not any(taken)
    # Away for longer than a lease: it is another's, and nothing is written.
    await sold(shop)
    clock.advance(LEASE_MS)
    seconds += LEASE_MS / 1000
    assert await other.hold()
    assert await working.round(working._ours) == 0
    assert (await saved(shop))["seq"] == 19


async def test_a_process_that_was_away_while_facts_were_pruned_goes_on(shop):
    await on_sale(shop)
    away, other = Projections(shop.store), Projections(shop.store)
    await away.current(E1)
    for number in range(1, 5):
        await sold(shop, seats=[f"A-1-{number}"])
    await other.settle(E1, 4)
    await note_pruned(shop.store, E1, 4)
    assert await shop.store.prune(E1, 4, 10) == 4
    # Nothing was saved but the baseline.
    assert (await now(away)).sold == 4
    assert (await other.rebuild(E1)).facts == {E1: 5}


async def test_the_baseline_has_exactly_the_facts_that_it_was_settled_with(shop):
    await on_sale(shop)
    for number in range(1, 5):
        await sold(shop, seats=[f"A-1-{number}"])
    projections = Projections(shop.store)
    for through, expected in ((3, 3), (2, 3), (5, 5)):
        await asyncio.gather(*[projections.settle(E1, through) for _ in range(3)])
        (document,), _ = await shop.store.documents(BASELINE, E1)
        assert msgspec.json.decode(document.body)["stats"]["seq"] == expected


OLD_BASELINE = (
    '{"format":1,"stats":{"event":"e1","seq":4,"currency":"EUR","capacity":29,"sold":3,'
    '"revenue":27000,"tiers":{"gold":[0,[3,27000],[0,0]]},"hours":{"497222":{"0":[3,27000]}},'
    '"hour_entries":1,"holds":{"placed":0,"held":0,"paying":0,"confirmed":0,"released":0,'
    '"expired":0},"returns":{"cancellations":0,"cancelled_units":0,"cancelled_amount":0,'
    '"refunds":0,"refunded_amount":0},"ticks":{"179000000":3},"recent":[{"at_ms":1790000000000,'
    '"units":1,"seats":["A-1-1"],"pools":{},"amount":9000}]}}'
)
"""As format 1 has written it. It stays here, and readable, whatever formats come."""


async def test_a_baseline_of_an_older_format_is_read_and_pruning_goes_on(shop, monkeypatch):
    """It is all that is left of what was pruned. The projection itself is folded again from it."""
    await on_sale(shop)
    for number in range(1, 6):
        await sold(shop, seats=[f"A-1-{number}"])
    assert await shop.store.put(Document(BASELINE, E1, 1, OLD_BASELINE))
    await note_pruned(shop.store, E1, 5)
    assert await shop.store.prune(E1, 4, 10) == 4
    await Projections(shop.store).round()
    monkeypatch.setattr(module, "FORMAT", 2)
    newer = Projections(shop.store)
    assert (await now(newer)).sold == 5
    assert (await newer.rebuild()) == ({E1: 6}, {})
    await newer.settle(E1, 5)
    assert await shop.store.prune(E1, 5, 10) == 1
    assert (await newer.rebuild()) == ({E1: 6}, {})
    (document,), _ = await shop.store.documents(BASELINE, E1)
    # While both run, the older one reads that and does not write what it does not know.
    monkeypatch.setattr(module, "FORMAT", 1)
    older = Projections(shop.store)
    assert (await now(older)).sold == 5
    with pytest.raises(SchemaMismatch):
        await older.settle(E1, 6)
    assert (await shop.store.documents(BASELINE, E1))[0] == [document]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        '{"format":0,"stats":{"event":"e1","seq":2,"sold":99}}',
        '{"format":1,"stats":{"event":"e1","seq":"two"}}',
    ],
)
async def test_what_cannot_be_read_is_folded_anew(shop, body):
    await on_sale(shop)
    await sold(shop)
    assert await shop.store.put(Document(KIND, E1, 1, body))
    projections = Projections(shop.store)
    assert (await now(projections)).sold == 4
    await projections.round()
    assert (await saved(shop))["sold"] == 4


async def test_a_rebuild_corrects_what_is_wrong_also_in_other_processes(shop):
    await on_sale(shop)
    await sold(shop)
    wrong = '{"format":1,"stats":{"event":"e1","seq":2,"sold":99}}'
    assert await shop.store.put(Document(KIND, E1, 1, wrong))
    seconds = 0.0
    writer, reader = (Projections(shop.store, clock=lambda: seconds) for _ in range(2))
    for each in (writer, reader):
        assert (await now(each)).sold == 99
    assert (await Projections(shop.store).rebuild()).facts == {E1: 2}
    assert (await saved(shop))["sold"] == 4
    # Who writes finds out when he does; who only reads, before long.
    await sold(shop, "bob", seats=["A-2-1"])
    await writer.round()
    await writer.round()
    assert (await saved(shop))["sold"] == (await now(writer)).sold == 5
    assert (await now(reader)).sold == 100
    seconds += KEPT_SECONDS
    assert (await now(reader)).sold == 5


async def test_a_rebuild_comes_through_while_others_save_all_the_while(shop, monkeypatch):
    await on_sale(shop)
    rebuilding, other = Projections(shop.store), Projections(shop.store)
    replayed, left = rebuilding._replayed, [1, 2, 3]

    async def meanwhile(*args: Any) -> Any:
        stats = await replayed(*args)
        if left:
            await sold(shop, seats=[f"A-1-{left.pop()}"])
            await other.round()
        return stats

    monkeypatch.setattr(rebuilding, "_replayed", meanwhile)
    assert (await rebuilding.rebuild(E1)).facts == {E1: 1}
    assert (await now(other)).sold == (await now(rebuilding)).sold == 1


async def test_facts_that_come_another_way_are_folded_once_and_saved(shop):
    await on_sale(shop)
    for number in range(1, 5):
        await sold(shop, seats=[f"A-1-{number}"])
    facts = await shop.store.log(E1, 0, 100)
    projections = Projections(shop.store)
    await projections.fold([*facts[:2], facts[0], facts[1], facts[2]])
    assert (await saved(shop))["seq"] == 3
    # A repeat writes nothing.
    (before,), _ = await shop.store.documents(KIND, E1)
    await projections.fold(facts[:3])
    assert (await shop.store.documents(KIND, E1))[0] == [before]
    # What is missing is on the log.
    await Projections(shop.store).fold(facts[4:])
    assert (await saved(shop))["sold"] == 4


async def test_where_what_is_missing_is_nowhere_the_event_waits_and_others_go_on(
    shop, clock, caplog
):
    await on_sale(shop)
    await shop.create_event(description(id="e2"))
    for number in range(1, 4):
        await sold(shop, seats=[f"A-1-{number}"])
    facts = await shop.store.log(E1, 0, 100)
    elsewhere = MemoryStore(clock)
    projections = Projections(elsewhere)
    await projections.fold(facts[:1])
    for _ in range(2):
        await projections.fold([*facts[2:], *await shop.store.log("e2", 0, 100)])
    documents, _ = await elsewhere.documents(KIND)
    assert [msgspec.json.decode(each.body)["stats"]["seq"] for each in documents] == [1, 1]
    assert caplog.text.count("e1: the facts after 1 are missing") == 1
    await projections.fold(facts[1:])
    (document,), _ = await elsewhere.documents(KIND, E1)
    assert msgspec.json.decode(document.body)["stats"]["sold"] == 3


async def test_two_who_fold_at_once_from_elsewhere_lose_nothing(shop):
    await on_sale(shop)
    for number in range(1, 5):
        await sold(shop, seats=[f"A-1-{number}"])
    facts = await shop.store.log(E1, 0, 100)
    members = [Projections(shop.store) for _ in range(4)]
    for fact in facts:
        await asyncio.gather(*[member.fold([fact]) for member in members])
    assert (await saved(shop))["sold"] == 4
    (document,), _ = await shop.store.documents(KIND, E1)
    assert document.version == len(facts)
