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
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from holdfast.brokers.webhooks.line import Line
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
from holdfast.brokers.webhooks.subscriptions import State, Webhook, Webhooks
from holdfast.domain.cloudevents import Message, fact_id, message
from holdfast.domain.facts import Entry
from holdfast.domain.model import Millis
from holdfast.domain.outcomes import Reason, Refused
from holdfast.domain.views import Document, Move
from holdfast.errors import HoldfastError, Pruned, SettingsError
from holdfast.followers.dead_letters import DeadLetters, TooManyLetters
from holdfast.followers.shards import LEASE_MS, SHARDS, Shards, shard_of
from holdfast.ids import Ids, is_event_id
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
        """Shards that are ours in this round, and their fences; none when the lease has run out."""
        self._taken: dict[int, int] = {}
        """The same as they were last: what is known of a shard is true as long as its fence is."""
        self._wanted = asyncio.Event()
        """There is something to divide with the others."""
        self._read_at = float("-inf")
        self._now: tuple[Millis, float] = (0, 0.0)
        """The authority's time, and ours when it was asked for."""
        self._again = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
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
        """How often this process disabled a subscription."""
        self.disabled_now = 0
        """Subscriptions that are disabled, as they were last read."""
        self.missed = 0
        """Facts that were pruned before they were delivered."""
        self.repeated = 0
        """Facts that were delivered but whose cursor had been moved by another meanwhile."""

    # What can be watched

    def lags(self) -> dict[str, int]:
        """Of each subscription: facts on the logs of its events that are ours and that it is not
        done with, whether it wants them or not."""
        return {
            line.webhook.id: sum(
                max(0, self._heads.get(event, 0) - line.cursors.get(event, 0))
                for event in line.lagging()
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
        self._renewing = asyncio.create_task(self._renew())

    async def stop(self) -> None:
        """What is on its way has a few seconds to be answered; the rest is another's at once."""
        self._stopping = True
        await end_task(self._task)
        await end_task(self._waking)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        # Not before: until they have ended, what they deliver is to be ours.
        for task in [self._renewing, *self._tasks]:
            await end_task(task)
        self._task = self._waking = self._renewing = None
        if self._wanted.is_set():
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

    async def _renew(self) -> None:
        """Beside the rounds, for a round may take longer than a lease lasts."""
        while True:
            await self._wanted.wait()
            try:
                if self._lines:
                    await self._shards.renew()
                else:
                    self._wanted.clear()
                    await self._shards.leave()
            except Exception as trouble:  # whatever it is, the next time may go better
                log.warning("the share in the webhooks was not renewed: %s", trouble)
            if self._shards.mine != self._taken:
                self._again.set()
            await asyncio.sleep(self._shards.renew_seconds)

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
        self._divide()
        if not self._lines or not self._taken:
            return
        heads = await self._store.heads()
        if any(line.unread for line in self._lines.values()):
            await self._load(heads)
        self._note(heads)
        now_ms = self._now_ms()
        for line in self._lines.values():
            line.wake(now_ms)
        ready = [line for line in self._lines.values() if line.behind]
        for line in sorted(ready, key=lambda line: len(line.busy)):
            await self._serve(line)

    def _divide(self) -> None:
        """Of shards that were not ours so far, or were another's in between, everything is read
        anew. When only the lease had run out, the fence is the same: nobody else had them."""
        self._mine = dict(self._shards.mine)
        if not self._mine or self._mine == self._taken:
            return
        gone = {nth for nth, fence in self._taken.items() if self._mine.get(nth) != fence}
        new = {nth for nth, fence in self._mine.items() if self._taken.get(nth) != fence}
        self._taken = self._mine
        for line in self._lines.values():
            self._drop(line, gone, line.busy)
            line.unread |= new

    async def _read(self) -> None:
        """The subscriptions that are live, as they are now."""
        found, now = await self.webhooks.read()
        self._read_at = time.monotonic()
        self._now = now, self._read_at
        there = {each.id: each for each, _ in found if each.removed_ms is None}
        self.disabled_now = sum(each.state is State.DISABLED for each in there.values())
        for id, line in list(self._lines.items()):
            webhook = there.get(id)
            if webhook is None or not webhook.live:
                self._changed(line, webhook)
                # One that is still at something stays until that has ended.
                if not line.busy:
                    self._lines.pop(id, None)
        for webhook in [each for each in there.values() if each.live]:
            line = self._lines.setdefault(webhook.id, Line(webhook, range(SHARDS)))
            if line.turn != webhook.turn:
                line.turn, line.unread = webhook.turn, set(range(SHARDS))
            line.webhook = webhook
        if self._lines:
            self._wanted.set()
        await self.webhooks.forget_removed(found, now)

    def _now_ms(self) -> Millis:
        told, at = self._now
        return told + round((time.monotonic() - at) * 1000)

    async def _load(self, heads: Mapping[str, int]) -> None:
        """Where the cursors stand and what waits, of pairs that may have been another's so far: of
        all subscriptions in one read each."""
        lines = [
            (line, line.unread, set(line.busy)) for line in self._lines.values() if line.unread
        ]
        for line, _, _ in lines:
            # A delivery that stumbles meanwhile says so again.
            line.unread = set()
        try:
            documents, _ = await self._store.documents(KIND)
            only = lines[0][0].webhook.follower if len(lines) == 1 else None
            cursors, _ = await self._store.cursors(only)
        except BaseException:
            for line, unread, _ in lines:
                line.unread |= unread
            raise
        retries = {each.id: each for each in documents}
        found = {
            follower: {each.event: each.seq for each in group}
            for follower, group in groupby(cursors, key=lambda each: each.follower)
        }
        past: list[Document] = []
        for line, unread, busy in lines:
            there = found.get(line.webhook.follower, {})
            past += self._fill(line, unread & self._taken.keys(), busy, heads, there, retries)
            # There may be very many of them, and others have to get a turn.
            await asyncio.sleep(0)
        for each in past:
            await self._store.drop(KIND, each.id, each.version)

    def _fill(
        self,
        line: Line,
        shards: Set[int],
        busy: Set[str],
        heads: Mapping[str, int],
        cursors: Mapping[str, int],
        retries: Mapping[str, Document],
    ) -> list[Document]:
        """What was read, instead of what was known of those shards; what waits no longer, because
        somebody delivered it meanwhile."""
        # Of what was on its way just now, the delivery itself knows best.
        known = busy & line.cursors.keys()
        self._drop(line, shards, known)
        past: list[Document] = []
        for event, head in heads.items():
            if event in known or not line.webhook.follows(event):
                continue
            if shard_of(line.key(event)) not in shards:
                continue
            seq = line.cursors[event] = cursors.get(event, 0)
            document = retries.get(retry_id(line.webhook.id, event))
            retry = _read_retry(document.body) if document else None
            if document and retry and retry.seq <= seq:
                past.append(document)
            elif retry:
                line.wait(event, retry)
            if head > seq:
                line.note(event)
        return past

    def _drop(self, line: Line, shards: Set[int], but: Set[str]) -> None:
        if shards:
            line.drop(lambda event: event not in but and shard_of(line.key(event)) in shards)

    def _note(self, heads: dict[str, int]) -> None:
        """What is new goes to the end of each line."""
        moved = {event: head for event, head in heads.items() if self._heads.get(event) != head}
        self._heads = heads
        for line in self._lines.values():
            for event, head in moved.items():
                if (
                    head > line.cursors.get(event, 0)
                    and line.webhook.follows(event)
                    and shard_of(line.key(event)) in self._taken
                ):
                    line.note(event)

    # Choosing what goes out

    async def _serve(self, line: Line) -> None:
        """Starts as many deliveries of a subscription as there is room for, and passes over what
        it does not want."""
        if not line.webhook.live or line.slots <= 0:
            return
        fences = self._chosen(line, min(line.slots, self._free(line)))
        if not fences:
            return
        after = {event: line.cursors.get(event, 0) for event in fences}
        entries = await self._store.tails(after, PAGE_FACTS_MAX)
        passed: list[Move] = []
        for event, group in groupby(entries, key=lambda entry: entry.event):
            page, at, fence = list(group), after[event], fences[event]
            if page[0].seq != at + 1:
                if not await self._skip(line, Move(event, at, page[0].seq - 1, fence)):
                    continue
                at = page[0].seq - 1
            if any(line.webhook.wants(entry.type) for entry in page):
                self._begin(line, page, at, fence)
            else:
                passed.append(Move(event, at, page[-1].seq, fence))
        if passed:
            await self._move(line, passed)
            self._again.set()

    async def _skip(self, line: Line, move: Move) -> bool:
        """Past facts that the log has no longer; said once, for the cursor is behind them then."""
        if not await self._move(line, [move]):
            return False
        self.missed += move.seq - move.was
        log.error(
            "%s: facts %d to %d were pruned before they were delivered to %s",
            *(move.event, move.was + 1, move.seq, line.webhook.id),
        )
        retry = line.waiting.get(move.event)
        if retry is not None and retry.seq <= move.seq:
            await self._settle(line, move.event, move.seq)
        return True

    def _chosen(self, line: Line, most: int) -> dict[str, int]:
        """Events whose turn it is, each with the fence under which it is ours; those that are not
        ours, or have nothing new, leave the line."""
        chosen: dict[str, int] = {}
        # While the lease has run out nobody knows whose they are.
        for _ in range(len(line.behind) if self._mine else 0):
            if len(chosen) >= most:
                break
            event = next(iter(line.behind))
            # To the end: next time it is another's turn.
            line.behind.move_to_end(event)
            shard = shard_of(line.key(event))
            if event in line.busy or shard in line.unread:
                continue
            fence = self._mine.get(shard, 0)
            if fence and self._heads.get(event, 0) > line.cursors.get(event, 0):
                chosen[event] = fence
            else:
                del line.behind[event]
                line.waiting.pop(event, None)
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
                self._doubt(line, move.event)
        return moved

    def _doubt(self, line: Line, event: str) -> None:
        """What is known of it may be wrong: it is read again before anything goes out."""
        line.unread.add(shard_of(line.key(event)))

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
            self._doubt(line, event)
            self._stumble(trouble)
        except Exception:
            self._doubt(line, event)
            self._stumbled = True
            log.exception("a delivery of %s to %s stumbled", event, line.webhook.id)
        finally:
            line.busy.discard(event)
            if shard_of(line.key(event)) in self._taken:
                # There may be more of it; where there is not, it leaves the line.
                line.note(event)
            else:
                line.drop(lambda each: each == event)
            if not self._stopping:
                self._again.set()

    async def _deliver_page(self, line: Line, page: Sequence[Entry], at: int, fence: int) -> None:
        """The facts after `at`, where the cursor stands."""
        event, done = page[0].event, at
        moved_at = time.monotonic()
        for entry in page:
            if line.webhook.wants(entry.type):
                if not self._may(line, event, fence):
                    self._doubt(line, event)
                    break
                if not await self._deliver_one(line, event, message(entry)):
                    break
            done = entry.seq
            waited = line.waiting.get(event)
            settled = waited is not None and waited.seq <= done
            if settled or time.monotonic() - moved_at > MOVE_SECONDS:
                if not await self._moved(line, Move(event, at, done, fence)):
                    return
                at, moved_at = done, time.monotonic()
            if settled:
                await self._settle(line, event, done)
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
            if line.webhook.failing_since_ms is not None:
                self._changed(line, await self.webhooks.working(line.webhook.id))
            return True
        self.failed += 1
        return await self._failed(line, event, fact, came)

    async def _send(self, webhook: Webhook, fact: Message, now_ms: Millis) -> int | Failure:
        if self._post is None:
            self._post = make_post(self._settings)
        signed = headers(webhook.signers(now_ms), fact.id, int(time.time()), fact.body)
        return await self._post.send(webhook.url, signed, fact.body)

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
                await self._bury(line, fact, follows.reason)
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
            line.wait(event, follows)
        return False

    async def _bury(self, line: Line, fact: Message, reason: str) -> None:
        log.error("%s goes to the dead letters: %s", fact.id, reason)
        await self._letters.add(line.webhook.follower, fact, reason)
        self.dead += 1

    def _changed(self, line: Line, webhook: Webhook | None) -> None:
        """What was written about it counts at once here; one that is gone is sent nothing more."""
        line.webhook = webhook or replace(line.webhook, removed_ms=self._now_ms())

    async def _settle(self, line: Line, event: str, seq: int) -> None:
        """What waited is behind the cursor. Not before: dying in between would forget how often
        it was tried, where a note of what is behind the cursor is passed over by whoever reads it.
        One of a later fact is another's, who has the event by now."""
        line.waiting.pop(event, None)
        documents, _ = await self._store.documents(KIND, retry_id(line.webhook.id, event))
        for each in documents:
            if _read_retry(each.body).seq <= seq:
                await self._store.drop(KIND, each.id, each.version)


class NoFact(NamedTuple):
    """There is nothing to deliver again."""

    detail: str
    event_known: bool = True


async def find_fact(store: Store, event: str, seq: int) -> Message | NoFact:
    """One fact as it would be sent, or why there is none."""
    found = await store.log(event, seq - 1, 1) if is_event_id(event) else []
    if found and found[0].seq == seq:
        return message(found[0])
    if found:
        return NoFact(str(Pruned(event, found[0].seq)))
    if not is_event_id(event) or not await store.summaries(event):
        return NoFact(Refused(Reason.UNKNOWN_EVENT, event).detail, event_known=False)
    return NoFact(f"the log has no fact {fact_id(event, seq)}")


async def redeliver(
    store: Store, settings: Settings, webhook_id: str, message: Message
) -> str | None:
    """One fact again, now, from a process that delivers nothing else: None when it was taken, else
    why not."""
    deliveries = Deliveries(store, settings)
    try:
        answer = await deliveries.redeliver(webhook_id, message)
        return f"there is no webhook {webhook_id!r}" if answer is None else answer.reason
    finally:
        await deliveries.stop()
