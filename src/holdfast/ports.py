"""Every interface that has more than one implementation, and nothing else."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from holdfast.domain.cloudevents import Message
from holdfast.domain.commands import Command
from holdfast.domain.facts import Entry
from holdfast.domain.gating import Op, Snapshot, Verdict
from holdfast.domain.model import Hold, Millis, Order
from holdfast.domain.outcomes import Answer
from holdfast.domain.payments import Charge, Standing
from holdfast.domain.views import Census, Cursor, Document, Move, SeatMap, Statuses, Summary

Committed = Callable[[], None]
"""Told as soon as a batch holds no lock any more: the next may begin, though the answers of this
one may still have to wait for the disk."""


def nothing() -> None:
    """For those who need not know."""


class Store(Protocol):
    """An authority: it alone decides what is sold.

    `apply` is one durable transaction: all of the batch or nothing. It raises StoreBusy when the
    batch was rolled back and may be run again, CommitUnknown when it may have been committed.
    """

    @property
    def url(self) -> str:
        """Its address, without secrets."""

    @property
    def one_lane(self) -> bool:
        """Whether all events share one lane, because the store admits one writer at a time."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def migrate(self) -> list[str]:
        """Brings the schema up to date; returns what it did."""

    async def apply(
        self, commands: Sequence[Command], committed: Committed = nothing
    ) -> list[Answer]: ...

    async def summaries(self, event: str | None = None) -> list[Summary]:
        """All events, or the one."""

    async def seat_map(self, event: str) -> SeatMap | None: ...

    async def statuses(self, event: str) -> Statuses | None:
        """What `seat_map` tells, without the plan of the seats: quick for any number of them."""

    async def hold(self, event: str, id: str) -> tuple[Hold, Millis] | None:
        """The hold, and the authority's time when it was read."""

    async def order(self, event: str, id: str) -> Order | None: ...

    async def due_orders(self, limit: int) -> list[Order]:
        """Orders of all events whose next step has to be taken by now, oldest first. Others may see
        them too: whoever takes one on does so by a command, under the order's version."""

    async def troubled_orders(self, limit: int) -> list[Order]:
        """Orders of all events that a person has to look at, oldest first."""

    async def log(self, event: str, after: int, limit: int) -> list[Entry]: ...

    async def tails(self, after: Mapping[str, int], limit: int) -> list[Entry]:
        """What `log` tells of several events, of each up to `limit` facts after its number, in one
        read; an event's facts stand together, in order."""

    async def prune(self, event: str, through: int, limit: int) -> int:
        """Forgets the oldest facts, up to that number and at most so many; how many it were. The
        last fact of a log stays."""

    async def cursors(self, follower: str | None = None) -> tuple[list[Cursor], Millis]:
        """How far the follower has come with each event, or all followers, in order of follower
        and event; and the authority's time."""

    async def move(self, follower: str, moves: Sequence[Move]) -> set[str]:
        """Moves cursors durably: each that stands where it was (0: also where there is none) and
        has no higher fence. The events whose cursors it moved. Fails as `put` does."""

    async def forget(self, follower: str) -> None:
        """Removes the cursors of a follower that is no more."""

    async def due(self) -> list[str]:
        """Events that have holds to announce as expired."""

    async def heads(self) -> dict[str, int]:
        """Of every event the number of its last fact, in one query."""

    async def wake(self, timeout_seconds: float) -> None:
        """Returns when heads may have moved, or after the timeout. A wake-up may be missed."""

    async def census(self, event: str) -> Census | None:
        """Every row of an event in one snapshot, for the auditor."""

    async def strays(self) -> list[str]:
        """Ids of events that have rows of some kind but no event."""

    async def mend(self, event: str) -> list[str]:
        """Rewrites what follows from holds and orders; returns what differed."""

    async def documents(self, kind: str, id: str | None = None) -> tuple[list[Document], Millis]:
        """All of a kind in order of id, or the one, and the authority's time."""

    async def put(self, document: Document) -> bool:
        """Writes it durably if what is there has the version before (version 1: nothing is there);
        whether it did. Of those who race for a version, one does. Raises CommitUnknown when it may
        have been written: to look again settles it."""

    async def drop(self, kind: str, id: str, version: int) -> bool:
        """Removes it durably if it is that version; whether it did. Fails as `put` does."""

    async def claim_keys(self, claims: Sequence[tuple[str, str]]) -> list[str]:
        """Each claim is a key and a digest. Remembers the digest durably for each key that is new,
        or was claimed more than a day ago; returns, in the order of the claims, the digest that
        counts for each: that of whoever was first. Fails as `put` does: to claim again settles it.
        """

    async def free_keys(self, claims: Sequence[tuple[str, str]]) -> None:
        """Forgets durably those keys that still have that digest. Fails as `put` does."""


class Gate(Protocol):
    """Stands before the authority and may only say no, cheaply. Nothing depends on what it has.

    Each method is one round trip, and raises GateDown when the gate does not answer as it should:
    then whoever asked goes on without it.
    """

    @property
    def url(self) -> str:
        """Its address, without secrets."""

    @property
    def shared(self) -> bool:
        """Whether other processes stand before the same one."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def run(self, event: str, version: int, ops: Sequence[Op]) -> list[Verdict]:
        """Does all of it in order, at one moment; the verdicts in the same order."""

    async def snapshot(self, event: str) -> Snapshot:
        """Everything there is of an event, at one moment."""

    async def events(self) -> list[str]:
        """Events that the gate has something of."""

    async def clear(self, event: str) -> None:
        """Forgets an event."""

    async def lease(self, name: str, holder: str, lease_ms: int) -> bool:
        """Whether the holder has the lease: nobody else has had it for that long."""

    async def take(self, name: str, rate: float, burst: float, want: int) -> tuple[int, float]:
        """Up to so many tokens out of a bucket that gains `rate` in a second and has `burst` when
        it is full, as it is at first: how many it gave, and what is left in it, in fractions."""

    async def reserve_units(
        self, name: str, hold: str, units: int, most: int, keep_ms: Millis
    ) -> bool:
        """Whether the name may have so many units more, of `most` at once; if so they count for so
        long. The same hold again replaces what it had, also of another name."""

    async def free_units(self, hold: str) -> None:
        """A hold's units count no more. Again does nothing again."""


class Provider(Protocol):
    """Whoever moves the money. Each call may be repeated: a step of a charge has one effect, known
    by the charge's reference, however often and by whomever it is asked for.

    Raises PaymentUnavailable when nobody knows what became of it: to ask again settles it. Raises
    PaymentRefused when the step will never be done, and says why.
    """

    @property
    def name(self) -> str:
        """As it stands before the colon of its methods: sandbox, stripe."""

    @property
    def remembers_seconds(self) -> float:
        """How long a repetition is surely known as such; later, a payment is looked up first."""

    def fault(self, method: str) -> str | None:
        """What is wrong with a method of payment; None if it can be asked for."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def authorize(self, charge: Charge) -> Standing:
        """Sets the money aside. Declined is an answer, not an error."""

    async def find(self, charge: Charge) -> Standing | None:
        """How the payment of that reference stands; None if there is none."""

    async def capture(self, charge: Charge) -> Standing:
        """Takes all that was set aside."""

    async def void(self, charge: Charge) -> Standing:
        """Frees what was set aside; what was taken already, it gives back."""

    async def refund(self, charge: Charge, amount: int, name: str) -> Standing:
        """Gives so much back. `name` tells the refunds of one charge apart: under one name it is
        given back once."""

    def read_webhook(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """The reference of the charge that a message of the provider's is about, None if it is
        about none of ours. Names of headers are in lower case. Raises Forged where the signature
        is not the provider's, or too old."""


class Broker(Protocol):
    """Where facts go. It has them when it said so, and may have them twice."""

    @property
    def url(self) -> str:
        """Its address, without secrets."""

    async def open(self) -> None:
        """Raises BrokerDown where it does not answer, SettingsError where it never will."""

    async def close(self) -> None: ...

    async def publish(self, messages: Sequence[Message]) -> dict[int, str]:
        """Returns when the broker has all of them durably, those of an event in their order. But
        for those that it will never take: of these, their place and why. Raises BrokerDown where
        that is not known of some: all of them are published again."""

    async def bury(self, message: Message, reason: str) -> None:
        """Puts what the broker would not take where its own people look for such things. Raises
        BrokerDown."""
