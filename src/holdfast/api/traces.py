"""Traces: a span for each request and for each batch, if the deployment names an exporter.

It does so by the standard's own variables, OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_TRACES_EXPORTER.
Spans are made when what they tell of is over, with its times, so a service without traces pays a
look at one attribute.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import holdfast
from holdfast.domain.commands import Command

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
NOWHERE = Context()
"""A batch serves many requests: it begins a trace of its own."""

log = logging.getLogger("holdfast.traces")


class Routed(Protocol):
    """What is to be known of a route."""

    @property
    def name(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...


class Traces:
    def __init__(self, provider: "TracerProvider") -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("holdfast", holdfast.__version__)
        self._caller = TraceContextTextMapPropagator()

    def request(
        self,
        route: Routed,
        status: int,
        seconds: float,
        headers: Mapping[bytes, bytes],
        request_id: str,
    ) -> None:
        """One that was just answered. It continues the caller's trace, if there is one."""
        context = NOWHERE
        if b"traceparent" in headers:
            names = ("traceparent", "tracestate")
            sent = {name: headers.get(name.encode(), b"").decode("latin-1") for name in names}
            context = self._caller.extract(sent, NOWHERE)
        ended = time.time_ns()
        span = self._tracer.start_span(
            route.name,
            context,
            SpanKind.SERVER,
            {
                "http.request.method": route.method,
                "http.route": route.path,
                "http.response.status_code": status,
                "holdfast.request_id": request_id,
            },
            start_time=ended - int(seconds * 1e9),
        )
        if status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)

    def batch(self, commands: Sequence[Command], seconds: float) -> None:
        """One that was just applied."""
        ended = time.time_ns()
        attributes: dict[str, str | int] = {"holdfast.batch.size": len(commands)}
        events = {command.event for command in commands}
        if len(events) == 1:
            attributes["holdfast.event"] = events.pop()
        self._tracer.start_span(
            "holdfast.batch",
            NOWHERE,
            attributes=attributes,
            start_time=ended - int(seconds * 1e9),
        ).end(ended)

    def close(self) -> None:
        """Sends what is left, which may take a while: call it on a thread."""
        self._provider.shutdown()


def make_traces(environ: Mapping[str, str]) -> Traces | None:
    """None where nobody asked for traces, or they cannot be had, which is said once."""
    kind = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if not kind and any(environ.get(name) for name in ENDPOINTS):
        kind = "otlp"
    if kind in ("", "none") or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if kind not in ("otlp", "console"):
        log.warning("no traces: OTEL_TRACES_EXPORTER must be otlp, console or none, not %r", kind)
        return None
    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), "http/protobuf")
    if kind == "otlp" and protocol != "http/protobuf":
        log.warning("no traces: of the OTLP protocols only http/protobuf is spoken here")
        return None
    try:
        return Traces(_provider(kind))
    except ImportError:
        log.warning('no traces: they need the extra "otel": pip install "holdfast[otel]"')
        return None


def _provider(kind: str) -> "TracerProvider":
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    ours = {"service.name": "holdfast", "service.version": holdfast.__version__}
    # What the deployment says of itself comes before what we say of it.
    resource = Resource.create(ours).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter(kind)))
    return provider


def _exporter(kind: str) -> "SpanExporter":
    if kind == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
