"""The live seat map: one reader a process follows the log of every event that somebody watches.

A subscriber is no queue: it has the number up to which it was told, and when it is ready for more
it gets one frame of everything since. So a slow one gets fewer and bigger frames, or a new snapshot
where the facts it lacks are no longer at hand, and memory does not grow with what it missed. One
that does not take a frame at all is ended after a while, and may come back with its number.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from holdfast.engine import Holdfast
from holdfast.errors import HoldfastError, Overloaded
from holdfast.followers.feed import Counts, Feed, Frame, snapshot
from holdfast.followers.turns import Round, Turns
from holdfast.tasks import end_task

SUBSCRIBERS_MAX = 10_000
FACTS_MAX = 20_000
"""Kept over all events; past it the oldest of the longest ring go."""
RESUME_FACTS_MAX = 5_000
"""Whoever comes back with a number may be so far behind, to be told what changed since."""
PAGE = 2_000
FRAME_SECONDS = 0.2
"""At most five frames a second."""
TICK_SECONDS = 0.05
POLL_SECONDS = 0.25
"""A wake-up may be missed."""
FORGET_SECONDS = 60.0
"""An event that nobody has watched for so long is followed no longer."""
STALLED_SECONDS = 20.0
BYTES_PER_SECOND_MIN = 16_000
"""Who takes longer for a frame than its bytes at that pace, and so many seconds, is told to come
back, or cut off."""
KEPT_BYTES_MAX = 1 << 30
"""A socket's buffer stays as large as the largest frame that went through it: so much over all."""
TIDY_SECONDS = 1.0
STOP_SECONDS = 1.0
RETRY_SECONDS = 1.0

log = logging.getLogger("holdfast.live")


class Chart(Protocol):
    """A map, encoded. `hidden` are the seats that look sold on it whatever their state."""

    seq: int
    body: bytes
    hidden: frozenset[str]


class Charts(Protocol):
    async def chart(self, event: str) -> Chart | None:
        """The map as it is now, or was at a moment after this call."""

    async def stock(self, event: str) -> dict[str, int] | None:
        """What is available now of each pool that everybody may see."""


class Ended(Exception):
    """There will be no more frames."""


class Gone(Ended):
    """There is no such event any more."""


class Slow(Ended):
    """It did not take what it was sent; whoever comes back may go on from the last number."""


class Stopping(Ended):
    """This process is about to stop; another may go on from the last number."""


class Subscription:
    """One who watches an event. Whoever has it calls `close` in the end, whatever happened."""

    def __init__(
        self, live: "Live", followed: "Followed", seq: int | None, keeps: bool = False
    ) -> None:
        self._live = live
        self._followed = followed
        self._epoch = followed.feed.epoch
        self._seq = seq
        """Up to where it was told; None before the first snapshot."""
        self._sent = float("-inf")
        self._keeps = keeps
        self._kept = 0
        self.push: Callable[[Frame], asyncio.Future[None]] | None = None
        """Sends a frame, and returns what is done when it was taken. To a crowd that is a third of
        the work of waking up a task for each, which then waits for its own frame to be taken. One
        frame at a time: while it is not taken there is no other, and `next` waits for it."""
        self._pushed: asyncio.Future[None] | None = None
        self._ended: Ended | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[object] | None = None
        self.idle_since: float | None = live.clock()
        """Since when it has not asked for more; None while it waits."""
        self.patience_seconds = STALLED_SECONDS
        """How long it may take for the frame that it has."""

    @property
    def ended(self) -> Ended | None:
        """Why there will be no more frames, if there will be none."""
        return self._ended

    async def next(self, timeout_seconds: float = float("inf")) -> Frame | None:
        """The next frame, or None if there was none for so long. Raises Ended, or Overloaded where
        there is no room for a snapshot."""
        self._task = asyncio.current_task()
        self.idle_since = None
        ends = self._live.clock() + timeout_seconds
        try:
            while True:
                self._check()
                await self._settle()
                now = self._live.clock()
                due = self.due(now)
                if due == 0:
                    frame = await self.take()
                    self._check()
                    return frame
                if now >= ends:
                    return None
                await self._pause(ends - now if due is None else min(due, ends - now))
        finally:
            self.idle_since = self._live.clock()

    async def _settle(self) -> None:
        """Waits until what was pushed last is taken."""
        if self._pushed is not None:
            self.idle_since = self._sent
            try:
                await self._pushed
            except Exception as trouble:  # whatever it is, the other side is gone
                raise Ended from trouble
            self._pushed, self.idle_since = None, None
            self._check()

    def due(self, now: float) -> float | None:
        """The seconds until it may be sent its next frame; None while there is none."""
        feed = self._followed.feed
        if self._seq is not None and self._epoch == feed.epoch and feed.edge <= self._seq:
            return None
        return max(0.0, self._sent + FRAME_SECONDS - now)

    async def take(self) -> Frame:
        """Everything it was not told yet, as one frame."""
        epoch, frame = self._followed.feed.epoch, self._changes()
        if frame is None:
            frame = await self._live.snapshot(self._followed)
        self._keep(len(frame.body))
        self._told(epoch, frame)
        return frame

    def _changes(self) -> Frame | None:
        feed = self._followed.feed
        if self._seq is None or self._epoch != feed.epoch:
            return None
        return feed.changes(self._seq)

    def _told(self, epoch: int, frame: Frame) -> None:
        self._epoch, self._seq = epoch, frame.seq
        self._sent = self._live.clock()
        self.patience_seconds = STALLED_SECONDS + len(frame.body) / BYTES_PER_SECOND_MIN
        self._live.counts.sent += 1

    def _push(self) -> bool:
        """Whether there was no need to wake whoever waits for the next frame."""
        if self.push is None or self._ended is not None:
            return False
        if self._pushed is not None and not _went_well(self._pushed):
            return False
        due = self.due(self._live.clock())
        if due is None:
            return False
        if due > 0:
            # What he will be told is not put together yet: by then there may be more.
            asyncio.get_running_loop().call_later(due, self.wake)
            return True
        frame = self._changes()
        if frame is None:
            return False
        try:
            self._keep(len(frame.body))
        except Overloaded:
            return False  # whoever waits for it is told so
        try:
            self._pushed = self.push(frame)
        except Exception:  # as above: the rest of the crowd is to be told
            self._ended = Ended()
            return False
        self._told(self._epoch, frame)
        return True

    def _keep(self, bytes: int) -> None:
        if self._keeps and bytes > self._kept:
            self._live.keep(bytes - self._kept)
            self._kept = bytes

    async def _pause(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(seconds, self.wake) if seconds != float("inf") else None
        try:
            await self._waiter
        finally:
            if timer is not None:
                timer.cancel()
            self._waiter = None

    def _check(self) -> None:
        if self._ended is not None:
            raise self._ended

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done() and not self._push():
            self._waiter.set_result(None)

    def end(self, why: Ended) -> None:
        """No frame after the one that is under way."""
        if self._ended is None:
            self._ended = why
        self.wake()

    def cut(self, why: Ended) -> None:
        """Does not wait for the frame that is under way either."""
        self.end(why)
        if self._task is not None:
            self._task.cancel()
        else:
            self.close()

    def close(self) -> None:
        self.end(Ended())
        self._live.left(self, self._followed)
        self._live.keep(-self._kept)
        self._kept = 0


class Followed:
    """An event that is followed, and who watches it."""

    def __init__(self, feed: Feed, now: float) -> None:
        self.feed = feed
        self.subscribers: dict[Subscription, None] = {}
        """In the order in which they came, and are told: so each waits as long as the last time."""
        self.used = now
        """When somebody last came or went."""
        self.coming = 0
        """Those who are about to watch it: it must not be forgotten under them."""
        self.due = now
        """When it may be published again, if all were told by then."""
        self.round = Round(())
        self.filling = asyncio.Lock()
        self._chart: Chart | None = None
        self._snapshot: Frame | None = None

    def drawn(self, chart: Chart, counts: Counts) -> Frame:
        """The same frame for the same map."""
        if self._snapshot is None or self._chart is not chart:
            counts.encoded += 1
            self._chart, self._snapshot = chart, snapshot(chart.seq, chart.body)
        return self._snapshot


class Live:
    def __init__(
        self, shop: Holdfast, charts: Charts, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shop = shop
        self._charts = charts
        self.clock = clock
        self.counts = Counts()
        self._turns = Turns(clock)
        self._events: dict[str, Followed] = {}
        self._subscribers = 0
        self._kept_bytes = 0
        self._stopping = False
        self._tidied = float("-inf")
        self._wanted = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._reader: asyncio.Task[None] | None = None

    @property
    def subscribers(self) -> int:
        return self._subscribers

    def lags(self) -> dict[str, int]:
        """Of each event that is followed: facts on its log that were not read yet."""
        feeds = (followed.feed for followed in self._events.values())
        return {feed.event: max(0, feed.head - feed.last) for feed in feeds}

    def start(self) -> None:
        self._reader = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends all subscriptions; who does not take his last frame soon is cut off."""
        self._stopping = True
        _end(self._all(), Stopping())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._empty.wait()
        for subscriber in self._all():
            subscriber.cut(Stopping())
        await self._turns.stop()
        if self._reader is not None:
            await end_task(self._reader)
            self._reader = None

    # Subscribers

    async def subscribe(
        self, event: str, since: int | None = None, *, keeps: bool = False
    ) -> Subscription | None:
        """None if there is no such event. With `since` the first frame begins after that number,
        if what happened since is still at hand; else it is a snapshot. `keeps` says that a buffer
        as large as its largest frame stays with it. Raises Overloaded, or Stopping."""
        if self._stopping:
            raise Stopping
        if self._subscribers >= SUBSCRIBERS_MAX:
            raise Overloaded(RETRY_SECONDS)
        self._subscribers += 1
        self._empty.clear()
        subscriber = None
        try:
            followed = await self._follow(event)
            if followed is not None:
                followed.coming += 1
                try:
                    seq = await self._resume(followed, since)
                finally:
                    followed.coming -= 1
                if self._events.get(event) is not followed:
                    return None  # there is no such event any more
                subscriber = Subscription(self, followed, seq, keeps)
                followed.subscribers[subscriber] = None
                followed.used = self.clock()
                if self._stopping:
                    subscriber.end(Stopping())
        finally:
            if subscriber is None:
                self._one_less()
        return subscriber

    def left(self, subscriber: Subscription, followed: Followed) -> None:
        if subscriber in followed.subscribers:
            del followed.subscribers[subscriber]
            followed.used = self.clock()
            self._one_less()

    def _one_less(self) -> None:
        self._subscribers -= 1
        if self._subscribers == 0:
            self._empty.set()

    def keep(self, bytes: int) -> None:
        """So many more, or fewer, stay with sockets. Raises Overloaded if that is too much."""
        if bytes > 0 and self._kept_bytes + bytes > KEPT_BYTES_MAX:
            raise Overloaded(RETRY_SECONDS)
        self._kept_bytes += bytes

    async def snapshot(self, followed: Followed) -> Frame:
        """The map as it is now."""
        return followed.drawn(await self._look(followed), self.counts)

    async def _look(self, followed: Followed) -> Chart:
        chart = await self._charts.chart(followed.feed.event)
        if chart is None:
            self._lost(followed)
            raise Gone
        return chart

    async def _follow(self, event: str) -> Followed | None:
        followed = self._events.get(event)
        if followed is None:
            chart = await self._charts.chart(event)
            if chart is None:
                return None
            feed = Feed(event, chart.seq, chart.hidden, self.counts)
            followed = self._events.setdefault(event, Followed(feed, self.clock()))
            self._wanted.set()
        return followed

    async def _resume(self, followed: Followed, since: int | None) -> int | None:
        """That number, if one can go on from it."""
        feed = followed.feed
        if since is None:
            return None
        if since > feed.last:
            # Told by another process that has read more than this one, or by nobody.
            head = (await self._shop.store.heads()).get(feed.event, 0)
            return since if since <= head else None
        if feed.last - since > RESUME_FACTS_MAX:
            return None
        async with followed.filling:
            missing = feed.first - 1 - since
            if missing > 0:
                feed.prepend(await self._shop.store.log(feed.event, since, missing))
                self._trim()
            if feed.pools is None:
                await self._count(followed)
        return since  # if the ring does not reach it after all, its first frame is a snapshot

    # The reader

    async def _run(self) -> None:
        told = ""
        while True:
            if not self._events:
                self._wanted.clear()
                await self._wanted.wait()
            try:
                await self.tick()
                told = ""
                await self._until_moved()
            except HoldfastError as trouble:
                if str(trouble) != told:
                    log.warning("the live map waits for the log: %s", trouble)
                told = str(trouble)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                log.exception("the live map failed; it goes on")
                await asyncio.sleep(RETRY_SECONDS)

    async def _until_moved(self) -> None:
        began = self.clock()
        due = [each.due for each in self._events.values() if each.feed.behind]
        if due:
            await asyncio.sleep(max(TICK_SECONDS, min(due) - began))
        else:
            await self._shop.store.wake(POLL_SECONDS)
            # Events that nobody watches move too.
            await asyncio.sleep(max(0.0, began + TICK_SECONDS - self.clock()))

    async def tick(self) -> None:
        """Reads what is new of every event whose turn it is, and tells it."""
        self._tidy(self.clock())
        events = list(self._events.values())
        heads = await self._shop.store.heads()
        for followed in events:
            feed = followed.feed
            if feed.event not in heads:
                self._lost(followed)
                continue
            feed.head = heads[feed.event]
            if feed.behind and followed.round.done and self.clock() >= followed.due:
                with contextlib.suppress(Gone):
                    await self._read(feed)
                    await self._tell(followed)

    def _tidy(self, now: float) -> None:
        if now < self._tidied + TIDY_SECONDS:
            return
        self._tidied = now
        for subscriber in self._all():
            idle_since = subscriber.idle_since
            if idle_since is not None and now - idle_since > subscriber.patience_seconds:
                self.counts.dropped += 1
                subscriber.cut(Slow())
        for event, followed in list(self._events.items()):
            needed = followed.subscribers or followed.coming
            if not needed and now - followed.used > FORGET_SECONDS:
                del self._events[event]

    async def _read(self, feed: Feed) -> None:
        head = feed.head
        if not 0 <= head - feed.last <= FACTS_MAX:
            # The log lost facts, or there are more new ones than anybody wants to hear of.
            feed.restart(head)
        while feed.last < head:
            page = await self._shop.store.log(feed.event, feed.last, PAGE)
            if not page or not feed.append(page):
                feed.restart(head)
        self._trim()

    def _trim(self) -> None:
        feeds = [followed.feed for followed in self._events.values()]
        while (excess := sum(map(len, feeds)) - FACTS_MAX) > 0:
            longest = max(feeds, key=len)
            longest.drop(min(excess, len(longest) // 2 + 1))

    async def _tell(self, followed: Followed) -> None:
        feed = followed.feed
        began = self.clock()
        pools, relaid = feed.untold()
        if relaid:
            feed.hidden = (await self._look(followed)).hidden
        if pools or relaid:
            await self._count(followed)
        feed.publish()
        followed.round = self._turns.begin(followed.subscribers)
        followed.due = began + FRAME_SECONDS

    async def _count(self, followed: Followed) -> None:
        pools = await self._charts.stock(followed.feed.event)
        if pools is None:
            self._lost(followed)
            raise Gone
        followed.feed.pools = pools

    def _lost(self, followed: Followed) -> None:
        """There is no such event any more."""
        if self._events.get(followed.feed.event) is followed:
            del self._events[followed.feed.event]
        _end(followed.subscribers, Gone())

    def _all(self) -> list[Subscription]:
        return [each for followed in self._events.values() for each in followed.subscribers]


def _went_well(pushed: "asyncio.Future[None]") -> bool:
    return pushed.done() and not pushed.cancelled() and pushed.exception() is None


def _end(subscribers: Iterable[Subscription], why: Ended) -> None:
    for subscriber in list(subscribers):
        subscriber.end(why)
