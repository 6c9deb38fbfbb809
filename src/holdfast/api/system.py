"""The deployment itself over HTTP: health, metrics, the document, and the gate's switch."""

import holdfast
from holdfast.api import wire
from holdfast.api.calls import Body, Call, Reply, reply
from holdfast.api.keys import Role
from holdfast.api.problems import Problem
from holdfast.api.routes import ADMIN, ANYBODY, Route
from holdfast.api.service import Service
from holdfast.errors import HoldfastError

CHANGES = Body(wire.SystemChanges)
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def healthz(service: Service, call: Call) -> Reply:
    """This process runs. Whether it can sell is what /readyz says."""
    return reply(200, wire.Health(status="ok"))


async def readyz(service: Service, call: Call) -> Reply:
    if service.draining:
        raise Problem(503, "stopping", "this process is about to stop")
    try:
        await service.shop.store.documents("ready", "-")
    except HoldfastError as trouble:
        raise Problem(503, "store_unavailable", str(trouble)) from None
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
    mended = shop.reconciler.last if shop.reconciler else {}
    system = wire.System(
        version=holdfast.__version__,
        store=shop.store.url,
        gate=shop.gate.url if shop.gate else "none",
        gate_state=keeper.state if keeper else "none",
        policy=service.settings.policy,
        workers=service.settings.workers,
        broker=service.crew.relay.broker if service.crew.relay else "none",
        lags=service.lags(),
        drift={event: each.found for event, each in mended.items() if each.found},
    )
    return reply(200, system)


async def change(service: Service, call: Call) -> Reply:
    asked: wire.SystemChanges = CHANGES.decode(call.body)
    if service.shop.gate is None:
        raise Problem(409, "no_gate", "this deployment has no gate: start it with --gate")
    await service.shop.switch_gate(on=asked.gate == "on")
    return await see(service, call)


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
        summary="Store, gate, policy, lags and drift",
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
]
