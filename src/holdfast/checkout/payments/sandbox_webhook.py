"""Messages of the sandbox, signed so that nobody else can send them.

The header `sandbox-signature: t=UNIX,v1=HEX` has the HMAC-SHA256 of "UNIX.BODY" under a secret that
both sides know. The time is signed too: a message that somebody recorded is soon worth nothing.
"""

import hmac
import re
from collections.abc import Mapping

import msgspec

from holdfast.domain.payments import PaymentState
from holdfast.errors import Forged

HEADER = "sandbox-signature"
TOLERANCE_SECONDS = 300
SIGNATURE = re.compile(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})")


class Message(msgspec.Struct, frozen=True):
    """A payment has changed. It may come twice, late, or after a later one: it is news that there
    is something to look up, not how the payment stands now."""

    id: str
    reference: str | None = None
    payment: str | None = None
    state: PaymentState | None = None


def sign(secret: str, body: bytes, unix: int) -> str:
    """The value of the header."""
    return f"t={unix},v1={_digest(secret, body, unix)}"


def read_signed(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> Message:
    """The message. Raises Forged at any fault."""
    found = SIGNATURE.fullmatch(headers.get(HEADER, ""))
    if not secret or found is None:
        raise Forged("the message is not signed by the sandbox")
    unix = int(found[1])
    ours = hmac.compare_digest(_digest(secret, body, unix), found[2])
    if not ours or abs(now - unix) > TOLERANCE_SECONDS:
        raise Forged("the message is not signed by the sandbox, or too long ago")
    try:
        return msgspec.json.decode(body, type=Message)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Forged("the message is signed, but it is none of the sandbox's") from None


def _digest(secret: str, body: bytes, unix: int) -> str:
    return hmac.digest(secret.encode(), b"%d." % unix + body, "sha256").hex()
