"""The lab over HTTP: send a crowd after a few seats, watch it, compare what came of it."""

from typing import Any, get_args

from holdfast.api import lab_wire
from holdfast.api.calls import REPLAYED, Body, Call, Reply, reply
from holdfast.api.keys import Role
from holdfast.api.lab_wire import NewLabRun
from holdfast.api.problems import Problem
from holdfast.api.routes import Route
from holdfast.api.service import Service
from holdfast.domain.faults import Faults
from holdfast.domain.plan import POLICIES
from holdfast.lab.runs import offers
from holdfast.lab.runs.trials import BUYERS_MAX, SEATS_MAX, Over, Run, Trial

CLOSED = {403: ("forbidden",), 404: ("lab_off",)}


def _explain(faults: Faults, raw: Any) -> None:  # whatever was sent
    body = faults.mapping("", raw, NewLabRun.__struct_fields__)
    faults.integer("buyers", body.get("buyers"), 1, BUYERS_MAX)
    faults.integer("seats", body.get("seats"), 1, SEATS_MAX)
    if "stock" in body:
        faults.flag("stock", body["stock"])
    if body.get("gate") is not None:
        faults.flag("gate", body["gate"])
    choices = {"strategy": get_args(lab_wire.Strategy), "over": get_args(Over)}
    for name, known in {**choices, "policy": (*POLICIES, None)}.items():
        if name in body and body[name] not in known:
            faults.add(name, f"must be {', '.join(filter(None, known))}", body[name])


NEW_RUN = Body(NewLabRun, _explain)


def _check_open(service: Service, call: Call) -> None:
    if service.settings.lab == "off":
        raise Problem(404, "lab_off", "this deployment has no lab: its setting `lab` is off")
    if service.settings.lab == "admin" and call.caller.role is not Role.ADMIN:
        raise Problem(403, "forbidden", "the lab is for admin keys: its setting `lab` is not open")


async def start(service: Service, call: Call) -> Reply:
    """Answered when it has begun."""
    _check_open(service, call)
    asked: NewLabRun = NEW_RUN.decode(call.body)
    key = call.idempotency_key()
    trial = _trial(service, asked)
    if key is not None and (first := await _first(service, key)) is not None:
        if first.trial != trial:
            detail = "this Idempotency-Key was used for something else"
            raise Problem(422, "idempotency_mismatch", detail)
        begun = Run(first.id, first.trial, first.created_ms)
        return reply(202, lab_wire.run(begun), REPLAYED)
    if why := offers.why_not(trial, service.settings):
        raise Problem(409, "lab_unavailable", f"{trial.strategy} over {trial.over}: {why}")
    run = await service.laboratory.start(trial, key)
    if run is None:
        raise Problem(409, "busy", "a run is going on: one at a time")
    return reply(202, lab_wire.run(run))


def _trial(service: Service, asked: NewLabRun) -> Trial:
    """With what the deployment decides where nothing is said."""
    there = service.shop.gate is not None
    gated = asked.policy in ("two-layer", "gate")
    if not there and (asked.gate or (gated and asked.gate is None)):
        raise Problem(409, "no_gate", offers.NO_GATE)
    gate = there if asked.gate is None else asked.gate
    policy = asked.policy or service.settings.policy
    return Trial(
        strategy=asked.strategy,
        buyers=asked.buyers,
        seats=asked.seats,
        stock=asked.stock,
        policy=policy if gate else "authority",
        gate=gate,
        over=asked.over,
    )


async def _first(service: Service, key: str) -> Run | None:
    return next((run for run in await service.laboratory.all() if run.key == key), None)


async def see(service: Service, call: Call) -> Reply:
    _check_open(service, call)
    run = await service.laboratory.find(call.params["run"])
    if run is None:
        raise Problem(404, "unknown_run", f"there is no run {call.params['run']!r}")
    return reply(200, lab_wire.run(run))


async def all_runs(service: Service, call: Call) -> Reply:
    _check_open(service, call)
    found = await service.laboratory.all()
    return reply(
        200,
        lab_wire.LabRuns(
            runs=[lab_wire.run(run) for run in found],
            strategies=[lab_wire.offer(each) for each in offers.strategies(service.settings)],
            over=[lab_wire.offer(each) for each in offers.ways()],
        ),
    )


ROUTES = [
    Route(
        method="POST",
        path="/v1/lab/runs",
        handle=start,
        operation="startLabRun",
        summary="Send a crowd after a few seats, by Holdfast or by another strategy. A public key "
        "may only where the setting `lab` is open, a seller's too",
        body=NewLabRun,
        answers={202: lab_wire.LabRun},
        reasons={
            **CLOSED,
            409: ("busy", "lab_unavailable", "no_gate"),
            422: ("invalid", "idempotency_mismatch"),
        },
        headers=("Idempotency-Key",),
    ),
    Route(
        method="GET",
        path="/v1/lab/runs",
        handle=all_runs,
        operation="listLabRuns",
        summary="Runs that are kept, and what can be tried here",
        answers={200: lab_wire.LabRuns},
        reasons=CLOSED,
    ),
    Route(
        method="GET",
        path="/v1/lab/runs/{run}",
        handle=see,
        operation="getLabRun",
        summary="How a run goes, or what came of it",
        answers={200: lab_wire.LabRun},
        reasons={**CLOSED, 404: ("lab_off", "unknown_run")},
    ),
]
