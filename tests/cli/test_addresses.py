"""Addresses that make no sense: one line that says how to write them, and no part of a password."""

import re

import pytest

from holdfast.cli import main
from holdfast.stores.addresses import without_secrets

PLACES = ["host/db", "host:5432/shop", "host", "[::1]:5432/db", "host/db?x=y"]
BROKEN = [
    "postgresql:/u:xyzzy@host/db",
    "postgresql:u:xyzzy@host/db",
    "u:xyzzy@host/db",
    "u:xy://zzy@host/db",
    "postgres+x://u:xy/zzy@host/db",
    "oracle://xyzzy@host/db",
    "postgresql://u:xyzzy",
    "postgresql://u:xyzzy/db",
    "postgresql://u:xyzzy?x=y",
    "mysql://u:xyzzy",
    "mysql://u:xyzzy/db",
    "mysql://u:1/xy?zzy@host/db",
    "mysql://u:1/xy#zzy@host/db",
    "postgresql://host:99999/db?password=xyzzy",
    "postgresql://host:5432/db?password=xy@zzy",
    "postgresql://host:x/db?sslpassword=xy&zzy",
    *(
        f"{scheme}://u:xy{odd}zzy@{place}"
        for scheme in ("postgresql", "postgres")
        for odd in "/?#@"
        for place in PLACES
    ),
    *(f"mysql://u:xy{odd}zzy@{place}" for odd in "/?#" for place in PLACES),
    *(f"postgresql://u:12{odd}zzy@host/db" for odd in "/?#@"),
    *(f"mysql://u:12{odd}zzy@host/db" for odd in "/?#"),
]


@pytest.mark.parametrize("command", ["check", "migrate"])
@pytest.mark.parametrize("url", BROKEN)
def test_an_address_that_makes_no_sense_is_one_line_without_any_part_of_the_password(
    capfd, command, url
):
    assert main([command, "--store", url]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    for part in ("xy", "zzy"):
        assert part not in err


@pytest.mark.parametrize("odd", "/?#@")
def test_it_says_how_to_write_such_a_password(capfd, odd):
    for scheme in ("postgresql", "mysql"):
        if (scheme, odd) != ("mysql", "@"):  # there the last @ counts, so it is no mistake
            assert main(["check", "--store", f"{scheme}://u:xy{odd}zzy@host/db"]) == 2
            assert "with %2F for a / in the password" in capfd.readouterr().err


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
@pytest.mark.parametrize("port", ["abc", "0", "65536", "-1", "5432x", "\u0665"])
def test_a_port_that_is_none_is_said(capfd, scheme, port):
    assert main(["check", "--store", f"{scheme}://ann@127.0.0.1:{port}/shop"]) == 2
    err = capfd.readouterr().err
    assert "port must be a number from 1 to 65535" in err
    assert re.match(rf"holdfast: {scheme}://ann@127\.0\.0\.1:", err)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann@db:5432/shop", None),
        ("postgres://db1:5432,db2:5433/shop?sslmode=require", None),
        ("postgresql:///shop?host=/run/postgresql", None),
        ("mysql://db/shop?unix_socket=/run/mysqld.sock", None),
        ("postgresql://ann:secret@[::1]:5432/shop", "postgresql://ann:***@[::1]:5432/shop"),
        ("mariadb://ann:secret@db/shop", "mariadb://ann:***@db/shop"),
        ("postgresql://db/shop?password=a&b", "postgresql://db/shop?password=***"),
        ("shop.db", None),
        ("ftp://x", None),
    ],
)
def test_all_else_of_an_address_is_shown(url, shown):
    assert without_secrets(url) == (shown or url)
