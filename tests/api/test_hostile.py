"""Whatever is sent: no answer is our fault, nothing hangs, and the next one is served."""

import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.api.app import ROUTES
from holdfast.api.routes import Route
from tests.api.conftest import make_event
from tests.api.serving import ADMIN, Served, serving

pytestmark = pytest.mark.slow

SECONDS = 1
"""How long this server waits for a head, and for a body."""
PATIENCE = 4.0
"""How long these tests wait for it: what takes longer is a hang."""


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hostile")
    store = f"sqlite:///{folder / 'shop.db'}"
    waits = {"header_seconds": SECONDS, "body_seconds": SECONDS}
    with serving(store, cwd=folder, sqlite_synchronous="NORMAL", **waits) as it:
        yield it


@pytest.fixture(scope="module")
def night(served) -> str:
    return make_event(served)


@pytest.fixture(autouse=True)
def _unharmed(served) -> Iterator[None]:
    yield
    assert served.call("GET", "/healthz", key=None).status_code == 200
    said = "".join(served.said)
    assert "Traceback" not in said
    assert "failed" not in said


class Heard(NamedTuple):
    statuses: list[int]
    closed: bool
    seconds: float
    raw: bytes


@contextmanager
def connected(served: Served) -> Iterator[socket.socket]:
    address = urlsplit(served.url)
    with socket.create_connection((address.hostname, address.port), PATIENCE) as line:
        yield line


def hear(line: socket.socket, began: float, until: int = 0) -> Heard:
    """Everything until the server closes, or has answered so often."""
    raw, closed = b"", False
    while not closed and not (until and len(_statuses(raw)) >= until):
        try:
            line.settimeout(max(0.01, began + PATIENCE - time.monotonic()))
            more = line.recv(1 << 16)
        except TimeoutError:
            break
        except ConnectionError:
            more = b""
        raw += more
        closed = not more
    return Heard(_statuses(raw), closed, time.monotonic() - began, raw)


def _statuses(raw: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.[01] (\d{3}) ", raw) if found != b"100"]


def talk(served: Served, *parts: bytes, shut: bool = False, until: int = 0) -> Heard:
    """Sends it all, then listens. `shut`: says that nothing more will come."""
    with connected(served) as line:
        began = time.monotonic()
        with suppress(ConnectionError):  # it had heard enough
            for part in parts:
                line.sendall(part)
            if shut:
                line.shutdown(socket.SHUT_WR)
        return hear(line, began, until)


KEY = b"Authorization: Bearer " + ADMIN.encode() + b"\r\n"
CLOSE = b"Connection: close\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


def head(method: str, path: str, *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n".encode() + KEY + lines + b"\r\n"


def post(served: Served, path: str, body: bytes, *headers: bytes, method: str = "POST") -> Heard:
    length = b"Content-Length: %d" % len(body)
    return talk(served, head(method, path, length, b"Connection: close", *headers) + body)


# Bodies

DEEP = b"[" * 10_000 + b"]" * 10_000
BODIES = {
    "nothing": b"",
    "blanks": b" \n\t ",
    "no json": b"seats=A-1-1",
    "cut off": b'{"buyer": "u-1", "seats": ["A-1',
    "two values": b"{} {}",
    "a comma too many": b'{"buyer": "u",}',
    "null": b"null",
    "a list": b"[]",
    "a text": b'"x"',
    "a number": b"1",
    "deep": DEEP,
    "deep objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "deep and unknown": b'{"zz": ' + DEEP + b"}",
    "deep and known": b'{"buyer": ' + DEEP + b', "id": ' + DEEP + b', "prices": ' + DEEP + b"}",
    "deep and open": b'{"seats": ' + b"[" * 30_000,
    "1e400": b'{"buyer": 1e400, "id": 1e400, "seconds": 1e400, "hold_seconds": 1e400}',
    "-1e400 unknown": b'{"zz": -1e400}',
    "10**400": b'{"id": 1%b, "seconds": 1%b, "seats": [1%b]}' % ((b"0" * 400,) * 3),
    "10**5000": b'{"buyer": 1%b, "seconds": 1%b, "seats": [1%b]}' % ((b"0" * 5000,) * 3),
    "a long fraction": b'{"seconds": 0.%b1, "x": 1.%b}' % (b"0" * 5000, b"9" * 5000),
    "NaN": b'{"seconds": NaN, "buyer": Infinity}',
    "a lone surrogate": b'{"buyer": "\\ud800", "id": "\\udc00", "hold": "\\ud800.x"}',
    "a surrogate as a name": b'{"\\ud800": 1}',
    "NUL": b'{"buyer": "a\\u0000b", "seats": ["\\u0000"], "pools": {"\\u0000": 1}}',
    "a raw NUL": b'{"buyer": "a\0b"}',
    "right to left": '{"buyer": "\u202eabc", "id": "\u202e", "seats": ["\u200f"]}'.encode(),
    "invalid UTF-8": b'{"buyer": "\xff\xfe", "id": "\xff"}',
    "invalid and unknown": b'{"zz": "\xff\xfe"}',
    "overlong UTF-8": b'{"buyer": "\xc0\xaf", "id": "\xe0\x80\xaf"}',
    "UTF-16": '{"buyer": "u"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"buyer": "u"}',
    "the same name twice": b'{"buyer": "u", "buyer": 1, "seats": [], "seats": 1}',
    "many names": b"{" + b",".join(b'"f%d":1' % nth for nth in range(5_000)) + b"}",
    "wrong types": b'{"buyer": [], "id": {}, "seats": {}, "best": 1, "pools": [], "channels": 1,'
    b' "hold": 1, "payment": [], "seconds": "x", "gate": 1, "prices": [], "sections": {}}',
    "an id with a line end": b'{"buyer": "u", "id": "abc\\n", "pools": {"floor": 1}}',
}
ROUTES_WITH_BODY = [route for route in ROUTES if route.body is not None]


def path_of(route: Route, event: str) -> str:
    id = f"{event}.x"
    return route.path.format(event=event, hold=id, order=id, provider="sandbox", webhook="wh_none")


@pytest.mark.parametrize("route", ROUTES_WITH_BODY, ids=lambda route: route.name)
def test_no_body_is_too_odd(served, night, route):
    may_be_absent = () if route.body_required else ("nothing",)
    for name, body in BODIES.items():
        path = path_of(route, night)
        key = f"Idempotency-Key: of {route.operation}".encode()
        heard = post(served, path, body, key, method=route.method)
        assert len(heard.statuses) == 1, (name, heard)
        expected: tuple[int, ...] = (200, 201, 404) if name in may_be_absent else (404, 422)
        if route.body is dict:
            expected = (400,)  # whatever it is, it is not signed
        assert heard.statuses[0] in expected, (name, heard)


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(codec=None), max_size=20)
    | st.sampled_from(["A-1-1", "floor", "gold", "on", "on_sale", "sandbox:ok", "x.y"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


def likely(kind: Any) -> "st.SearchStrategy[Any]":
    """Anything, but often under the names that are known."""
    names = st.sampled_from(getattr(kind, "__struct_fields__", ("id", "reference")))
    return ANY | st.dictionaries(names | st.text(max_size=3), ANY, max_size=6)


@pytest.mark.parametrize("route", ROUTES_WITH_BODY, ids=lambda route: route.name)
def test_any_json_is_answered(served, night, route):
    path = path_of(route, night)

    @settings(
        max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
    )
    @given(likely(route.body))
    def answered(body: Any) -> None:
        headers = {"Idempotency-Key": "any"}
        answer = served.call(route.method, path, data=json.dumps(body), headers=headers)
        assert answer.status_code < 500

    answered()


# Lengths and chunks

LENGTHS: dict[str, tuple[tuple[bytes, ...], bytes, set[int]]] = {
    "below zero": ((b"Content-Length: -1",), b"{}", {400}),
    "with a sign": ((b"Content-Length: +2",), b"{}", {400}),
    "hexadecimal": ((b"Content-Length: 0x2",), b"{}", {400}),
    "no number": ((b"Content-Length: two",), b"{}", {400}),
    "empty": ((b"Content-Length:",), b"{}", {400}),
    "of a hundred gigabytes": ((b"Content-Length: 99999999999",), b"{}", {413}),
    "of 25 digits": ((b"Content-Length: " + b"9" * 25,), b"{}", {400, 413}),
    "twice, different": ((b"Content-Length: 2", b"Content-Length: 3"), b"{}", {400}),
    "twice in one": ((b"Content-Length: 2, 3",), b"{}", {400}),
    "twice, the same": ((b"Content-Length: 2", b"Content-Length: 2"), b"{}", {400, 422}),
    "not chunked at the end": ((b"Transfer-Encoding: chunked, identity",), b"0\r\n\r\n", {400}),
    "an unknown encoding": ((b"Transfer-Encoding: xchunked",), b"{}", {400}),
    "no size": ((b"Transfer-Encoding: chunked",), b"zz\r\n{}\r\n0\r\n\r\n", {400}),
    "a size below zero": ((b"Transfer-Encoding: chunked",), b"-2\r\n{}\r\n0\r\n\r\n", {400}),
    "too large a size": ((b"Transfer-Encoding: chunked",), b"f" * 20 + b"\r\n{}\r\n", {400}),
    "a chunk of another size": ((b"Transfer-Encoding: chunked",), b"1\r\n{}\r\n0\r\n\r\n", {400}),
    "a long extension": (
        (b"Transfer-Encoding: chunked",),
        b"2;" + b"x" * 20_000 + b"\r\n{}\r\n0\r\n\r\n",
        {400},
    ),
    "chunks": ((b"Transfer-Encoding: chunked",), b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", {422}),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_a_length_that_is_a_lie_is_refused(served, night, name):
    headers, body, expected = LENGTHS[name]
    heard = talk(served, head("POST", f"/v1/events/{night}/holds", CLOSE[:-2], *headers) + body)
    assert len(heard.statuses) == 1, heard
    assert heard.statuses[0] in expected, heard
    assert heard.closed


def test_a_request_does_not_hide_in_another(served, night):
    """Two ways to say how long it is: whoever believes the other one sees a second request."""
    hidden = b"GET /v1/system HTTP/1.1\r\nHost: x\r\n" + KEY + b"\r\n"
    path = f"/v1/events/{night}/holds"
    for headers in (
        (b"Transfer-Encoding: chunked", b"Content-Length: 5"),
        (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    ):
        heard = talk(served, head("POST", path, *headers) + b"0\r\n\r\n" + hidden)
        assert len(heard.statuses) == 1, heard
        assert heard.closed


def test_a_body_that_nobody_reads_is_not_the_next_request(served, night):
    inside = b"GET /v1/system HTTP/1.1\r\n\r\n"
    for method, path in (("POST", f"/v1/holds/{night}.x/pay"), ("GET", "/healthz")):
        first = head(method, path, b"Content-Length: %d" % len(inside)) + inside
        heard = talk(served, first + HEALTH + CLOSE + b"\r\n")
        assert heard.statuses in ([404, 200], [200, 200], [404], [200]), heard
        assert b'"store"' not in heard.raw


def test_a_body_cut_off_is_not_taken_for_a_whole_one(served, night):
    """What came is valid JSON, and still not all that was announced."""
    path = f"/v1/events/{night}/holds"
    ask = b'{"buyer": "cut", "pools": {"floor": 1}}'
    whole = b"%x\r\n%b\r\n" % (len(ask), ask)
    for headers, body, shut in (
        (b"Content-Length: 200", ask, True),
        (b"Transfer-Encoding: chunked", whole, True),
        (b"Transfer-Encoding: chunked", whole + b"zz\r\n", False),
    ):
        heard = talk(served, head("POST", path, headers) + body, shut=shut)
        assert heard.statuses in ([400], []), heard
    assert served.call("GET", f"/v1/events/{night}").json()["held"] == 0


def test_a_body_that_does_not_come_is_not_waited_for(served, night):
    length, chunked = b"Content-Length: 200", b"Transfer-Encoding: chunked"
    ways = [(length, b""), (length, b"{"), (chunked, b""), (chunked, b"1\r\n{\r\n")]
    sent = [head("POST", f"/v1/events/{night}/holds", said) + begun for said, begun in ways]
    with ThreadPoolExecutor(len(sent)) as threads:
        for heard in threads.map(lambda each: talk(served, each), sent):
            assert heard.statuses == [408], heard
            assert heard.closed
            assert SECONDS - 0.1 < heard.seconds < SECONDS + 1.5


def test_a_body_that_comes_in_drops_is_not_waited_for(served, night):
    with connected(served) as line:
        began = time.monotonic()
        line.sendall(head("POST", f"/v1/events/{night}/holds", b"Content-Length: 200"))
        line.settimeout(0.2)
        raw = b""
        while not raw and time.monotonic() < began + PATIENCE:
            try:
                line.sendall(b" ")
                raw = line.recv(1 << 16)
            except TimeoutError:
                continue
        assert _statuses(raw) == [408]
        assert time.monotonic() < began + SECONDS + 1.5


@pytest.mark.parametrize("extra", [b"X: y", b"Expect: 100-continue"])
def test_a_hundred_megabytes_are_refused_before_they_come(served, night, extra):
    path = f"/v1/events/{night}/holds"
    for where, size in ((path, 100 * 1024**2), (path, 64 * 1024 + 1), ("/v1/events", 33 * 1024**2)):
        length = b"Content-Length: %d" % size
        heard = talk(served, head("POST", where, length, extra), until=1)
        assert heard.statuses == [413], heard
        assert heard.seconds < 0.9
        assert b"100 Continue" not in heard.raw


def test_who_sends_a_hundred_megabytes_all_the_same_is_cut_off(served, night):
    with connected(served) as line:
        line.sendall(head("POST", f"/v1/events/{night}/holds", b"Content-Length: 104857600"))
        sent, block = 0, b" " * (1 << 20)
        with suppress(ConnectionError):
            while sent < 100:
                line.sendall(block)
                sent += 1
        assert sent < 50


def test_chunks_are_counted_too(served, night):
    block = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    path = f"/v1/events/{night}/holds"
    heard = talk(served, head("POST", path, b"Transfer-Encoding: chunked"), *[block] * 5)
    assert heard.statuses == [413], heard


def test_a_body_of_just_the_limit_is_read(served, night):
    ask = b'{"buyer": "u-1", "pools": {"floor": 1}}'
    path = f"/v1/events/{night}/holds"
    assert post(served, path, ask.ljust(64 * 1024)).statuses == [201]
    assert post(served, path, ask.ljust(64 * 1024 + 1)).statuses == [413]


# Heads


def test_pipelined_requests_are_answered_in_order(served, night):
    asked = [("/healthz", 200), (f"/v1/events/{night}", 200), ("/nowhere", 404), ("/readyz", 200)]
    sent = [head("GET", path, b"X-Request-Id: n%d" % nth) for nth, (path, _) in enumerate(asked)]
    heard = talk(served, b"".join(sent) + HEALTH + b"X-Request-Id: last\r\n" + CLOSE + b"\r\n")
    assert heard.statuses == [*(status for _, status in asked), 200], heard
    numbers = re.findall(rb"x-request-id: (\w+)", heard.raw)
    assert [n for n in numbers if n in (b"n0", b"n1", b"n3", b"last")] == [
        *(b"n0", b"n1", b"n3", b"last")
    ]


HEADS = {
    "a long header": (HEALTH + b"X: " + b"a" * 70_000 + b"\r\n\r\n", {431}),
    "a thousand headers": (
        HEALTH + b"".join(b"X-%d: a\r\n" % nth for nth in range(1_000)) + b"\r\n",
        {431},
    ),
    "a long path": (b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {404, 414, 431}),
    "a longer path": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {414, 431}),
    "HTTP/1.0": (b"GET /healthz HTTP/1.0\r\n\r\n", {200}),
    "HTTP/0.9": (b"GET /healthz\r\n\r\n", {400}),
    "HTTP/3.7": (b"GET /healthz HTTP/3.7\r\n\r\n", {400}),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64 + b"\r\n\r\n", {400}),
    "noise": (bytes(range(256)) * 4, {400}),
    "a header without a name": (HEALTH + b": x\r\n\r\n", {400}),
    "a name with a blank": (HEALTH + b"A b: x\r\n\r\n", {400}),
    "a name with NUL": (HEALTH + b"A\0: x\r\n\r\n", {400}),
    "a value with NUL": (HEALTH + b"A: x\0y\r\n\r\n", {400}),
    "a lone return": (HEALTH + b"A: x\ry\r\n\r\n", {400}),
    "a folded header": (HEALTH + b"A: x\r\n y\r\n\r\n", {400}),
    "no target": (b"GET  HTTP/1.1\r\nHost: x\r\n\r\n", {400}),
    # Read as the name of a host without a path, which is home: pages, or the way to /docs.
    "a relative target": (b"GET healthz HTTP/1.1\r\nHost: x\r\n\r\n", {200, 302, 400, 404}),
    "a target with a blank": (b"GET /healthz /x HTTP/1.1\r\nHost: x\r\n\r\n", {400}),
    "a raw byte in the target": (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", {400}),
    "an absolute target": (b"GET http://evil.example/healthz HTTP/1.1\r\nHost: x\r\n\r\n", {200}),
    "CONNECT": (b"CONNECT evil.example:80 HTTP/1.1\r\nHost: x\r\n\r\n", {400, 404, 405}),
    "OPTIONS *": (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", {204, 404}),
    "a method with a letter": ("GÉT /healthz HTTP/1.1\r\nHost: x\r\n\r\n".encode(), {400}),
    "an upgrade to nothing": (HEALTH + b"Upgrade: x\r\nConnection: upgrade\r\n\r\n", {200}),
    "an upgrade to HTTP/2": (
        HEALTH
        + b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA\r\n\r\n",
        {200},
    ),
    "a socket where there is none": (
        HEALTH + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        {101, 400, 403, 404},  # 101: it is then closed with the reason
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_is_none_is_refused(served, name):
    sent, expected = HEADS[name]
    heard = talk(served, sent, until=1)
    assert len(heard.statuses) == 1, heard
    assert heard.statuses[0] in expected, heard


METHODS = {"HEAD": {200}, "OPTIONS": {204}, "BREW": {400, 405}, "get": {400, 405}}
METHODS |= {name: {405} for name in ("TRACE", "PUT", "PATCH", "CONNECT", "PROPFIND", "QUERY")}
METHODS |= {"A" * 300: {400, 405}, "M-SEARCH": {400, 405}}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method[:10])
def test_another_method_is_refused(served, method):
    heard = talk(served, f"{method} /healthz HTTP/1.1\r\nHost: x\r\n".encode() + CLOSE + b"\r\n")
    assert len(heard.statuses) == 1, heard
    assert heard.statuses[0] in METHODS[method]
    if method == "HEAD":
        assert heard.raw.endswith(b"\r\n\r\n")  # no body


@pytest.mark.parametrize("header", [b"Authorization", b"Idempotency-Key", b"Buyer-Token"])
def test_a_header_that_is_there_twice_counts_as_none(served, night, header):
    ask = b'{"buyer": "twice", "pools": {"floor": 1}}'
    twice = (header + b": one", header + b": two")
    heard = post(served, f"/v1/events/{night}/holds", ask, *twice)
    assert heard.statuses == [400], heard


def test_odd_bytes_in_headers_are_only_odd(served, night):
    ask = b'{"pools": {"floor": 1}}'
    odd = b"\xff\xfe\xc0\xaf\xf0\x9f\x98\x80"
    for header, expected in (
        (b"Authorization: Bearer " + odd, 400),  # there twice
        (b"Buyer-Token: " + odd, 422),  # an admin has none, and the buyer is missing
        (b"Hold-Token: " + odd, 422),
        (b"Idempotency-Key: " + odd, 422),
        (b"X-Request-Id: " + odd, 422),
        (b"Origin: " + odd, 422),
        (b"X-Forwarded-For: " + odd, 422),
        (b"Accept-Encoding: " + odd, 422),
        (b"Content-Type: " + odd, 422),
        (b"traceparent: " + odd, 422),
    ):
        heard = post(served, f"/v1/events/{night}/holds", ask, header)
        assert heard.statuses == [expected], (header, heard)
    lines = b"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + odd + b"\r\n"
    assert talk(served, lines + CLOSE + b"\r\n").statuses == [401]
    lines = lines.replace(odd, b"k" * 30_000)
    assert talk(served, lines + CLOSE + b"\r\n").statuses == [401]


PATHS = (
    *("%2e%2e", "..%2f..", "%2e%2e/%2e%2e/etc/passwd", "%00", "{night}%00", "{night}%0a"),
    *("%ff%fe", "%c0%af", "%ed%a0%80", "%zz", "%", "%f0%9f%98%80", "%e2%80%aeabc", "a" * 5_000),
    *("{night}/", "/{night}", "{night}//seats", "{night};x=1", "{night}%20", "'--", "*", "."),
)


def test_no_path_leads_anywhere_else(served, night):
    for part in PATHS:
        part = part.format(night=night)
        for path in (f"/v1/events/{part}", f"/v1/events/{part}/seats", f"/{part}"):
            heard = talk(served, head("GET", path, b"Connection: close"))
            assert heard.statuses == [404], (path, heard)
        for path in (f"/v1/holds/{part}", f"/v1/holds/{night}.{part}", f"/v1/orders/{part}"):
            heard = talk(served, head("GET", path, b"Connection: close"))
            assert heard.statuses == [404], (path, heard)
        heard = post(served, f"/v1/events/{part}/holds", b'{"buyer": "u", "pools": {"floor": 1}}')
        assert heard.statuses == [404], (part, heard)


QUERIES = {
    **dict.fromkeys(("after=-1", "after=1e9", "after=x", "after=%ff", "after="), 422),
    **dict.fromkeys(("after=" + "9" * 30, "limit=1.5", "limit=0", "after=%D9%A1"), 422),
    **dict.fromkeys(("&".join("a" * 30), "after=1&after=x", "limit=%00"), 422),
    **dict.fromkeys(("", "&&&", "=", "%", "after=0&limit=1", "limit=99999999999"), 200),
    **dict.fromkeys(("after=" + "9" * 18, "key=" + "k" * 5_000, "unknown=1", "after[]=1"), 200),
}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query[:16])
def test_no_query_is_too_odd(served, night, query):
    path = f"/v1/events/{night}/log?{query}"
    assert talk(served, head("GET", path, b"Connection: close")).statuses == [QUERIES[query]]


def test_a_head_that_does_not_end_is_not_waited_for(served):
    begun = [HEALTH + b"X: ", b"G", b"\r\n", b"POST"]
    with ThreadPoolExecutor(len(begun)) as threads:
        for heard in threads.map(lambda each: talk(served, each), begun):
            assert heard.statuses in ([], [408])
            assert heard.closed
            assert heard.seconds < SECONDS + 1.5


def test_a_connection_that_says_nothing_is_closed(served):
    assert talk(served, b"").closed


def test_a_connection_that_has_become_idle_is_closed(served):
    heard = talk(served, HEALTH + b"\r\n")
    assert heard.statuses == [200]
    assert heard.closed
    assert heard.seconds < SECONDS + 1.5


def test_many_who_never_finish_keep_nobody_waiting(served, night):
    path = f"/v1/events/{night}/holds"
    lines = []
    try:
        for nth in range(60):
            with connected(served) as line:
                lines.append(line.dup())
            half = (HEALTH, head("POST", path, b"Content-Length: 99"), b"GET /")[nth % 3]
            lines[-1].sendall(half)
        began = time.monotonic()
        assert served.call("GET", f"/v1/events/{night}").status_code == 200
        assert time.monotonic() < began + 2
    finally:
        for line in lines:
            line.close()
