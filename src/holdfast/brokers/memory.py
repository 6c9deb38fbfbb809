"""A broker in this process: for programs that embed Holdfast and listen themselves, and for tests.

It keeps the last messages only. Whoever must not miss one follows the log instead.
"""

from collections import deque
from collections.abc import Callable, Sequence

from holdfast.domain.cloudevents import Message

MESSAGES_MAX = 10_000

Listener = Callable[[Message], None]


class MemoryBroker:
    url = "memory://"

    def __init__(self) -> None:
        self.messages: deque[Message] = deque(maxlen=MESSAGES_MAX)
        self.dead: deque[tuple[Message, str]] = deque(maxlen=MESSAGES_MAX)
        self.listeners: list[Listener] = []
        """Each is called with every message, in this process, and must not fail."""

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def publish(self, messages: Sequence[Message]) -> dict[int, str]:
        self.messages.extend(messages)
        for listener in self.listeners:
            for message in messages:
                listener(message)
        return {}

    async def bury(self, message: Message, reason: str) -> None:
        self.dead.append((message, reason))
