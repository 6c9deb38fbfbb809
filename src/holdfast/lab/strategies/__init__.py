"""Every published way to sell the last seat, one small module each. Read them in this order: each
answers what the one before it leaves open.

    naive          look, then write: the bug that all the others are about
    pessimistic    lock the row, look, write
    optimistic     look, write if the version is still the same, else try again
    atomic         one UPDATE that is its own guard
    skip_locked    a row for every unit; take one that nobody else has locked
    redis_nx       claim in Redis with a deadline, guarded write when it is confirmed
    two_layer      claim in Redis, hold in SQL, confirm in SQL
    redis_lua      counters in Redis alone, in one script
    group_commit   Holdfast: one transaction for everybody who arrived meanwhile

They share the tables of `lab.tables`, and their SQL is in the text, not in files of its own: it is
what there is to read here. None of them has what a shop needs besides: ids that make a repetition
harmless, caps, a log, prices. Holdfast, as it is measured here, has all of that switched on.
"""

from holdfast.lab.contest.field import Strategy
from holdfast.lab.strategies.atomic import Atomic
from holdfast.lab.strategies.group_commit import GroupCommit
from holdfast.lab.strategies.naive import Naive
from holdfast.lab.strategies.optimistic import Optimistic
from holdfast.lab.strategies.pessimistic import Pessimistic
from holdfast.lab.strategies.redis_lua import RedisLua
from holdfast.lab.strategies.redis_nx import RedisNx
from holdfast.lab.strategies.skip_locked import SkipLocked
from holdfast.lab.strategies.two_layer import TwoLayer

STRATEGIES: dict[str, type[Strategy]] = {
    each.name: each
    for each in (
        *(Naive, Pessimistic, Optimistic, Atomic, SkipLocked),
        *(RedisNx, TwoLayer, RedisLua, GroupCommit),
    )
}
