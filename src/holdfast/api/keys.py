"""API keys: who may call. The store has only their hashes; the key itself is shown once.

A key is found by a part of its hash and compared in constant time. Every process keeps all keys in
memory and reads them anew twice a second, so a revoked one is refused within a second everywhere.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from base64 import urlsafe_b64encode
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from holdfast.domain.model import Millis
from holdfast.domain.views import Document
from holdfast.errors import HoldfastError, SettingsError
from holdfast.ports import Store
from holdfast.tasks import end_task

KIND = "key"
SECRET_KIND = "secret"
SECRET_ID = "deployment"
READ_SECONDS = 0.5
LOOK_SECONDS = 0.1
"""How soon again an unknown key makes us look for new ones."""
KEYS_MAX = 10_000
PAGES = "pages"
"""What the key is called that the pages of the deployment call with."""

log = logging.getLogger("holdfast.keys")


class Role(StrEnum):
    ADMIN = "admin"
    SELLER = "seller"
    PUBLIC = "public"


class Key(msgspec.Struct, frozen=True):
    id: str
    role: Role
    hash: str
    name: str = ""
    created_ms: Millis = 0
    revoked_ms: Millis | None = None
    origins: tuple[str, ...] = ()
    """Web origins that may call with it: CORS."""
    rate: float | None = None
    """Requests in a second; None: the default of its role."""
    lent_until_ms: Millis | None = None
    """Of one that was lent: it ends by itself, should whoever has it die."""


_read = msgspec.json.Decoder(Key).decode
_encode = msgspec.json.Encoder().encode


def key_id(secret: str) -> str:
    return _hash(secret)[:12]


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


class Keys:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: dict[str, Key] = {}
        self._task: asyncio.Task[None] | None = None
        self._looked = 0.0
        self.reads = 1
        """Grows whenever what is known of keys may have changed."""

    async def open(self) -> None:
        await self.read()
        self._task = asyncio.create_task(self._follow())

    async def close(self) -> None:
        await end_task(self._task)

    async def read(self) -> None:
        documents, now = await self._store.documents(KIND)
        keys = map(_to_key, documents)
        self._keys = {key.id: key for key in keys if (key.lent_until_ms or now) >= now}
        self.reads += 1

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(READ_SECONDS)
            try:
                await self.read()
            except HoldfastError as trouble:
                log.warning("the keys were not read: %s", trouble)
            except Exception:
                log.exception("the keys were not read")

    def find(self, secret: str) -> Key | None:
        """The key, if it is one of ours and not revoked."""
        hashed = _hash(secret)
        key = self._keys.get(hashed[:12])
        if key is None or not hmac.compare_digest(key.hash, hashed):
            return None
        return key if key.revoked_ms is None else None

    async def look(self) -> None:
        """For a key that is not known: it may have been made a moment ago."""
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            await self.read()

    def origins(self) -> set[str]:
        """Every web origin that some key admits: a preflight does not say which key follows."""
        live = (key for key in self._keys.values() if key.revoked_ms is None)
        return {origin for key in live for origin in key.origins}

    async def all(self) -> list[Key]:
        documents, _ = await self._store.documents(KIND)
        return sorted(map(_to_key, documents), key=lambda key: (key.created_ms, key.id))

    async def create(
        self,
        role: Role,
        name: str = "",
        *,
        origins: tuple[str, ...] = (),
        rate: float | None = None,
        secret: str | None = None,
        lent_seconds: float | None = None,
    ) -> str:
        """A new key, which is returned and never shown again."""
        secret = secret or f"hf_{role}_{secrets.token_urlsafe(24)}"
        documents, now = await self._store.documents(KIND)
        if len(documents) >= KEYS_MAX:
            raise SettingsError(f"there are {KEYS_MAX} keys already")
        until = None if lent_seconds is None else now + round(1000 * lent_seconds)
        key = Key(key_id(secret), role, _hash(secret), name, now, None, origins, rate, until)
        await self._store.put(Document(KIND, key.id, 1, _encode(key).decode()))
        self._keys[key.id] = key
        return secret

    async def ensure_admin(self, secret: str | None) -> str | None:
        """The deployment's first key: the one that was chosen, or a new one if there is none yet.
        Returns what nobody knows yet."""
        keys = await self.all()
        if secret is not None:
            known = next((key for key in keys if key.id == key_id(secret)), None)
            if known is None:
                await self.create(Role.ADMIN, "HOLDFAST_ADMIN_KEY", secret=secret)
            elif known.revoked_ms is not None:
                raise SettingsError("HOLDFAST_ADMIN_KEY was revoked: choose another one")
            return None
        if any(key.role is Role.ADMIN and key.revoked_ms is None for key in keys):
            return None
        return await self.create(Role.ADMIN, "first")

    async def ensure_pages(self, secret: str) -> None:
        """The key of the deployment's own pages is there. One that was revoked is there too, and
        stays as it is; of several processes that start at once one writes it."""
        documents, now = await self._store.documents(KIND)
        known = any(document.id == key_id(secret) for document in documents)
        if not known and len(documents) < KEYS_MAX:
            key = Key(key_id(secret), Role.PUBLIC, _hash(secret), PAGES, now)
            await self._store.put(Document(KIND, key.id, 1, _encode(key).decode()))
        await self.read()

    async def lend(self, role: Role, name: str, seconds: float) -> str:
        """A key for a short while. Those that were never taken back, because who had them died,
        ended by themselves, and are removed."""
        documents, now = await self._store.documents(KIND)
        for document in documents:
            if (_to_key(document).lent_until_ms or now) < now:
                await self._store.drop(KIND, document.id, document.version)
        return await self.create(role, name, lent_seconds=seconds)

    async def take_back(self, secret: str) -> None:
        """Of a key that was lent nothing is left."""
        documents, _ = await self._store.documents(KIND, key_id(secret))
        for document in documents:
            await self._store.drop(KIND, document.id, document.version)
        self._keys.pop(key_id(secret), None)
        self.reads += 1

    async def revoke(self, id: str) -> Key | None:
        """Ends a key, named by its id or by the key itself; None if there is no such key."""
        documents, now = await self._store.documents(KIND)
        wanted = {id, key_id(id)}
        for document in documents:
            if document.id in wanted:
                key = _to_key(document)
                if key.revoked_ms is None:
                    key = replace(key, revoked_ms=now)
                    body = _encode(key).decode()
                    await self._store.put(Document(KIND, key.id, document.version + 1, body))
                self._keys[key.id] = key
                self.reads += 1
                return key
        return None


def _to_key(document: Document) -> Key:
    return _read(document.body)


def pages_key(secret: bytes) -> str:
    """The public key of the deployment's own pages. Every process finds the same one, and the store
    has only its hash, as of any key."""
    return derived_key(secret, Role.PUBLIC, "pages")


def derived_key(secret: bytes, role: Role, purpose: str) -> str:
    """Always the same for the same deployment."""
    derived = hmac.digest(secret, f"holdfast {purpose} key".encode(), "sha256")[:24]
    return f"hf_{role}_{urlsafe_b64encode(derived).decode()}"


async def deployment_secret(store: Store, chosen: str | None) -> bytes:
    """What tokens are made with: the one that was chosen, else one that all processes share."""
    if chosen is not None:
        return chosen.encode()
    made = Document(SECRET_KIND, SECRET_ID, 1, secrets.token_urlsafe(32))
    await store.put(made)  # refused if there is one already
    documents, _ = await store.documents(SECRET_KIND, SECRET_ID)
    return documents[0].body.encode()
