"""What can go wrong that nobody decided. A refusal is not here: it is an outcome.

HoldfastError
  Invalid            the input is malformed; lists every fault; nothing was tried
  SettingsError      a setting or an address is wrong
  Overloaded         the queue is full: try again in `retry_after` seconds
  NotOpen            the shop is not open yet, or closed already
  StoreError         the authority did not do it
    StoreUnavailable   cannot be reached or opened
    StoreBusy          passing trouble; the batch was rolled back and may be run again
    CommitUnknown      the commit's reply was lost; running the batch again settles it
    SchemaMismatch     the schema is older or newer than this program
  GateDown           the gate did not answer as it should; never seen outside: one goes on without
    GateBroken         what it has of one event cannot be read; the other events are not concerned
  PaymentError       whoever moves the money did not do it
    PaymentUnavailable nobody knows whether it was done: ask again
    PaymentRefused     it will never be done, and why
    Forged             a message that says it is the provider's, and is not
  BrokerDown         nobody knows what the broker has of it: publish it again
  Pruned             the facts asked for are no longer on the log, which begins with `first`
"""

from holdfast.domain.faults import Fault


class HoldfastError(Exception):
    """Root of every error of Holdfast's own; its text is one line that says what to do."""


class Invalid(HoldfastError, ValueError):
    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        super().__init__("; ".join(map(str, faults)))


class SettingsError(HoldfastError, ValueError):
    pass


class Overloaded(HoldfastError):
    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(f"too much is waiting already; try again in {retry_after:g} s")


class NotOpen(HoldfastError):
    pass


class StoreError(HoldfastError):
    pass


class StoreUnavailable(StoreError):
    pass


class StoreBusy(StoreError):
    pass


class CommitUnknown(StoreError):
    pass


class SchemaMismatch(StoreError):
    pass


class GateDown(HoldfastError):
    pass


class GateBroken(GateDown):
    pass


class PaymentError(HoldfastError):
    pass


class PaymentUnavailable(PaymentError):
    pass


class PaymentRefused(PaymentError):
    pass


class Forged(PaymentError):
    pass


class BrokerDown(HoldfastError):
    pass


class Pruned(HoldfastError):
    def __init__(self, event: str, first: int) -> None:
        self.event = event
        self.first = first
        super().__init__(f"the log of {event} begins with {first}: what was before was pruned")
