"""What this deployment can try, and why not the rest."""

import importlib.util

import msgspec

from holdfast.lab.contest.databases import dialect_of
from holdfast.lab.contest.field import Strategy
from holdfast.lab.runs.trials import HOLDFAST, Trial
from holdfast.lab.strategies import STRATEGIES
from holdfast.lab.strategies.group_commit import GroupCommit
from holdfast.settings import Settings

REDIS = ("redis://", "rediss://", "unix://")
NO_GATE = "this deployment has no gate: start it with --gate redis://host:port/0"
NO_REDIS = "it needs Redis, and this deployment's gate is none: --gate redis://host:port/0"
CLUSTER = "it needs one Redis, and this deployment's gate is a cluster"
NO_CLIENT = "the crowd's client is not installed: pip install 'holdfast[client]'"

WORDS = {
    HOLDFAST: (
        "Holdfast",
        "Everybody who clicks while one transaction commits is in the next one: a crowd on one "
        "seat is one look at the row, a decision each, and one commit.",
    ),
    "naive": (
        "Naive: look, then write",
        "SELECT says the seat is free, UPDATE takes it. In between others look too, so the seat is "
        "sold again and again. The control: it has to oversell.",
    ),
    "pessimistic": (
        "Pessimistic lock",
        "SELECT ... FOR UPDATE, write, commit. Right, but everybody waits in one queue, also those "
        "who get nothing.",
    ),
    "optimistic": (
        "Optimistic versions",
        "Look, write if the version is still the same, else try again. On one hot row most of the "
        "work is in vain.",
    ),
    "atomic": (
        "Atomic update",
        "One UPDATE that is its own guard. A hot row is changed once for each flush of the disk.",
    ),
    "skip-locked": (
        "Skip locked",
        "A row for each unit, and a buyer takes one that nobody has locked. A flush for each sale.",
    ),
    "redis-nx": (
        "Redis SET NX",
        "Claim the seat in Redis, then a guarded write in SQL. Claims are lost with Redis.",
    ),
    "two-layer": (
        "Two layers",
        "Claim in Redis, hold in SQL, confirm in SQL. Who passes the filter pays twice.",
    ),
    "redis-lua": (
        "Redis Lua counter",
        "Check and count in one script, in Redis alone: in memory, so a sale may be lost with the "
        "power.",
    ),
}


class Offer(msgspec.Struct, frozen=True):
    id: str
    name: str
    about: str
    available: bool
    why_not: str | None = None


def strategies(settings: Settings) -> list[Offer]:
    found = [_offer(HOLDFAST, None)]
    for name, kind in STRATEGIES.items():
        if kind is not GroupCommit:  # which is Holdfast
            found.append(_offer(name, _why_not(kind, settings)))
    return found


def _offer(name: str, why_not: str | None) -> Offer:
    title, about = WORDS[name]
    return Offer(name, title, about, why_not is None, why_not)


def ways() -> list[Offer]:
    """How the crowd gets at Holdfast."""
    missing = importlib.util.find_spec("aiohttp") is None
    return [
        Offer("engine", "Engine", "Straight into the engine, without HTTP.", available=True),
        Offer(
            "http",
            "HTTP",
            "Over real connections to this very service.",
            not missing,
            NO_CLIENT if missing else None,
        ),
    ]


def why_not(trial: Trial, settings: Settings) -> str | None:
    """Why this cannot be tried here; None: it can."""
    if trial.strategy != HOLDFAST:
        if trial.over == "http":
            return "only Holdfast is called over HTTP: the others have no service"
        if trial.strategy == "redis-nx" and trial.stock:
            return "redis-nx claims a unit by its name: it sells numbered seats only"
        return _why_not(STRATEGIES[trial.strategy], settings)
    if trial.over == "http":
        return ways()[1].why_not
    return None


def _why_not(kind: type[Strategy], settings: Settings) -> str | None:
    if kind.stores != ("redis",) and (dialect := dialect_name(settings)) not in kind.stores:
        return kind.why_not.get(dialect, "it does not run on this store")
    if kind.uses_redis and not settings.gate.startswith(REDIS):
        return NO_REDIS
    if kind.uses_redis and "cluster=" in settings.gate:
        return CLUSTER
    return None


def dialect_name(settings: Settings) -> str:
    """Of the database that the other strategies run in: of a store without a server, a file."""
    return "sqlite" if serverless(settings) else dialect_of(settings.store).name


def serverless(settings: Settings) -> bool:
    return settings.store.startswith(("memory://", "sqlite:///"))
