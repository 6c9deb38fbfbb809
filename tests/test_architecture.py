"""Imports point inward: the core knows nobody, stores do not know each other, wiring knows all."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
PACKAGE = "holdfast"

UNSEEN_BY_THE_CORE = {
    "apsw",
    "asyncio",
    "concurrent",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "sqlite3",
    "subprocess",
    "threading",
    "time",
    "uuid",
}
DRIVERS = {
    "redis": ("gates.redis",),
    "apsw": ("stores.sqlite",),
    "asyncpg": ("stores.postgres",),
    "psycopg": ("stores.postgres.wal",),
    "aiomysql": ("stores.mysql",),
    "aiohttp": ("client", "checkout.payments", "brokers.webhooks"),
    "stripe": ("checkout.payments.stripe",),
}
# Hands out addresses of stores; everybody else asks it.
WIRING = {"wiring"}


def module_of(path: Path) -> str:
    """holdfast/domain/model.py -> domain.model"""
    parts = path.relative_to(SOURCE / PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(tree: ast.AST) -> set[str]:
    """Every module that a file imports, wherever in it, with the names taken from it."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def own(tree: ast.AST) -> set[str]:
    """The modules of ours that a file imports, without our name in front."""
    return {
        name.removeprefix(f"{PACKAGE}.")
        for name in imports(tree)
        if name == PACKAGE or name.startswith(f"{PACKAGE}.")
    }


def foreign(tree: ast.AST) -> set[str]:
    return {name.split(".")[0] for name in imports(tree)} - {PACKAGE}


def awaits(tree: ast.AST) -> list[ast.AST]:
    kinds = (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def store_of(module: str) -> str | None:
    """stores.sqlite.writing -> sqlite; what all stores share is nobody's."""
    parts = module.split(".")
    if parts[0] != "stores" or len(parts) < 2 or parts[1] not in STORES:
        return None
    return parts[1]


TREES = {
    module_of(path): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted((SOURCE / PACKAGE).rglob("*.py"))
}
# A store is a module or package that has a class called ...Store.
STORES = {
    module.split(".")[1]
    for module, tree in TREES.items()
    if module.startswith("stores.")
    and any(isinstance(node, ast.ClassDef) and node.name.endswith("Store") for node in tree.body)
}
CORE = [module for module in TREES if module.split(".")[0] == "domain"]


def test_what_is_looked_at_is_there():
    assert {"engine", "lanes", "ports", "wiring", "domain.decide", "domain.model"} <= TREES.keys()
    assert {"memory", "sqlite"} <= STORES


@pytest.mark.parametrize("module", CORE)
def test_the_core_imports_nothing_of_ours_but_itself(module):
    assert [name for name in own(TREES[module]) if not name.startswith("domain")] == []


@pytest.mark.parametrize("module", CORE)
def test_the_core_has_no_clock_no_chance_no_driver_and_no_loop(module):
    assert foreign(TREES[module]) & UNSEEN_BY_THE_CORE == set()


@pytest.mark.parametrize("module", CORE)
def test_the_core_waits_for_nobody(module):
    assert awaits(TREES[module]) == []


@pytest.mark.parametrize("module", [module for module in TREES if store_of(module)])
def test_a_store_knows_no_other_store(module):
    known = {store_of(name) for name in own(TREES[module])} - {None}
    assert known <= {store_of(module)}


@pytest.mark.parametrize("module", [module for module in TREES if store_of(module)])
def test_a_store_knows_nothing_of_what_stands_on_it(module):
    above = {"engine", "lanes", "blocking", "wiring", "cli", "upkeep", "api"}
    assert {name.split(".")[0] for name in own(TREES[module])} & above == set()


@pytest.mark.parametrize(
    "module", [module for module in TREES if not store_of(module) and module not in WIRING]
)
def test_only_the_wiring_names_a_store(module):
    assert {store_of(name) for name in own(TREES[module])} <= {None}


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_driver_is_seen_by_its_store_alone(driver):
    """And by the lab, which measures what everybody else does with it."""
    users = [module for module, tree in TREES.items() if driver in foreign(tree)]
    assert [each for each in users if not each.startswith((*DRIVERS[driver], "lab."))] == []


def test_the_ports_are_made_of_the_core_alone():
    assert {name.split(".")[0] for name in own(TREES["ports"])} <= {"domain"}


@pytest.mark.parametrize("module", TREES)
def test_no_module_does_work_at_import(module):
    """Calls in the body of a module make constants; nothing is opened, started or printed."""
    busy = {"open", "print", "run", "connect", "start", "Thread", "new_event_loop"}
    called = [
        getattr(node.func, "attr", getattr(node.func, "id", ""))
        for statement in TREES[module].body
        if isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign)
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
    ]
    assert set(called) & busy == set()


WRONG = {
    "import asyncio": lambda tree: foreign(tree) & UNSEEN_BY_THE_CORE,
    "from time import time": lambda tree: foreign(tree) & UNSEEN_BY_THE_CORE,
    "def f():\n    import random": lambda tree: foreign(tree) & UNSEEN_BY_THE_CORE,
    "from holdfast.ports import Store": lambda tree: own(tree) - {"domain"},
    "from holdfast import engine": lambda tree: own(tree) - {"domain"},
    "from holdfast.stores import sqlite": lambda tree: set(map(store_of, own(tree))) - {None},
    "from holdfast.stores.sqlite import SqliteStore": lambda tree: (
        set(map(store_of, own(tree))) - {None}
    ),
    "import holdfast.stores.memory": lambda tree: set(map(store_of, own(tree))) - {None},
    "async def f(): ...": awaits,
}


@pytest.mark.parametrize("source", WRONG)
def test_these_tests_would_notice(source):
    assert WRONG[source](ast.parse(source))
