"""Who may call what, and what everybody else hears: every route, with every kind of caller."""

import socket
import subprocess
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import requests

from holdfast.api.app import ROUTES
from holdfast.api.routes import Route
from holdfast.pages.site import Site
from tests.api.conftest import make_event
from tests.api.serving import ADMIN, HOLDFAST, Served

pytestmark = pytest.mark.slow

SHOP = "https://shop.example"

NO_KEY = "401 unauthorized"
NOT_ALLOWED = "403 forbidden"
NO_BUYER = "401 buyer_token"
NO_HOLD = "404 unknown_hold"
NO_ORDER = "404 unknown_order"

CALLERS = (
    *("no key", "unknown key", "revoked key"),
    *("public", "own", "other buyer", "other hold", "seller", "admin"),
)
"""public: without any token. own: with the tokens of the buyer and of the hold. other buyer: with
another buyer's token and this hold's. other hold: with this buyer's token and another hold's."""


def anybody(answer: str) -> dict[str, str]:
    """Without a key; what is wrong with one does not matter."""
    return dict.fromkeys(CALLERS, answer)


def row(*answers: str) -> dict[str, str]:
    """Of public, own, other buyer, other hold, seller, admin; the rest is the same everywhere."""
    return dict(zip(CALLERS, (*[NO_KEY] * 3, *answers), strict=True))


def readers(answer: str) -> dict[str, str]:
    return row(*[answer] * 6)


def sellers(answer: str) -> dict[str, str]:
    return row(*[NOT_ALLOWED] * 4, answer, answer)


def admins(answer: str) -> dict[str, str]:
    return row(*[NOT_ALLOWED] * 5, answer)


def holders(answer: str, no: str = NO_HOLD) -> dict[str, str]:
    return row(no, answer, no, no, answer, answer)


TABLE = {
    "POST /v1/events": admins("201"),
    "GET /v1/events": readers("200"),
    "GET /v1/events/{event}": readers("200"),
    "PATCH /v1/events/{event}": admins("200"),
    "GET /v1/events/{event}/seats": readers("200"),
    "GET /v1/events/{event}/stats": readers("200"),
    "GET /v1/events/{event}/stream": readers("200"),
    "WEBSOCKET /v1/events/{event}/live": readers("101"),
    "GET /v1/events/{event}/log": sellers("200"),
    # The body names the buyer of the column `own`: another one may not hold for him.
    "POST /v1/events/{event}/holds": row(NO_BUYER, "201", NOT_ALLOWED, "201", "201", "201"),
    "GET /v1/holds/{hold}": holders("200"),
    "POST /v1/holds/{hold}/extend": holders("200"),
    "DELETE /v1/holds/{hold}": holders("204"),
    "POST /v1/holds/{hold}/pay": holders("200"),
    "POST /v1/orders": holders("201"),
    "GET /v1/orders": admins("200"),
    "GET /v1/orders/{order}": holders("200", NO_ORDER),
    "POST /v1/orders/{order}/cancel": sellers("200"),
    "POST /v1/orders/{order}/retry": admins("200"),
    "POST /v1/payments/{provider}/webhook": anybody("400 forged"),
    "POST /v1/buyers": readers("201"),
    "POST /v1/webhooks": admins("201"),
    "GET /v1/webhooks": admins("200"),
    "DELETE /v1/webhooks": admins("204"),
    "GET /v1/webhooks/{webhook}": admins("200"),
    "DELETE /v1/webhooks/{webhook}": admins("204"),
    "POST /v1/webhooks/{webhook}/rotate": admins("200"),
    "POST /v1/webhooks/{webhook}/enable": admins("200"),
    "POST /v1/webhooks/{webhook}/redeliver": admins("200"),
    # Where the setting `lab` is not open.
    "POST /v1/lab/runs": admins("202"),
    "GET /v1/lab/runs": admins("200"),
    "GET /v1/lab/runs/{run}": admins("200"),
    "GET /v1/system": admins("200"),
    "PATCH /v1/system": admins("409 no_gate"),
    "POST /v1/system/reconcile": admins("409 no_gate"),
    "GET /healthz": anybody("200"),
    "GET /readyz": anybody("200"),
    "GET /metrics": anybody("200"),
    "GET /openapi.json": anybody("200"),
    "GET /docs": anybody("200"),
    # Without a build there is nothing to show, and / leads to /docs.
    "GET /": anybody("200" if Site().built else "302"),
    **dict.fromkeys(
        ("GET /e/{event}", "GET /lab", "GET /ops", "GET /design"),
        anybody("200" if Site().built else "404 not_found"),
    ),
    "GET /assets/{name}": anybody("404 not_found"),
    "GET /pages.json": anybody("200"),
}

BY_NAME: dict[str, Route] = {route.name: route for route in ROUTES}


def test_the_table_knows_every_route():
    assert sorted(BY_NAME.keys() - TABLE.keys()) == []


def test_the_page_about_keys_says_the_same():
    page = (Path(__file__).parents[2] / "docs" / "keys.md").read_text(encoding="utf-8")
    shown = {}
    for line in page.splitlines():
        call, *answers = [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        if call in TABLE:
            shown[call] = dict(zip(CALLERS, (*[NO_KEY] * 3, *answers), strict=True))
    opened = {name for name, route in BY_NAME.items() if not route.roles}
    assert shown == {name: TABLE[name] for name in BY_NAME.keys() - opened}
    for name in opened:
        assert f"`{name.removeprefix('GET ')}`" in page


class Buyer(NamedTuple):
    name: str
    token: str


class World:
    """A shop with two buyers, and keys of every kind."""

    def __init__(self, served: Served, seller: str, public: str) -> None:
        self.served = served
        self.seller = seller
        self.public = public
        self.revoked = served.key("public")
        # Known to the server, before it is revoked.
        assert served.call("GET", "/v1/events", key=self.revoked).status_code == 200
        self.event = make_event(served, pools=[{"id": "floor", "capacity": 100_000}])
        self._numbers = count(1)
        self._webhook = ""

    def buyer(self) -> Buyer:
        name = f"buyer-{next(self._numbers)}"
        made = self.served.call("POST", "/v1/buyers", {"buyer": name}, key=self.seller)
        return Buyer(name, made.json()["token"])

    def hold(self, buyer: Buyer) -> dict[str, Any]:
        """Placed by himself."""
        answer = self.served.call(
            "POST",
            f"/v1/events/{self.event}/holds",
            {"pools": {"floor": 1}},
            key=self.public,
            headers={"Buyer-Token": buyer.token},
        )
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def order(self, hold: dict[str, Any]) -> dict[str, Any]:
        answer = self.served.call(
            "POST", "/v1/orders", bought(hold), headers={"Idempotency-Key": hold["id"]}
        )
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def webhook(self) -> str:
        """There may be a hundred: the one before is gone."""
        if self._webhook:
            self.served.call("DELETE", f"/v1/webhooks/{self._webhook}")
        made = self.served.call("POST", "/v1/webhooks", SUBSCRIPTION)
        self._webhook = made.json()["id"]
        return self._webhook

    def run(self) -> str:
        """Of the lab; one is enough."""
        listed = self.served.call("GET", "/v1/lab/runs").json()["runs"]
        if not listed:
            listed = [self.served.call("POST", "/v1/lab/runs", SMALL_RUN).json()]
        return str(listed[0]["id"])

    def new_event(self) -> dict[str, Any]:
        pools = [{"id": "floor", "capacity": 1}]
        return {"id": f"role-{next(self._numbers)}", "prices": {"floor": 1}, "pools": pools}


def bought(hold: dict[str, Any]) -> dict[str, Any]:
    return {"hold": hold["id"], "payment": {"method": "sandbox:ok"}}


@pytest.fixture(scope="module")
def world(served, seller, public) -> World:
    world = World(served, seller, public)
    revoke(served, world.revoked)
    return world


def revoke(served: Served, key: str) -> None:
    """Ends it, and waits until the service has heard of it: a second at most."""
    subprocess.run(
        [*HOLDFAST, "keys", "revoke", key], env=served.environment, check=True, capture_output=True
    )
    over = time.monotonic() + 1.0
    while served.call("GET", "/v1/events", key=key).status_code != 401:
        assert time.monotonic() < over, "a revoked key was still good after a second"


# Nobody is there: a name that is reserved for such examples.
SUBSCRIPTION = {"url": "https://shop.invalid/hook", "events": ["event.created"]}

SMALL_RUN = {"buyers": 1, "seats": 1}

BODIES: dict[str, Callable[[World, Buyer, dict[str, Any]], dict[str, Any]]] = {
    "POST /v1/events": lambda world, buyer, hold: world.new_event(),
    "PATCH /v1/events/{event}": lambda world, buyer, hold: {"hold_seconds": 480},
    "POST /v1/events/{event}/holds": lambda world, buyer, hold: {
        "buyer": buyer.name,
        "pools": {"floor": 1},
    },
    "POST /v1/orders": lambda world, buyer, hold: bought(hold),
    "POST /v1/webhooks": lambda world, buyer, hold: SUBSCRIPTION,
    "POST /v1/webhooks/{webhook}/redeliver": lambda world, buyer, hold: {
        "event": world.event,
        "sequence": 1,
    },
    "POST /v1/lab/runs": lambda world, buyer, hold: SMALL_RUN,
    "PATCH /v1/system": lambda world, buyer, hold: {"gate": "on"},
}


def headers_of(caller: str, world: World, buyer: Buyer, hold: dict[str, Any]) -> dict[str, str]:
    keys = {
        "unknown key": "hf_admin_not-a-key-of-ours",
        "revoked key": world.revoked,
        "seller": world.seller,
        "admin": ADMIN,
    }
    sent = {"Idempotency-Key": f"{caller} {hold['id']}"}
    if caller != "no key":
        sent["Authorization"] = f"Bearer {keys.get(caller, world.public)}"
    if caller in ("own", "other hold"):
        sent["Buyer-Token"] = buyer.token
    if caller in ("own", "other buyer"):
        sent["Hold-Token"] = hold["token"]
    if caller == "other buyer":
        sent["Buyer-Token"] = world.buyer().token
    if caller == "other hold":
        sent["Hold-Token"] = world.hold(buyer)["token"]
    return sent


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("name", [name for name in TABLE if name in BY_NAME])
def test_every_caller_hears_what_the_table_says(world, name, caller):
    route = BY_NAME[name]
    buyer = world.buyer()
    hold = world.hold(buyer)
    order = world.order(hold)["id"] if "{order}" in route.path else ""
    webhook = world.webhook() if "webhooks" in route.path else ""
    path = route.path.format(
        event=world.event,
        hold=hold["id"],
        order=order,
        webhook=webhook,
        provider="sandbox",
        name="nothing.js",
        run=world.run() if "{run}" in route.path else "",
    )
    path += f"?id={webhook}" if name == "DELETE /v1/webhooks" else ""
    body = BODIES[name](world, buyer, hold) if name in BODIES else None
    headers = headers_of(caller, world, buyer, hold)
    if route.method == "WEBSOCKET":
        assert told_live(world.served, path, headers) == TABLE[name][caller]
        return
    if route.stream:
        with requests.get(world.served.url + path, headers=headers, stream=True, timeout=5) as got:
            answer = got
            assert got.status_code < 400 or got.content  # the rest would never end
    else:
        answer = world.served.call(route.method, path, body, key=None, headers=headers)
    assert said(answer) == TABLE[name][caller]
    assert ("WWW-Authenticate" in answer.headers) == (answer.status_code == 401)
    assert "Set-Cookie" not in answer.headers


def told_live(served: Served, path: str, headers: dict[str, str]) -> str:
    """Of a WebSocket: 101 if it speaks, else what it is closed with, as any other call has it."""
    address = urlsplit(served.url)
    lines = [f"GET {path} HTTP/1.1", f"Host: {address.netloc}"]
    lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    with socket.create_connection((address.hostname, address.port), 5) as line:
        line.sendall("\r\n".join([*lines, "", ""]).encode())
        raw = b""
        while len(frame := raw.partition(b"\r\n\r\n")[2]) < 2 or len(frame) < 2 + frame[1] % 126:
            more = line.recv(4096)
            assert more, raw
            raw += more
    assert raw.startswith(b"HTTP/1.1 101 ")
    if frame[0] == 0x81:  # a whole text
        return "101"
    assert frame[0] == 0x88  # the end, with a code and a reason
    code, reason = int.from_bytes(frame[2:4], "big"), frame[4:].decode()
    return f"{code - 4000} {reason.partition(':')[0]}"


def said(answer: requests.Response) -> str:
    if answer.status_code < 400:
        return str(answer.status_code)
    assert answer.headers["Content-Type"] == "application/problem+json"
    return f"{answer.status_code} {answer.json()['reason']}"


# What may not be known


ON_HOLDS = [
    ("GET", "/v1/holds/{id}"),
    ("POST", "/v1/holds/{id}/extend"),
    ("POST", "/v1/holds/{id}/pay"),
    ("DELETE", "/v1/holds/{id}"),
    ("POST", "/v1/orders"),
    ("GET", "/v1/orders/{id}"),
]


@pytest.mark.parametrize("state", ["held", "released", "confirmed"])
@pytest.mark.parametrize(("method", "path"), ON_HOLDS)
@pytest.mark.parametrize("tokens", ["none", "wrong", "another hold's", "another buyer's"])
def test_what_is_not_yours_looks_exactly_as_if_it_were_not_there(
    world, method, path, state, tokens
):
    ann = world.buyer()
    hold = world.hold(ann)
    if state == "released":
        world.served.call("DELETE", f"/v1/holds/{hold['id']}")
    there = world.order(hold)["id"] if state == "confirmed" and "orders/" in path else hold["id"]
    if state == "confirmed" and "orders/" not in path:
        world.order(hold)
    missing = there[:-4] + "ZZZZ"
    sent = {
        "none": {},
        "wrong": {"Hold-Token": "A" * 24},
        "another hold's": {"Hold-Token": world.hold(ann)["token"], "Buyer-Token": ann.token},
        "another buyer's": {"Hold-Token": hold["token"], "Buyer-Token": world.buyer().token},
    }[tokens]

    def ask(id: str) -> tuple[int, bytes, dict[str, str]]:
        body = bought({"id": id}) if path == "/v1/orders" else None
        answer = world.served.call(
            method,
            path.format(id=id),
            body,
            key=world.public,
            headers={"Idempotency-Key": f"probe {id}", **sent},
        )
        told = {
            name: value
            for name, value in answer.headers.items()
            if name.lower() not in ("x-request-id", "date", "ratelimit", "ratelimit-policy")
        }
        return answer.status_code, answer.content.replace(id.encode(), b"ID"), told

    first = ask(there)
    assert first[0] == 404
    assert first == ask(missing)


# Keys


def test_a_public_key_may_be_in_the_address_of_a_get(world):
    ann = world.buyer()
    hold = world.hold(ann)
    for path in ("/v1/events", f"/v1/events/{world.event}", f"/v1/events/{world.event}/seats"):
        answer = world.served.call("GET", f"{path}?key={world.public}", key=None)
        assert answer.status_code == 200, path
    path = f"/v1/holds/{hold['id']}?key={world.public}"
    tokens = {"Hold-Token": hold["token"]}
    assert world.served.call("GET", path, key=None).status_code == 404
    assert world.served.call("GET", path, key=None, headers=tokens).status_code == 200
    tokens["Buyer-Token"] = world.buyer().token
    assert world.served.call("GET", path, key=None, headers=tokens).status_code == 404
    tokens["Buyer-Token"] = "forged"
    answer = world.served.call("GET", path, key=None, headers=tokens)
    assert (answer.status_code, answer.json()["reason"]) == (401, "buyer_token")


@pytest.mark.parametrize("role", ["seller", "admin"])
def test_no_other_key_may_be_in_an_address(world, role):
    key = {"seller": world.seller, "admin": ADMIN}[role]
    for path in ("/v1/events", f"/v1/events/{world.event}/log", "/v1/system"):
        answer = world.served.call("GET", f"{path}?key={key}", key=None)
        assert (answer.status_code, answer.json()["reason"]) == (401, "unauthorized")
        assert "WWW-Authenticate" in answer.headers


def test_no_key_may_be_in_the_address_of_anything_but_a_get(world):
    ann = world.buyer()
    hold = world.hold(ann)
    headers = {"Buyer-Token": ann.token, "Hold-Token": hold["token"], "Idempotency-Key": "k"}
    for method, path, body in (
        ("POST", f"/v1/events/{world.event}/holds", {"pools": {"floor": 1}}),
        ("POST", f"/v1/holds/{hold['id']}/extend", None),
        ("DELETE", f"/v1/holds/{hold['id']}", None),
        ("POST", "/v1/orders", bought(hold)),
        ("POST", "/v1/buyers", None),
    ):
        query = f"{path}?key={world.public}"
        answer = world.served.call(method, query, body, key=None, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (401, "unauthorized"), path


def test_a_key_in_the_address_never_adds_to_the_one_in_the_header(world):
    path = f"/v1/events/{world.event}/log?key={ADMIN}"
    answer = world.served.call("GET", path, key=world.public)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer ", "Basic {key}", "{key}", "Bearer {key} x", "{key} "]
)
def test_only_bearer_and_the_key_is_a_key(world, authorization):
    headers = {"Authorization": authorization.format(key=ADMIN)}
    answer = world.served.call("GET", "/v1/events", key=None, headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (401, "unauthorized")


def test_bearer_may_be_written_in_any_case(world):
    headers = {"Authorization": f"bEARER  {ADMIN}"}
    assert world.served.call("GET", "/v1/events", key=None, headers=headers).status_code == 200


# Buyers


def place(world: World, token: str | None, body: dict[str, Any]) -> requests.Response:
    headers = {} if token is None else {"Buyer-Token": token}
    return world.served.call(
        "POST", f"/v1/events/{world.event}/holds", body, key=world.public, headers=headers
    )


def test_an_anonymous_buyer_gets_a_name_and_a_token_that_says_it(world):
    made = world.served.call("POST", "/v1/buyers", key=world.public)
    other = world.served.call("POST", "/v1/buyers", {}, key=world.public)
    assert made.status_code == other.status_code == 201
    assert made.json()["buyer"] != other.json()["buyer"]
    hold = place(world, made.json()["token"], {"pools": {"floor": 1}})
    assert hold.json()["buyer"] == made.json()["buyer"]


def test_a_seller_names_a_buyer_and_the_public_may_not(world):
    body = {"buyer": "u-123 Zoë"}
    named = world.served.call("POST", "/v1/buyers", body, key=world.seller)
    assert named.json()["buyer"] == body["buyer"]
    again = world.served.call("POST", "/v1/buyers", body, key=world.seller)
    assert named.content == again.content
    hold = place(world, named.json()["token"], {"buyer": body["buyer"], "pools": {"floor": 1}})
    assert hold.json()["buyer"] == body["buyer"]
    no = world.served.call("POST", "/v1/buyers", body, key=world.public)
    assert (no.status_code, no.json()["reason"]) == (403, "forbidden")


def test_a_token_that_is_not_ours_is_nobody(world):
    ann, bob = world.buyer(), world.buyer()
    hold = world.hold(ann)
    swapped = bob.token[:24] + ann.token[24:]
    flipped = ("A" if ann.token[0] != "A" else "B") + ann.token[1:]
    for token in (
        *(swapped, flipped, hold["token"], hold["token"] + ann.token[24:]),
        *(ann.token[:24], ann.token[:-1], ann.token + "A", "x", "A" * 5000, "é", "=" * 30),
    ):
        sent = {"Buyer-Token": token.encode().decode("latin-1")}
        for method, path in (("POST", f"/v1/events/{world.event}/holds"), ("GET", "/v1/events")):
            answer = world.served.call(
                method, path, {"pools": {"floor": 1}}, key=world.public, headers=sent
            )
            told = (answer.status_code, answer.json()["reason"])
            assert told == (401, "buyer_token"), token
    assert place(world, "", {"pools": {"floor": 1}}).status_code == 401


def test_a_buyers_token_opens_no_hold(world):
    ann = world.buyer()
    hold = world.hold(ann)
    for token in (ann.token, ann.token[:24], ann.token[24:]):
        headers = {"Hold-Token": token, "Buyer-Token": ann.token}
        path = f"/v1/holds/{hold['id']}"
        answer = world.served.call("GET", path, key=world.public, headers=headers)
        assert answer.status_code == 404


def test_a_seller_needs_no_tokens_and_heeds_none(world):
    headers = {"Buyer-Token": "forged", "Hold-Token": "forged"}
    hold = world.hold(world.buyer())
    path = f"/v1/holds/{hold['id']}"
    assert world.served.call("GET", path, key=world.seller, headers=headers).status_code == 200


def test_the_buyer_in_the_body_is_the_one_of_the_token_or_absent(world):
    ann, bob = world.buyer(), world.buyer()
    ask = {"pools": {"floor": 1}}
    assert place(world, ann.token, {"buyer": ann.name, **ask}).status_code == 201
    assert place(world, ann.token, {"buyer": None, **ask}).status_code == 201
    answer = place(world, ann.token, {"buyer": bob.name, **ask})
    assert (answer.status_code, answer.json()["reason"]) == (403, "forbidden")
    answer = world.served.call("POST", f"/v1/events/{world.event}/holds", ask, key=world.seller)
    assert answer.status_code == 422
    assert [fault["path"] for fault in answer.json()["faults"]] == ["buyer"]


def test_the_public_cannot_name_channels(world):
    event = make_event(
        world.served,
        seats=[{"id": "BOX-1", "number": 1, "tier": "gold", "channel": "presale"}],
    )
    path = f"/v1/events/{event}/holds"
    ann = world.buyer()
    ask = {"buyer": ann.name, "seats": ["BOX-1"]}
    tokens = {"Buyer-Token": ann.token}
    named = {**ask, "channels": ["presale"]}
    answer = world.served.call("POST", path, named, key=world.public, headers=tokens)
    assert (answer.status_code, answer.json()["reason"]) == (403, "forbidden")
    # To everybody who does not name it, it looks sold.
    for key in (world.public, world.seller):
        answer = world.served.call("POST", path, ask, key=key, headers=tokens)
        assert (answer.status_code, answer.json()["seats"]) == (409, ["BOX-1"])
    seats = world.served.call("GET", f"/v1/events/{event}/seats", key=world.seller).json()["seats"]
    assert [seat["state"] for seat in seats if seat["id"] == "BOX-1"] == ["sold"]
    assert world.served.call("POST", path, named, key=world.seller).status_code == 201


def test_a_public_callers_own_id_is_his_alone(world):
    ann, bob = world.buyer(), world.buyer()
    ask = {"id": "basket", "pools": {"floor": 1}}
    anns, bobs = place(world, ann.token, ask), place(world, bob.token, ask)
    assert anns.status_code == bobs.status_code == 201
    assert anns.json()["id"] != bobs.json()["id"]
    assert (anns.json()["buyer"], bobs.json()["buyer"]) == (ann.name, bob.name)
    again = place(world, ann.token, ask)
    assert again.content == anns.content
    other = place(world, ann.token, {**ask, "pools": {"floor": 2}})
    assert (other.status_code, other.json()["reason"]) == (422, "idempotency_mismatch")
    longest = {"id": "x" * 64, "pools": {"floor": 1}}
    assert place(world, ann.token, longest).status_code == 201
    assert place(world, bob.token, longest).json()["buyer"] == bob.name


def test_a_public_buyer_may_have_ten_units_where_the_event_says_nothing(world):
    ann = world.buyer()
    no = place(world, ann.token, {"pools": {"floor": 11}})
    assert (no.status_code, no.json()["reason"], no.json()["cap"]) == (409, "buyer_cap", 10)
    assert place(world, ann.token, {"pools": {"floor": 10}}).status_code == 201
    assert place(world, ann.token, {"pools": {"floor": 1}}).json()["reason"] == "buyer_cap"
    # A seller is not limited so.
    path = f"/v1/events/{world.event}/holds"
    body = {"buyer": ann.name, "pools": {"floor": 20}}
    assert world.served.call("POST", path, body, key=world.seller).status_code == 201


def test_a_cap_of_the_event_counts_for_the_public_too(world):
    event = make_event(world.served, max_per_buyer=12)
    ann = world.buyer()
    path, tokens = f"/v1/events/{event}/holds", {"Buyer-Token": ann.token}

    def ask(units: int) -> Any:
        body = {"pools": {"floor": units}}
        return world.served.call("POST", path, body, key=world.public, headers=tokens)

    assert ask(13).json()["cap"] == 12
    assert ask(12).status_code == 201


# Browsers


@pytest.fixture(scope="module")
def shop_key(served: Served) -> str:
    return served.key("public", "--origin", SHOP, "--origin", "http://localhost:3000")


def test_an_origin_listed_on_the_key_may_read_the_answer(world, shop_key):
    for origin in (SHOP, "http://localhost:3000"):
        for path, status in (("/v1/events", 200), (f"/v1/holds/{world.event}.x", 404)):
            headers = {"Origin": origin}
            answer = world.served.call("GET", path, key=shop_key, headers=headers)
            assert answer.status_code == status
            assert answer.headers["Access-Control-Allow-Origin"] == origin
            assert "Origin" in answer.headers["Vary"]
            assert "ETag" in answer.headers["Access-Control-Expose-Headers"]
            assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", f"{SHOP}.evil.example", f"{SHOP}:8443", "*", ""]
)
def test_another_origin_may_not(world, shop_key, origin):
    headers = {"Origin": origin}
    answer = world.served.call("GET", "/v1/events", key=shop_key, headers=headers)
    assert "Access-Control-Allow-Origin" not in answer.headers
    # Nor may a listed one with a key that does not list it.
    answer = world.served.call("GET", "/v1/events", key=world.public, headers={"Origin": SHOP})
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_page_can_read_why_its_token_was_refused(world, shop_key):
    headers = {"Origin": SHOP, "Buyer-Token": "forged"}
    answer = world.served.call("GET", "/v1/events", key=shop_key, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["Access-Control-Allow-Origin"] == SHOP


def test_a_seat_map_varies_by_origin_and_by_encoding(world, shop_key):
    path = f"/v1/events/{world.event}/seats"
    answer = world.served.call("GET", path, key=shop_key, headers={"Origin": SHOP})
    assert answer.headers["Vary"] == "Origin, Accept-Encoding"


def test_a_preflight_is_answered_for_origins_that_some_key_lists(world, shop_key):
    path = f"/v1/events/{world.event}/holds"
    asked = {"Origin": SHOP, "Access-Control-Request-Method": "POST"}
    # Known once a call was made with the key.
    world.served.call("GET", "/v1/events", key=shop_key)
    answer = world.served.call("OPTIONS", path, key=None, headers=asked)
    assert answer.status_code == 204
    assert answer.headers["Access-Control-Allow-Origin"] == SHOP
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    allowed = answer.headers["Access-Control-Allow-Headers"]
    for name in ("Authorization", "Buyer-Token", "Hold-Token", "Idempotency-Key", "Content-Type"):
        assert name in allowed
    asked["Origin"] = "https://evil.example"
    answer = world.served.call("OPTIONS", path, key=None, headers=asked)
    assert answer.status_code == 204
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
