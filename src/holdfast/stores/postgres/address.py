"""Addresses of PostgreSQL: looked at before the driver sees them, for it would quote parts of a
password in what it says about them."""

import re
from urllib.parse import parse_qs

from holdfast.errors import SettingsError

ADDRESS = re.compile(
    r"postgres(?:ql)?://(?:[^@/?#]*@)?(?P<hosts>[^@/?#]*)(?:/[^@/?#]*)?(?:\?(?P<options>[^@#]*))?"
)
HOST = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[^:]*))?")
PORT_MAX = 65_535


def unusable(shown: str) -> SettingsError:
    return SettingsError(
        f"{shown} is not a PostgreSQL address: write "
        "postgresql://user:password@host:5432/database, with %2F for a / in the password "
        "(and %40 for @, %3F for ?, %23 for #)"
    )


def check_address(url: str, shown: str) -> None:
    """Raises SettingsError, in which no part of a password is quoted."""
    address = ADDRESS.fullmatch(url)
    if address is None:
        raise unusable(shown)
    for each in address["hosts"].split(","):
        host = HOST.fullmatch(each)
        if host is None:
            raise unusable(shown)
        port = host["port"] or "5432"
        if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= PORT_MAX):
            raise SettingsError(f"{shown}: the port must be a number from 1 to {PORT_MAX}")
    if address["options"]:
        try:
            parse_qs(address["options"], strict_parsing=True)
        except ValueError:
            raise unusable(shown) from None
