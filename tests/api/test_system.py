"""The deployment over HTTP: what it is, the switch of its gate, and the gate's reconciliation."""

from typing import Any

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.api.callers import Caller
from holdfast.api.calls import Call, Reply
from holdfast.api.keys import Key, Role
from holdfast.api.service import Service
from holdfast.api.system import reconcile, see
from holdfast.domain.gating import Mark, Owned
from holdfast.errors import StoreUnavailable
from holdfast.gates.memory import MemoryGate
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from tests.api.conftest import make_event
from tests.api.serving import serving

GATED = {"gate": "memory://", "policy": "two-layer"}
POOL = {"id": "floor", "capacity": 5}


@pytest.mark.slow
def test_without_a_gate_there_is_nothing_to_reconcile(served):
    no = served.call("POST", "/v1/system/reconcile")
    assert (no.status_code, no.json()["reason"]) == (409, "no_gate")
    system = served.call("GET", "/v1/system").json()
    assert (system["reconciled"], system["mended"], system["drift"]) == (None, None, {})


@pytest.mark.slow
def test_a_gate_is_reconciled_when_somebody_asks(tmp_path):
    with serving("memory://", cwd=tmp_path, reconcile_seconds=3600, **GATED) as served:
        event = make_event(served)
        done = served.call("POST", "/v1/system/reconcile")
        assert done.status_code == 200
        assert (done.json()["events"], done.json()["found"]) == (1, 0)
        system = served.call("GET", "/v1/system").json()
        assert (system["reconciled"], system["gate_state"]) == (done.json(), "up")
        # Passed by, it is nothing that could differ.
        assert served.call("PATCH", "/v1/system", {"gate": "off"}).status_code == 200
        assert served.call("GET", f"/v1/events/{event}").json()["gate"] is False
        assert served.call("POST", "/v1/system/reconcile").json()["events"] == 0


@pytest.mark.slow
def test_a_gate_that_is_away_cannot_be_reconciled(tmp_path):
    gate = {"gate": "redis://127.0.0.1:1/0", "policy": "two-layer"}
    with serving("memory://", cwd=tmp_path, **gate) as served:
        no = served.call("POST", "/v1/system/reconcile")
        assert (no.status_code, no.json()["reason"]) == (503, "gate_unavailable")
        assert no.headers["Retry-After"] == "2"
        assert served.call("GET", "/v1/system").json()["gate_state"] != "up"


def nobody() -> Call:
    """Neither handler asks who calls: the route does."""
    caller = Caller(Key("k1", Role.ADMIN, ""))
    return Call(caller, {}, {}, b"", "", "")


def body(answer: Reply) -> dict[str, Any]:
    assert answer.status == 200
    found: dict[str, Any] = msgspec.json.decode(answer.body)
    return found


async def test_it_tells_what_was_mended_also_when_the_store_is_away(monkeypatch):
    settings = Settings(store="memory://", policy="two-layer", reconcile_seconds=3600)
    gate = MemoryGate()
    shop = Holdfast(MemoryStore(), settings, gate=gate, upkeep=False)
    async with Service(shop) as service:
        await shop.create_event({"id": "e1", "prices": {"floor": 1}, "pools": [POOL]})
        version = (await gate.snapshot("e1")).version
        await gate.run("e1", version, [Mark(Owned(id="e1.ghost", buyer="ghost"))])
        found = body(await reconcile(service, nobody()))
        assert found["mended"][0]["names"] == ["e1.ghost"]
        assert (found["mended"][0]["orphans"], found["found"]) == (1, 1)
        again = body(await reconcile(service, nobody()))
        system = body(await see(service, nobody()))
        assert (system["reconciled"], system["mended"], system["drift"]) == (again, found, {})

        async def away(*_: object) -> None:
            raise StoreUnavailable("away")

        monkeypatch.setattr(shop.store, "documents", away)
        assert body(await see(service, nobody()))["mended"] == found
