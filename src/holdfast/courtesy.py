"""Policy `gate`: a hold that lives only in the gate until payment begins.

It is a courtesy: lost with the gate, timed by the gate's clock, not on the log. The same rules
decide about it as about every hold. When payment begins, one guarded write makes it a paying hold
of the authority, before any money moves: if its units are no longer free, it is refused there. So
is a hold that the gate has lost, unless its units are still free: then it is placed anew.

Best available is chosen by the authority, from what nobody has as a courtesy, and held there at
once; so is an ask under the caller's own id or key, whose answer has to be remembered for a day.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from msgspec.structs import replace

from holdfast.catalogue import Catalogues
from holdfast.domain.commands import (
    Command,
    ConfirmHold,
    ExtendHold,
    OpenOrder,
    PayHold,
    PlaceHold,
    ReleaseHold,
    Sell,
)
from holdfast.domain.decide import decide
from holdfast.domain.gating import (
    Claim,
    Claimed,
    Clash,
    Done,
    Find,
    Found,
    Free,
    Keep,
    Kind,
    Op,
    OverCap,
    Owned,
    Short,
    Unready,
    short,
    taken,
)
from holdfast.domain.model import Ask, Event, Hold, HoldState, Millis, Pool, Seat
from holdfast.domain.model import Claim as Share
from holdfast.domain.outcomes import (
    Answer,
    Extended,
    Paying,
    Placed,
    Reason,
    Refused,
    Released,
)
from holdfast.domain.shelf import Decision, Shelf
from holdfast.gates.keeper import Keeper
from holdfast.ids import digest

REMEMBERED_MAX = 50_000
OVERLAY_MS = 200
GONE = (Reason.TAKEN, Reason.SOLD_OUT, Reason.INSUFFICIENT, Reason.UNKNOWN_UNIT)
"""After these nobody keeps the units for him any more. An event that is paused may open again."""
ROUNDS_MAX = 3
MOVED_TOGETHER = 200
MOVE_PATIENCE = 50.0
"""Times the time that a verdict may take: nobody is waiting but the operator."""

log = logging.getLogger("holdfast.gate")

Follows = ExtendHold | ReleaseHold | PayHold | ConfirmHold | OpenOrder
PAYS = (PayHold, ConfirmHold, OpenOrder)
"""With these payment begins."""
Submit = Callable[[Event, Command], Awaitable[Answer]]


class Note(msgspec.Struct, frozen=True):
    """What a courtesy has besides its units."""

    amount: int
    currency: str
    length_ms: Millis
    """From its beginning to its soft deadline."""
    channels: tuple[str, ...] = ()
    cap: int | None = None
    extensions: int = 0
    paying: bool = False
    """It is being handed over to the authority, which is asked first from then on."""


class Courtesy(msgspec.Struct):
    hold: Hold
    note: Note


_note_decoder = msgspec.json.Decoder(Note)


def _read_note(owned: Owned) -> Note | None:
    """None if it is not ours: then nobody can pay for it, and it ends by its deadline."""
    try:
        return _note_decoder.decode(owned.note)
    except msgspec.MsgspecError:
        return None


class Courtesies:
    def __init__(
        self, keeper: Keeper, submit: Submit, catalogues: Catalogues, clock: Callable[[], Millis]
    ) -> None:
        self._keeper = keeper
        self._clock = clock
        self._submit = submit
        self._catalogues = catalogues
        self._known: OrderedDict[str, Courtesy] = OrderedDict()
        """Those placed here: should the gate lose one, its units are still known."""
        self._skew_ms: Millis = 0
        self._overlays: dict[str, tuple[Millis, list[Owned]]] = {}
        self._looking: dict[str, asyncio.Task[list[Owned]]] = {}

    async def place(self, event: Event, command: PlaceHold) -> Answer | None:
        """The answer, or None where the authority has to say it."""
        catalogue = await self._catalogues.catalogue(event)
        amount = catalogue.price(command) if catalogue else None
        if amount is None or command.digest:
            return await self._own(event, command)
        ask, length_ms = command.ask, event.hold_seconds * 1000
        note = Note(amount, event.currency, length_ms, ask.channels, command.cap)
        owned = Owned(
            id=command.hold,
            buyer=command.buyer,
            seats=ask.seats,
            pools=ask.pools,
            kind=Kind.COURTESY,
            keep_ms=length_ms,
            note=msgspec.json.encode(note).decode(),
        )
        cap = command.cap if event.max_per_buyer is None else event.max_per_buyer
        verdict = await self._keeper.ask(event.id, event.version, Claim(owned, cap))
        match verdict:
            case Claimed(now, None):
                return Answer(Placed(self._met(event, owned, note, now).hold), now_ms=now)
            case Clash():
                return await self._clash(event, command, verdict)
            case Short():
                return Answer(short(verdict))
            case OverCap(most):
                self.moved(event.id)
                own = await self._own(event, command)
                return own or Answer(Refused(Reason.BUYER_CAP, cap=most))
            case Unready():
                self._catalogues.forget(event.id)
        return None

    async def _own(self, event: Event, command: PlaceHold) -> Answer | None:
        """Nobody is refused by his own hold, not even while the event is paused."""
        ask = command.ask
        for owned in await self.overlay(event.id):
            same = set(owned.seats) == set(ask.seats) and owned.pools == ask.pools
            if owned.buyer == command.buyer and owned.seats and same:
                hold = await self.hold(event, owned.id)
                return Answer(Placed(hold), now_ms=self._clock()) if hold else None
        return None

    async def _clash(self, event: Event, command: PlaceHold, clash: Clash) -> Answer | None:
        mine = {owner for _, owner, buyer, _ in clash.seats if buyer == command.buyer}
        if not mine:
            return taken(clash)
        found = await self._keeper.ask(event.id, event.version, Find(min(mine)))
        if not isinstance(found, Found) or found.owned is None:
            return None
        own, ask = found.owned, command.ask
        if own.kind is not Kind.COURTESY:
            return None
        note = _read_note(own)
        if note and set(own.seats) == set(ask.seats) and own.pools == ask.pools:
            hold = _hold(event, own, note, found.now_ms)
            return Answer(Placed(hold), now_ms=found.now_ms)
        return taken(clash)

    async def follow(self, event: Event, command: Follows) -> Answer | None:
        """The answer, if the hold is a courtesy; None if it is the authority's affair."""
        for _ in range(ROUNDS_MAX):
            courtesy, now, there = await self._find(event, command.hold)
            if courtesy is None:
                return None
            decision = self._decide(event, command, courtesy, now)
            if isinstance(decision.outcome, Refused) or not decision.facts:
                return Answer(decision.outcome, now_ms=now)
            pays = isinstance(command, PAYS)
            if courtesy.note.paying and not pays:
                answer = await self._submit(event, command)
                if not _unknown(answer):
                    return answer
            fenced = await self._fence(event, command, courtesy, decision, now) if there else None
            if fenced is False:
                continue  # somebody else was there meanwhile: decide anew
            if pays or command.digest or fenced is None:
                # Payment begins, or the answer has to be remembered for a day, or the gate does not
                # answer or has lost it: from now on the hold is the authority's.
                answer = await self._hand_over(event, command, courtesy, now)
                given_back = isinstance(decision.outcome, Released)
                if given_back and isinstance(answer.outcome, Refused):
                    return Answer(decision.outcome, now_ms=now)  # he has what he wanted
                return answer
            assert isinstance(decision.outcome, Extended | Released)
            note = replace(courtesy.note, extensions=decision.outcome.hold.extensions)
            self._remember(Courtesy(decision.outcome.hold, note))
            return Answer(decision.outcome, now_ms=now)
        return Answer(Refused(Reason.STALE, command.hold), now_ms=now)

    def _decide(self, event: Event, command: Follows, courtesy: Courtesy, now: Millis) -> Decision:
        """By the rules for every hold. To confirm it is to pay first."""
        if isinstance(command, ConfirmHold | OpenOrder):
            fence = (command.hold, command.buyer, command.version)
            pay = PayHold(id=command.id, event=command.event, hold=fence[0])
            command = replace(pay, buyer=fence[1], version=fence[2])
        return decide(_shelf(event, courtesy.hold), command, now)

    async def _fence(
        self, event: Event, command: Follows, courtesy: Courtesy, decision: Decision, now: Millis
    ) -> bool | None:
        """Changes it in the gate, if it is still the version that was decided on. None: nobody
        knows, for the gate does not answer."""
        hold = courtesy.hold
        op: Op = Free(hold.id, hold.version)
        if command.digest or not isinstance(command, ReleaseHold):
            after = hold
            if isinstance(decision.outcome, Extended) and not command.digest:
                after = decision.outcome.hold
            note = replace(
                courtesy.note,
                extensions=after.extensions,
                length_ms=courtesy.note.length_ms + after.soft_ms - hold.soft_ms,
                paying=isinstance(command, PAYS),
            )
            text = msgspec.json.encode(note).decode()
            op = Keep(hold.id, Kind.COURTESY, after.soft_ms - now, hold.version, text)
        done = await self._keeper.ask(event.id, event.version, op)
        self.moved(event.id)
        return done.changed if isinstance(done, Done) else None

    async def _hand_over(
        self, event: Event, command: Follows, courtesy: Courtesy, now: Millis
    ) -> Answer:
        """Makes it the authority's, and lets that decide."""
        paying = isinstance(command, PAYS)
        adopted = await self._adopt(event, courtesy, now, paying=paying)
        there = isinstance(adopted.outcome, Refused) and adopted.outcome.reason is Reason.EXISTS
        if not isinstance(adopted.outcome, Placed) and not there:
            return adopted
        hold = adopted.outcome.hold if isinstance(adopted.outcome, Placed) else courtesy.hold
        fresh = not there and not adopted.replayed and hold.state is HoldState.PAYING
        if isinstance(command, PayHold) and not command.digest and fresh:
            return Answer(Paying(hold), now_ms=adopted.now_ms)
        # The fence was looked at; what the authority has is one step further.
        return await self._submit(event, replace(command, hold=hold.id, version=None))

    async def _adopt(
        self, event: Event, courtesy: Courtesy, now: Millis, *, paying: bool
    ) -> Answer:
        """One guarded write makes it a hold of the authority's, or the authority refuses it."""
        hold, note = courtesy.hold, courtesy.note
        answer = await self._submit(
            event,
            PlaceHold(
                id=f"adopt:{hold.id}:{paying}",
                event=event.id,
                hold=hold.id,
                buyer=hold.buyer,
                ask=Ask(seats=hold.seats, pools=hold.pools, channels=note.channels),
                cap=note.cap,
                paying=paying,
                keep_ms=max(1, hold.soft_ms - now),
                version=hold.version,
                extensions=hold.extensions,
                amount=hold.amount,
                digest=digest("adopt", hold.id, paying),
            ),
        )
        self.over(event.id, hold.id)
        if isinstance(answer.outcome, Refused) and answer.outcome.reason in GONE:
            await self._keeper.ask(event.id, event.version, Free(hold.id))
        return answer

    async def any_of(self, event: Event, owners: Iterable[str]) -> bool:
        """Whether one of these is a courtesy."""
        finds = [self._keeper.ask(event.id, event.version, Find(id)) for id in owners]
        found = [each.owned for each in await asyncio.gather(*finds) if isinstance(each, Found)]
        return any(each is not None and each.kind is Kind.COURTESY for each in found)

    async def _find(self, event: Event, id: str) -> tuple[Courtesy | None, Millis, bool]:
        """The courtesy, the gate's time, and whether the gate has it still."""
        known = self._known.get(id)
        if known is None and self._catalogues.gated(event) != "gate":
            return None, 0, False
        found = await self._keeper.ask(event.id, event.version, Find(id))
        if not isinstance(found, Found):
            return known, self._clock() + self._skew_ms, False
        self._skew_ms = found.now_ms - self._clock()
        if found.owned is None:
            return known, found.now_ms, False
        if found.owned.kind is not Kind.COURTESY:
            return None, found.now_ms, False
        note = _read_note(found.owned)
        if note is None:
            return known, found.now_ms, False
        return Courtesy(_hold(event, found.owned, note, found.now_ms), note), found.now_ms, True

    async def hold(self, event: Event, id: str) -> Hold | None:
        """As it stands, if it is a courtesy."""
        courtesy, now, _ = await self._find(event, id)
        return courtesy.hold.seen(now) if courtesy else None

    async def sellable(self, event: Event, command: Sell) -> Refused | None:
        """A sale may name a courtesy as its own if it is the buyer's, with these units."""
        courtesy, now, _ = (
            await self._find(event, command.hold) if command.hold else (None, 0, False)
        )
        if courtesy is None:
            return None
        hold, ask = courtesy.hold, command.ask
        same = set(hold.seats) == set(ask.seats) and hold.pools == ask.pools and not ask.best
        if same and hold.buyer == command.buyer and hold.live(now):
            return None
        return Refused(Reason.EXISTS, hold.id)

    async def overlay(self, event: str) -> list[Owned]:
        """All courtesies of an event, a moment old at most. One look serves all who ask."""
        at, owned = self._overlays.get(event, (0, []))
        if 0 <= self._clock() - at <= OVERLAY_MS:
            return owned
        looking = self._looking.get(event)
        if looking is None:
            looking = self._looking[event] = asyncio.create_task(self._look(event))
            looking.add_done_callback(lambda task: self._looked(event, task))
        return await asyncio.shield(looking)

    def _looked(self, event: str, task: "asyncio.Task[list[Owned]]") -> None:
        if self._looking.get(event) is task:
            del self._looking[event]

    async def _look(self, event: str) -> list[Owned]:
        snapshot = await self._keeper.snapshot(event)
        kept = snapshot.owners if snapshot else []
        owned = [each.owned for each in kept if each.owned.kind is Kind.COURTESY]
        if len(self._overlays) > 1_000:
            self._overlays.clear()
        if self._looking.get(event) is asyncio.current_task():
            self._overlays[event] = (self._clock(), owned)  # else it has moved meanwhile
        return owned

    def moved(self, event: str) -> None:
        """What is known of its courtesies is old."""
        self._overlays.pop(event, None)
        self._looking.pop(event, None)

    def over(self, event: str, id: str) -> None:
        """It is a courtesy no more."""
        self._known.pop(id, None)
        self.moved(event)

    async def move_out(self, event: Event) -> int:
        """Makes all courtesies holds of the authority's, and admits no new ones; how many."""
        # The gate takes the next version for the present one, so that no process that knows an
        # older one gets a courtesy any more.
        await self._keeper.ask(event.id, event.version + 1, Find(""))
        snapshot = await self._keeper.snapshot(event.id, MOVE_PATIENCE)
        if snapshot is None:
            log.warning("the gate does not tell which holds of %s live only there", event.id)
            return 0
        moved = 0
        courtesies: list[Courtesy] = []
        for kept in snapshot.owners:
            note = _read_note(kept.owned) if kept.owned.kind is Kind.COURTESY else None
            if note is not None:
                courtesies.append(Courtesy(_hold(event, kept.owned, note, snapshot.now_ms), note))
        for start in range(0, len(courtesies), MOVED_TOGETHER):
            part = courtesies[start : start + MOVED_TOGETHER]
            moving = (self._adopt(event, each, snapshot.now_ms, paying=False) for each in part)
            moved += sum(isinstance(each.outcome, Placed) for each in await asyncio.gather(*moving))
        return moved

    def _met(self, event: Event, owned: Owned, note: Note, now: Millis) -> Courtesy:
        courtesy = Courtesy(_hold(event, owned, note, now), note)
        self._remember(courtesy)
        return courtesy

    def _remember(self, courtesy: Courtesy) -> None:
        self._known[courtesy.hold.id] = courtesy
        self.moved(courtesy.hold.event)
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)


def _hold(event: Event, owned: Owned, note: Note, now: Millis) -> Hold:
    soft_ms = now + owned.keep_ms
    return Hold(
        id=owned.id,
        event=event.id,
        buyer=owned.buyer,
        state=HoldState.HELD,
        seats=owned.seats,
        pools=owned.pools,
        amount=note.amount,
        currency=note.currency,
        placed_ms=soft_ms - note.length_ms,
        soft_ms=soft_ms,
        hard_ms=soft_ms + event.grace_seconds * 1000,
        extensions=note.extensions,
        version=owned.version,
    )


def _shelf(event: Event, hold: Hold) -> Shelf:
    """The hold with its units, as if the authority had them: so the same rules decide."""
    shelf = Shelf(event.id, event)
    shelf.holds.load([hold])
    shelf.seats.load(Seat(id, "", None, hold.id, hold.soft_ms) for id in hold.seats)
    shelf.pools.load(Pool(id, "", quantity, quantity) for id, quantity in hold.pools.items())
    shelf.claims.load(
        Share(pool, hold.id, quantity, hold.soft_ms) for pool, quantity in hold.pools.items()
    )
    return shelf


def _unknown(answer: Answer) -> bool:
    outcome = answer.outcome
    return isinstance(outcome, Refused) and outcome.reason is Reason.UNKNOWN_HOLD
