"""Redis or Valkey as the gate: shared by any number of processes."""

from holdfast.gates.redis.gate import RedisGate

__all__ = ["RedisGate"]
