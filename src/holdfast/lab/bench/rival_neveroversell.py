"""Drives neveroversell, in the environment that `lab.rivals` made for it: nothing of ours is there.

It reads a line of JSON for each run, {"url", "units", "callers", "connections"}, and answers with
one: {"seconds", "p50_ms", "p99_ms"}. It is a blocking library, so callers are threads. Its pool is
one that it documents, `Inventory(pool=...)`: all connections open before the clock starts, and in
autocommit, so that a hold is one statement to the server instead of three.
"""

import importlib
import itertools
import json
import sys
import threading
import time
import uuid
from typing import Any

PATIENCE_SECONDS = 60.0


def run(url: str, units: int, callers: int, connections: int) -> dict[str, float]:
    """Holds all units of a new resource, one by one."""
    # Not packages of ours, so no types of theirs.
    pools: Any = importlib.import_module("psycopg_pool")
    rows: Any = importlib.import_module("psycopg.rows")
    library: Any = importlib.import_module("neveroversell")
    pool = pools.ConnectionPool(
        url,
        min_size=connections,
        max_size=connections,
        timeout=PATIENCE_SECONDS,
        kwargs={"row_factory": rows.dict_row, "autocommit": True},
        open=True,
    )
    try:
        pool.wait(PATIENCE_SECONDS)
        inventory = library.Inventory(pool=pool)
        inventory.migrate()
        with pool.connection() as db:
            db.execute("ANALYZE nos_holds")  # as the server would by itself, a minute later
        resource = f"bench-{uuid.uuid4()}"
        inventory.upsert_resource(resource, units)
        return stampede(inventory, resource, units, callers)
    finally:
        pool.close()


def stampede(inventory: Any, resource: str, units: int, callers: int) -> dict[str, float]:
    asks = itertools.count()  # its next is atomic
    taken: list[list[float]] = [[] for _ in range(callers)]
    wrong: list[str] = []
    begin = threading.Barrier(callers + 1)

    def caller(nth: int) -> None:
        begin.wait()
        try:
            while next(asks) < units:
                began = time.perf_counter()
                held = inventory.hold(resource, 1, account_id=f"u{nth}")
                taken[nth].append((time.perf_counter() - began) * 1000)
                if held.status != "held":
                    wrong.append(held.status)
        except Exception as trouble:
            wrong.append(str(trouble))

    threads = [threading.Thread(target=caller, args=(nth,)) for nth in range(callers)]
    for thread in threads:
        thread.start()
    begin.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    if wrong:
        raise SystemExit(f"{len(wrong)} holds went wrong, the first: {wrong[0]}")
    millis = sorted(each for mine in taken for each in mine)
    return {
        "seconds": seconds,
        "p50_ms": millis[len(millis) // 2],
        "p99_ms": millis[len(millis) * 99 // 100],
    }


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
