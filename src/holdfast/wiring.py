"""The only file that names concrete adapters: from an address to the thing itself."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from zlib import crc32

from holdfast.errors import SettingsError
from holdfast.ports import Broker, Gate, Provider, Store
from holdfast.settings import Settings
from holdfast.stores import Clock, host_clock
from holdfast.stores.addresses import without_secrets

if TYPE_CHECKING:
    from holdfast.stores.postgres.wal import Wal

KNOWN_STORES = (
    "memory://, sqlite:///path/to/file.db, postgresql://user@host/database "
    "or mysql://user@host/database"
)


def make_store(settings: Settings, clock: Clock = host_clock) -> Store:
    """The store that an address names, not opened yet."""
    url = settings.store
    if url == "memory://":
        from holdfast.stores.memory import MemoryStore

        return MemoryStore(clock)
    if url.startswith("sqlite:///"):
        return _sqlite(url.removeprefix("sqlite:///"), settings, clock)
    if url.startswith(("postgresql://", "postgres://")):
        return _postgres(url, settings, clock)
    if url.startswith(("mysql://", "mariadb://")):
        return _mysql(url, settings, clock)
    raise SettingsError(f"unknown store {without_secrets(url)!r}: use {KNOWN_STORES}")


async def has_schema(settings: Settings) -> bool:
    """Whether there is a shop already at an address: looks, and makes nothing. Only a server's
    database can be there without one."""
    look = getattr(make_store(settings), "has_schema", None)
    return look is None or bool(await look())


def make_gate(settings: Settings) -> Gate | None:
    """The gate that an address names, not opened yet."""
    url = settings.gate
    if url == "none":
        return None
    if url == "memory://":
        from holdfast.gates.memory import MemoryGate

        return MemoryGate()
    if url.startswith(("redis://", "rediss://", "unix://")):
        try:
            from holdfast.gates.redis import RedisGate
        except ImportError:
            raise SettingsError(
                "a Redis gate needs its driver: pip install 'holdfast[redis]'"
            ) from None
        return RedisGate(url, settings.gate_timeout_ms, prefix=settings.gate_prefix)
    shown = without_secrets(url)
    raise SettingsError(f"unknown gate {shown!r}: use none, memory:// or redis://host:port/0")


KNOWN_BROKERS = "none, kafka://host:port, nats://host:port or memory://"


def make_broker(settings: Settings) -> Broker | None:
    """Where facts are published, not opened yet."""
    url = settings.broker
    if url == "none":
        return None
    if url == "memory://":
        from holdfast.brokers.memory import MemoryBroker

        return MemoryBroker()
    if url.startswith("kafka://"):
        return _kafka(url, settings)
    if url.startswith(("nats://", "tls://")):
        try:
            from holdfast.brokers.nats import NatsBroker
        except ImportError:
            raise SettingsError("NATS needs its client: pip install 'holdfast[nats]'") from None
        if settings.broker_options:
            raise SettingsError("broker_options are for Kafka: NATS has its address only")
        return NatsBroker(url, settings.broker_topic)
    raise SettingsError(f"unknown broker {without_secrets(url)!r}: use {KNOWN_BROKERS}")


def _kafka(url: str, settings: Settings) -> Broker:
    try:
        from holdfast.brokers.kafka import KafkaBroker
    except ImportError:
        raise SettingsError("Kafka needs its client: pip install 'holdfast[kafka]'") from None
    options = kafka_options(settings)
    return KafkaBroker(url, settings.broker_topic, settings.broker_partitions, options)


def kafka_options(settings: Settings) -> dict[str, str]:
    """What is set for Kafka's client, by its own names."""
    options = {}
    for part in filter(None, map(str.strip, settings.broker_options.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise SettingsError("broker_options are name=value, with commas between them")
        options[name.strip()] = value.strip()
    return options


def make_wal(settings: Settings) -> "Wal":
    """The write-ahead log of the store, as a source of facts; not opened yet."""
    if not settings.store.startswith(("postgresql://", "postgres://")):
        raise SettingsError("--from wal reads PostgreSQL's write-ahead log: no other store has it")
    try:
        from holdfast.stores.postgres.wal import Wal
    except ImportError:
        raise SettingsError("--from wal needs its driver: pip install 'holdfast[wal]'") from None
    # One slot for each follower: two that shared one would each get a part.
    name = re.sub("[^a-z0-9_]", "_", settings.relay_name)
    if name != settings.relay_name or len(name) > 40:
        name = f"{name[:40]}_{crc32(settings.relay_name.encode()):08x}"
    return Wal(settings.store, slot=f"holdfast_{name}", publication=f"holdfast_{name}_log")


STRIPE_SECONDS_MIN = 10.0
KNOWN_PAYMENTS = "none, sandbox, sandbox+http://host:port or stripe"


def make_provider(settings: Settings) -> Provider | None:
    """Whoever moves the money, not opened yet; None where only what is free is sold."""
    name = settings.payments
    if name == "none":
        return None
    if name == "sandbox":
        from holdfast.checkout.payments.sandbox import SandboxProvider

        return SandboxProvider(webhook_secret=settings.sandbox_secret)
    if name.startswith(("sandbox+http://", "sandbox+https://")):
        from holdfast.checkout.payments.sandbox_http import HttpSandboxProvider

        url = name.removeprefix("sandbox+")
        if not urlsplit(url).hostname:
            raise SettingsError(f"payments must be {KNOWN_PAYMENTS}, not {name!r}")
        return HttpSandboxProvider(url, settings.sandbox_secret, settings.payment_seconds)
    if name == "stripe":
        return _stripe(settings)
    raise SettingsError(f"payments must be {KNOWN_PAYMENTS}, not {without_secrets(name)!r}")


def payment_seconds(settings: Settings) -> float:
    """How long one call of the provider may take."""
    slow = settings.payments == "stripe"
    return max(settings.payment_seconds, STRIPE_SECONDS_MIN) if slow else settings.payment_seconds


def _stripe(settings: Settings) -> Provider:
    for setting in ("stripe_key", "stripe_webhook_secret"):
        if not getattr(settings, setting):
            raise SettingsError(f"payments = stripe needs {setting}")
    try:
        from holdfast.checkout.payments.stripe import StripeProvider
    except ImportError:
        raise SettingsError("Stripe needs its SDK: pip install 'holdfast[stripe]'") from None
    return StripeProvider(
        settings.stripe_key,
        settings.stripe_webhook_secret,
        settings.stripe_api_base or None,
        payment_seconds(settings),
        settings.stripe_return_url or None,
    )


def _postgres(url: str, settings: Settings, clock: Clock) -> Store:
    try:
        from holdfast.stores.postgres import PostgresStore
    except ImportError:
        raise SettingsError(
            "PostgreSQL needs its driver: pip install 'holdfast[postgres]'"
        ) from None
    # The database's clock is the clock, unless a test brings its own.
    return PostgresStore(url, settings, None if clock is host_clock else clock)


def _mysql(url: str, settings: Settings, clock: Clock) -> Store:
    try:
        from holdfast.stores.mysql import MysqlStore
    except ImportError:
        raise SettingsError(
            "MySQL and MariaDB need their driver: pip install 'holdfast[mysql]'"
        ) from None
    return MysqlStore(url, settings, None if clock is host_clock else clock)


def _sqlite(path: str, settings: Settings, clock: Clock) -> Store:
    # Imported when asked for: a store's driver is nobody's business who uses another store.
    from holdfast.stores.sqlite import SqliteStore

    try:
        os.fsencode(path).decode()
    except UnicodeError:
        raise SettingsError(f"{path!r} cannot be the name of a file") from None
    if ":memory:" in path:
        raise SettingsError("for a store in memory use memory://")
    if not path or path.endswith("/"):
        raise SettingsError("a SQLite store needs a file: sqlite:///shop.db")
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise SettingsError(f"the folder of sqlite:///{path} does not exist: make it first")
    if Path(path).is_dir():
        raise SettingsError(f"sqlite:///{path} is a folder: name a file in it")
    return SqliteStore(path, clock, settings.sqlite_synchronous)
