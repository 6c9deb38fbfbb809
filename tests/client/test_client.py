"""The client against a real service: typed values, refusals as values, everything else raised."""

from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdfast
from holdfast import Best, SettingsError
from holdfast.client import (
    Cancelled,
    Changed,
    Changes,
    Client,
    ClientError,
    Confirmed,
    Created,
    Extended,
    Forbidden,
    Hold,
    Invalid,
    LogPage,
    Paying,
    Pending,
    Placed,
    RateLimited,
    Refused,
    Released,
    Snapshot,
    System,
    Unauthorized,
    Unexpected,
)
from holdfast.client.replies import Reply, decoded, refusal
from holdfast.errors import NotOpen
from tests.api.conftest import make_event
from tests.api.serving import ADMIN, serving
from tests.client.conftest import connect

pytestmark = pytest.mark.slow


async def test_a_hold_carries_what_the_wire_has(client, event):
    placed = await client.place_hold(event, buyer="ann", seats=["A-1-1"], pools={"floor": 2})
    assert isinstance(placed, Placed)
    hold = placed.hold
    assert hold.id.startswith(f"{event}.")
    assert (hold.event, hold.buyer, hold.state, hold.version) == (event, "ann", "held", 1)
    assert (hold.seats, hold.pools) == (("A-1-1",), {"floor": 2})
    assert (hold.amount, hold.currency, hold.seconds_left) == (18_000, "EUR", 480)
    assert hold.token
    assert timedelta(0) < hold.expires_at - datetime.now(UTC) <= timedelta(seconds=481)
    assert not placed.replayed


async def test_a_sale_from_beginning_to_end(client, event):
    hold = (await client.place_hold(event, buyer="ann", best=2, id="h1")).hold
    assert hold.id == f"{event}.h1"
    assert isinstance(await client.extend_hold(hold.id, 60), Extended)
    paying = await client.pay_hold(hold.id)
    assert isinstance(paying, Paying)
    assert paying.hold.state == "paying"

    bought = await client.create_order(hold.id, method="sandbox:ok")
    assert isinstance(bought, Confirmed)
    order = bought.order
    assert (order.state, order.hold, order.seats) == ("confirmed", hold.id, hold.seats)
    assert order.payment is not None
    assert order.payment.state == "captured"
    assert await client.get_order(order.id) == order
    assert (await client.hold(hold.id)).state == "confirmed"
    assert (await client.event(event)).sold == 2

    cancelled = await client.cancel_order(order.id)
    assert isinstance(cancelled, Cancelled)
    assert cancelled.order.state == "cancelled"
    assert (await client.event(event)).sold == 0


async def test_releasing_gives_back_and_again_changes_nothing(client, event):
    hold = (await client.place_hold(event, buyer="ann", seats=["A-1-1"])).hold
    for _ in range(2):
        assert await client.release_hold(hold.id) == Released(hold.id)
    assert {seat.state for seat in (await client.seats(event)).seats} == {"available"}


async def test_refusals_are_values_with_what_they_speak_of(client, event):
    await client.place_hold(event, buyer="ann", seats=["A-1-1"])
    match await client.place_hold(event, buyer="bob", seats=["A-1-1", "A-1-2"]):
        case Refused(reason="taken", seats=seats, status=status, detail=detail):
            assert (seats, status) == (("A-1-1",), 409)
            assert "A-1-1" in detail
        case other:
            pytest.fail(str(other))
    no = await client.place_hold(event, buyer="bob", pools={"floor": 51})
    assert (no.reason, no.available) == ("insufficient", 50)
    no = await client.place_hold(event, buyer="bob", seats=["Z-1-1"])
    assert (no.reason, no.status) == ("unknown_unit", 422)
    no = await client.place_hold("nowhere", buyer="bob", seats=["A-1-1"])
    assert (no.reason, no.status) == ("unknown_event", 404)


async def test_a_cap_is_told(client, served):
    event = make_event(served, max_per_buyer=2)
    no = await client.place_hold(event, buyer="bob", best=3)
    assert (no.reason, no.cap) == ("buyer_cap", 2)


@pytest.mark.parametrize(
    "best",
    [
        2,
        {"quantity": 2, "tier": "gold"},
        Best(2, section="A"),
        [{"quantity": 1}, Best(1)],
    ],
)
async def test_best_seats_are_asked_for_as_in_the_engine(client, event, best):
    placed = await client.place_hold(event, buyer="ann", best=best)
    assert len(placed.hold.seats) == 2


async def test_a_declined_payment_is_a_refusal_and_leaves_the_hold(client, event):
    hold = (await client.place_hold(event, buyer="ann", seats=["A-1-1"])).hold
    no = await client.create_order(hold.id, method="sandbox:declined")
    assert isinstance(no, Refused)
    assert (no.reason, no.status) == ("declined", 402)
    assert isinstance(await client.create_order(hold.id, method="sandbox:ok"), Confirmed)


async def test_a_payment_that_waits_for_the_buyer_is_pending(client, event):
    hold = (await client.place_hold(event, buyer="ann", seats=["A-1-1"])).hold
    waits = await client.create_order(hold.id, method="sandbox:3ds", idempotency_key="3ds")
    assert isinstance(waits, Pending)
    assert (waits.order.state, waits.order.seats, waits.replayed) == ("pending", ("A-1-1",), False)
    assert waits.order.next_action["type"] == "redirect"
    assert (await client.get_order(waits.order.id)).state == "pending"
    again = await client.create_order(hold.id, method="sandbox:3ds", idempotency_key="3ds")
    assert isinstance(again, Pending)
    assert (again.order.id, again.replayed) == (waits.order.id, True)

    called_off = await client.cancel_order(waits.order.id)
    assert isinstance(called_off, Cancelled)
    assert called_off.order.state == "cancelled"
    assert (await client.event(event)).sold == 0


async def test_that_other_seats_will_do_is_part_of_what_was_asked(client, event):
    hold = (await client.place_hold(event, buyer="ann", seats=["A-1-1"])).hold
    asked = {"method": "sandbox:ok", "idempotency_key": "flexible"}
    bought = await client.create_order(hold.id, accept_other_seats=True, **asked)
    assert isinstance(bought, Confirmed)
    assert bought.order.settlement == "in_time"
    no = await client.create_order(hold.id, **asked)
    assert (no.reason, no.status) == ("idempotency_mismatch", 422)


async def test_a_part_of_an_order_is_given_back(client, event):
    hold = (
        await client.place_hold(event, buyer="ann", seats=["A-1-1", "A-1-2"], pools={"floor": 3})
    ).hold
    order = (await client.create_order(hold.id, method="sandbox:ok")).order
    cancelled = await client.cancel_order(order.id, seats=["A-1-2"], pools={"floor": 2})
    assert isinstance(cancelled, Cancelled)
    left = cancelled.order
    assert (left.state, left.seats, left.pools) == ("confirmed", ("A-1-1",), {"floor": 1})
    assert left.amount + left.refunded == order.amount
    assert (await client.event(event)).sold == 2

    no = await client.cancel_order(order.id, pools={"floor": 2})
    assert (no.reason, no.status, no.available) == ("insufficient", 409, 1)
    no = await client.cancel_order(order.id, seats=["A-1-3"])
    assert (no.reason, no.status, no.seats) == ("unknown_unit", 422, ("A-1-3",))
    with pytest.raises(Invalid):
        await client.cancel_order(order.id, seats="A-1-1")


async def test_what_needs_a_person_is_listed_and_tried_again(client, served, seller, event):
    hold = (await client.place_hold(event, buyer="ann", seats=["A-1-1"])).hold
    order = (await client.create_order(hold.id, method="sandbox:refund-refused")).order
    await client.cancel_order(order.id)
    found = {each.id: each for each in await client.orders_needing_a_person()}
    assert (found[order.id].state, found[order.id].refunded) == ("cancelled", 0)
    assert "refund" in found[order.id].trouble
    retried = await client.retry_order(order.id)
    assert (retried.id, retried.trouble) == (order.id, found[order.id].trouble)
    assert await client.retry_order(f"{event}.nobody") is None
    async with connect(served.url, seller) as shop:
        with pytest.raises(Forbidden):
            await shop.orders_needing_a_person()


async def test_a_free_order_needs_no_payment(client, served):
    event = make_event(served, prices={"gold": 0, "floor": 0})
    hold = (await client.place_hold(event, buyer="ann", seats=["A-1-1"])).hold
    bought = await client.create_order(hold.id)
    assert isinstance(bought, Confirmed)
    assert (bought.order.amount, bought.order.payment) == (0, None)


async def test_the_same_key_gives_the_first_answer_again(client, event):
    ask = {"buyer": "ann", "best": 1, "idempotency_key": "once"}
    first = await client.place_hold(event, **ask)
    again = await client.place_hold(event, **ask)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.hold == first.hold
    other = await client.place_hold(event, **{**ask, "best": 2})
    assert (other.reason, other.status) == ("idempotency_mismatch", 422)


async def test_events_are_created_listed_and_changed(client):
    plan = {"id": "tour", "prices": {"a": 100}, "pools": [{"id": "a", "capacity": 5}]}
    created = await client.create_event(plan)
    assert isinstance(created, Created)
    assert (created.event.capacity, created.event.state) == (5, "on_sale")
    assert (await client.create_event(plan)).reason == "exists"
    assert "tour" in [event.id for event in await client.events()]
    changed = await client.change_event("tour", state="paused", max_per_buyer=3)
    assert isinstance(changed, Changed)
    assert (changed.event.state, changed.event.max_per_buyer) == ("paused", 3)
    more = await client.change_event("tour", pools=[{"id": "a", "capacity": 2}])
    assert more.event.capacity == 7


async def test_what_is_not_there_is_none(client, event):
    assert await client.event("nowhere") is None
    assert await client.seats("nowhere") is None
    assert await client.hold(f"{event}.nobody") is None
    assert await client.get_order(f"{event}.nobody") is None
    assert (await client.release_hold(f"{event}.nobody")).reason == "unknown_hold"


@pytest.mark.parametrize(
    "id", ["", ".", "..", "a/b", "{event}/seats", "a?b", "a#b", "%2e%2e", "ä", "a b", "\n"]
)
async def test_no_id_leads_astray(client, event, id):
    id = id.format(event=event)
    assert await client.event(id) is None
    assert await client.hold(id) is None


async def test_the_log_is_read_page_by_page(client, event):
    for number in range(1, 4):
        await client.place_hold(event, buyer="ann", seats=[f"A-1-{number}"])
    facts, after = [], 0
    while (page := await client.log(event, after=after, limit=2)).facts:
        assert isinstance(page, LogPage)
        facts += page.facts
        after = page.next
    assert [fact.sequence for fact in facts] == [1, 2, 3, 4]
    assert [fact.type for fact in facts] == ["event.created"] + 3 * ["hold.placed"]
    assert facts[1].data["seats"] == ["A-1-1"]
    assert (await client.log("nowhere")).reason == "unknown_event"


async def test_the_system_and_a_gate_that_is_not_there(client):
    system = await client.system()
    assert isinstance(system, System)
    assert system.store.startswith("sqlite:///")
    assert (system.gate, system.policy) == ("none", "authority")
    assert (await client.switch_gate(on=True)).reason == "no_gate"
    assert (await client.reconcile()).reason == "no_gate"


async def test_a_gate_is_switched(tmp_path):
    with serving("memory://", "--gate", "memory://", cwd=tmp_path) as served:
        async with connect(served.url, ADMIN) as client:
            plan = {"id": "e1", "prices": {"a": 1}, "pools": [{"id": "a", "capacity": 1}]}
            await client.create_event(plan)
            assert (await client.reconcile()).found == 0
            assert isinstance(await client.switch_gate(on=False), System)
            assert (await client.event("e1")).gate is False


async def test_a_buyer_with_a_public_key_needs_only_his_client(served, public, event):
    async with connect(served.url, public) as client:
        with pytest.raises(Unauthorized, match="Buyer-Token"):
            await client.place_hold(event, seats=["A-1-1"])
        client.buyer_token = (await client.create_buyer()).token
        hold = (await client.place_hold(event, seats=["A-1-1"])).hold
        # The hold's token is remembered, for the hold and for its order.
        assert (await client.hold(hold.id)).id == hold.id
        assert isinstance(await client.extend_hold(hold.id), Extended)
        assert isinstance(await client.pay_hold(hold.id), Paying)
        order = (await client.create_order(hold.id, method="sandbox:ok")).order
        assert await client.get_order(order.id) == order
        with pytest.raises(Forbidden):
            await client.cancel_order(order.id)

    async with connect(served.url, public, buyer_token=client.buyer_token) as other:
        assert await other.hold(hold.id) is None
        assert (await other.hold(hold.id, token=hold.token)).id == hold.id
        assert await other.get_order(order.id, token=hold.token) == order
        assert (await other.create_order(hold.id)).reason == "unknown_hold"


async def test_a_seller_makes_a_token_for_a_buyer_he_knows(served, seller, public, event):
    async with connect(served.url, seller) as shop:
        made = await shop.create_buyer("u-7")
    async with connect(served.url, public, buyer_token=made.token) as browser:
        assert (await browser.place_hold(event, best=1)).hold.buyer == "u-7"


async def test_a_wrong_key_and_a_weak_one(served, seller):
    async with connect(served.url, "nonsense") as client:
        with pytest.raises(Unauthorized, match="unknown or revoked") as caught:
            await client.events()
        assert (caught.value.status, caught.value.reason) == (401, "unauthorized")
    async with connect(served.url) as client:
        with pytest.raises(Unauthorized, match="send an API key"):
            await client.events()
    async with connect(served.url, seller) as client:
        with pytest.raises(Forbidden, match="role admin"):
            await client.system()


async def test_a_malformed_ask_lists_every_fault(client, event):
    with pytest.raises(Invalid) as caught:
        await client.place_hold(event, buyer=" ann", seats="A-1-1", best=0)
    paths = {fault.path for fault in caught.value.faults}
    assert {"buyer", "seats", "best[0].quantity"} <= paths
    assert isinstance(caught.value, ClientError)
    assert isinstance(caught.value, holdfast.Invalid)
    assert "\n" not in str(caught.value)


async def test_whoever_asks_too_often_is_told_when_to_come_back(served, event):
    slow = served.key("seller", "--rate", "0.01")
    async with connect(served.url, slow) as client:
        await client.events()
        with pytest.raises(RateLimited) as caught:
            await client.events()
        assert caught.value.retry_after > 30


async def test_before_and_after_it_is_open_it_says_how_to_open_it(served):
    client = Client(served.url, ADMIN)
    with pytest.raises(NotOpen, match="use it inside"):
        await client.events()
    async with client:
        await client.events()
    with pytest.raises(NotOpen):
        await client.events()


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("nonsense", {}),
        ("ftp://host", {}),
        ("http://", {}),
        ("http://host:99999", {}),
        ("http://user:secret@host", {}),
        ("http://host/?x=1", {}),
        ("http://host", {"key": "two\nlines"}),
        ("http://host", {"key": "schlüssel"}),
        ("http://host", {"attempts": 0}),
        ("http://host", {"connections": 0}),
        ("http://host", {"attempt_seconds": 0}),
        ("http://host", {"backoff_seconds": -1}),
    ],
)
def test_a_wrong_setting_is_one_line_and_shows_no_secret(url, options):
    with pytest.raises(SettingsError) as caught:
        Client(url, **options)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_fields_of_a_newer_service_are_passed_over():
    wire = (
        b'{"id":"e.1","event":"e","buyer":"b","state":"dreaming","seats":[],"pools":{},"amount":0,'
        b'"currency":"EUR","expires_at":"2026-11-16T12:08:00Z","seconds_left":1,"version":1,"new":7}'
    )
    hold = decoded(wire, Hold)
    assert hold.state == "dreaming"
    assert hold.expires_at == datetime(2026, 11, 16, 12, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"<html>no such page</html>"),
        (404, b'{"reason":"not_found","detail":"there is nothing at /x"}'),
        (500, b'{"reason":"internal","detail":"our fault"}'),
        (302, b""),
        (409, b"[]"),
        (413, b'{"reason":"too_large"}'),
    ],
)
def test_what_is_no_answer_of_holdfast_is_an_error_of_one_line(status, body):
    with pytest.raises(Unexpected) as caught:
        refusal(Reply(status, {}, body))
    assert caught.value.status == status
    assert "\n" not in str(caught.value)


def test_a_body_that_is_no_value_is_an_error():
    with pytest.raises(Unexpected, match="no hold of Holdfast's"):
        decoded(b'{"id": 5}', Hold)


async def test_tokens_are_not_remembered_without_end(client, monkeypatch):
    monkeypatch.setattr("holdfast.client.client.TOKENS_MAX", 3)
    for number in range(5):
        client._remember(f"h{number}", "token")
    assert list(client._tokens) == ["h2", "h3", "h4"]


async def test_the_live_map_follows_a_sale(client, event):
    async with aclosing(client.stream(event)) as frames:
        snapshot = await anext(frames)
        assert isinstance(snapshot, Snapshot)
        assert {seat.state for seat in snapshot.seats} == {"available"}
        assert {pool.id: pool.available for pool in snapshot.pools} == {"floor": 50}
        await client.place_hold(event, buyer="ann", seats=["A-1-1"], pools={"floor": 2})
        changes = await anext(frames)
        assert changes == Changes(
            snapshot.seq + 1, snapshot.seq + 1, [("A-1-1", "held")], {"floor": 48}
        )
    async with aclosing(client.stream(event, since=snapshot.seq)) as frames:
        assert await anext(frames) == changes


async def test_the_live_map_of_nothing_is_an_error(client):
    with pytest.raises(Unexpected, match="no event 'nowhere'"):
        await anext(client.stream("nowhere"))


def test_values_are_frozen():
    no: Any = Refused("taken")
    with pytest.raises(AttributeError):
        no.reason = "sold_out"
