"""Buyer tokens and hold tokens: keyed hashes of the deployment's secret, stored nowhere.

BLAKE2's own keyed mode, which does what HMAC does for other hashes, at a tenth of its cost here.

A buyer token says who somebody is, so it carries the name; a hold token only opens the hold it was
made for. Each kind is keyed apart: one is never taken for the other.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import blake2b

from holdfast.domain.faults import is_label
from holdfast.domain.limits import BUYER_CHARS_MAX

TOKEN_BYTES = 18
TOKEN_CHARS = 36


class Tokens:
    def __init__(self, secret: bytes) -> None:
        self._holds = hmac.digest(secret, b"holdfast hold token", "sha256")
        self._buyers = hmac.digest(secret, b"holdfast buyer token", "sha256")

    def of_hold(self, hold: str) -> str:
        return _signed(self._holds, hold.encode())

    def opens(self, token: str | None, hold: str) -> bool:
        return token is not None and hmac.compare_digest(
            token.encode(errors="replace"), self.of_hold(hold).encode()
        )

    def of_buyer(self, buyer: str) -> str:
        name = buyer.encode()
        return f"{self._signature(name)}{_written(name)}"

    def buyer(self, token: str) -> str | None:
        """Whose token it is; None if we did not make it."""
        try:
            text = token[TOKEN_CHARS:]
            name = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            buyer = name.decode()
        except (Error, ValueError):
            return None
        signed = self._signature(name).encode()
        ours = hmac.compare_digest(token[:TOKEN_CHARS].encode(errors="replace"), signed)
        return buyer if ours and is_label(buyer, BUYER_CHARS_MAX) else None

    def _signature(self, name: bytes) -> str:
        return _signed(self._buyers, name)


def _signed(key: bytes, text: bytes) -> str:
    return blake2b(text, key=key, digest_size=TOKEN_BYTES).hexdigest()


def _written(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
