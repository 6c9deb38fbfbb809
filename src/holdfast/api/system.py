"""The deployment itself over HTTP: health, metrics, the gate's switch and its reconciliation."""

import logging
from typing import get_args

import holdfast
from holdfast.api import wire
from holdfast.api.calls import Body, Call, Reply, reply
from holdfast.api.keys import Role
from holdfast.api.problems import Problem
from holdfast.api.routes import ADMIN, ANYBODY, Route
from holdfast.api.service import Service
from holdfast.domain.faults import Faults
from holdfast.domain.model import instant
from holdfast.errors import GateDown, HoldfastError
from holdfast.upkeep.rounds import Round, Rounds, read

log = logging.getLogger("holdfast.api")

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _explain(faults: Faults, raw: object) -> None:
    body = faults.mapping("", raw, wire.SystemChanges.__struct_fields__)
    if body.get("gate") not in get_args(wire.Flags):
        faults.add("gate", "must be on or off", body.get("gate"))


CHANGES = Body(wire.SystemChanges, _explain)


async def healthz(service: Service, call: Call) -> Reply:
    """This process runs. Whether it can sell is what /readyz says."""
    return reply(200, wire.Health(status="ok"))


async def readyz(service: Service, call: Call) -> Reply:
    if service.draining:
        raise Problem(503, "stopping", "this process is about to stop")
    try:
        await service.shop.store.documents("ready", "-")
    except HoldfastError as trouble:
        # Where the store is, is nothing for everybody who asks.
        log.warning("not ready: %s", trouble)
        raise Problem(503, "store_unavailable", "the store cannot be reached") from None
    return reply(200, wire.Health(status="ok"))


async def metrics(service: Service, call: Call) -> Reply:
    if not service.settings.metrics_open:
        caller = await service.callers.identify(call.headers)
        if caller.role is not Role.ADMIN:
            raise Problem(403, "forbidden", "metrics are for admin keys")
    return Reply(200, await service.metrics.export(), None, METRICS_TYPE)


async def see(service: Service, call: Call) -> Reply:
    shop = service.shop
    keeper = shop.keeper
    if keeper is not None:
        # In a quiet hour nobody else would notice that it is down.
        await keeper.probe()
    rounds = await _rounds(service)
    system = wire.System(
        version=holdfast.__version__,
        store=shop.store.url,
        gate=shop.gate.url if shop.gate else "none",
        gate_state=keeper.state if keeper else "none",
        policy=service.settings.policy,
        workers=service.settings.workers,
        broker=service.crew.relay.broker if service.crew.relay else "none",
        lags=service.lags(),
        drift={each.event: each.found for each in rounds.last.mended} if rounds else {},
        reconciled=_shown(rounds.last) if rounds else None,
        mended=_shown(rounds.mended) if rounds and rounds.mended else None,
    )
    return reply(200, system)


async def _rounds(service: Service) -> Rounds | None:
    """Of a store that does not answer, what this process knows: who looks at the system in trouble
    must see the rest of it."""
    reconciler = service.shop.reconciler
    if reconciler is None:
        return None
    try:
        return await read(service.shop.store)
    except HoldfastError:
        return reconciler.known


def _shown(came_to: Round) -> wire.Reconciliation:
    return wire.Reconciliation(
        at=instant(came_to.at_ms),
        took_ms=came_to.took_ms,
        events=came_to.events,
        found=came_to.found,
        mended=[
            wire.MendedGate(
                event=each.event,
                found=each.found,
                missing=each.missing,
                orphans=each.orphans,
                stock=each.stock,
                counters=each.counters,
                broken=each.broken,
                names=each.names,
            )
            for each in came_to.mended
        ],
        failed=came_to.failed,
    )


async def change(service: Service, call: Call) -> Reply:
    asked: wire.SystemChanges = CHANGES.decode(call.body)
    if service.shop.gate is None:
        raise _no_gate()
    await service.shop.switch_gate(on=asked.gate == "on")
    return await see(service, call)


async def reconcile(service: Service, call: Call) -> Reply:
    shop = service.shop
    if shop.reconciler is None or shop.keeper is None:
        raise _no_gate()
    await shop.keeper.probe()
    if shop.keeper.state != "up":
        raise _gate_down(shop.keeper.state)
    try:
        return reply(200, _shown(await shop.reconciler.now()))
    except GateDown as trouble:
        raise _gate_down(str(trouble)) from None


def _no_gate() -> Problem:
    return Problem(409, "no_gate", "this deployment has no gate: start it with --gate")


def _gate_down(why: str) -> Problem:
    detail = f"the gate is passed by: {why}"
    return Problem(503, "gate_unavailable", detail, headers={"Retry-After": "2"})


ROUTES = [
    Route(
        method="GET",
        path="/healthz",
        handle=healthz,
        roles=ANYBODY,
        operation="getHealth",
        summary="Whether this process runs",
        answers={200: wire.Health},
    ),
    Route(
        method="GET",
        path="/readyz",
        handle=readyz,
        roles=ANYBODY,
        operation="getReadiness",
        summary="Whether this process can sell: the store answers, and it is not about to stop",
        answers={200: wire.Health},
        reasons={503: ("store_unavailable", "stopping")},
    ),
    Route(
        method="GET",
        path="/metrics",
        handle=metrics,
        roles=ANYBODY,
        operation="getMetrics",
        summary="Metrics, as Prometheus reads them",
        answers={200: str},
        media="text/plain",
        reasons={401: ("unauthorized",), 403: ("forbidden",)},
    ),
    Route(
        method="GET",
        path="/v1/system",
        handle=see,
        roles=ADMIN,
        operation="getSystem",
        summary="Store, gate, policy, lags, drift, and the last reconciliation of the gate",
        answers={200: wire.System},
    ),
    Route(
        method="PATCH",
        path="/v1/system",
        handle=change,
        roles=ADMIN,
        operation="changeSystem",
        summary="Put the gate before every event, or pass it by",
        body=wire.SystemChanges,
        answers={200: wire.System},
        reasons={409: ("no_gate",), 422: ("invalid",)},
    ),
    Route(
        method="POST",
        path="/v1/system/reconcile",
        handle=reconcile,
        roles=ADMIN,
        operation="reconcileGate",
        summary="Compare the gate with the authority now, mend it, and say what was mended",
        answers={200: wire.Reconciliation},
        reasons={409: ("no_gate",), 503: ("gate_unavailable",)},
    ),
]
