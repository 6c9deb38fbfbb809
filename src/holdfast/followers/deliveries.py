"""From the log to webhooks: every fact that a subscription wants at least once, in order per event.

Each subscription follows the log by cursors of its own. All processes divide the pairs of a
subscription and an event among themselves (`shards.py`): of a pair one fact is on its way at a
time, of many pairs many are. A cursor moves when the receiver has said that he has the fact, or
when it was put with the dead letters; dying in between repeats facts, and loses none. A fact that
fails waits, durably, and its event behind it; the others go on.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from holdfast.brokers.webhooks.retries import (
    KIND,
    Dead,
    Disable,
    Failure,
    Retry,
    after_failure,
    retry_id,
    stalled,
)
from holdfast.brokers.webhooks.signing import headers
from holdfast.brokers.webhooks.subscriptions import Webhook, Webhooks
from holdfast.domain.cloudevents import Message, message
from holdfast.domain.facts import Entry
from holdfast.domain.model import Millis
from holdfast.domain.views import Document, Move
from holdfast.errors import HoldfastError, SettingsError
from holdfast.followers.dead_letters import DeadLetters, TooManyLetters
from holdfast.followers.shards import LEASE_MS, Shards, shard_of
from holdfast.ids import Ids
from holdfast.ports import Store
from holdfast.settings import Settings
from holdfast.tasks import end_task

if TYPE_CHECKING:
    from holdfast.brokers.webhooks.post import Post

FOLLOWER = "webhooks"
"""Whose shards are divided; cursors belong to each subscription."""
READ_SECONDS = 1.0
"""How soon a new subscription is seen, and how long a missed wake-up costs."""
ROUND_SECONDS = 0.02
"""What is new within so long is looked at together."""
PAGE_FACTS_MAX = 100
DELIVERIES_MAX = 32
SUBSCRIPTION_MAX = 8
"""Of one subscription's events at a time. One that fails has a single one: the others' slots are
not for waiting on it."""
FAILING_MAX = 16
"""Deliveries of failing subscriptions, beside those that work."""
MOVE_SECONDS = 0.5
"""How often a cursor is moved while facts go out one after the other."""
STOP_SECONDS = 5.0

log = logging.getLogger("holdfast.webhooks")

_read_retry = msgspec.json.Decoder(Retry).decode


class Answer(NamedTuple):
    """What came of one attempt."""

    status: int | None
    reason: str | None
    """None: it was delivered."""


class Sending(Protocol):
    """What `Post` does; tests may bring their own."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> int | Failure: ...

    async def close(self) -> None: ...


def make_post(settings: Settings) -> "Post":
    """To be made where a loop runs. Raises SettingsError where aiohttp is missing."""
    try:
        from holdfast.brokers.webhooks.post import Post
    except ImportError:
        raise SettingsError("webhooks need aiohttp: pip install 'holdfast[webhooks]'") from None
    return Post(settings.webhook_seconds, internal=settings.webhook_internal)


class Line:
    """One subscription, as this process sees it."""

    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        self.loaded = False
        self.cursors: dict[str, int] = {}
        self.behind: dict[str, None] = {}
        """Events of ours that have something new, whose turn it is first in front."""
        self.busy: set[str] = set()
        self.waiting: dict[str, Retry] = {}

    @property
    def slots(self) -> int:
        most = SUBSCRIPTION_MAX if self.webhook.failing_since_ms is None else 1
        return most - len(self.busy)

    def retry(self, event: str) -> Retry | None:
        """What the event waits with, if it still has to."""
        found = self.waiting.get(event)
        return found if found is not None and found.turn == self.webhook.turn else None

    def key(self, event: str) -> str:
        return f"{self.webhook.id}/{event}"


class Deliveries:
    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        member: str | None = None,
        lease_ms: Millis = LEASE_MS,
        read_seconds: float = READ_SECONDS,
        post: Sending | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._settings = settings
        self._shards = Shards(store, FOLLOWER, member or Ids().new(), lease_ms)
        self._read_seconds = read_seconds
        self._post = post
        self._chance = chance
        self.webhooks = Webhooks(store)
        self._letters = DeadLetters(store)
        self._lines: dict[str, Line] = {}
        self._heads: dict[str, int] = {}
        self._mine: dict[int, int] = {}
        self._read_at = float("-inf")
        self._now: tuple[Millis, float] = (0, 0.0)
        """The authority's time, and ours when it was asked for."""
        self._again = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._waking: asyncio.Task[None] | None = None
        self._stopping = False
        self._stumbled = False
        """Something is wrong that is not a receiver's fault: it is looked at again in a while."""
        self._told = ""
        self.delivered = 0
        self.failed = 0
        """Attempts that delivered nothing."""
        self.dead = 0
        self.disabled = 0
        self.repeated = 0
        """Facts that were delivered but whose cursor had been moved by another meanwhile."""

    # What can be watched

    def lags(self) -> dict[str, int]:
        """Of each subscription: facts on the logs of its events that are ours and that it is not
        done with, whether it wants them or not."""
        return {
            line.webhook.id: sum(
                max(0, self._heads.get(event, 0) - line.cursors.get(event, 0))
                for event in {*line.behind, *line.busy, *line.waiting}
            )
            for line in self._lines.values()
        }

    def failing(self) -> int:
        """Subscriptions that fail at present."""
        lines = self._lines.values()
        return sum(line.webhook.failing_since_ms is not None for line in lines)

    # Running

    def start(self) -> None:
        self._stopping = False
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """What is on its way has a few seconds to be answered; the rest is another's at once."""
        self._stopping = True
        await end_task(self._task)
        await end_task(self._waking)
        self._task = self._waking = None
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for task in list(self._tasks):
            await end_task(task)
        if self._shards.mine:
            with contextlib.suppress(HoldfastError):
                await self._shards.leave()
        if self._post is not None:
            await self._post.close()
            self._post = None

    async def redeliver(self, webhook_id: str, message: Message) -> Answer | None:
        """One fact again, now, whatever the subscription's state; None where there is none."""
        webhook, now_ms = await self.webhooks.look(webhook_id)
        if webhook is None:
            return None
        try:
            came = await self._send(webhook, message, now_ms)
        except SettingsError as missing:
            return Answer(None, str(missing))
        if isinstance(came, Failure):
            return Answer(came.status, came.reason)
        return Answer(came, None)

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except HoldfastError as trouble:
                self._stumble(trouble)
            except Exception:
                self._stumbled = True
                log.exception("the deliveries of webhooks stumbled, and go on")
            await self._pause()

    def _stumble(self, trouble: HoldfastError) -> None:
        self._stumbled = True
        if str(trouble) != self._told:
            self._told = str(trouble)
            log.warning("webhooks wait: %s", trouble)

    async def _pause(self) -> None:
        """Until something may be new, a delivery has ended, or it is time to look."""
        await asyncio.sleep(ROUND_SECONDS)
        if not self._lines or self._stumbled:
            self._stumbled = False
            await asyncio.sleep(self._read_seconds)
            return
        if self._waking is None:
            self._waking = asyncio.create_task(self._wake())
        await self._again.wait()
        self._again.clear()

    async def _wake(self) -> None:
        try:
            await self._store.wake(self._read_seconds)
        except Exception:
            # The next question to the store tells what is wrong with it.
            self._stumbled = True
        finally:
            self._waking = None
            self._again.set()

    async def _round(self) -> None:
        if time.monotonic() - self._read_at >= self._read_seconds:
            await self._read()
        if not self._lines:
            if self._shards.mine:
                await self._shards.leave()
            return
        if self._shards.due:
            await self._shards.renew()
        heads = await self._store.heads()
        if (mine := dict(self._shards.mine)) != self._mine:
            for line in self._lines.values():
                line.loaded = False
            self._mine = mine
        if not all(line.loaded for line in self._lines.values()):
            await self._load(heads)
        self._note(heads)
        for line in sorted(self._lines.values(), key=lambda line: len(line.busy)):
            await self._serve(line)

    async def _read(self) -> None:
        """The subscriptions that are live, as they are now."""
        found, now = await self.webhooks.read()
        self._read_at = time.monotonic()
        self._now = now, self._read_at
        there = {each.id: each for each, _ in found}
        for id, line in list(self._lines.items()):
            webhook = there.get(id)
            if webhook is None or not webhook.live:
                self._changed(line, webhook)
                # One that is still at something stays until that has ended.
                if not line.busy:
                    self._lines.pop(id, None)
        for webhook in [each for each in there.values() if each.live]:
            line = self._lines.setdefault(webhook.id, Line(webhook))
            line.loaded = line.loaded and line.webhook.turn == webhook.turn
            line.webhook = webhook
        await self.webhooks.forget_removed(found, now)

    def _now_ms(self) -> Millis:
        told, at = self._now
        return told + round((time.monotonic() - at) * 1000)

    async def _load(self, heads: Mapping[str, int]) -> None:
        """Where the cursors stand and what waits, of pairs that may have been another's so far."""
        lines = [(line, set(line.busy)) for line in self._lines.values() if not line.loaded]
        documents, _ = await self._store.documents(KIND)
        retries = {each.id: _read_retry(each.body) for each in documents}
        for line, busy in lines:
            # A delivery that stumbles meanwhile says so again.
            line.loaded = True
            try:
                cursors, _ = await self._store.cursors(line.webhook.follower)
            except BaseException:
                line.loaded = False
                raise
            # Of what was on its way just now, the delivery itself knows best.
            known = {event: line.cursors[event] for event in busy if event in line.cursors}
            line.cursors = {each.event: each.seq for each in cursors} | known
            line.waiting = {event: line.waiting[event] for event in busy & line.waiting.keys()} | {
                event: retry
                for event in heads.keys() - busy
                if (retry := retries.get(retry_id(line.webhook.id, event)))
                and retry.seq > line.cursors.get(event, 0)
            }
            line.behind = {}
            self._note_line(line, heads)

    def _note(self, heads: dict[str, int]) -> None:
        """What is new goes to the end of each line."""
        moved = {event: head for event, head in heads.items() if self._heads.get(event) != head}
        self._heads = heads
        for line in self._lines.values():
            self._note_line(line, moved)

    def _note_line(self, line: Line, heads: Mapping[str, int]) -> None:
        for event, head in heads.items():
            if head > line.cursors.get(event, 0) and line.webhook.follows(event):
                line.behind[event] = None

    # Choosing what goes out

    async def _serve(self, line: Line) -> None:
        """Starts as many deliveries of a subscription as there is room for, and passes over what
        it does not want."""
        if not line.webhook.live or not line.loaded:
            return
        fences = self._chosen(line, min(line.slots, self._free(line)))
        if not fences:
            return
        after = {event: line.cursors.get(event, 0) for event in fences}
        entries = await self._store.tails(after, PAGE_FACTS_MAX)
        passed: list[Move] = []
        for event, group in groupby(entries, key=lambda entry: entry.event):
            page = list(group)
            _warn_of_gap(line.webhook, event, after[event], page[0].seq)
            if any(line.webhook.wants(entry.type) for entry in page):
                self._begin(line, page, after[event], fences[event])
            else:
                passed.append(Move(event, after[event], page[-1].seq, fences[event]))
        if passed:
            await self._move(line, passed)
            self._again.set()

    def _chosen(self, line: Line, most: int) -> dict[str, int]:
        """Events whose turn it is, each with the fence under which it is ours; those that are not
        ours, or have nothing new, leave the line."""
        chosen: dict[str, int] = {}
        now_ms = self._now_ms()
        for event in list(line.behind):
            if len(chosen) >= most:
                break
            if event in line.busy:
                continue
            fence = self._mine.get(shard_of(line.key(event)), 0)
            if not fence or self._heads.get(event, 0) <= line.cursors.get(event, 0):
                del line.behind[event]
                continue
            retry = line.retry(event)
            if retry is None or retry.due_ms <= now_ms:
                chosen[event] = fence
                # To the end: next time it is another's turn.
                del line.behind[event]
                line.behind[event] = None
        return chosen

    def _free(self, line: Line) -> int:
        failing = line.webhook.failing_since_ms is not None
        busy = sum(
            len(each.busy)
            for each in self._lines.values()
            if (each.webhook.failing_since_ms is not None) == failing
        )
        return (FAILING_MAX if failing else DELIVERIES_MAX) - busy

    async def _move(self, line: Line, moves: Sequence[Move]) -> set[str]:
        moved = await self._store.move(line.webhook.follower, moves)
        for move in moves:
            if move.event in moved:
                line.cursors[move.event] = move.seq
            else:
                # Another has it now, or a reply was lost: the cursor itself tells.
                line.cursors.pop(move.event, None)
                line.loaded = False
        return moved

    # One event's facts, one by one

    def _begin(self, line: Line, page: Sequence[Entry], at: int, fence: int) -> None:
        line.busy.add(page[0].event)
        task = asyncio.create_task(self._deliver(line, page, at, fence))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, line: Line, page: Sequence[Entry], at: int, fence: int) -> None:
        event = page[0].event
        try:
            await self._deliver_page(line, page, at, fence)
            self._told = ""
        except HoldfastError as trouble:
            line.loaded = False
            self._stumble(trouble)
        except Exception:
            line.loaded, self._stumbled = False, True
            log.exception("a delivery of %s to %s stumbled", event, line.webhook.id)
        finally:
            line.busy.discard(event)
            if not self._stopping:
                self._again.set()

    async def _deliver_page(self, line: Line, page: Sequence[Entry], at: int, fence: int) -> None:
        """The facts after `at`, where the cursor stands."""
        event, done = page[0].event, at
        moved_at = time.monotonic()
        for entry in page:
            if line.webhook.wants(entry.type):
                if not self._may(line, event, fence):
                    break
                if not await self._deliver_one(line, event, message(entry)):
                    break
            done = entry.seq
            if time.monotonic() - moved_at > MOVE_SECONDS:
                if not await self._moved(line, Move(event, at, done, fence)):
                    return
                at, moved_at = done, time.monotonic()
        if done > at:
            await self._moved(line, Move(event, at, done, fence))

    async def _moved(self, line: Line, move: Move) -> bool:
        if await self._move(line, [move]):
            return True
        self.repeated += move.seq - move.was
        return False

    def _may(self, line: Line, event: str, fence: int) -> bool:
        """Whether it is still ours to send. What was chosen before the lease ran out is not sent
        after it: another may be further by now."""
        mine = self._shards.fence(line.key(event)) == fence
        return mine and line.webhook.live and not self._stopping

    async def _deliver_one(self, line: Line, event: str, fact: Message) -> bool:
        """Whether its event may go on: it was delivered, or is with the dead letters."""
        came = await self._send(line.webhook, fact, self._now_ms())
        if not isinstance(came, Failure):
            self.delivered += 1
            await self._succeeded(line, event)
            return True
        self.failed += 1
        return await self._failed(line, event, fact, came)

    async def _send(self, webhook: Webhook, fact: Message, now_ms: Millis) -> int | Failure:
        if self._post is None:
            self._post = make_post(self._settings)
        signed = headers(webhook.signers(now_ms), fact.id, int(time.time()), fact.body)
        return await self._post.send(webhook.url, signed, fact.body)

    async def _succeeded(self, line: Line, event: str) -> None:
        if line.webhook.failing_since_ms is not None:
            self._changed(line, await self.webhooks.working(line.webhook.id))
        if line.waiting.pop(event, None) is not None:
            await self._forget_retry(line, event)

    async def _failed(self, line: Line, event: str, fact: Message, failure: Failure) -> bool:
        log.info("%s was not delivered to %s: %s", fact.id, line.webhook.id, failure.reason)
        self._changed(line, await self.webhooks.failing(line.webhook.id))
        if not line.webhook.live:
            return False
        id = retry_id(line.webhook.id, event)
        documents, now_ms = await self._store.documents(KIND, id)
        before = _read_retry(documents[0].body) if documents else None
        follows = after_failure(
            before,
            fact.seq,
            failure,
            now_ms=now_ms,
            failing_since_ms=line.webhook.failing_since_ms,
            turn=line.webhook.turn,
            chance=self._chance(),
        )
        if isinstance(follows, Dead):
            try:
                await self._bury(line, event, fact, follows.reason)
            except TooManyLetters as full:
                follows = stalled(before, fact.seq, now_ms, line.webhook.turn, str(full))
            else:
                return True
        if isinstance(follows, Disable):
            self.disabled += 1
            log.error("the webhook %s is disabled: %s", line.webhook.id, follows.reason)
            self._changed(line, await self.webhooks.disable(line.webhook.id, follows.reason))
        else:
            body = msgspec.json.encode(follows).decode()
            version = documents[0].version if documents else 0
            await self._store.put(Document(KIND, id, version + 1, body))
            line.waiting[event] = follows
        return False

    async def _bury(self, line: Line, event: str, fact: Message, reason: str) -> None:
        log.error("%s goes to the dead letters: %s", fact.id, reason)
        await self._letters.add(line.webhook.follower, fact, reason)
        self.dead += 1
        line.waiting.pop(event, None)
        await self._forget_retry(line, event)

    def _changed(self, line: Line, webhook: Webhook | None) -> None:
        """What was written about it counts at once here; one that is gone is sent nothing more."""
        line.webhook = webhook or replace(line.webhook, removed_ms=self._now_ms())

    async def _forget_retry(self, line: Line, event: str) -> None:
        documents, _ = await self._store.documents(KIND, retry_id(line.webhook.id, event))
        for each in documents:
            await self._store.drop(KIND, each.id, each.version)


def _warn_of_gap(webhook: Webhook, event: str, after: int, first: int) -> None:
    if first != after + 1:
        log.error(
            "%s: facts %d to %d were pruned before they were delivered to %s",
            *(event, after + 1, first - 1, webhook.id),
        )


async def redeliver(
    store: Store, settings: Settings, webhook_id: str, message: Message
) -> str | None:
    """One fact again, now, from a process that delivers nothing else: None when it was taken, else
    why not."""
    deliveries = Deliveries(store, settings)
    try:
        answer = await deliveries.redeliver(webhook_id, message)
        return f"there is no webhook {webhook_id}" if answer is None else answer.reason
    finally:
        await deliveries.stop()
