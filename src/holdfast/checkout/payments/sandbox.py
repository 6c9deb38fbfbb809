"""A provider of payments that only pretends, in the shop's own process. Never for production."""

import asyncio
import time
from collections.abc import Callable, Mapping

from holdfast.checkout.payments.bank import Bank
from holdfast.checkout.payments.sandbox_methods import NAME, fault_of
from holdfast.checkout.payments.sandbox_webhook import read_signed
from holdfast.domain.payments import Charge, Standing

REMEMBERS_SECONDS = 86_400.0


class SandboxProvider:
    """The port `Provider` on a bank, its own or one that is given. Without a secret every message
    is forged."""

    name = NAME

    def __init__(
        self,
        bank: Bank | None = None,
        *,
        webhook_secret: str = "",
        remembers_seconds: float = REMEMBERS_SECONDS,
        unix: Callable[[], float] = time.time,
    ) -> None:
        self.bank = Bank(adopts=True) if bank is None else bank
        self.remembers_seconds = remembers_seconds
        self._secret = webhook_secret
        self._unix = unix

    def fault(self, method: str) -> str | None:
        return fault_of(method)

    async def open(self) -> None:
        """There is nothing to open."""

    async def close(self) -> None:
        """There is nothing to close."""

    async def authorize(self, charge: Charge) -> Standing:
        """For sandbox:timeout it never returns: whoever calls has a timeout."""
        while True:
            answer = self.bank.authorize(charge)
            if not answer.after_seconds:
                return answer.standing
            await asyncio.sleep(answer.after_seconds)

    async def find(self, charge: Charge) -> Standing | None:
        return self.bank.find(charge.reference)

    async def capture(self, charge: Charge) -> Standing:
        return self.bank.capture(charge)

    async def void(self, charge: Charge) -> Standing:
        return self.bank.void(charge)

    async def refund(self, charge: Charge, amount: int, name: str) -> Standing:
        return self.bank.refund(charge, amount, name)

    def read_webhook(self, headers: Mapping[str, str], body: bytes) -> str | None:
        return read_signed(self._secret, headers, body, self._unix()).reference
