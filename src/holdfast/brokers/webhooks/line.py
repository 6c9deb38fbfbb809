"""One subscription as one process sees it: how far its events are, and whose turn it is."""

from collections import OrderedDict
from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush

from holdfast.brokers.webhooks.retries import Retry
from holdfast.brokers.webhooks.subscriptions import Webhook
from holdfast.domain.model import Millis

SUBSCRIPTION_MAX = 8
"""Of one subscription's events at a time. One that fails has a single one: the others' slots are
not for waiting on it."""


class Line:
    def __init__(self, webhook: Webhook, unread: Collection[int]) -> None:
        self.webhook = webhook
        self.turn = webhook.turn
        """Of the subscription, as it was last read: under a new one everything is read anew."""
        self.unread = set(unread)
        """Shards whose cursors have to be read before anything of them goes out."""
        self.cursors: dict[str, int] = {}
        self.behind: OrderedDict[str, None] = OrderedDict()
        """Events that have something new, whose turn it is first in front. Those that wait to be
        tried again are not among them before they are due."""
        self.busy: set[str] = set()
        self.waiting: dict[str, Retry] = {}
        """Events whose next fact was not delivered."""
        self._due: list[tuple[Millis, str]] = []
        """Of those that wait, a heap; what is no longer true of it is passed over."""

    @property
    def slots(self) -> int:
        most = SUBSCRIPTION_MAX if self.webhook.failing_since_ms is None else 1
        return most - len(self.busy)

    def key(self, event: str) -> str:
        """By which the processes divide the pairs of a subscription and an event."""
        return f"{self.webhook.id}/{event}"

    def note(self, event: str) -> None:
        """It has something new, which comes after what waits."""
        if event not in self.waiting:
            self.behind[event] = None

    def wait(self, event: str, retry: Retry) -> None:
        """Until it is due; what is of an earlier turn of the subscription is so at once."""
        self.waiting[event] = retry
        if retry.turn != self.webhook.turn:
            self.behind[event] = None
            return
        self.behind.pop(event, None)
        heappush(self._due, (retry.due_ms, event))

    def wake(self, now_ms: Millis) -> None:
        """What has become due goes to the end of the line."""
        while self._due and self._due[0][0] <= now_ms:
            due_ms, event = heappop(self._due)
            retry = self.waiting.get(event)
            if retry is not None and retry.due_ms == due_ms:
                self.behind[event] = None

    def drop(self, gone: Callable[[str], bool]) -> None:
        """Forgets what is known of some events."""
        for event in [event for event in self.cursors if gone(event)]:
            del self.cursors[event]
        for event in [event for event in self.behind if gone(event)]:
            del self.behind[event]
        if left := [event for event in self.waiting if gone(event)]:
            for event in left:
                del self.waiting[event]
            self._due = [each for each in self._due if each[1] in self.waiting]
            heapify(self._due)

    def lagging(self) -> set[str]:
        """Events that it may not be done with."""
        return {*self.behind, *self.busy, *self.waiting}
