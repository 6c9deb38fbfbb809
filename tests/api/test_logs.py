"""Logs: one line a record, with what is needed to find a request, and without secrets."""

import io
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.api.logs import HANDLER, HIDDEN, Mask, set_up_logs
from holdfast.settings import Settings
from tests.api.conftest import make_event
from tests.api.serving import ADMIN, Served, serving
from tests.api.test_metrics import children

pytestmark = pytest.mark.slow

WAIT_SECONDS_MAX = 20.0
PASSWORD = "s3cret-pass%21word"


@pytest.fixture
def printed(monkeypatch) -> Iterator[Callable[..., io.StringIO]]:
    """Sets logs up with these settings; what is printed from then on."""
    root, ours = logging.getLogger(), logging.getLogger("holdfast")
    levels, hooks = (root.level, ours.level), (sys.excepthook, threading.excepthook)

    def begin(**settings: Any) -> io.StringIO:
        stderr = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stderr)
        set_up_logs(Settings(**settings))
        return stderr

    yield begin
    logging.captureWarnings(False)
    for handler in [each for each in root.handlers if each.name == HANDLER]:
        root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    sys.excepthook, threading.excepthook = hooks


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_record_is_one_line_of_json(printed):
    stderr = printed()
    extra = {"request_id": "r-1", "ms": 2.5, "event": "night-1"}
    logging.getLogger("holdfast.api").warning("%s\n%d", "two lines", 503, extra=extra)
    (record,) = records(stderr.getvalue())
    at = datetime.fromisoformat(record.pop("timestamp"))
    assert at.utcoffset() == datetime.now(UTC).utcoffset()
    assert record == {
        "level": "warning",
        "logger": "holdfast.api",
        "message": "two lines\n503",
        **extra,
    }


def test_text_is_for_people_and_one_line_too(printed):
    stderr = printed(log_format="text")
    extra = {"request_id": "r\n1"}
    logging.getLogger("holdfast.api").warning("forged\n2026 info all is well", extra=extra)
    (line,) = stderr.getvalue().splitlines()
    assert "warning  holdfast.api forged\\n2026 info all is well request_id=r\\n1" in line


def test_a_level_counts_for_ours_and_others_only_warn(printed):
    stderr = printed(log_level="debug")
    logging.getLogger("holdfast.api").debug("ours")
    logging.getLogger("somebody.else").info("chatter")
    logging.getLogger("somebody.else").warning("trouble")
    assert [record["message"] for record in records(stderr.getvalue())] == ["ours", "trouble"]
    stderr = printed(log_level="error")
    logging.getLogger("holdfast.api").warning("ours")
    assert stderr.getvalue() == ""


def test_a_traceback_is_a_field_without_secrets_and_without_local_values(printed):
    stderr = printed(admin_key="correct-horse-battery")
    local = "a-local-value"
    try:
        raise ValueError("sent by correct-horse-battery with Bearer abc.def")
    except ValueError:
        logging.getLogger("holdfast.api").exception("it failed")
    (record,) = records(stderr.getvalue())
    assert record["exception"].startswith("Traceback (most recent call last)")
    assert f"ValueError: sent by {HIDDEN} with Bearer {HIDDEN}" in record["exception"]
    assert local not in record["exception"].replace(f'local = "{local}"', "")


def test_what_nobody_caught_is_logged(printed):
    stderr = printed()
    error = ValueError("nobody caught it")
    sys.excepthook(ValueError, error, None)
    thread = threading.Thread(target=lambda: 1 // 0)
    thread.start()
    thread.join()
    first, second = records(stderr.getvalue())
    assert (first["level"], first["message"]) == ("critical", "uncaught ValueError")
    assert "nobody caught it" in first["exception"]
    assert "ZeroDivisionError" in second["exception"]


SECRETS = {
    "a key by its shape": "key hf_admin_Zk3-_x9 was used",
    "a header": "Authorization: Bearer Zk3-_x9",
    "a header of another scheme": "authorization: Basic Zk3-_x9",
    "headers as Python shows them": "[(b'authorization', b'Bearer Zk3-_x9'), (b'host', b'h')]",
    "a hold token": "{'hold-token': 'Zk3-_x9', 'host': 'h'}",
    "a buyer token": "Buyer-Token: Zk3-_x9",
    "a key in an address": "GET /v1/events/e/stream?after=1&key=Zk3-_x9 failed",
    "a password in an address": "postgresql://shop:Zk3-_x9@db/shop does not answer",
    "a password with signs": "mysql://shop:p@/:#Zk3-_x9@db/shop does not answer",
    "a password alone": "redis://:Zk3-_x9@cache:6379/0 does not answer",
    "a password as a user": "rediss://Zk3-_x9@cache:6379/0 does not answer",
    "a password by name": "connect(host=db password=Zk3-_x9 dbname=shop)",
    "a setting": 'secret = "Zk3-_x9"',
}


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_masked_by_its_shape_or_place(text):
    masked = Mask(Settings()).text(text)
    assert "Zk3" not in masked
    assert HIDDEN in masked


PLAIN = (
    "POST /v1/events/{event}/holds 503",
    "sqlite:///var/lib/shop.db: schema 1 -> 2",
    "http://127.0.0.1:8000/docs",
    "postgresql://shop@db:5432/shop does not answer",
    "the keys were not read: the disk is full",
)


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text):
    assert Mask(Settings()).text(text) == text


def test_secrets_of_the_settings_are_masked_wherever_they_are():
    mask = Mask(
        Settings(
            admin_key="correct-horse",
            secret="battery-staple",
            store="postgresql://shop:w%40ter%2Fmelon@db/shop",
            gate="redis://:gate-w0rd@cache/0",
        )
    )
    said = "correct-horse battery-staple w@ter/melon w%40ter%2Fmelon gate-w0rd"
    assert mask.text(said) == " ".join([HIDDEN] * 5)


def test_extras_are_masked_by_name_and_all_the_way_down(printed):
    stderr = printed()
    extra = {
        "token": "Zk3",
        "headers": {b"authorization": b"Zk3", "host": "h"},
        "urls": ["redis://:Zk3@cache"],
        "thing": Settings(store="mysql://shop:Zk3@db/shop"),
    }
    logging.getLogger("holdfast.api").warning("extras", extra=extra)
    assert "Zk3" not in stderr.getvalue()
    (record,) = records(stderr.getvalue())
    assert record["headers"] == {"authorization": HIDDEN, "host": "h"}


def lines(served: Served) -> list[dict[str, Any]]:
    """All that was logged; what is printed for people besides is left out."""
    return [json.loads(line) for line in list(served.said) if line.startswith("{")]


def logged(served: Served, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first such line, once it is there."""
    ends = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < ends:
        if found := next(filter(wanted, lines(served)), None):
            return found
        time.sleep(0.02)
    pytest.fail("never logged; but:\n" + "".join(served.said))


def of_request(id: str) -> Callable[[dict[str, Any]], bool]:
    return lambda line: line.get("request_id") == id


def order(served: Served, event: str, method: str, seat: str) -> Any:
    asked = {"buyer": "u-1", "seats": [seat]}
    hold = served.call("POST", f"/v1/events/{event}/holds", asked).json()
    body = {"hold": hold["id"], "payment": {"method": method}}
    headers = {"Idempotency-Key": f"order-{seat}", "Hold-Token": hold["token"]}
    return served.call("POST", "/v1/orders", body, headers=headers), hold["token"]


def test_a_request_that_failed_or_was_slow_is_found_by_its_id(served, event):
    failed, _ = order(served, event, "sandbox:error", "A-1-1")
    slow, _ = order(served, event, "sandbox:slow:1", "A-1-2")
    assert (failed.status_code, slow.status_code) == (503, 201)
    line = logged(served, of_request(failed.headers["X-Request-Id"]))
    assert (line["level"], line["logger"]) == ("warning", "holdfast.api")
    assert line["message"] == "POST /v1/orders 503"
    line = logged(served, of_request(slow.headers["X-Request-Id"]))
    assert (line["level"], line["message"]) == ("info", "POST /v1/orders 201")
    assert line["ms"] > 1000
    # Those before it were neither: they have none.
    assert not [line for line in lines(served) if "/holds" in line["message"]]


def test_every_request_has_a_line_if_asked_for(tmp_path):
    with serving("memory://", cwd=tmp_path, access_log="true") as served:
        answer = served.call("GET", "/healthz", headers={"X-Request-Id": "mine"})
        assert answer.headers["X-Request-Id"] == "mine"
        assert logged(served, of_request("mine"))["message"] == "GET /healthz 200"


def test_the_supervisor_logs_and_no_secret_is_ever_printed(tmp_path):
    """With everything logged, a gate that is away, a store file, and a worker that is killed."""
    gate = f"redis://shop:{PASSWORD}@127.0.0.1:1/0"
    settings = {"gate": gate, "policy": "two-layer", "access_log": "true", "log_level": "debug"}
    store = f"sqlite:///{tmp_path / 'shop.db'}"
    with serving(store, cwd=tmp_path, secret="secret-of-tokens", **settings) as served:
        public = served.key("public")
        event = make_event(served)
        _, hold_token = order(served, event, "sandbox:error", "A-1-1")
        made = served.call("POST", "/v1/buyers", key=public)
        buyer_token = made.json()["token"]
        for path in (f"/v1/events/{event}?key={public}", f"/v1/holds/{public}", f"/{ADMIN}"):
            served.call("GET", path, headers={"Buyer-Token": buyer_token, "X-Request-Id": public})
        logged(served, of_request(f"hf_public_{HIDDEN}"))
        logged(served, lambda line: line["logger"] == "holdfast.gate")
        (worker,) = children(served)
        os.kill(worker, signal.SIGKILL)
        ended = logged(served, lambda line: "another starts" in line["message"])
        assert (ended["level"], ended["logger"]) == ("warning", "holdfast.serve")
    said = "".join(served.said)
    secrets = (ADMIN, public, hold_token, buyer_token, "secret-of-tokens", PASSWORD, "s3cret")
    for secret in secrets:
        assert secret not in said
    # Only what is printed for people is no JSON.
    others = [line for line in served.said if not line.startswith("{")]
    told = [line.split(" on ")[0].strip() for line in others]
    assert told == [f"Holdfast serves {served.url}", "Stopped."]
