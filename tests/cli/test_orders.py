"""holdfast orders: what needs a person is listed, shown, tried again and taken back."""

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Holdfast, Placed
from holdfast.checkout.payments.sandbox import SandboxProvider
from holdfast.checkout.till import make_till
from holdfast.cli import main
from holdfast.domain.model import Order
from holdfast.errors import PaymentUnavailable

STORE = ("--store", "sqlite:///shop.db")
EVENT = {
    "id": "gala",
    "prices": {"gold": 9000, "floor": 4500},
    "sections": [{"id": "A", "tier": "gold", "rows": 1, "seats_per_row": 4}],
    "pools": [{"id": "floor", "capacity": 10}],
}
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path, monkeypatch, capfd) -> Run:
    """A command line run in this process, where the sandbox takes payments."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_PAYMENTS", "sandbox")

    def call(*args: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(args)
        return code, *capfd.readouterr()

    return call


async def bought(method: str = "sandbox:ok") -> Order:
    async with Holdfast.open("sqlite:///shop.db", upkeep=False) as shop:
        await shop.create_event(EVENT)
        placed = await shop.place_hold("gala", buyer="ann", best=2, pools={"floor": 3})
        assert isinstance(placed, Placed)
        async with make_till(shop, upkeep=False) as till:
            purchase = await till.buy(placed.hold.id, method)
    assert purchase.order is not None
    return purchase.order


@pytest.fixture
def order(run) -> str:
    """Two seats and three of the floor, paid."""
    return asyncio.run(bought()).id


@pytest.fixture
def stuck(run) -> str:
    """Cancelled, and the provider refuses to give the money back."""
    id = asyncio.run(bought("sandbox:refund-refused")).id
    code, _, err = run("orders", "cancel", id, *STORE)
    assert (code, err.count("\n")) == (1, 1)
    assert "needs a person" in err
    return id


def shown(run: Run, *args: str, code: int = 0) -> Any:
    got, out, _ = run("orders", *args, "--json", *STORE)
    assert got == code
    return json.loads(out)


COMMANDS = ("needing-a-person", "show", "retry", "cancel")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(run, command):
    code, out, err = run("orders", command, "--help")
    assert (code, err) == (0, "")
    assert f"Example: holdfast orders {command}" in " ".join(out.split())


def test_the_sandbox_is_a_command(run):
    code, out, _ = run("sandbox", "--help")
    assert (code, "Example: holdfast sandbox" in out) == (0, True)


def test_an_order_is_shown_as_the_api_shows_it(run, order):
    expected = {"id": order, "state": "confirmed", "pools": {"floor": 3}, "amount": 31_500}
    assert shown(run, "show", order).items() >= {**expected, "settlement": "in_time"}.items()
    code, out, _ = run("orders", "show", order, *STORE)
    assert code == 0
    for text in (order, "floor x 3", "315.00 EUR", "captured", "in time"):
        assert text in out


def test_no_order_needs_a_person_unless_one_does(run, order):
    assert run("orders", "needing-a-person", *STORE) == (0, "no order needs a person\n", "")
    assert shown(run, "needing-a-person") == []


def test_an_order_that_needs_a_person_is_listed_with_the_reason(run, stuck):
    (listed,) = shown(run, "needing-a-person")
    assert (listed["id"], listed["state"]) == (stuck, "cancelled")
    assert "refund" in listed["trouble"]
    assert listed == shown(run, "show", stuck)
    code, out, _ = run("orders", "needing-a-person", *STORE)
    assert code == 0
    assert stuck in out.splitlines()[1]
    assert listed["trouble"] in out


def test_what_still_fails_when_it_is_tried_again_needs_a_person_still(run, stuck):
    code, out, err = run("orders", "retry", stuck, *STORE)
    assert code == 1
    assert "to give back" in out
    assert err.startswith(f"holdfast: the order '{stuck}' needs a person: ")
    assert shown(run, "retry", stuck, code=1)["trouble"]


def test_an_order_is_finished_when_the_provider_is_back(run, monkeypatch):
    async def down(provider, charge):
        raise PaymentUnavailable("no answer")

    with monkeypatch.context() as outage:
        outage.setattr(SandboxProvider, "capture", down)
        left = asyncio.run(bought())
    assert left.checkout.payment == "authorized"
    assert shown(run, "retry", left.id)["payment"]["state"] == "captured"
    code, out, err = run("orders", "retry", left.id, *STORE)
    assert (code, out) == (1, "")
    assert "there is nothing to do" in err


def test_a_sale_is_taken_back_whole_and_again_changes_nothing(run, order):
    for _ in range(2):
        back = shown(run, "cancel", order)
        assert (back["state"], back["refunded"]) == ("cancelled", 31_500)
        assert back["payment"]["state"] == "refunded"


def test_a_part_of_a_sale_is_taken_back(run, order):
    first, second = shown(run, "show", order)["seats"]
    left = shown(run, "cancel", order, "--seat", second, "--pool", "floor=2")
    assert (left["state"], left["seats"], left["pools"]) == ("confirmed", [first], {"floor": 1})
    assert (left["amount"], left["refunded"]) == (13_500, 18_000)
    again = shown(run, "cancel", order, "--seat", second)
    assert (again["seats"], again["refunded"]) == ([first], 18_000)
    code, out, _ = run("orders", "cancel", order, "--pool", "floor=1", *STORE)
    assert code == 0
    assert "225.00 EUR" in out


def test_a_refusal_is_one_line_and_exit_code_1(run, order):
    refused = {
        ("show", "gala.nobody"): "there is no order 'gala.nobody'",
        ("show", "x"): "there is no order 'x'",
        ("retry", "gala.nobody"): "there is no order",
        ("cancel", "nowhere.x"): "there is no order",
        ("cancel", order, "--seat", "Z-1-1"): "Z-1-1",
        ("cancel", order, "--pool", "floor=4"): "only 3 left: floor",
    }
    for command, says in refused.items():
        code, out, err = run("orders", *command, *STORE)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert err.startswith("holdfast: ")
        assert says in err


WRONG = {
    "no order": (["show"], "ID"),
    "no number": (["cancel", "gala.x", "--pool", "floor"], "write it as floor=2"),
    "none of it": (["cancel", "gala.x", "--pool", "floor=0"], "write it as floor=2"),
    "no pool": (["cancel", "gala.x", "--pool", "=2"], "write it as floor=2"),
    "endless": (["cancel", "gala.x", "--pool", f"floor={'9' * 5000}"], "write it as floor=2"),
    "twice": (["cancel", "gala.x", "--pool", "a=1", "--pool", "a=1"], "named twice"),
    "no such store": (["needing-a-person", "--store", "ftp://x"], "sqlite:///"),
}


@pytest.mark.parametrize(("args", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_value_is_one_line_and_exit_code_2(run, args, says):
    code, out, err = run("orders", *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


@pytest.mark.parametrize("payments", ["none", "stripe", "cash"])
@pytest.mark.parametrize("command", ["retry", "cancel"])
def test_another_provider_than_the_orders_own_is_never_asked(
    run, order, monkeypatch, command, payments
):
    monkeypatch.setenv("HOLDFAST_PAYMENTS", payments)
    monkeypatch.setenv("HOLDFAST_STRIPE_KEY", "sk_test_x")
    monkeypatch.setenv("HOLDFAST_STRIPE_WEBHOOK_SECRET", "whsec_x")
    code, out, err = run("orders", command, order, *STORE)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "payments" in err
    assert shown(run, "show", order)["state"] == "confirmed"


def test_what_a_person_has_seen_and_nothing_is_left_to_do_for_is_closed(run):
    """A capture that failed for good: its units are back, and its money was never taken."""
    lost = asyncio.run(bought("sandbox:capture-declined"))
    assert lost.trouble
    assert "trouble" not in shown(run, "retry", lost.id)
    assert shown(run, "needing-a-person") == []
