"""How a connection is told to go about its work: batches find rows by key and must not last, views
read large parts of tables and may take their time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from holdfast.settings import Settings
from holdfast.stores.postgres.errors import Connection
from holdfast.stores.postgres.reading import SQL

PLANS = ("seqscan", "hashjoin", "mergejoin")
NARROW = "; ".join(
    [
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        *("SET LOCAL statement_timeout = 0", "SET LOCAL lock_timeout = 0"),
        *("SET LOCAL idle_in_transaction_session_timeout = 0", "SET LOCAL plan_cache_mode = auto"),
    ]
)
WIDE = "; ".join(
    [
        NARROW,
        *(f"SET LOCAL enable_{plan} = on" for plan in PLANS),
        # Of an event that is newer than its statistics the server expects one row, and would go
        # through all seats for each of them (measured: 6 s instead of 0.06 for 20,000).
        "SET LOCAL enable_nestloop = off",
    ]
)
BY_KEY = [
    # What finds its rows by key does so whatever the tables are like. A planner that has not met a
    # table yet would rather scan it while it is small, and keeps to that plan when it has grown
    # (measured: 118 ms instead of 1 for the holds of a batch).
    *(f"enable_{plan} = off" for plan in PLANS),
    # What has to scan after all looks so costly then that it would be compiled first, which
    # takes longer than any batch (measured: 40 to 80 ms).
    "jit = off",
    # One plan is as good as another. Left to itself the server may make a new one each time, for it
    # cannot know how many keys will come (measured: 250 us for a barrier, as long as its flush).
    "plan_cache_mode = force_generic_plan",
]
VIEWS = {name: f"{SQL[name]}\n/* in a view */" for name in ("counters", "config")}
"""What batches ask for too, as a wide view asks for it: a plan is kept with its text for long, and
that of a view would be no good in a batch."""


def of_a_batch(settings: Settings) -> list[str]:
    durable = "off" if settings.early_release else "on"
    return [
        f"lock_timeout = {settings.lock_timeout_ms}",
        f"statement_timeout = {settings.statement_timeout_ms}",
        *BY_KEY,
        # A process that stops in the middle must not keep its locks.
        f"idle_in_transaction_session_timeout = {settings.statement_timeout_ms}",
        f"synchronous_commit = {durable}",
    ]


@asynccontextmanager
async def view(
    db: Connection, begin: str, abandon: Callable[[Connection], Awaitable[None]]
) -> AsyncIterator[None]:
    """A transaction that only reads, in which the ways of a batch are no good ones."""
    try:
        await db.execute(begin)
        yield
        await db.execute("COMMIT")
    except BaseException:
        # Also where whoever looks is told to stop while it begins or ends.
        await abandon(db)
        raise
