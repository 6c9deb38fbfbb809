"""Every setting, with its limits, in one place.

A value comes from, in this order: the command line, the environment (`HOLDFAST_STORE`), the file
`holdfast.toml` in the working directory (or the one `HOLDFAST_CONFIG` names), the default here.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from holdfast.errors import SettingsError

PREFIX = "HOLDFAST_"
WRITTEN = {
    bool: "write true or false",
    int: "write a whole number",
    float: "write a number",
    str: "write one text, with commas between its parts",
}
CHOICES = {
    "policy": ("authority", "two-layer", "gate"),
    "projections": ("log", "none"),
    "pages": ("on", "off"),
    "lab": ("open", "admin", "off"),
    "sqlite_synchronous": ("FULL", "NORMAL"),
    "log_format": ("auto", "json", "text"),
    "log_level": ("debug", "info", "warning", "error"),
}

UNSHOWN = (
    *("admin_key", "secret", "store", "gate", "stripe_key", "stripe_webhook_secret"),
    *("sandbox_secret", "broker", "broker_options"),
)
"""Secrets, or addresses that may have a password in them."""
SECRET_CHARS_MIN = 16


def _name(chars_max: int) -> Meta:
    """What brokers and gates take for a name too."""
    allowed = f"write 1 to {chars_max} ASCII letters, digits, -, _ and ."
    return Meta(pattern=f"^[A-Za-z0-9_.-]{{1,{chars_max}}}$", description=allowed)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    store: str = "sqlite:///holdfast.db"
    """The authority: memory://, sqlite:///path, postgresql://user@host/database"""
    gate: str = "none"
    """What stands before the authority: none, memory:// (one process), redis://host:port/0"""
    policy: str = "authority"
    """Where holds live, unless an event says otherwise: authority, two-layer or gate"""
    gate_timeout_ms: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """A gate that takes longer is passed by for a while."""
    gate_prefix: Annotated[str, _name(64)] = "holdfast"
    """How the gate's keys begin. Two stores with one Redis need two: else their holds mix."""
    reconcile_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 30.0
    """How often a gate is compared with the authority."""
    refusal_cache: bool = True
    """Seats just refused are refused again from memory, for as long as the log shows no change."""
    batch_max: Annotated[int, Meta(ge=1, le=5_000)] = 500
    """Commands in one transaction at most."""
    lane_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    """Commands that may wait in one lane; past it the answer is "overloaded", at once."""
    stall_seconds: Annotated[float, Meta(gt=0, le=3600)] = 5.0
    """A lane in which a whole batch waits, and nothing has moved for so long, refuses at once."""
    expire_seconds: Annotated[float, Meta(gt=0, le=3600)] = 1.0
    """How often expired holds are announced. Their units are free at the deadline anyway."""
    pool_max: Annotated[int, Meta(ge=1, le=1_000)] = 8
    """Connections to a database server at most. Batches need few: two for each busy event."""
    connect_timeout_seconds: Annotated[float, Meta(gt=0, le=300)] = 5.0
    lock_timeout_ms: Annotated[int, Meta(ge=1, le=600_000)] = 2_000
    """Locks last as long as a batch; whoever waits longer than this runs his batch again."""
    statement_timeout_ms: Annotated[int, Meta(ge=1, le=600_000)] = 5_000
    early_release: bool = True
    """PostgreSQL: commit without waiting for the disk, answer after the next barrier. Locks are
    then free while the disk is busy; nothing is answered before it is durable either way."""
    sqlite_synchronous: str = "FULL"
    """FULL survives a loss of power; NORMAL only a crash of the program, and is faster."""

    # What `holdfast serve` adds
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    """The address to listen at; 0.0.0.0 or :: for every one the machine has."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8000
    """0: any that is free."""
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    """Processes that serve the one port."""
    admin_key: Annotated[str, Meta(max_length=512)] = ""
    """The first admin key. Else one is made at the first start, and printed once."""
    secret: Annotated[str, Meta(max_length=512)] = ""
    """What tokens of buyers and holds are made with. Else one is made, and kept in the store.
    One that is given has 16 characters at least."""
    pages: str = "on"
    """Whether the pages are served (/, /lab, /ops, /design): on, or off"""
    lab: str = "admin"
    """Who may run a stampede from the page /lab, in this service's store: admin keys, open (also
    whoever sees the pages; never in production), or off"""
    payments: str = "none"
    """Who takes payments: none (free orders only), stripe, or sandbox (pretends, in this process or
    at sandbox+http://host:port; never in production)"""
    stripe_key: Annotated[str, Meta(max_length=512)] = ""
    stripe_webhook_secret: Annotated[str, Meta(max_length=512)] = ""
    stripe_api_base: str = ""
    """Another address than Stripe's own, for tests."""
    stripe_return_url: str = ""
    """The page to which a bank sends the buyer back after 3-D Secure."""
    sandbox_secret: Annotated[str, Meta(max_length=512)] = ""
    """What the sandbox signs its messages with."""
    payment_seconds: Annotated[float, Meta(gt=0, le=300)] = 3.0
    """How long one call of the provider may take; then the payment is looked up. Stripe gets 10
    at least: a bank takes its time."""
    payment_limit_seconds: Annotated[float, Meta(gt=0, le=2_592_000)] = 3600.0
    """How long a payment is tried, or waited for, before a person has to look at it."""
    checkout_lease_seconds: Annotated[float, Meta(ge=1, le=3600)] = 20.0
    """How long a process that is at an order may be silent before another goes on with it."""
    checkout_wait_seconds: Annotated[float, Meta(gt=0, le=300)] = 30.0
    """How long a buyer is kept waiting for his payment; then he is told that it is pending."""

    # Followers
    broker: str = "none"
    """Where facts are published: none, kafka://host:port, nats://host:port or memory://"""
    broker_topic: Annotated[str, _name(200)] = "holdfast"
    """Kafka's topic, or how NATS' subjects begin. Dead letters have one beside it."""
    broker_options: Annotated[str, Meta(max_length=4_000)] = ""
    """More for Kafka's client: security.protocol=SASL_SSL, sasl.mechanisms=PLAIN, ..."""
    broker_partitions: Annotated[int, Meta(ge=1, le=10_000)] = 12
    """Of a Kafka topic that has to be made."""
    relay_name: Annotated[str, _name(64)] = "relay"
    """Whose cursors are used. Under a new name everything is published from the beginning."""
    relay_batch: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    """Facts that are published at a time."""
    relay_poll_ms: Annotated[int, Meta(ge=1, le=60_000)] = 250
    """How often the log is looked at where no wake-up came."""
    relay_wake: bool = True
    """Whether wake-ups are waited for; else the log is only looked at that often."""
    relay_lease_seconds: Annotated[float, Meta(ge=0.5, le=300)] = 5.0
    """How long a relay may be silent before others take its events over."""
    webhook_seconds: Annotated[float, Meta(gt=0, le=60)] = 15.0
    """How long a receiver of webhooks may take to answer."""
    webhook_internal: bool = False
    """Whether webhooks may be sent to internal addresses too; else only to the internet's."""
    projections: str = "log"
    """From what this process keeps projections up to date: log, or none (others do: from Kafka)"""
    retention_days: Annotated[float, Meta(ge=0, le=36_500)] = 0.0
    """How long facts are kept that every follower is done with; 0: for ever."""
    cursor_idle_hours: Annotated[float, Meta(gt=0, le=876_000)] = 168.0
    """A follower that does nothing for so long, and has facts before it, keeps none any longer."""

    # Limits
    requests_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 4_096
    """Requests that a worker has in hand; past it the answer is 503, at once."""
    header_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """How long a client may take to send the head of a request."""
    body_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """How long it may take to send the rest."""
    write_seconds: Annotated[float, Meta(gt=0, le=600)] = 30.0
    """How long a client may take nothing of its answer; then it is disconnected."""
    stop_seconds: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    """How long a worker that was asked to stop may take to answer what it has in hand."""
    buyer_rate: Annotated[float, Meta(gt=0, le=1_000_000)] = 20.0
    """Requests in a second of one buyer with a public key."""
    buyer_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    address_rate: Annotated[float, Meta(gt=0, le=1_000_000)] = 1_000.0
    """Requests in a second with public keys from one address (IPv6: from one /64)."""
    address_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    address_units_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    """Units that public buyers of one address may hold at once."""
    buyer_units_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 10
    """Units that a public buyer may have of an event which sets no max_per_buyer."""
    trusted_proxies: str = ""
    """Networks whose X-Forwarded-For is believed: 10.0.0.0/8, 127.0.0.1"""
    metrics_open: bool = True
    """Whether /metrics answers without a key; else to admin keys only."""
    log_format: str = "auto"
    """json, text, or auto: text on a terminal, json elsewhere"""
    log_level: str = "info"
    access_log: bool = False
    """A line for every request, not only for those that failed or were slow."""


def load_settings(
    given: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> Settings:
    """`given` is what the caller said himself; None there means that he said nothing. `options`
    has the words that he knows settings by, for what is wrong with one of these."""
    environ = os.environ if environ is None else environ
    path, said = _from_file(environ)
    # A table is about a command, not about a shop.
    values = {name: value for name, value in said.items() if not isinstance(value, dict)}
    sources = dict.fromkeys(values, str(path))
    for name in Settings.__struct_fields__:
        if text := environ.get(PREFIX + name.upper()):
            values[name], sources[name] = text, PREFIX + name.upper()
    for name, value in (given or {}).items():
        if value is not None:
            values[name], sources[name] = value, (options or {}).get(name, "the call")
    settings = Settings(**{name: _read(name, values[name], sources[name]) for name in values})
    for name, choices in CHOICES.items():
        if getattr(settings, name) not in choices:
            last = f"{', '.join(choices[:-1])} or {choices[-1]}"
            raise SettingsError(f"{name} must be {last}, not {getattr(settings, name)!r}")
    if settings.gate == "none" and settings.policy != "authority":
        raise SettingsError(f"policy {settings.policy} needs a gate: gate = redis://host:port/0")
    return settings


def _read(name: str, value: Any, source: str) -> Any:  # of the setting's own type
    kinds = get_type_hints(Settings, include_extras=True)
    if name not in kinds:
        raise SettingsError(f"{source}: there is no setting {name!r}{hint(name, kinds)}")
    try:
        read = msgspec.convert(value, kinds[name], strict=False)
    except msgspec.ValidationError as cause:
        problem = str(cause).replace("Expected", "expected")
        if (kind := get_type_hints(Settings)[name]) in WRITTEN and "got" in problem:
            problem = WRITTEN[kind]
        for meta in getattr(kinds[name], "__metadata__", ()):
            problem = meta.description or problem
        raise SettingsError(f"{_shown(name, value, source)}: {problem}") from None
    if name == "secret" and 0 < len(read) < SECRET_CHARS_MIN:
        raise SettingsError(f"{source}: secret must have {SECRET_CHARS_MIN} characters at least")
    return read


def hint(name: str, known: Iterable[str]) -> str:
    """What may have been meant by a name that is none."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(names)}"


def _shown(name: str, value: Any, source: str) -> str:  # whatever was written
    if source.startswith("--"):
        return source if name in UNSHOWN else f"{source} {value!r}"
    return f"{source}: {name}" if name in UNSHOWN else f"{source}: {name} = {value!r}"


def configured(name: str, environ: Mapping[str, str] | None = None) -> bool:
    """Whether somebody chose this setting, instead of its default."""
    environ = os.environ if environ is None else environ
    return bool(environ.get(PREFIX + name.upper())) or name in _from_file(environ)[1]


def config_tables(environ: Mapping[str, str]) -> tuple[Path, dict[str, dict[str, Any]]]:
    """The file, and what it says of commands: each in a table of its own."""
    path, said = _from_file(environ)
    return path, {name: table for name, table in said.items() if isinstance(table, dict)}


def _from_file(environ: Mapping[str, str]) -> tuple[Path, dict[str, Any]]:
    named = environ.get(PREFIX + "CONFIG")
    path = Path(named or "holdfast.toml")
    if not named and not path.exists():
        return path, {}
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise SettingsError(f"cannot read {path}: {cause.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise SettingsError(f"{path} is not valid TOML: {cause}") from None
