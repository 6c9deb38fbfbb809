"""Facts of older versions are read today, and today's by who was written for the oldest."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from holdfast.domain import facts
from holdfast.domain.audit import LogAudit
from holdfast.domain.cloudevents import cloud_event
from holdfast.domain.facts import Entry
from holdfast.domain.stats import Stats, Taken
from holdfast.followers.feed import Feed
from tests.facts.conftest import FIXTURES, Night, faults, published
from tests.facts.story import GALA

VERSIONS = ("first-log", "before-checkout", "checkout")
OLDEST = VERSIONS[0]


def log(version: str) -> list[Entry]:
    text = (FIXTURES / version / "log.json").read_bytes()
    return msgspec.json.decode(text, type=list[Entry])


def cloud_events(version: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FIXTURES / version / "cloudevents.json").read_bytes())
    return found


def test_every_folder_of_fixtures_is_looked_at():
    assert {path.name for path in FIXTURES.iterdir() if path.is_dir()} == set(VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
def test_todays_schemas_take_facts_of_older_versions(version):
    for entry in log(version):
        assert faults(published(entry)) == [], entry


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_cloud_event_is_what_it_was(version):
    was = cloud_events(version)
    assert [faults(fact) for fact in was] == [[]] * len(was)
    now = [msgspec.to_builtins(cloud_event(entry)) for entry in log(version)]
    assert now == was


@pytest.mark.parametrize("version", VERSIONS)
def test_the_live_map_reads_older_facts(version):
    entries = log(version)
    feed = Feed(GALA, 0, frozenset())
    assert feed.append(entries)
    # Until units came: what is after that only a new snapshot can tell.
    until = next(entry.seq for entry in entries if entry.type == facts.EVENT_CHANGED)
    feed = Feed(GALA, 1, frozenset())
    assert feed.append(entries[1 : until - 1])
    feed.publish()
    frame = feed.changes(1)
    assert frame is not None
    seats = dict(json.loads(frame.body)["changes"])
    sold = {seat for seat, state in seats.items() if state == "sold"}
    assert sold == bought(entries[: until - 1]).keys()
    assert seats["A-2-1"] == "available"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_auditor_finds_nothing_wrong_with_older_facts(version):
    auditor = LogAudit(GALA)
    auditor.read(log(version))
    assert auditor.found == []
    assert auditor.seq == len(log(version))


def folded(entries: Iterable[Entry]) -> Stats:
    stats = Stats.empty(GALA)
    assert {stats.take(entry) for entry in entries} == {Taken.TAKEN}
    return stats


@pytest.mark.parametrize("version", VERSIONS)
def test_older_facts_count_as_todays_do(night: Night, version):
    """But for what they do not say: tiers and the capacity."""
    was = folded(log(version))
    now = folded(night.entries[: was.seq])
    assert (was.sold, was.revenue, was.currency) == (now.sold, now.revenue, now.currency)
    assert (was.holds, was.returns, was.recent) == (now.holds, now.returns, now.recent)


def shown(entry: Entry) -> dict[str, Any]:
    """Without the ids that differ with each run."""
    return {name: value for name, value in entry.data.items() if name != "order"}


@pytest.mark.parametrize("version", VERSIONS)
def test_fields_are_only_added(night: Night, version):
    """The same story, fact by fact: what a field said then it says now."""
    was = log(version)
    for then, now in zip(was, night.entries[: len(was)], strict=True):
        assert (now.seq, now.type, now.at_ms) == (then.seq, then.type, then.at_ms)
        assert now.data.keys() >= then.data.keys()
        assert shown(now) | shown(then) == shown(now)


class UnitsThen(msgspec.Struct):
    """What a consumer of the first version needs of a fact about units, and as what."""

    buyer: str
    seats: list[str]
    pools: dict[str, int]
    amount: int
    currency: str
    hold: str | None
    order: str = ""


class FactThen(msgspec.Struct):
    id: str
    type: str
    subject: str
    sequence: int
    data: UnitsThen


def consumed_then(bodies: Iterable[bytes]) -> dict[str, str]:
    """As a consumer of the first version makes its list of who sits where: it knows two types,
    drops repeats by id, and ignores what it does not know."""
    seats: dict[str, str] = {}
    seen: set[str] = set()
    for body in bodies:
        type = msgspec.json.decode(body)["type"]
        if type not in (facts.ORDER_CONFIRMED, facts.ORDER_CANCELLED):
            continue
        fact = msgspec.json.decode(body, type=FactThen, strict=True)
        if fact.id in seen:
            continue
        seen.add(fact.id)
        for seat in fact.data.seats:
            if type == facts.ORDER_CONFIRMED:
                seats[seat] = fact.data.buyer
            else:
                del seats[seat]
    return seats


def bought(entries: Iterable[Entry]) -> dict[str, str]:
    return consumed_then(json.dumps(published(entry)).encode() for entry in entries)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_of_the_oldest_version_reads_every_later_one(version):
    seats = bought(log(version))
    assert seats.items() >= {("A-1-1", "ann"), ("A-1-2", "ann")}


def test_and_reads_todays_with_repeats(night: Night):
    seats = bought([*night.entries, *night.entries[-9:]])
    assert seats.keys() == {seat.id for seat in night.map.seats if seat.state == "sold"}
    assert seats["A-1-5"] == "late-2"
