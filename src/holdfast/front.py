"""What a command meets before its lane: the refusal cache, then the gate, by the event's policy.

    authority   straight to the lane; the cache refuses what was refused a moment ago
    two-layer   a claim in the gate for three seconds, then the authority; after its commit the
                claim is lengthened, or given back
    gate        a courtesy in the gate alone, until payment begins: see `courtesy`

The gate may only say no. Where it has nothing to say, is down, or could be wrong about this very
ask (the caller's own id may be a repetition, the seats may be his own), the authority decides.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from msgspec.structs import replace

from holdfast.catalogue import Catalogues
from holdfast.courtesy import Courtesies, Follows
from holdfast.domain.commands import (
    AddCapacity,
    CancelOrder,
    ChangeEvent,
    Command,
    CreateEvent,
    PlaceHold,
    ReleaseHold,
    Sell,
    SettleOrder,
    Withdraw,
)
from holdfast.domain.gating import (
    Claim,
    Claimed,
    Clash,
    Done,
    Free,
    Keep,
    Kind,
    Mark,
    Op,
    Owned,
    Short,
    Unready,
    held,
    short,
    sold,
    taken,
)
from holdfast.domain.model import Apart, Ask, Event, Hold, Millis, SeatState
from holdfast.domain.outcomes import (
    Answer,
    Cancelled,
    Changed,
    Confirmed,
    Created,
    Expired,
    Extended,
    Opened,
    Paying,
    Placed,
    Refused,
    Released,
)
from holdfast.domain.views import SeatMap, Summary
from holdfast.errors import StoreBusy
from holdfast.gates.keeper import Keeper
from holdfast.ids import Ids, public_id
from holdfast.refusals import Refusals

CHOICES_MAX = 3
CLAIM_MS = 3_000
"""A claim outlives the batch that it is made for, and no crash blocks a seat for longer."""
REMEMBERED_MS = 1_000
"""How long a gate's word is repeated: not all that it keeps is on the log."""

Submit = Callable[[Command], Awaitable[Answer]]
Beside = TypeVar("Beside", PlaceHold, Sell, SettleOrder, Withdraw)


class Reconcile(Protocol):
    def want(self, event: str) -> None:
        """Soon, please: the gate knows too little of this event."""

    async def reset(self, event: str) -> None:
        """The gate begins anew: what was begun there is not done."""

    async def refresh(self, event: str, *, wanted: bool = False) -> None:
        """Now, if the gate can be reached. Wanted: though the event's policy has no gate yet."""


class Front:
    def __init__(
        self,
        submit: Submit,
        keeper: Keeper | None,
        refusals: Refusals | None,
        catalogues: Catalogues,
        clock: Callable[[], Millis],
    ) -> None:
        self._submit = submit
        self._keeper = keeper
        self._refusals = refusals
        self._catalogues = catalogues
        self._clock = clock
        self._ids = Ids()
        self.courtesies = Courtesies(keeper, self._settled, catalogues, clock) if keeper else None
        self.reconcile: Reconcile | None = None

    def submit(self, command: Command) -> Awaitable[Answer]:
        """Without a gate straight on: what is not awaited in between costs nothing."""
        if self._keeper is None:
            return self._submit(command)
        if isinstance(command, PlaceHold):
            return self._place(command)
        return self._pass(command)

    async def _pass(self, command: Command) -> Answer:
        """By the gate, where it has a say."""
        if isinstance(command, STAGING):
            return await self._stage(command)
        event = await self._catalogues.event(command.event)
        if event is None:
            return await self._submit(command)
        courtesies = self.courtesies
        if isinstance(command, Sell):
            return await self._sell(event, command)
        if isinstance(command, SettleOrder) and command.late:
            command = await self._beside(event, command)
        if courtesies and isinstance(command, Follows):
            answer = await courtesies.follow(event, command)
            if answer is not None:
                return answer
        return await self._settled(event, command)

    async def _settled(self, event: Event, command: Command) -> Answer:
        """The authority's answer, of which the gate is told."""
        answer = await self._submit(command)
        await self._tell(event, command, answer)
        return answer

    def learn(
        self, commands: Sequence[Command], answers: Sequence[Answer], asked_ms: Millis
    ) -> None:
        """What the authority said to a batch that began at that moment, for the cache."""
        refusals = self._refusals
        if refusals is None:
            return
        for command, answer in zip(commands, answers, strict=True):
            match answer.outcome:
                case Refused():
                    refusals.learn(command.event, answer, asked_ms)
                case Released(hold):
                    refusals.opened(command.event, hold.seats)
                case Cancelled(order):
                    named = command.seats if isinstance(command, CancelOrder) else ()
                    refusals.opened(command.event, named or order.seats)
                case Changed() | Expired():
                    refusals.forget(command.event)

    def remembered(self, event: str, buyer: str, ask: Ask) -> Refused | None:
        """The refusal of a moment ago, for an ask under an id of ours: the caller's own may be a
        repetition, which has to be answered as the first time."""
        if self._refusals is None:
            return None
        return self._refusals.refuse(event, buyer, ask)

    def known(self, command: Command) -> Answer | None:
        """The answer to a command whose turn has come, if what it wants was lost while it waited.
        Behind a gate there is no such crowd, and what is claimed there has to be settled."""
        if self._refusals is None or self._keeper is not None or command.digest:
            return None
        match command:
            case PlaceHold() | Sell(payment=None, hold=None):
                no = self._refusals.refuse(command.event, command.buyer, command.ask)
                return None if no is None else Answer(no)
        return None

    async def _place(self, command: PlaceHold) -> Answer:
        event = await self._catalogues.event(command.event)
        policy = self._catalogues.gated(event)
        if event is None or policy == "authority":
            return await self._submit(command)
        if policy == "gate":
            return await self._courtesy(event, command)
        return await self._two_layers(event, command)

    async def _courtesy(self, event: Event, command: PlaceHold) -> Answer:
        assert self.courtesies is not None
        if not command.ask.best:
            answer = await self.courtesies.place(event, command)
            if answer is not None:
                return self._heard(command, answer)
        for _ in range(CHOICES_MAX):
            chosen = await self._two_layers(event, await self._beside(event, command))
            if await self._undisturbed(event, command, chosen):
                return chosen
            self.courtesies.moved(event.id)
            command = replace(command, hold=public_id(event.id, self._ids.new()))
        raise StoreBusy(f"the best seats of {event.id} are taken as fast as they are chosen")

    async def _undisturbed(self, event: Event, command: PlaceHold, answer: Answer) -> bool:
        """Whether what the authority chose is nobody's courtesy. Else it is given back, and chosen
        anew. Only a choice made under the caller's own id stays: it was recorded."""
        if not isinstance(answer.outcome, Placed) or not command.ask.best or command.digest:
            return True
        assert self._keeper is not None
        assert self.courtesies is not None
        hold = answer.outcome.hold
        claim = Claim(held(hold, hold.until_ms - answer.now_ms))
        verdict = await self._keeper.ask(event.id, event.version, claim)
        if not isinstance(verdict, Clash):
            return True
        owners = {owner for _, owner, *_ in verdict.seats}
        if not await self.courtesies.any_of(event, owners):
            # The gate is wrong about them: here the authority's word counts.
            await self._keeper.ask(event.id, event.version, Mark(claim.owned))
            return True
        await self._submit(ReleaseHold(id=self._ids.new(), event=event.id, hold=hold.id))
        return False

    async def _beside(self, event: Event | None, command: Beside) -> Beside:
        """The same, with what is held as a courtesy: the authority shall not give it away."""
        owned = await self.overlay(event)
        if not owned:
            return command
        buyer = None if isinstance(command, Withdraw) else command.buyer
        own = command.hold if isinstance(command, Sell | SettleOrder) else None
        return replace(command, apart=apart(owned, buyer, own))

    async def _sell(self, event: Event, command: Sell) -> Answer:
        """A sale without a prior hold. Who has a courtesy is not passed over."""
        if self.courtesies is not None and (no := await self.courtesies.sellable(event, command)):
            return Answer(no)
        answer = await self._settled(event, await self._beside(event, command))
        if self.courtesies is not None and isinstance(answer.outcome, Confirmed) and command.hold:
            self.courtesies.over(event.id, command.hold)
        return answer

    async def _two_layers(self, event: Event, command: PlaceHold) -> Answer:
        """A claim first, where the units are known before the authority has chosen them."""
        assert self._keeper is not None
        claimed = False
        if not command.ask.best:
            owned = _claim(command.hold, command.buyer, command.ask)
            verdict = await self._keeper.ask(event.id, event.version, Claim(owned))
            match verdict:
                case Clash() | Short():
                    if refused := _refusal(verdict, command):
                        return self._heard(command, refused)
                    if isinstance(verdict, Clash) and self._catalogues.gated(event) == "gate":
                        command = _with_apart(command, verdict)
                case Claimed(owned=None):
                    claimed = True
                case Unready(version=0):
                    self._want(event)
        try:
            answer = await self._submit(command)
        except Exception:
            # Not when the caller only stopped waiting: then the batch goes on.
            if claimed:
                self._keeper.tell(event.id, event.version, Free(command.hold))
            raise
        await self._tell(event, command, answer, claimed)
        return answer

    def _heard(self, command: PlaceHold, answer: Answer) -> Answer:
        """A gate's no is repeated for a second without asking it again."""
        if self._refusals is not None and answer.holders:
            taken = (
                (holder.seat, holder.buyer, min(holder.until_ms - answer.now_ms, REMEMBERED_MS))
                for holder in answer.holders
            )
            self._refusals.remember(command.event, taken, self._clock())
        return answer

    async def _stage(self, command: Command) -> Answer:
        """The event itself changes. Leaving the policy `gate` first copies what lives only there;
        entering it first claims what the authority has; afterwards the gate has it all."""
        event = await self._catalogues.event(command.event)
        fenced = False
        if event is not None and isinstance(command, ChangeEvent):
            fenced = await self._prepare(event, command)
        if isinstance(command, Withdraw):
            command = await self._beside(event, command)
        answer = await self._submit(command)
        self._catalogues.forget(command.event)
        if self.reconcile is None:
            return answer
        if isinstance(answer.outcome, Created | Changed):
            await self.reconcile.refresh(command.event)
        elif fenced:
            await self.reconcile.reset(command.event)
        return answer

    async def _prepare(self, event: Event, command: ChangeEvent) -> bool:
        """Whether the gate admits no courtesy any more."""
        before = self._catalogues.gated(event)
        changes = {name: value for name, value in command.changes.items() if name in GATING}
        after = self._catalogues.gated(replace(event, **changes))
        if before == "gate" != after and self.courtesies is not None:
            await self.courtesies.move_out(event)
            return True
        if before == "authority" != after and self.reconcile is not None:
            await self.reconcile.refresh(event.id, wanted=True)
        return False

    async def _tell(
        self, event: Event, command: Command, answer: Answer, claimed: bool = False
    ) -> None:
        """What the gate should know of what the authority has decided."""
        assert self._keeper is not None
        policy = self._catalogues.gated(event)
        if policy == "authority" or (answer.replayed and not claimed):
            return
        chosen = isinstance(command, PlaceHold) and command.ask.best and not command.digest
        if policy == "gate" and chosen:
            return  # it is claimed there, not marked: see `_undisturbed`
        for op in _news(command, answer, claimed):
            done = await self._keeper.ask(event.id, event.version, op)
            if done == Done(False) and isinstance(answer.outcome, Placed):
                # The claim has lapsed: the batch took its time.
                hold = answer.outcome.hold
                mark = Mark(held(hold, hold.until_ms - answer.now_ms))
                await self._keeper.ask(event.id, event.version, mark)
        if answer.replayed and isinstance(answer.outcome, Placed):
            await self._look_up(event, answer.outcome.hold.id)

    async def _look_up(self, event: Event, id: str) -> None:
        """An answer given again says nothing about the present: the authority is asked."""
        assert self._keeper is not None
        found = await self._catalogues.hold(event.id, id)
        if found is not None and found[0].live(found[1]):
            hold, now = found
            mark = Mark(held(hold, hold.until_ms - now))
            await self._keeper.ask(event.id, event.version, mark)

    async def summary(self, summary: Summary) -> Summary:
        """With what is held as a courtesy."""
        owned = await self.overlay(summary.event)
        return replace(summary, held=summary.held + sum(each.units for each in owned))

    async def seat_map(self, id: str, seat_map: SeatMap) -> SeatMap:
        if self.courtesies is None:
            return seat_map
        owned = await self.overlay(await self._catalogues.event(id))
        return overlaid(seat_map, owned)

    async def courtesy(self, id: str, hold: str) -> Hold | None:
        event = await self._catalogues.event(id) if self.courtesies else None
        return await self.courtesies.hold(event, hold) if self.courtesies and event else None

    async def overlay(self, event: Event | None) -> list[Owned]:
        if self.courtesies is None or event is None or self._catalogues.gated(event) != "gate":
            return []
        return await self.courtesies.overlay(event.id)

    def _want(self, event: Event) -> None:
        if self.reconcile is not None:
            self.reconcile.want(event.id)


def apart(courtesies: list[Owned], buyer: str | None, own: str | None) -> Apart:
    """All courtesies but the asker's `own`, which he is about to buy."""
    others = [owned for owned in courtesies if owned.id != own]
    pools: Counter[str] = Counter()
    for owned in others:
        pools.update(owned.pools)
    seats = frozenset(seat for owned in others for seat in owned.seats)
    return Apart(seats, dict(pools), sum(o.units for o in others if o.buyer == buyer))


def overlaid(seat_map: SeatMap, courtesies: list[Owned]) -> SeatMap:
    """The map with what is held as a courtesy."""
    if not courtesies:
        return seat_map
    seats = {seat for owned in courtesies for seat in owned.seats}
    pools: Counter[str] = Counter()
    for owned in courtesies:
        pools.update(owned.pools)
    free = SeatState.AVAILABLE
    return SeatMap(
        seat_map.seq,
        [
            replace(seat, state=SeatState.HELD) if seat.id in seats and seat.state is free else seat
            for seat in seat_map.seats
        ],
        [
            replace(pool, available=max(0, pool.available - pools[pool.id]))
            for pool in seat_map.pools
        ],
    )


STAGING = (CreateEvent, ChangeEvent, AddCapacity, Withdraw)
GATING = ("policy", "gate")


def _claim(id: str, buyer: str, ask: Ask) -> Owned:
    kind, keep_ms = Kind.CLAIM, CLAIM_MS
    return Owned(id=id, buyer=buyer, seats=ask.seats, pools=ask.pools, kind=kind, keep_ms=keep_ms)


def _refusal(verdict: Clash | Short, command: PlaceHold) -> Answer | None:
    """The gate's no, unless it could be wrong about this ask."""
    if command.digest:
        return None
    if isinstance(verdict, Short):
        return Answer(short(verdict))
    if any(buyer == command.buyer for _, _, buyer, _ in verdict.seats):
        return None
    return taken(verdict)


def _with_apart(command: PlaceHold, clash: Clash) -> PlaceHold:
    """Whatever the id may say, these seats are others' courtesies."""
    others = {seat for seat, _, buyer, _ in clash.seats if buyer != command.buyer}
    more = replace(command.apart, seats=command.apart.seats | others)
    return replace(command, apart=more)


def _news(command: Command, answer: Answer, claimed: bool) -> list[Op]:
    now = answer.now_ms
    match answer.outcome:
        case Placed(hold) if isinstance(command, PlaceHold):
            if hold.id != command.hold:
                return [Free(command.hold)] if claimed else []  # his own hold back
            if answer.replayed:
                return [Free(command.hold)]
            keep_ms = hold.until_ms - now
            return [Keep(hold.id, Kind.HELD, keep_ms)] if claimed else [Mark(held(hold, keep_ms))]
        case Refused() if claimed and isinstance(command, PlaceHold):
            return [Free(command.hold)]
        case Extended(hold) | Paying(hold):
            return [Keep(hold.id, Kind.HELD, hold.until_ms - now)]
        case Released(hold):
            return [Free(hold.id)]
        case Confirmed(order):
            return [Mark(sold(order))]
        case Opened(order, until_ms) if order.hold is not None:
            return [Keep(order.hold, Kind.HELD, until_ms - now)]
        case Cancelled(order):
            left: list[Op] = [Mark(sold(order))] if order.sold else []
            return [Free(order.hold or order.id), *left]
    return []
