"""Receivers of OpenTelemetry's protocol on loopback: protobuf by real HTTP and real gRPC, as a collector takes it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.support.waiting import wait_until

KINDS = {getattr(ProtoSpan, f"SPAN_KIND_{name}"): name.lower() for name in ("SERVER", "CONSUMER", "CLIENT", "INTERNAL")}


@dataclass(frozen=True)
class Received:
    """One span as it arrived."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    failed: bool
    links: tuple[str, ...]
    """The trace ids that it links to."""

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace}-{self.id}"


@dataclass
class Collector:
    """What has arrived at `url`."""

    url: str
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def spans(self) -> list[Received]:
        found = []
        for body in tuple(self.bodies):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                about = _values(resource.resource.attributes)
                found += [_received(span, about) for scope in resource.scope_spans for span in scope.spans]
        return found

    def trace(self, trace_id: str, *names: str) -> dict[str, Received]:
        """The spans of one trace by name, when all of `names` have arrived."""

        def by_name() -> dict[str, Received]:
            return {span.name: span for span in self.spans if span.trace == trace_id}

        wait_until(lambda: set(names) <= by_name().keys(), f"the spans {names} of trace {trace_id} have arrived")
        return by_name()


@contextmanager
def collector(port: int = 0) -> Iterator[Collector]:
    """A collector that takes every span."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            fits = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
            if fits:
                made.headers.append({name.lower(): value for name, value in self.headers.items()})
                made.bodies.append(body)
            self.send_response(200 if fits else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    made = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def grpc_collector() -> Iterator[Collector]:
    """A collector that takes every span by gRPC."""
    import grpc
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
        TraceServiceServicer,
        add_TraceServiceServicer_to_server,
    )

    class Service(TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name of the call
            made.headers.append(dict(context.invocation_metadata()))
            made.bodies.append(request.SerializeToString())
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    made = Collector(f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    add_TraceServiceServicer_to_server(Service(), server)  # type: ignore[no-untyped-call]  # it is generated
    server.start()
    try:
        yield made
    finally:
        server.stop(None).wait()


def _received(span: ProtoSpan, resource: Mapping[str, Any]) -> Received:
    return Received(
        name=span.name,
        kind=KINDS[span.kind],
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        attributes=_values(span.attributes),
        resource=resource,
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        links=tuple(link.trace_id.hex() for link in span.links),
    )


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None
