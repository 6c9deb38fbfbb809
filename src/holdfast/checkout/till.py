"""Where holds are paid for: begins orders, and goes on with those that nobody is at.

    till = Till(shop, provider)
    async with till:
        bought = await till.buy("opening-night.01J...", "stripe:pm_card_visa", key="cart-17")

An order goes on by itself once it is begun, whether or not anybody waits for it. `Saga` takes its
steps; here is who takes them: the process that began it, until it has been silent for the length of
a lease; then whichever process of the deployment finds it.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import NamedTuple, Self

import msgspec
from msgspec.structs import replace

from holdfast.checkout.recording import Recorder
from holdfast.checkout.saga import (
    PATIENCE,
    Overtaken,
    Patience,
    Saga,
    Step,
    Trap,
    next_step,
    trapped,
)
from holdfast.domain.commands import Command, OpenOrder
from holdfast.domain.model import Millis, Order, OrderState
from holdfast.domain.outcomes import (
    Answer,
    Cancelled,
    Confirmed,
    Opened,
    OpenedBefore,
    Reason,
    Refused,
)
from holdfast.domain.payments import PaymentState
from holdfast.engine import Holdfast
from holdfast.errors import HoldfastError, Overloaded, SettingsError, StoreError
from holdfast.ids import event_of
from holdfast.ports import Provider
from holdfast.tasks import Timeouts, end_task
from holdfast.upkeep.lease import Lease
from holdfast.wiring import make_provider, payment_seconds

RESUME_SECONDS = 1.0
RESUMED_MAX = 64
"""Orders of others that one process goes on with at a time."""
STRANDED_MAX = 10_000
"""Orders of its own that a process takes up when the store is back; more wait for their lease."""
WAIT_SECONDS = 30.0
"""How long a caller is kept waiting; then he is told that it is not finished."""
STRAYS = (OrderState.VOIDED, OrderState.DECLINED, OrderState.CANCELLED)

log = logging.getLogger("holdfast.checkout")


class InProgress(Exception):
    """The first call of that key is still at it, here or in another process."""


class Purchase(msgspec.Struct, frozen=True):
    """What became of an attempt to buy: an order, which may not be finished, or a refusal."""

    order: Order | None = None
    refused: Refused | None = None
    replayed: bool = False
    now_ms: Millis = 0
    until_ms: Millis = 0
    """Until when the hold waits for its payment; 0: it does not."""


class Cancellation(NamedTuple):
    outcome: Cancelled | Refused
    replayed: bool = False


class Till:
    def __init__(
        self,
        shop: Holdfast,
        provider: Provider | None,
        patience: Patience = PATIENCE,
        *,
        resume: bool = True,
        wait_seconds: float = WAIT_SECONDS,
        trap: Trap | None = None,
    ) -> None:
        self._shop = shop
        self.provider = provider
        self._patience = patience
        self._resume = resume
        self._wait_seconds = wait_seconds
        self._trap = trap
        self._driver = shop.clerk.ids.new()
        self._recorder = Recorder(shop.submit, patience.lease_ms)
        self._attempts = Timeouts(patience.attempt_seconds)
        self._waits = Timeouts(wait_seconds)
        self._driving: dict[str, Saga] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._resumed: set[str] = set()
        self._opening: set[str] = set()
        """Orders that are being opened here, if they are."""
        self._stranded: set[str] = set()
        """Orders at which this process may have been when the store could not be reached. For as
        long as its lease lasts nobody else may go on with them."""
        self._lease = Lease(shop.store, "checkout", self._driver)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self.provider is not None:
            await self.provider.open()
            if self._resume:
                self._task = asyncio.create_task(self._keep_resuming())
        return self

    async def __aexit__(self, *exc: object) -> None:
        """What is not finished is left to others, at once."""
        await end_task(self._task)
        await self._recorder.close()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._attempts.close()
        self._waits.close()
        if self.provider is not None:
            await self.provider.close()

    def fault(self, method: str) -> str | None:
        """What is wrong with a method of payment, before anything is begun."""
        if self.provider is None:
            return "no payments are taken here: the deployment has no provider"
        if method.partition(":")[0] != self.provider.name:
            return f"there is no payment method {method!r}: here it is {self.provider.name}:..."
        return self.provider.fault(method)

    async def buy(
        self,
        hold: str,
        method: str = "",
        *,
        buyer: str | None = None,
        other_seats: bool = False,
        key: str | None = None,
        used_for: str = "",
    ) -> Purchase:
        """Buys what a hold holds. Under a key it may be asked for again: it is one order, and one
        payment. A key belongs to its event, unless it is said what it is `used_for`: then it is
        refused for anything else in any event. Raises InProgress while the first is still
        running."""
        event = event_of(hold)
        if event is None:
            return Purchase(refused=Refused(Reason.UNKNOWN_HOLD, hold))
        command = self._shop.clerk.open_order(
            event,
            hold,
            method,
            buyer=buyer,
            other_seats=other_seats,
            key=key,
            used_for=used_for,
            driver=self._driver,
            lease_ms=self._patience.lease_ms,
        )
        answer, saga = await self._open(command)
        outcome, now, replayed = answer.outcome, answer.now_ms, answer.replayed
        if isinstance(outcome, Refused):
            return Purchase(refused=outcome, now_ms=now)
        if isinstance(outcome, Confirmed):
            return Purchase(outcome.order, replayed=replayed, now_ms=now)
        assert isinstance(outcome, Opened | OpenedBefore), outcome
        id = outcome.order if isinstance(outcome, OpenedBefore) else outcome.order.id
        order = await (self._waited(saga) if saga else self._again(id, now))
        if next_step(order) is not None and order.checkout.driver not in ("", self._driver):
            raise InProgress(order.id)  # it was overtaken
        return Purchase(order, replayed=replayed, now_ms=now, until_ms=outcome.until_ms)

    async def _open(self, command: OpenOrder) -> tuple[Answer, Saga | None]:
        """The answer, and who goes on with the order if it was opened now."""
        self._opening.add(command.order)
        try:
            answer = await self._submit(Step.OPEN, command)
            if isinstance(answer.outcome, Opened) and not answer.replayed:
                return answer, self._drive(self._saga(answer.outcome.order))
            return answer, None
        except StoreError:
            self._strand(command.order)  # perhaps it was opened
            raise
        finally:
            self._opening.discard(command.order)

    async def cancel(
        self,
        order: str,
        *,
        seats: tuple[str, ...] = (),
        pools: dict[str, int] | None = None,
        key: str | None = None,
    ) -> Cancellation:
        """Takes a sale back, all of it or the named units, and gives the money back."""
        event = event_of(order)
        if event is None:
            return Cancellation(Refused(Reason.UNKNOWN_ORDER, order))
        command = self._shop.clerk.cancel_order(event, order, seats, pools, key)
        answer = await self._submit(Step.CANCEL, command)
        outcome = answer.outcome
        if isinstance(outcome, Refused):
            return Cancellation(outcome)
        assert isinstance(outcome, Cancelled), outcome
        if answer.replayed:
            return Cancellation(Cancelled(_given_back(outcome.order)), replayed=True)
        if (running := self._tasks.get(order)) is not None:
            await asyncio.wait({running}, timeout=self._wait_seconds)  # it finds out
        return Cancellation(Cancelled(await self.nudge(order, cancelled=True) or outcome.order))

    async def nudge(self, id: str, *, retry: bool = False, cancelled: bool = False) -> Order | None:
        """Goes on with an order, if there is something to do and nobody is at it. What the provider
        tells is only taken as a hint to look: so it may come twice, late, or in any order. `retry`
        also takes up what was left to a person; where nothing is left to do, that is settled."""
        if id in self._driving and not cancelled:
            return await self._waited(self._driving[id])
        order = await self._shop.order(id)
        if order is None or self.provider is None:
            return order
        if next_step(order) is None:
            return await self._looked_after(order, retry)
        if order.trouble is not None and not retry:
            return order
        if not (retry or cancelled) and await self._somebody_is_at_it(order):
            return order
        while (running := self._tasks.get(id)) is not None:
            # Somebody was faster. What he comes to in the end is told: the money may go back.
            await asyncio.wait({running}, timeout=self._wait_seconds)
            order = await self._shop.order(id) or order
            if not running.done() or next_step(order) is None:
                return order
        return await self._waited(self._drive(self._saga(order), take=True, afresh=retry))

    async def _looked_after(self, order: Order, retry: bool) -> Order:
        """An order that has ended."""
        assert self.provider is not None
        saga = self._saga(order)
        # Of one that was paid for and given back nothing can be set aside.
        given_back = order.checkout.payment is PaymentState.REFUNDED
        ours = order.checkout.provider == self.provider.name
        if order.state in STRAYS and ours and not given_back:
            await saga.free_stray()
        if retry and order.trouble is not None:
            try:
                await saga.close_trouble()
            except Overtaken:
                return await self._shop.order(order.id) or order
        return saga.order

    async def _somebody_is_at_it(self, order: Order) -> bool:
        if not order.checkout.driver or order.due_ms is None:
            return False
        # By the authority's clock, which is told with a hold.
        found = await self._shop.store.hold(order.event, order.hold or "")
        return found is not None and order.due_ms > found[1]

    def _submit(self, step: Step, command: Command) -> Awaitable[Answer]:
        if self._trap is None:
            return self._shop.submit(command)
        return trapped(self._trap(step), self._shop.submit, command)

    async def _again(self, id: str, now: Millis) -> Order:
        """The order of a call that was here before."""
        if (running := self._driving.get(id)) is not None:
            if not running.told.done:
                raise InProgress(id)
            return await running.told.wait()
        order = await self._shop.order(id)
        assert order is not None
        if id in self._opening or id in self._driving:
            raise InProgress(id)
        anothers = order.checkout.driver not in ("", self._driver)
        if next_step(order) is not None and anothers and (order.due_ms or 0) > now:
            raise InProgress(id)
        if order.state is not OrderState.PENDING:
            return order
        return await self._waited(self._drive(self._saga(order), take=True))

    def _saga(self, order: Order) -> Saga:
        if self.provider is None:
            raise SettingsError("no payments are taken here: the deployment has no provider")
        shop = self._shop
        return Saga(
            order,
            shop.submit,
            self.provider,
            self._driver,
            self._patience,
            self._trap,
            captured=self._recorder.captured,
            attempts=self._attempts,
        )

    def _drive(self, saga: Saga, *, take: bool = False, afresh: bool = False) -> Saga:
        """Goes on by itself from here."""
        id = saga.order.id
        self._driving[id] = saga
        loop = asyncio.get_running_loop()
        task = saga.task = self._tasks[id] = loop.create_task(self._run(saga, take, afresh))
        task.add_done_callback(lambda _: self._ended(saga, task))
        return saga

    def _goes_no_further(self, saga: Saga) -> None:
        """Before anybody who waited hears of it: what he asks for then begins anew."""
        id = saga.order.id
        if self._driving.get(id) is saga:
            del self._driving[id]
            self._resumed.discard(id)

    def _ended(self, saga: Saga, task: "asyncio.Task[None]") -> None:
        self._goes_no_further(saga)
        saga.told.say(saga.order)  # both for one that never began: it was cancelled before
        if self._tasks.get(saga.order.id) is task:
            del self._tasks[saga.order.id]

    async def _run(self, saga: Saga, take: bool, afresh: bool) -> None:
        id = saga.order.id
        try:
            try:
                if take:
                    await saga.take_over(afresh=afresh)
                await saga.run()
            except Overtaken:
                await self._overtaken(saga)
        except asyncio.CancelledError:
            await self._left(saga)
            raise
        except BaseException as trouble:
            # Whoever waits hears of it; it is tried again when it is due.
            saga.told.fail(trouble)
            if not isinstance(trouble, Exception):
                raise
            if isinstance(trouble, StoreError | Overloaded):
                self._strand(id)
            log.warning("order %s could not be gone on with: %s", id, trouble)
        finally:
            self._goes_no_further(saga)

    def _strand(self, id: str) -> None:
        if len(self._stranded) < STRANDED_MAX:
            self._stranded.add(id)

    async def go_on(self) -> None:
        """Takes up again what this process was at when the store could not be reached. Raises, and
        forgets none of it, while that is still so."""
        for id in list(self._stranded):
            order = await self._shop.order(id)
            self._stranded.discard(id)
            if order is None or not self._free(order) or id in self._opening:
                continue
            if order.checkout.driver == self._driver and order.trouble is None:
                self._drive(self._saga(order), take=True)

    async def _overtaken(self, saga: Saga) -> None:
        """Others have gone on. If they have ended it, what was set aside at our word is freed."""
        order = saga.order = await self._shop.order(saga.order.id) or saga.order
        saga.told.say(order)
        if next_step(order) is not None and order.checkout.driver == self._driver:
            self._strand(order.id)  # by a command of our own that was thought lost
        if next_step(order) is None and order.state in STRAYS:
            await saga.free_stray()

    async def _left(self, saga: Saga) -> None:
        """This process stops: nobody shall have to wait for the end of the lease."""
        saga.told.say(saga.order)
        try:
            await saga.hand_over()
        except (HoldfastError, Overtaken) as trouble:
            log.info("order %s was not handed over: %s", saga.order.id, trouble)

    async def _waited(self, saga: Saga) -> Order:
        """The order when there is something to say, or as it stands when the caller has waited
        enough. That he waits no longer changes nothing for the order."""
        enough = self._waits.begin(lambda: saga.told.say(saga.order))
        try:
            return await saga.told.wait()
        finally:
            enough.cancel()

    def seen(self, order: Order) -> Order:
        """The order, with what is about to be written down."""
        running = self._driving.get(order.id)
        told = None if running is None else running.told.order
        return order if told is None or told.version != order.version else told

    async def _keep_resuming(self) -> None:
        try:
            while True:
                await asyncio.sleep(RESUME_SECONDS)
                try:
                    await self.go_on()
                    if await self._lease.hold():
                        await self.resume()
                except HoldfastError as trouble:
                    log.warning("orders could not be gone on with: %s", trouble)
                except Exception:
                    # Whatever it is, the next round may do better; nobody else would start one.
                    log.exception("orders could not be gone on with")
        finally:
            await self._give_lease_back()

    async def _give_lease_back(self) -> None:
        try:
            await self._lease.give_back()
        except HoldfastError as trouble:
            log.info("the lease was not given back: %s", trouble)

    async def resume(self) -> int:
        """Goes on with orders whose next step is due and that nobody is at; how many."""
        room = RESUMED_MAX - len(self._resumed)
        if self.provider is None or room <= 0:
            return 0
        due = await self._shop.store.due_orders(room)
        free = [order for order in due if self._free(order)]
        for order in free:
            self._resumed.add(order.id)
            self._drive(self._saga(order), take=True)
        return len(free)

    def _free(self, order: Order) -> bool:
        return order.id not in self._driving and next_step(order) is not None


def _given_back(order: Order) -> Order:
    """As it was told first: what was to be given back was given back by then."""
    checkout = order.checkout
    if not checkout.refunds:
        return order
    refunds = tuple(replace(refund, done=True) for refund in checkout.refunds)
    payment = checkout.payment if order.sold else PaymentState.REFUNDED
    return replace(order, checkout=replace(checkout, refunds=refunds, payment=payment))


def make_till(shop: Holdfast, *, upkeep: bool = True) -> Till:
    """As the shop's settings say."""
    settings = shop.settings
    attempt_seconds = payment_seconds(settings)
    # Whoever asks, gets no answer and looks it up is not to be overtaken meanwhile.
    lease_seconds = max(settings.checkout_lease_seconds, 2 * attempt_seconds + 1)
    patience = Patience(
        lease_ms=int(lease_seconds * 1000),
        attempt_seconds=attempt_seconds,
        limit_ms=int(settings.payment_limit_seconds * 1000),
    )
    return Till(
        shop,
        make_provider(settings),
        patience,
        resume=upkeep,
        wait_seconds=settings.checkout_wait_seconds,
    )
