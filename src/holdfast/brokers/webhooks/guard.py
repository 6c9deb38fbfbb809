"""Which addresses may be called: whoever makes a subscription must not reach, through us, what only
our own network can.

A URL is read by one narrow pattern, so that no two readers can take it differently. What a name
stands for is looked at when it is called, and the address that was looked at is the one that is
connected to (`post.py`).
"""

import ipaddress
import re
from typing import NamedTuple

URL_CHARS_MAX = 2_000
HOST_CHARS_MAX = 253
PORT_MAX = 65_535

URL = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\.?|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<rest>[/?][!-\"$-\[\]-~]*)?"
)
"""No userinfo, no fragment, no zone of an IPv6 address, no backslash, nothing but ASCII."""

INTERNAL_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "corp", "home")
"""Names that end so are nobody's on the internet."""

UNLESS = "which is not called unless HOLDFAST_WEBHOOK_INTERNAL=true"
"""Whoever meant it has to know what to set."""

NUMERIC = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
"""A host whose last part looks like this is an IPv4 address to some readers."""

INTERNAL_V4 = tuple(
    ipaddress.IPv4Network(each)
    for each in (
        "0.0.0.0/8",  # this host, on many systems
        "10.0.0.0/8",
        "100.64.0.0/10",  # carriers' own, and some clouds' metadata
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's own service, in every virtual network
        "169.254.0.0/16",  # link-local: clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
INTERNAL_V6 = tuple(
    ipaddress.IPv6Network(each)
    for each in (
        "2001::/23",  # protocols' own: Teredo leads to any IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4: so does it
        "3fff::/20",
    )
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class Target(NamedTuple):
    """A URL that could be read, in the parts that matter."""

    scheme: str
    host: str
    """A name or an address; IPv6 without its brackets."""
    port: int | None


def read_url(url: str) -> Target | None:
    """None where it is not a plain http or https URL."""
    found = URL.fullmatch(url) if len(url) <= URL_CHARS_MAX else None
    if found is None:
        return None
    host, port = found["host"], found["port"]
    if len(host) > HOST_CHARS_MAX or ".." in host:
        return None
    if port is not None and not 0 < int(port) <= PORT_MAX:
        return None
    if host.startswith("["):
        try:
            host = str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            return None
    elif NUMERIC.fullmatch(host.rstrip(".").rpartition(".")[2]):
        # 127.1, 2130706433, 0x7f000001, 0177.0.0.1: each reader has an opinion about these.
        try:
            host = str(ipaddress.IPv4Address(host))
        except ValueError:
            return None
    return Target(found["scheme"], host, None if port is None else int(port))


def url_fault(url: str, *, internal: bool = False) -> str | None:
    """What is wrong with a URL as such; None if nothing is. `internal`: any address will do."""
    target = read_url(url)
    if target is None:
        return (
            "must be http:// or https://, a host in ASCII and perhaps a port and a path; "
            "without user, password, fragment, or another way to write an address"
        )
    return None if internal else host_fault(target.host)


def host_fault(host: str) -> str | None:
    """Why a host may not be called, as far as that can be told without asking for its address."""
    if _address(host) is not None:
        return address_fault(host)
    name = host.rstrip(".").lower()
    if "." not in name or name.endswith(tuple(f".{each}" for each in INTERNAL_NAMES)):
        return f"{host} is an internal name, {UNLESS}"
    return None


def address_fault(address: str) -> str | None:
    """Why an address may not be connected to; None if it is anybody's on the internet."""
    found = _address(address)
    if found is None:
        return f"{address} is not an address"
    return None if _is_public(found) else f"{address} is an internal address, {UNLESS}"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in INTERNAL_V4)
    if address.scope_id is not None:
        return False
    if address.ipv4_mapped is not None:
        return _is_public(address.ipv4_mapped)
    if address in NAT64:
        # How a network without IPv4 reaches it: what counts is where that leads.
        return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in GLOBAL_V6 and not any(address in network for network in INTERNAL_V6)
