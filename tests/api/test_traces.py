"""Traces: spans arrive where the environment says, and otherwise nobody pays for them."""

import queue
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from holdfast.api.traces import make_traces
from tests.api.conftest import make_event
from tests.api.serving import serving

pytestmark = pytest.mark.slow

HOLDS = "POST /v1/events/{event}/holds"
WAIT_SECONDS_MAX = 20.0
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Receiver:
    """A collector: OTLP over HTTP on a free port."""

    def __init__(self) -> None:
        self.arrived: queue.Queue[Any] = queue.Queue()
        self.resources: list[dict[str, Any]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == "/v1/traces"
                receiver.take(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, sent: Any) -> None:
        for resource in sent.resource_spans:
            self.resources.append(attributes(resource.resource))
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.arrived.put(span)

    def span(self, name: str, **wanted: Any) -> Any:
        """The next of that name and those attributes."""
        ends = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            span = self.arrived.get(timeout=max(0.01, ends - time.monotonic()))
            if span.name == name and wanted.items() <= attributes(span).items():
                return span


def attributes(thing: Any) -> dict[str, Any]:
    kinds = ("string_value", "int_value")
    return {
        each.key: next(getattr(each.value, kind) for kind in kinds if each.value.HasField(kind))
        for each in thing.attributes
    }


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.01,))
    thread.start()
    yield receiver
    receiver.server.shutdown()
    thread.join()
    receiver.server.server_close()


def test_spans_of_requests_and_batches_arrive(receiver, monkeypatch, tmp_path):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with serving("memory://", cwd=tmp_path) as served:
        event = make_event(served)
        body = {"buyer": "u-1", "seats": ["A-1-1"]}
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-Id": "mine"}
        path = f"/v1/events/{event}/holds"
        before = time.time_ns()
        assert served.call("POST", path, body, headers=headers).status_code == 201
        after = time.time_ns()
        batch = receiver.span("holdfast.batch", **{"holdfast.event": event})
        assert attributes(batch)["holdfast.batch.size"] == 1
        assert batch.parent_span_id == b""
        span = receiver.span(HOLDS)
        assert attributes(span) == {
            "http.request.method": "POST",
            "http.route": "/v1/events/{event}/holds",
            "http.response.status_code": 201,
            "holdfast.request_id": "mine",
        }
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
        assert before <= span.start_time_unix_nano < span.end_time_unix_nano <= after
        assert receiver.resources[0]["service.name"] == "holdfast"
        # Just before it stops: nothing is lost.
        served.call("GET", "/v1/holds/none", headers={"X-Request-Id": "the-last"})
    last = receiver.span("GET /v1/holds/{hold}", **{"holdfast.request_id": "the-last"})
    assert attributes(last)["http.response.status_code"] == 404
    assert last.parent_span_id == b""


def test_a_collector_that_is_away_harms_nobody(monkeypatch, tmp_path):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with serving("memory://", cwd=tmp_path) as served:
        event = make_event(served)
        assert served.call("GET", f"/v1/events/{event}").status_code == 200
    assert served.process.returncode == 0


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
    ],
)
def test_nobody_who_did_not_ask_has_traces(environ, caplog):
    assert make_traces(environ) is None
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "otlp, console or none"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "http/protobuf",
        ),
    ],
)
def test_what_cannot_be_had_is_said_once(environ, why, caplog):
    assert make_traces(environ) is None
    (said,) = caplog.messages
    assert why in said


def test_a_missing_sdk_is_a_line_that_names_the_extra(monkeypatch, caplog):
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    assert make_traces({"OTEL_TRACES_EXPORTER": "console"}) is None
    assert caplog.messages == [
        'no traces: they need the extra "otel": pip install "holdfast[otel]"'
    ]
