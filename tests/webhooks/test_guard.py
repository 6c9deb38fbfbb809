"""Nobody reaches our own network through a webhook: not by an address, a name, or a redirect."""

import asyncio
import ipaddress
import socket

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver

from holdfast.brokers.webhooks.guard import address_fault, read_url, url_fault
from holdfast.brokers.webhooks.post import Post
from holdfast.brokers.webhooks.retries import Failure

PUBLIC = (
    "93.184.215.14",
    "1.1.1.1",
    "2606:2800:21f:cb07:6820:80da:af6b:8b2c",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
)
INTERNAL = (
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255"),
    *("192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16"),
    *("192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.9", "192.88.99.1"),
    *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1"),
    *("fe80::1", "fe80::1%eth0", "2606:2800:21f::1%1", "fc00::1", "fd00:ec2::254", "fec0::1"),
    *("ff02::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::"),
    *("2002:a00:1::1", "2001:0:7f00:1::", "2001:db8::1", "3fff::1", "100::1", "5f00::1"),
)


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_internet_may_be_called(address):
    assert address_fault(address) is None


@pytest.mark.parametrize("address", INTERNAL)
def test_an_internal_address_is_not_called(address):
    assert "is an internal address" in str(address_fault(address))


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example/hook",
        "http://shop.example:8080/a/b?c=d&e=%20f",
        "https://shop.example.",
        "https://xn--bcher-kva.example/?q=1",
        "https://1.1.1.1/hook",
        "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:8443/",
        "https://a_b.example",
        "https://127.0.0.1.nip.example/",
    ],
)
def test_a_plain_url_is_good(url):
    assert url_fault(url) is None


INTERNAL_URLS = (
    *("http://127.0.0.1/", "http://127.0.0.1:8000/x", "http://[::1]/", "http://[::]/"),
    *("http://0.0.0.0/", "http://169.254.169.254/latest/meta-data/", "https://10.1.2.3/"),
    *("http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[fe80::1]/"),
    *("http://localhost/", "http://LOCALHOST:80/", "http://localhost./", "http://a.localhost/"),
    *("http://db/", "http://printer.local/", "http://metadata.google.internal/computeMetadata/"),
    *("http://router.home.arpa/", "http://db.internal./"),
)
UNREADABLE = (
    *("http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://017700000001/"),
    *("http://127.1/", "http://0177.0.0.1/", "http://127.0.0.1./", "http://127.0.0.0x1/"),
    *("http://1.1.1.1.1/", "http://256.1.1.1/", "http://[::1%25eth0]/", "http://[fe80::1%lo]/"),
    *("http://[::1", "http://::1/", "http://[1.1.1.1]/", "http://[:::1]/"),
    *("http://user@shop.example/", "http://user:pw@shop.example/", "http://1.1.1.1@127.0.0.1/"),
    *("http://shop.example#@127.0.0.1/", "http://shop.example\\@127.0.0.1/", "http://a\\b.c/"),
    *("http:///x", "http://", "https:shop.example", "//shop.example/", "shop.example", ""),
    *("ftp://shop.example/", "file:///etc/passwd", "gopher://shop.example/", "HTTP://a.example/"),
    *("http://shop.example:0/", "http://shop.example:65536/", "http://shop.example:99999/"),
    *("http://shop.example:80:80/", "http://shop..example/", "http://-a.example/", "http://.a.b/"),
    *("http://shop.example/ x", "http://shop.example/\r\nHost: db", "http://shop.example\n/"),
    *("http://ⓛocalhost.example/", "http://127。0。0。1/", "http://bücher.example/", "http://a b/"),
    "http://shop.example/" + "a" * 2_000,
)


@pytest.mark.parametrize("url", INTERNAL_URLS)
def test_a_url_that_is_plainly_internal_is_refused_unless_that_is_allowed(url):
    assert "internal" in str(url_fault(url))
    assert url_fault(url, internal=True) is None


@pytest.mark.parametrize("url", UNREADABLE)
def test_a_url_that_could_be_read_in_two_ways_is_refused_always(url):
    assert read_url(url) is None
    assert "must be http" in str(url_fault(url, internal=True))


# When it is sent


class Answering(AbstractResolver):
    """A name server in the hands of whoever owns the name: gives one answer after the other, and
    the last for ever."""

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(self, host, port=0, family=socket.AF_INET):
        self.asked += 1
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in addresses
        ]

    async def close(self) -> None:
        pass


class Watched(Post):
    """Nothing leaves this machine: what is not ours cannot be connected to."""

    connected: list[str]

    def _socket(self, info):
        made = super()._socket(info)
        self.connected = [*getattr(self, "connected", []), str(info[4][0])]
        if info[4][0] != "127.0.0.1":
            made.close()
            raise ConnectionRefusedError("as if nobody were there")
        return made


async def sent(url: str, *, internal: bool, resolver: AbstractResolver | None = None):
    """What came of it, and which addresses were connected to."""
    post = Watched(5, internal=internal, resolver=resolver)
    try:
        return await post.send(url, {}, b"{}"), getattr(post, "connected", [])
    finally:
        await post.close()


def urls(port: int) -> tuple[str, ...]:
    return (
        f"http://127.0.0.1:{port}/",
        f"http://[::ffff:127.0.0.1]:{port}/",
        f"http://localhost:{port}/",
        f"http://0.0.0.0:{port}/",
    )


@pytest.mark.parametrize("nth", range(4))
async def test_loopback_is_not_connected_to(receiver, nth):
    came, connected = await sent(urls(receiver.port)[nth], internal=False)
    assert isinstance(came, Failure)
    assert came.reason.startswith("not sent: ")
    assert (connected, receiver.got) == ([], [])


async def test_loopback_is_reached_where_that_is_allowed(receiver):
    """The control: it is the guard that stands in between, and nothing else."""
    assert await sent(urls(receiver.port)[0], internal=True) == (204, ["127.0.0.1"])
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1", "fe80::1%1"]
)
async def test_a_name_that_leads_to_an_internal_address_is_not_called(receiver, address):
    url = f"http://shop.example:{receiver.port}/"
    for answer in ((address,), ("1.1.1.1", address), (address, "1.1.1.1")):
        came, connected = await sent(url, internal=False, resolver=Answering(answer))
        assert isinstance(came, Failure)
        assert came.reason.startswith("not sent: shop.example leads to ")
        assert connected == []
    assert receiver.got == []


async def test_such_a_name_is_called_where_that_is_allowed(receiver):
    url = f"http://shop.example:{receiver.port}/"
    came, _ = await sent(url, internal=True, resolver=Answering(("127.0.0.1",)))
    assert came == 204


async def test_the_address_that_was_looked_at_is_the_one_that_is_connected_to(receiver):
    """The name leads to the internet when it is asked for first, and to us after that."""
    rebinding = Answering(("93.184.215.14",), ("127.0.0.1",))
    url = f"http://shop.example:{receiver.port}/"
    came, connected = await sent(url, internal=False, resolver=rebinding)
    assert isinstance(came, Failure)
    assert connected == ["93.184.215.14"]
    assert rebinding.asked == 1
    assert receiver.got == []


async def test_whoever_looks_first_and_connects_after_is_fooled(receiver):
    """The control: the same name server, and a guard that does not hold on to what it saw."""
    rebinding = Answering(("93.184.215.14",), ("127.0.0.1",))
    for each in await rebinding.resolve("shop.example"):
        assert address_fault(each["host"]) is None
    connector = aiohttp.TCPConnector(resolver=rebinding)
    async with (
        aiohttp.ClientSession(connector=connector) as naive,
        naive.post(f"http://shop.example:{receiver.port}/") as answer,
    ):
        assert answer.status == 204
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    "host", ["shop.example", "Shop.Example.", "xn--bcher-kva.example", "a_b.example"]
)
async def test_the_name_that_was_read_is_the_one_that_is_called(receiver, host):
    url = f"http://{host}:{receiver.port}/a%2Fb?c=%20d"
    came, connected = await sent(url, internal=True, resolver=Answering(("127.0.0.1",)))
    assert (came, connected) == (204, ["127.0.0.1"])
    assert receiver.got[0].headers["host"].lower() == (
        f"{host.rstrip('.')}:{receiver.port}".lower()
    )


@pytest.mark.parametrize(
    "literal", ["[2606:2800:21F:CB07:6820:80da:af6b:8b2c]", "[::ffff:1.1.1.1]"]
)
async def test_the_address_that_was_read_is_the_one_that_is_called(literal):
    _, connected = await sent(f"http://{literal}:81/", internal=False)
    assert [ipaddress.ip_address(each) for each in connected] == [
        ipaddress.ip_address(literal[1:-1])
    ]


async def test_each_delivery_looks_again(receiver):
    """A name that was good once, and is internal now, is not called any more."""
    rebinding = Answering(("93.184.215.14",), ("127.0.0.1",))
    post = Watched(5, resolver=rebinding)
    url = f"http://shop.example:{receiver.port}/"
    try:
        assert isinstance(await post.send(url, {}, b"{}"), Failure)
        again = await post.send(url, {}, b"{}")
    finally:
        await post.close()
    assert isinstance(again, Failure)
    assert "leads to 127.0.0.1" in again.reason
    assert receiver.got == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(receiver, status):
    place = {"Location": f"http://127.0.0.1:{receiver.port}/internal"}
    receiver.answer = lambda got: web.Response(status=status, headers=place)
    came, _ = await sent(receiver.url, internal=True)
    assert isinstance(came, Failure)
    assert came == Failure(f"answered {status}: redirects are not followed", status)
    assert len(receiver.got) == 1


async def test_proxies_of_the_environment_are_not_used(receiver, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await sent(receiver.url, internal=True))[0] == 204


async def test_of_an_answer_little_is_read(receiver):
    """However long it is, and whatever it unpacks to; and the next one is served all the same."""
    huge = web.Response(body=b"x" * 5_000_000, headers={"Content-Encoding": "identity"})
    receiver.answer = lambda got: huge if len(receiver.got) == 1 else 204
    post = Post(5, internal=True)
    try:
        assert await post.send(receiver.url, {}, b"{}") == 200
        assert await post.send(receiver.url, {}, b"{}") == 204
    finally:
        await post.close()


async def test_a_receiver_that_does_not_answer_is_given_up(receiver):
    async def never(got):
        await asyncio.Event().wait()
        return 204

    receiver.answer = never
    post = Post(0.1, internal=True)
    try:
        assert await post.send(receiver.url, {}, b"{}") == Failure("no answer in time")
    finally:
        await post.close()


async def test_nobody_there_is_a_failure_that_says_so():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    came, _ = await sent(f"http://127.0.0.1:{port}/", internal=True)
    assert isinstance(came, Failure)
    assert came.status is None
    assert came.reason.startswith("not delivered: ")


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [(429, "120", 120.0), (503, "7", 7.0), (500, "7", 0.0), (429, "soon", 0.0), (429, "", 0.0)],
)
async def test_retry_after_is_heeded_where_the_receiver_is_busy(receiver, status, header, seconds):
    receiver.answer = lambda got: web.Response(status=status, headers={"Retry-After": header})
    came, _ = await sent(receiver.url, internal=True)
    assert came == Failure(f"answered {status}", status, seconds)


async def test_a_date_of_retry_after_is_read(receiver):
    until = {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}
    receiver.answer = lambda got: web.Response(status=503, headers=until)
    post = Post(5, internal=True, unix=lambda: 1_792_567_680.0 - 60)
    try:
        came = await post.send(receiver.url, {}, b"{}")
    finally:
        await post.close()
    assert isinstance(came, Failure)
    assert came.retry_after_seconds == 60.0
