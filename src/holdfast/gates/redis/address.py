"""Addresses of Redis: read strictly, shown without secrets.

redis://user:password@host:6379/0     rediss:// the same with TLS
unix://user:password@/path/to/socket?db=0
redis://host:6379?cluster=true        any node of a Redis Cluster
"""

from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from holdfast.errors import SettingsError

KNOWN = (
    "redis://user:password@host:6379/0, rediss://... with TLS, unix:///path/to/socket, "
    "or redis://host:6379?cluster=true"
)
TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class Address(msgspec.Struct, frozen=True):
    scheme: str
    shown: str
    """Without the password."""
    host: str = ""
    port: int = 6379
    path: str = ""
    db: int = 0
    username: str | None = None
    password: str | None = None
    cluster: bool = False
    tls: dict[str, str] = {}

    @property
    def login(self) -> dict[str, Any]:  # keyword arguments of the driver
        return {"username": self.username, "password": self.password}


def read_address(url: str) -> Address:
    """Raises SettingsError, in which no part of a password is quoted."""
    try:
        parts = urlsplit(url)
        port, host = parts.port or 6379, parts.hostname or ""
    except ValueError:
        raise _unusable() from None
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise _unusable()
    local = parts.scheme == "unix"
    path = unquote(parts.path)
    if parts.fragment or bool(host) == local or (local and len(path) < 2):
        raise _unusable()
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    cluster = _truth(options)
    db = _db(options.pop("db", "0") if local else path.removeprefix("/") or "0")
    known = TLS_OPTIONS if parts.scheme == "rediss" else ()
    if odd := sorted(set(options) - set(known)):
        raise SettingsError(f"Redis: unknown option {', '.join(odd)} in the address: use {KNOWN}")
    if cluster and (local or db):
        raise SettingsError("a Redis Cluster has one database, and no unix socket: use " + KNOWN)
    name = unquote(parts.username or "") or None
    where = quote(path) if local else f"{_bracketed(host)}:{port}/{db}"
    return Address(
        scheme=parts.scheme,
        shown=f"{parts.scheme}://{quote(name) + '@' if name else ''}{where}"
        + ("?cluster=true" if cluster else ""),
        host=host,
        port=port,
        path=path if local else "",
        db=db,
        username=name,
        password=unquote(parts.password or "") or None,
        cluster=cluster,
        tls=options,
    )


def _truth(options: dict[str, str]) -> bool:
    said = options.pop("cluster", "false").lower()
    if said not in TRUTH:
        raise SettingsError("Redis: cluster must be true or false in the address")
    return TRUTH[said]


def _db(text: str) -> int:
    # What int() would also take (" 1", "1_0", "+1") nobody means.
    if not (text.isascii() and text.isdigit()):
        raise SettingsError(f"Redis: a database is a number, as in {KNOWN}")
    return int(text)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _unusable() -> SettingsError:
    return SettingsError(
        f"this is not a Redis address: use {KNOWN}, with %2F for a / in a password"
    )
