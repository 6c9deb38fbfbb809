"""What is said between a shop and whoever moves the money. The provider's word is the truth about
money, as the authority's is about units."""

from enum import StrEnum

import msgspec


class PaymentState(StrEnum):
    PENDING = "pending"  # the provider works on it, or the buyer must still do something
    AUTHORIZED = "authorized"  # the money is set aside, not taken
    CAPTURED = "captured"
    DECLINED = "declined"
    VOIDED = "voided"  # what was set aside is free again
    REFUNDED = "refunded"  # what was taken was given back, all of it


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What is to be paid. `reference` names it at the provider for good: asked for twice, it is one
    payment, whoever asks."""

    reference: str
    """The order's id, such as opening-night.01J..."""
    amount: int
    currency: str
    method: str
    """With the provider's name before it: sandbox:ok, stripe:pm_card_visa"""
    payment: str | None = None
    """The provider's own id, once it is known, without the provider's name."""


class Standing(msgspec.Struct, frozen=True, gc=False):
    """How a payment stands at the provider."""

    payment: str
    """The provider's own id."""
    state: PaymentState
    reason: str | None = None
    """Why it was declined, for the buyer: one line."""
    next_action: dict[str, str] | None = None
    """What the buyer must still do: {"type": "redirect", "url": ...}"""
    refunded: int = 0
    """How much of what was taken was given back."""
    reference: str | None = None
    """The charge's reference, where the provider told it."""
