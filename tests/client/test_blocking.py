"""The blocking client is the asynchronous one, waited for."""

import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import client as package
from holdfast.client import Changes, Confirmed, Placed, Refused, Snapshot, Unauthorized, blocking
from holdfast.errors import NotOpen
from tests.api.serving import ADMIN

pytestmark = pytest.mark.slow


@pytest.fixture
def client(served) -> Iterator[blocking.Client]:
    with blocking.Client(served.url, ADMIN) as client:
        yield client


def methods(cls: type) -> dict[str, object]:
    found = inspect.getmembers(cls, inspect.isfunction)
    return {name: method for name, method in found if not name.startswith("_")}


@pytest.mark.parametrize("name", methods(package.Client))
def test_every_asynchronous_method_has_its_blocking_twin(name):
    method, twin = getattr(package.Client, name), getattr(blocking.Client, name)
    assert not inspect.iscoroutinefunction(twin)
    assert twin.__name__ == name
    assert twin.__doc__ == method.__doc__
    assert twin.__doc__


def test_there_are_no_other_methods():
    assert methods(blocking.Client).keys() == methods(package.Client).keys()
    assert len(methods(package.Client)) == 22


def test_a_sale_from_beginning_to_end(client, event):
    match client.place_hold(event, buyer="ann", seats=["A-1-1"]):
        case Placed(hold):
            bought = client.create_order(hold.id, method="sandbox:ok")
            assert isinstance(bought, Confirmed)
    assert client.event(event).sold == 1
    assert isinstance(client.place_hold(event, buyer="bob", seats=["A-1-1"]), Refused)


def test_orders_are_taken_back_in_part_and_tried_again(client, event):
    hold = client.place_hold(event, buyer="ann", seats=["A-1-1"], pools={"floor": 1}).hold
    order = client.create_order(hold.id, method="sandbox:refund-refused").order
    client.cancel_order(order.id, seats=["A-1-1"])
    assert order.id in [each.id for each in client.orders_needing_a_person()]
    assert client.retry_order(order.id).trouble


def test_many_threads_share_one_client(client, event):
    def buy(number: int) -> bool:
        return isinstance(client.place_hold(event, buyer=f"u{number}", seats=["A-1-1"]), Placed)

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(buy, range(40))) == 1


def test_errors_pass_through_and_a_token_can_be_set(served, public, event):
    with blocking.Client(served.url, public) as browser:
        with pytest.raises(Unauthorized):
            browser.place_hold(event, best=1)
        browser.buyer_token = browser.create_buyer().token
        assert browser.buyer_token
        assert isinstance(browser.place_hold(event, best=1), Placed)


def test_live_frames_are_an_ordinary_iterator(client, event):
    frames = client.stream(event)
    assert isinstance(next(frames), Snapshot)
    client.place_hold(event, buyer="ann", seats=["A-1-1"])
    for frame in frames:
        assert isinstance(frame, Changes)
        assert frame.changes == [("A-1-1", "held")]
        break
    frames.close()
    assert client.event(event).held == 1


def test_a_stream_ends_when_the_client_is_closed(served, event):
    with blocking.Client(served.url, ADMIN) as client:
        frames = client.stream(event)
        next(frames)
        ends: list[BaseException] = []

        def wait() -> None:
            try:
                next(frames)
            except NotOpen as end:
                ends.append(end)

        thread = threading.Thread(target=wait)
        thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_before_and_after_it_is_open_it_says_how_to_open_it(served):
    client = blocking.Client(served.url, ADMIN)
    with pytest.raises(NotOpen, match=r"the client is not open: use it inside `with Client"):
        client.events()
    with client:
        client.events()
    with pytest.raises(NotOpen):
        client.events()


def test_without_aiohttp_it_says_what_to_install():
    program = "import sys; sys.modules['aiohttp'] = None; import holdfast.client"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: the client needs aiohttp: pip install 'holdfast[client]'"
    )
