"""Who calls: from the headers of a request to a role, a buyer, and a scope for what he names."""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from holdfast.api.keys import Key, Keys, Role
from holdfast.api.problems import Problem
from holdfast.api.tokens import Tokens
from holdfast.errors import SettingsError

Headers = Mapping[bytes, bytes]

UNAUTHORIZED = {"WWW-Authenticate": 'Bearer realm="holdfast"'}
KEY_CHARS_MAX = 512
KNOWN_MAX = 10_000

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Caller:
    """A class with slots: its traits are asked for several times in every call."""

    __slots__ = ("buyer", "key", "limited", "public", "role")

    def __init__(self, key: Key, buyer: str | None = None) -> None:
        self.key = key
        self.buyer = buyer
        """Whom a public caller is, by his Buyer-Token."""
        self.role = key.role
        self.public = key.role is Role.PUBLIC
        self.limited = self.public or key.rate is not None
        """Whether there are limits for him at all."""

    @property
    def scope(self) -> str:
        """What his idempotency keys belong to."""
        return f"buyer:{self.buyer}" if self.public else f"key:{self.key.id}"


class Stranger(Problem):
    """Came with a key of ours, but as a buyer whom we do not know."""

    def __init__(self, key: Key) -> None:
        detail = "this Buyer-Token is not one of ours"
        super().__init__(401, "buyer_token", detail, headers=UNAUTHORIZED)
        self.key = key


class Callers:
    def __init__(self, keys: Keys, tokens: Tokens) -> None:
        self._keys = keys
        self._tokens = tokens
        self._known: dict[tuple[bytes | None, bytes | None], Caller] = {}
        self._as_of = 0

    def known(self, headers: Headers) -> Caller | None:
        """Who called with these very headers since the keys were last read, compared as they have
        to be: hashing a key and checking a token takes as long as refusing a seat."""
        if self._as_of != self._keys.reads:
            self._as_of = self._keys.reads
            self._known.clear()
        return self._known.get((headers.get(b"authorization"), headers.get(b"buyer-token")))

    async def identify(self, headers: Headers, key_in_query: str | None = None) -> Caller:
        """Raises a problem where nobody may be told anything."""
        secret = _bearer(headers.get(b"authorization"))
        if secret is None and key_in_query is not None:
            secret = key_in_query
        if not secret:
            raise Problem(
                401,
                "unauthorized",
                "send an API key: `Authorization: Bearer KEY`",
                headers=UNAUTHORIZED,
            )
        key = self._keys.find(secret) if len(secret) <= KEY_CHARS_MAX else None
        if key is None and len(secret) <= KEY_CHARS_MAX:
            await self._keys.look()
            key = self._keys.find(secret)
        if key is None:
            detail = "this API key is unknown or revoked"
            raise Problem(401, "unauthorized", detail, headers=UNAUTHORIZED)
        buyer = None
        token = headers.get(b"buyer-token")
        if key.role is Role.PUBLIC and token is not None:
            buyer = self._tokens.buyer(token.decode("latin-1"))
            if buyer is None:
                raise Stranger(key)
        caller = Caller(key, buyer)
        if b"authorization" in headers and len(self._known) < KNOWN_MAX:
            self._known[(headers[b"authorization"], token)] = caller
        return caller


def _bearer(header: bytes | None) -> str | None:
    if header is None:
        return None
    scheme, _, secret = header.decode("latin-1").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def read_networks(text: str) -> list[Network]:
    """Of the setting trusted_proxies."""
    try:
        return [
            ipaddress.ip_network(each.strip(), strict=False) for each in text.split(",") if each
        ]
    except ValueError as fault:
        raise SettingsError(f"trusted_proxies: {fault}; write 10.0.0.0/8, 127.0.0.1") from None


def address_of(
    peer: str, headers: Iterable[tuple[bytes, bytes]], trusted: Sequence[Network]
) -> str:
    """Where a call comes from: the peer, or behind trusted proxies the last hop that is not one of
    them. An IPv6 subscriber has a /64, so that is the address."""
    found = _address(peer)
    if found is None:
        return peer
    if trusted:
        # Each proxy may have added a line of its own.
        lines = [value for name, value in headers if name == b"x-forwarded-for"]
        hops = [hop.strip() for line in lines for hop in line.decode("latin-1").split(",")]
        while hops and any(found in network for network in trusted):
            hop = _address(hops.pop())
            if hop is None:
                break
            found = hop
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
