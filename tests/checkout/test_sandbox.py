"""The sandbox behind its port: the same promises in process and over HTTP to a process of its own,
the service's bad weather, its messages, and its command line."""

import asyncio
import itertools
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import requests
from aiohttp import web

from holdfast.checkout.payments.bank import Bank, payment_id
from holdfast.checkout.payments.sandbox import SandboxProvider
from holdfast.checkout.payments.sandbox_http import HttpSandboxProvider
from holdfast.checkout.payments.sandbox_webhook import HEADER, sign
from holdfast.checkout.payments.weather import Weather
from holdfast.cli import main
from holdfast.domain.payments import Charge, PaymentState
from holdfast.errors import Forged, NotOpen, PaymentRefused, PaymentUnavailable
from holdfast.ports import Provider
from tests.client.faults import listening

HOLDFAST = (sys.executable, "-m", "holdfast")
SECRET = "whsec-of-the-tests"
NUMBERS = itertools.count(1)


def charge(method: str = "sandbox:ok") -> Charge:
    """A new one each time: the service goes on from test to test."""
    return Charge(f"show.{next(NUMBERS)}", 900, "EUR", method)


@contextmanager
def sandbox(*options: str) -> Iterator[str]:
    """The address of a `holdfast sandbox` of its own process."""
    process = subprocess.Popen(
        [*HOLDFAST, "sandbox", "--port", "0", *options], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        found = re.search(r"http://\S+", said)
        assert found, said
        yield found[0]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        process.stdout.close()


@asynccontextmanager
async def asking(url: str, timeout_seconds: float = 10.0) -> AsyncIterator[HttpSandboxProvider]:
    provider = HttpSandboxProvider(url, SECRET, timeout_seconds)
    await provider.open()
    try:
        yield provider
    finally:
        await provider.close()


def counts(url: str) -> dict[str, Any]:
    answer: dict[str, Any] = requests.get(f"{url}/counts", timeout=10).json()
    return answer


class Desk:
    """A provider, and what a test has to know of the bank behind it."""

    provider: Provider

    def counts(self) -> dict[str, Any]:
        raise NotImplementedError

    def act(self, reference: str, approve: bool) -> None:
        raise NotImplementedError


class InProcess(Desk):
    def __init__(self) -> None:
        self.bank = Bank()
        self.provider = SandboxProvider(self.bank, webhook_secret=SECRET)

    def counts(self) -> dict[str, Any]:
        tally = self.bank.tally
        return {name: getattr(tally, name) for name in tally.__struct_fields__}

    def act(self, reference: str, approve: bool) -> None:
        self.bank.act(reference, approve)


class OverHttp(Desk):
    def __init__(self, url: str, provider: HttpSandboxProvider) -> None:
        self.url = url
        self.provider = provider

    def counts(self) -> dict[str, Any]:
        return counts(self.url)

    def act(self, reference: str, approve: bool) -> None:
        url = f"{self.url}/payments/{reference}/act"
        assert requests.post(url, json={"approve": approve}, timeout=10).ok


@pytest.fixture(scope="module")
def service():
    with sandbox() as url:
        yield url


@pytest.fixture(params=["in process", "over HTTP"])
async def desk(request):
    if request.param == "in process":
        yield InProcess()
        return
    url = request.getfixturevalue("service")
    async with asking(url) as provider:
        yield OverHttp(url, provider)


def grown(before: dict[str, Any], after: dict[str, Any]) -> dict[str, int]:
    """Which counts have moved, and by how much."""
    moved = {name: after[name] - before[name] for name in before if name != "webhooks"}
    return {name: by for name, by in moved.items() if by}


# The port


async def test_every_step_has_one_effect_however_often_it_is_asked_for(desk):
    before, asked = desk.counts(), charge()
    for _ in range(3):
        standing = await desk.provider.authorize(asked)
        assert standing.state is PaymentState.AUTHORIZED
        assert (standing.payment, standing.reference) == (
            payment_id(asked.reference),
            asked.reference,
        )
    for _ in range(3):
        assert (await desk.provider.capture(asked)).state is PaymentState.CAPTURED
    for _ in range(3):
        assert (await desk.provider.refund(asked, 300, "one")).refunded == 300
    assert (await desk.provider.refund(asked, 600, "two")).state is PaymentState.REFUNDED
    assert await desk.provider.find(asked) == await desk.provider.void(asked)
    assert grown(before, desk.counts()) == {
        "authorizations": 1,
        "authorized": 900,
        "captures": 1,
        "captured": 900,
        "refunds": 2,
        "refunded": 900,
    }


async def test_a_charge_asked_for_by_many_at_once_is_one_payment(desk):
    before, asked = desk.counts(), charge("sandbox:slow:0.05")
    found = await asyncio.gather(*(desk.provider.authorize(asked) for _ in range(20)))
    assert {standing.state for standing in found} == {PaymentState.AUTHORIZED}
    assert grown(before, desk.counts()) == {"authorizations": 1, "authorized": 900}


async def test_a_void_frees_what_was_set_aside_once(desk):
    before, asked = desk.counts(), charge()
    await desk.provider.authorize(asked)
    for _ in range(3):
        assert (await desk.provider.void(asked)).state is PaymentState.VOIDED
    with pytest.raises(PaymentRefused, match="voided"):
        await desk.provider.capture(asked)
    assert (await desk.provider.authorize(asked)).state is PaymentState.VOIDED
    moved = grown(before, desk.counts())
    assert moved == {"authorizations": 1, "authorized": 900, "voids": 1, "voided": 900}


async def test_declined_is_an_answer_and_stays_so(desk):
    before, asked = desk.counts(), charge("sandbox:declined")
    for _ in range(2):
        standing = await desk.provider.authorize(asked)
        assert standing.state is PaymentState.DECLINED
        assert standing.reason == "the card was declined"
    with pytest.raises(PaymentRefused):
        await desk.provider.capture(asked)
    assert (await desk.provider.void(asked)).state is PaymentState.DECLINED
    assert grown(before, desk.counts()) == {"declines": 1}


async def test_what_nobody_asked_for_is_not_found(desk):
    assert await desk.provider.find(charge()) is None


async def test_a_slow_payment_is_pending_meanwhile(desk):
    asked = charge("sandbox:slow:0.3")
    async with asyncio.TaskGroup() as tasks:
        slow = tasks.create_task(desk.provider.authorize(asked))
        found = None
        while found is None:
            await asyncio.sleep(0)
            found = await desk.provider.find(asked)
        assert found.state is PaymentState.PENDING
    assert slow.result().state is PaymentState.AUTHORIZED


async def test_a_charge_whose_answer_never_comes_was_made_and_is_found(desk):
    before, asked = desk.counts(), charge("sandbox:timeout")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await desk.provider.authorize(asked)
    found = await desk.provider.find(asked)
    assert found is not None
    assert found.state is PaymentState.AUTHORIZED
    assert await desk.provider.authorize(asked) == found
    assert desk.counts()["authorizations"] - before["authorizations"] == 1


async def test_where_the_provider_is_down_nothing_is_made(desk):
    before, asked = desk.counts(), charge("sandbox:error")
    for _ in range(2):
        with pytest.raises(PaymentUnavailable, match="down"):
            await desk.provider.authorize(asked)
    assert await desk.provider.find(asked) is None
    assert grown(before, desk.counts()) == {}


@pytest.mark.parametrize("approve", [True, False])
async def test_a_challenged_payment_waits_for_the_buyer(desk, approve):
    asked = charge("sandbox:3ds")
    standing = await desk.provider.authorize(asked)
    assert standing.state is PaymentState.PENDING
    assert standing.next_action is not None
    assert standing.next_action["type"] == "redirect"
    with pytest.raises(PaymentUnavailable):
        await desk.provider.capture(asked)
    desk.act(asked.reference, approve)
    found = await desk.provider.find(asked)
    assert found is not None
    assert found.state is (PaymentState.AUTHORIZED if approve else PaymentState.DECLINED)
    assert found.next_action is None


async def test_a_capture_can_be_declined_for_good(desk):
    asked = charge("sandbox:capture-declined")
    await desk.provider.authorize(asked)
    for _ in range(2):
        with pytest.raises(PaymentRefused, match="declined the capture"):
            await desk.provider.capture(asked)
    assert (await desk.provider.void(asked)).state is PaymentState.VOIDED


async def test_a_refund_can_be_refused_for_good(desk):
    asked = charge("sandbox:refund-refused")
    await desk.provider.authorize(asked)
    await desk.provider.capture(asked)
    with pytest.raises(PaymentRefused, match="refused the refund"):
        await desk.provider.refund(asked, 900, "one")
    with pytest.raises(PaymentRefused, match="refused the refund"):
        await desk.provider.void(asked)
    found = await desk.provider.find(asked)
    assert found is not None
    assert (found.state, found.refunded) == (PaymentState.CAPTURED, 0)


@pytest.mark.parametrize("step", ["capture", "void"])
async def test_a_step_can_fail_a_few_times_and_then_succeed(desk, step):
    asked = charge(f"sandbox:{step}-error:2")
    await desk.provider.authorize(asked)
    for _ in range(2):
        with pytest.raises(PaymentUnavailable):
            await getattr(desk.provider, step)(asked)
    await getattr(desk.provider, step)(asked)
    assert (await desk.provider.find(asked)).state in (PaymentState.CAPTURED, PaymentState.VOIDED)


async def test_a_refund_of_more_than_was_taken_is_refused(desk):
    asked = charge()
    await desk.provider.authorize(asked)
    with pytest.raises(PaymentRefused, match="nothing was taken"):
        await desk.provider.refund(asked, 1, "early")
    await desk.provider.capture(asked)
    with pytest.raises(PaymentRefused, match="900 is left"):
        await desk.provider.refund(asked, 901, "too much")


async def test_it_says_which_methods_it_has(desk):
    assert desk.provider.name == "sandbox"
    assert desk.provider.remembers_seconds == 86_400
    assert desk.provider.fault("sandbox:ok") is None
    assert "sandbox:3ds" in (desk.provider.fault("stripe:pm_card_visa") or "")


async def test_in_process_a_worker_goes_on_where_another_died():
    asked = charge()
    first = await SandboxProvider().authorize(asked)
    assert await SandboxProvider().capture(asked) == await SandboxProvider().capture(asked)
    assert (await SandboxProvider().capture(asked)).payment == first.payment


async def test_over_http_what_is_not_there_is_not_taken(service):
    async with asking(service) as provider:
        with pytest.raises(PaymentRefused, match="no payment"):
            await provider.capture(charge())


# Over HTTP


async def test_a_service_that_is_not_there_leaves_everything_open():
    async with asking("http://127.0.0.1:1") as provider:
        for step in (provider.authorize, provider.find, provider.capture, provider.void):
            with pytest.raises(PaymentUnavailable, match="did not answer"):
                await step(charge())
    with pytest.raises(NotOpen):
        await provider.find(charge())


@pytest.mark.parametrize("status", [200, 204, 302, 404, 409, 500, 502])
async def test_an_answer_that_makes_no_sense_leaves_everything_open(status):
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status, text=None if status == 204 else "<html>gateway</html>")

    async with listening(answer) as url, asking(url) as provider:
        for step in (provider.capture, provider.find):
            with pytest.raises(PaymentUnavailable, match=str(status)):
                await step(charge())


async def test_an_answer_that_takes_too_long_leaves_everything_open(service):
    asked = charge("sandbox:timeout")
    async with asking(service, timeout_seconds=0.2) as provider:
        with pytest.raises(PaymentUnavailable, match="in time"):
            await provider.authorize(asked)
        assert (await provider.authorize(asked)).state is PaymentState.AUTHORIZED


def test_a_buyer_can_act_on_a_page(service):
    asked = charge("sandbox:3ds")
    steps = f"{service}/payments/{asked.reference}"
    ask: Any = {
        "reference": asked.reference,
        "amount": 900,
        "currency": "EUR",
        "method": asked.method,
    }
    pending = requests.post(f"{steps}/authorize", json=ask, timeout=10).json()
    page = pending["next_action"]["url"]
    assert "It is pending" in requests.get(page, timeout=10).text
    assert "It is authorized" in requests.post(page, data={"approve": "true"}, timeout=10).text
    assert requests.get(steps, timeout=10).json()["state"] == "authorized"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/payments/a/authorize", b"{", 422),
        ("/payments/a/authorize", b"\xff", 422),
        ("/payments/a/authorize", b'{"reference": "a"}', 422),
        ("/payments/a/act", b'{"approve": 1}', 422),
        ("/payments/a/act", b'{"approve": true}', 409),
        ("/payments/a/authorize", b"x" * 100_000, 413),
        ("/nowhere", b"", 404),
        (
            "/payments/b/authorize",
            b'{"reference": "a", "amount": 1, "currency": "EUR", "method": "sandbox:ok"}',
            422,
        ),
        (
            "/payments/a/authorize",
            b'{"reference": "a", "amount": -1, "currency": "EUR", "method": "sandbox:ok"}',
            422,
        ),
    ],
)
def test_what_makes_no_sense_is_answered_with_one_line(service, path, body, status):
    answer = requests.post(service + path, data=body, timeout=10)
    assert answer.status_code == status
    assert answer.json()["detail"]


# Bad weather


def test_the_same_seed_draws_the_same_weather():
    def drawn(seed: int) -> list[tuple[object, ...]]:
        weather = Weather(seed=seed, latency_ms=5, jitter_ms=10, fail_percent=20, lose_percent=30)
        return [weather.draw() for _ in range(1000)]

    assert drawn(7) == drawn(7) != drawn(8)
    weather = Weather(fail_percent=20)
    fates = [weather.draw() for _ in range(1000)]
    assert 150 < sum(fate.fails for fate in fates) < 250
    assert not any(fate.loses or fate.declines or fate.delay_seconds for fate in fates)


async def outcomes(url: str) -> list[str]:
    """What becomes of forty charges, one after the other, each asked for once."""
    found = []
    async with asking(url) as provider:
        for _ in range(40):
            try:
                found.append((await provider.authorize(charge())).state.value)
            except PaymentUnavailable:
                found.append("unavailable")
    return found


async def test_a_run_can_be_repeated_and_what_failed_had_no_effect():
    rates = ("--fail-percent", "30", "--decline-percent", "30", "--jitter-ms", "2", "--seed", "7")
    with sandbox(*rates) as url:
        first = await outcomes(url)
        tally = counts(url)
    with sandbox(*rates) as url:
        assert await outcomes(url) == first
    seen = Counter(first)
    assert set(seen) == {"authorized", "declined", "unavailable"}
    assert (tally["authorizations"], tally["declines"]) == (seen["authorized"], seen["declined"])


async def test_what_was_lost_had_its_effect_once():
    with sandbox("--lose-percent", "50", "--seed", "3") as url:
        lost = 0
        async with asking(url, timeout_seconds=0.2) as provider:
            for _ in range(10):
                asked = charge()
                while True:
                    try:
                        await provider.authorize(asked)
                        break
                    except PaymentUnavailable:
                        lost += 1
        assert lost
        assert counts(url)["authorizations"] == 10


# Messages


def signed(body: bytes, at: int = 1_000, secret: str = SECRET) -> dict[str, str]:
    return {HEADER: sign(secret, body, at)}


BODY = b'{"id":"evt_1","reference":"show.1","payment":"sbx_1","state":"captured"}'
GOOD = signed(BODY)[HEADER]


@pytest.fixture(params=["in process", "over HTTP"])
def reader(request):
    if request.param == "in process":
        return SandboxProvider(webhook_secret=SECRET, unix=lambda: 1_000.0)
    return HttpSandboxProvider("http://127.0.0.1:1", SECRET, unix=lambda: 1_000.0)


def test_a_message_of_the_sandbox_names_its_charge(reader):
    for at in (700, 1_000, 1_300):
        assert reader.read_webhook(signed(BODY, at), BODY) == "show.1"
    about_none = b'{"id":"evt_2"}'
    assert reader.read_webhook(signed(about_none), about_none) is None


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        pytest.param({}, BODY, id="not signed"),
        pytest.param(signed(BODY), BODY.replace(b"show.1", b"show.2"), id="tampered"),
        pytest.param(signed(BODY), BODY + b" ", id="longer"),
        pytest.param(signed(BODY, secret="another"), BODY, id="another secret"),
        pytest.param(signed(BODY, 699), BODY, id="old"),
        pytest.param(signed(BODY, 1_301), BODY, id="from the future"),
        pytest.param({HEADER: GOOD.replace("t=1000", "t=1001")}, BODY, id="another time"),
        pytest.param({HEADER: GOOD.upper()}, BODY, id="upper case"),
        pytest.param({HEADER: GOOD + "0"}, BODY, id="too long"),
        pytest.param({HEADER: "t=1000,v1="}, BODY, id="empty"),
        pytest.param({HEADER: f"t={'9' * 400},v1={'0' * 64}"}, BODY, id="no time"),
        pytest.param({HEADER: "t=\u0661,v1=" + "\u0660" * 64}, BODY, id="not ASCII"),
        pytest.param(signed(b"{"), b"{", id="no JSON"),
        pytest.param(signed(b"\xff"), b"\xff", id="no text"),
        pytest.param(signed(b"[]"), b"[]", id="no message"),
    ],
)
def test_everything_else_is_forged(reader, headers, body):
    with pytest.raises(Forged):
        reader.read_webhook(headers, body)


def test_without_a_secret_every_message_is_forged():
    with pytest.raises(Forged):
        SandboxProvider(unix=lambda: 1_000.0).read_webhook(signed(BODY, secret=""), BODY)


class Shop:
    """Takes messages, but not the first time."""

    def __init__(self) -> None:
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.refused: set[bytes] = set()
        self.more = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        if body not in self.refused:
            self.refused.add(body)
            return web.Response(status=500)
        headers = {name.lower(): text for name, text in request.headers.items()}
        self.taken.append((headers, body))
        self.more.set()
        return web.Response(status=204)

    async def got(self, messages: int) -> None:
        while len(self.taken) < messages:
            self.more.clear()
            await self.more.wait()


async def test_every_change_is_told_signed_until_it_is_taken_and_in_copies():
    shop = Shop()
    async with listening(shop.handle) as here:
        options = ("--webhook-url", f"{here}/hook", "--webhook-secret", SECRET)
        with sandbox(*options, "--webhook-copies", "2", "--shuffle") as url:
            async with asking(url) as provider, asyncio.timeout(30):
                asked = charge("sandbox:slow:0.1")
                await provider.authorize(asked)
                await provider.capture(asked)
                await provider.capture(asked)
                await provider.refund(asked, 900, "one")
                await shop.got(8)
                # The sandbox hears a little later than the shop that a message was taken.
                delivered = {"waiting": 8}
                while delivered["waiting"]:
                    delivered = (await asyncio.to_thread(counts, url))["webhooks"]
                assert delivered == {"sent": 8, "given_up": 0, "waiting": 0}
    named = {provider.read_webhook(headers, body) for headers, body in shop.taken}
    assert named == {asked.reference}
    told = Counter(re.findall(r'"state":"(\w+)"', "".join(body.decode() for _, body in shop.taken)))
    assert told == {"pending": 2, "authorized": 2, "captured": 2, "refunded": 2}


# The command line


def test_its_help_says_what_it_is_not_for(capfd):
    assert main(["sandbox", "--help"]) == 0
    text = " ".join(capfd.readouterr().out.split())
    assert "Never in production" in text
    for option in ("--fail-percent", "--lose-percent", "--webhook-copies", "--shuffle", "--seed"):
        assert option in text


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--port", "65536"], "from 0 to 65535"),
        (["--fail-percent", "101"], "from 0.0 to 100.0"),
        (["--lose-percent", "-1"], "from 0.0 to 100.0"),
        (["--latency-ms", "nan"], "--latency-ms"),
        (["--webhook-copies", "0"], "from 1 to 100"),
        (["--webhook-url", "http://127.0.0.1:1"], "go together"),
        (["--webhook-secret", "any"], "go together"),
        (["--webhook-url", "nonsense", "--webhook-secret", "any"], "http://host/path"),
        (["--webhook-url", "http://[", "--webhook-secret", "any"], "http://host/path"),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
        (["--bogus"], "--bogus"),
    ],
)
def test_a_wrong_value_is_one_line_and_exit_code_2(capfd, args, says):
    assert main(["sandbox", *args]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err


def test_a_port_that_is_taken_is_one_line(capfd, service):
    assert main(["sandbox", "--port", service.rpartition(":")[2]]) == 2
    assert "choose another with --port" in capfd.readouterr().err


def test_without_its_driver_it_says_what_to_install():
    program = (
        "import sys; sys.modules['aiohttp'] = None; from holdfast.cli import main; "
        "sys.exit(main(['sandbox', '--port', '0']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == (
        "holdfast: the sandbox over HTTP needs aiohttp: pip install 'holdfast[client]'\n"
    )
