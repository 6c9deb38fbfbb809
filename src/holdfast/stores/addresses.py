"""Addresses of database servers, shown without their secrets."""

import re

SERVERS = ("postgresql", "postgres", "mysql", "mariadb")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
SECRET = re.compile(r"(password=).*", re.IGNORECASE | re.DOTALL)
_host = r"(?:\[[^\]@/?#]*\]|[^:,@/?#\[\]]*)(?::[0-9]*)?"
PLACE = re.compile(rf"{_host}(?:,{_host})*(?:[/?].*)?", re.DOTALL)


def without_secrets(url: str) -> str:
    """Whatever the address looks like: it is shown where it makes no sense, too, and then all is
    left out that may be a part of a password."""
    scheme, found, rest = SECRET.sub(r"\1***", url).partition("://")
    if not found or not SCHEME.fullmatch(scheme):
        head, _, tail = url.partition(":")
        return f"{head}:..." if tail else url
    login, at, place = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    if at and scheme not in SERVERS:
        login = "***"
    elif colon:
        login = f"{user}:***"
    if not PLACE.fullmatch(place):
        # A port that is no number: perhaps a password without its host.
        place = re.split("[]:/?#]", place)[0] + ":***"
    return f"{scheme}://{login}{at}{place}"
