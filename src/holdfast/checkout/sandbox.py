"""A provider of payments that only pretends, for trying things out.

sandbox:ok             authorized
sandbox:declined       declined
sandbox:slow:SECONDS   authorized, after a while
sandbox:timeout        no answer
sandbox:error          the provider is down
"""

import asyncio
import re

SLOW_SECONDS_MAX = 60.0
METHOD = re.compile(r"sandbox:(ok|declined|slow:[0-9]{1,6}|timeout|error)")


class ProviderDown(Exception):
    """Nobody knows whether anything was charged."""


def knows(method: str) -> bool:
    return METHOD.fullmatch(method) is not None


async def authorize(method: str) -> bool:
    """Whether the payment was authorized."""
    match method.split(":"):
        case ["sandbox", "ok"]:
            return True
        case ["sandbox", "slow", seconds]:
            await asyncio.sleep(min(float(seconds), SLOW_SECONDS_MAX))
            return True
        case ["sandbox", "timeout"]:
            raise ProviderDown("the provider of payments did not answer")
        case ["sandbox", "error"]:
            raise ProviderDown("the provider of payments is down")
    return False
