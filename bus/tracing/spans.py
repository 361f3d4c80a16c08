"""Spans of OpenTelemetry: this module alone knows it, and loads it only where it is configured (docs/tracing.md).

A span is made from the context of a call and gives the context that is passed on. Where tracing is off, the context that came
in is passed on unchanged. Spans are sent by a thread, in batches; nothing here waits for the collector, and nothing raises.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from bus.ids import host_name
from bus.secrets.redaction import redact_text
from bus.tracing.context import NO_CONTEXT, TraceContext, derived_trace_id, read_context, written

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import SpanContext, Tracer

log = logging.getLogger("fleethook.tracing")

Kind = Literal["server", "consumer", "client", "internal"]
Value = str | int | float | bool

MOST_TEXT: Final = 256
"""The most characters of a text in an attribute or in a span's name."""
_FLUSH_SECONDS: Final = 2.0
"""How long a process that ends waits for the collector to take its last spans."""
_INSTALL: Final = "install it with `pip install 'fleethook[otel%s]'`"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP: Final = "http/protobuf"
_PORTS: Final = {4317: "grpc", 4318: _HTTP}
"""The ports at which collectors take these protocols if nobody says otherwise."""
_PACKAGE: Final = "opentelemetry"


class Span:
    """One span under way; without tracing, only the context that is passed on."""

    __slots__ = ("_span", "context")

    def __init__(self, context: TraceContext, span: Any = None) -> None:
        self.context, self._span = context, span

    @property
    def is_recording(self) -> bool:
        """Whether its attributes are kept; False without tracing, and for a trace that is not sampled."""
        return self._span is not None and bool(self._span.is_recording())

    def set(self, attributes: Mapping[str, Value]) -> None:
        """Add attributes, redacted; empty texts are left out."""
        if self.is_recording:
            self._span.set_attributes(_clean(attributes))

    def fail(self, kind: str) -> None:
        """Mark it as failed; `kind` is a low-cardinality word for `error.type`."""
        if self.is_recording:
            from opentelemetry.trace import StatusCode

            self._span.set_attributes(_clean({"error.type": kind}))
            self._span.set_status(StatusCode.ERROR)

    def end(self) -> None:
        """End it now."""
        if self._span is not None:
            self._span.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self.fail(kind.__name__)
        self.end()


NO_SPAN: Final = Span(NO_CONTEXT)
"""A span that nothing reads."""


class _Tracing:
    """The tracer of this process."""

    def __init__(self, provider: TracerProvider, ids: Any) -> None:
        self.provider, self._ids = provider, ids
        self._tracer: Tracer = provider.get_tracer("fleethook")

    def start(
        self,
        name: str,
        kind: Kind,
        parent: TraceContext,
        attributes: Mapping[str, Value],
        event: str,
        began_ns: int | None,
        links: Sequence[TraceContext],
    ) -> Span:
        from opentelemetry.trace import Link, SpanKind

        self._ids.trace_id = int(derived_trace_id(event), 16) if event else 0
        span = self._tracer.start_span(
            _clean_text(name),
            _otel_context(parent),
            SpanKind[kind.upper()],
            _clean(attributes),
            [Link(_otel_span_context(link)) for link in links if link.traceparent],
            began_ns,
        )
        return Span(_our_context(span.get_span_context()), span)


_tracing: _Tracing | None = None


def is_on() -> bool:
    """Whether this process makes spans."""
    return _tracing is not None


def start(
    name: str,
    kind: Kind,
    parent: TraceContext,
    attributes: Mapping[str, Value] | None = None,
    *,
    event: str = "",
    began_ns: int | None = None,
    links: Sequence[TraceContext] = (),
) -> Span:
    """Start a span below `parent`. Without a parent it begins the trace of the event with the id `event`.

    `began_ns` is when it began (ns since 1970), if not now; `links` are other traces that caused it. Never raises: without
    tracing, or if OpenTelemetry fails, the span only passes `parent` on.
    """
    if _tracing is None:
        return Span(parent)
    try:
        return _tracing.start(name, kind, parent, attributes or {}, event, began_ns, links)
    except Exception:
        log.exception("a span could not be started")
        return Span(parent)


@contextmanager
def span(
    name: str, kind: Kind, parent: TraceContext, attributes: Mapping[str, Value] | None = None, *, event: str = ""
) -> Iterator[Span]:
    """`start` as a context manager, which ends the span; an exception is its `error.type`."""
    with start(name, kind, parent, attributes, event=event) as started:
        yield started


def ambient() -> TraceContext:
    """The context of a program that calls us: of its current span, else of TRACEPARENT in its environment."""
    trace = sys.modules.get(f"{_PACKAGE}.trace")
    if trace is not None:
        current = trace.get_current_span().get_span_context()
        if current.is_valid:
            return _our_context(current)
    return read_context(os.environ.get("TRACEPARENT", ""), os.environ.get("TRACESTATE", ""))


def configure(kind: str, namespace: str, endpoint: str = "") -> bool:
    """Begin to make spans if OpenTelemetry is configured and installed; returns whether it is. Never raises.

    `kind` is the process type, `endpoint` a collector that is used if no variable of OpenTelemetry names one.
    """
    global _tracing  # noqa: PLW0603 - one tracer for a process, as in OpenTelemetry itself
    exporters = _wanted_exporters(endpoint)
    if not exporters:
        return False
    if sys.modules.get(_PACKAGE, log) is None:
        del sys.modules[_PACKAGE]  # `workers.cli` put it there
    try:
        _tracing = _start(kind, namespace, exporters, endpoint)
    except ImportError as error:
        extra = "-grpc" if "grpc" in (error.name or "") else ""
        missing = error.name or _PACKAGE
        log.warning("traces are off: they are configured, but %s is not installed: %s", missing, _INSTALL % extra)
    except Exception as error:  # noqa: BLE001 - a bad variable of OpenTelemetry must stop no worker
        log.warning("traces are off, because OpenTelemetry cannot be set up: %s: %s", type(error).__name__, error)
    return _tracing is not None


def shut_down(seconds: float = _FLUSH_SECONDS) -> None:
    """Send the last spans, for at most `seconds`; spans that the collector does not take by then are lost."""
    global _tracing
    tracing, _tracing = _tracing, None
    if tracing is not None:
        # Its own shutdown waits up to 30 s for a collector that is away.
        sending = threading.Thread(target=tracing.provider.shutdown, name="last spans", daemon=True)
        sending.start()
        sending.join(seconds)


def _wanted_exporters(endpoint: str) -> list[str]:
    """The exporters that the standard variables ask for; none where they switch traces off or name no collector."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    named = [name.strip().lower() for name in os.environ.get("OTEL_TRACES_EXPORTER", "").split(",") if name.strip()]
    if not named:
        return ["otlp"] if endpoint or any(os.environ.get(name) for name in _ENDPOINTS) else []
    unknown = sorted(set(named) - {"none", "otlp", "console"})
    if unknown:
        log.warning("OTEL_TRACES_EXPORTER names %s; Fleethook has otlp, console and none", ", ".join(unknown)[:80])
    return [name for name in named if name in {"otlp", "console"}]


def _start(kind: str, namespace: str, exporters: list[str], endpoint: str) -> _Tracing:
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class EventIds(RandomIdGenerator):
        """The trace id of an event where the span belongs to one, else a random one."""

        trace_id = 0

        def generate_trace_id(self) -> int:
            return self.trace_id or super().generate_trace_id()

    ours = {
        "service.name": f"fleethook-{kind}",
        "service.namespace": namespace,
        "service.instance.id": f"{host_name()}-{os.getpid()}",
        "host.name": host_name(),
    }
    ids = EventIds()
    resource = Resource.create({**ours, **OTELResourceDetector().detect().attributes})
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    # Its own messages come with every failed batch, some with a stack trace; `_Reporting` says it once.
    logging.getLogger(_PACKAGE).setLevel(logging.CRITICAL)
    for name in exporters:
        exporter = _console_exporter() if name == "console" else _otlp_exporter(endpoint)
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return _Tracing(provider, ids)


def _console_exporter() -> SpanExporter:
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter

    return ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: span.to_json(indent=None) + "\n")


def _otlp_exporter(endpoint: str) -> SpanExporter:
    """The exporter for the protocol that the standard variables name; `endpoint` is used if they name no collector."""
    protocol = next((named for name in _PROTOCOLS if (named := os.environ.get(name, "").strip())), _HTTP)
    if protocol not in {_HTTP, "grpc"}:
        log.warning("Fleethook sends spans by %s or grpc, not by %s; it uses %s", _HTTP, protocol[:40], _HTTP)
        protocol = _HTTP
    named = next((url for name in _ENDPOINTS if (url := os.environ.get(name))), "")
    inner: SpanExporter
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        inner = GrpcExporter() if named else GrpcExporter(endpoint=endpoint or None)
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

        inner = HttpExporter() if named or not endpoint else HttpExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    return _Reporting(inner, protocol, _port_hint(protocol, named or endpoint))  # type: ignore[return-value]  # a duck


def _port_hint(protocol: str, url: str) -> str:
    """What to do if the URL has the port at which collectors take the other protocol."""
    for port, wanted in _PORTS.items():
        if url.rstrip("/").partition("/v1/")[0].endswith(f":{port}") and wanted != protocol:
            return f"; port {port} is usually for {wanted}: set OTEL_EXPORTER_OTLP_PROTOCOL={wanted}, or another port"
    return ""


class _Reporting:
    """An exporter that logs when a collector stops taking spans, and when it takes them again."""

    def __init__(self, inner: SpanExporter, protocol: str, hint: str) -> None:
        self._inner, self._protocol, self._hint, self._failing = inner, protocol, hint, False

    def export(self, spans: list[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        try:
            result = self._inner.export(spans)
            failed = result.name != "SUCCESS"
        except Exception:
            self._note(failed=True)
            raise
        self._note(failed=failed)
        return result

    def shutdown(self) -> None:
        """End it."""
        self._inner.shutdown()

    def _note(self, *, failed: bool) -> None:
        if failed and not self._failing:
            what = "the collector takes no spans (%s); those of this time are lost, and everything else goes on%s"
            log.warning(what, self._protocol, self._hint)
        elif self._failing and not failed:
            log.info("the collector takes spans again")
        self._failing = failed


def _otel_context(parent: TraceContext) -> Context:
    """OpenTelemetry's context with this parent, and without one an empty context, never that of the current task."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    if not parent.traceparent:
        return Context()
    return set_span_in_context(NonRecordingSpan(_otel_span_context(parent)), Context())


def _otel_span_context(context: TraceContext) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState

    return SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(context.flags),
        trace_state=TraceState.from_header([context.tracestate]) if context.tracestate else None,
    )


def _our_context(context: SpanContext) -> TraceContext:
    if not context.is_valid:
        return NO_CONTEXT
    parent = written(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags)
    return read_context(parent, context.trace_state.to_header())


def _clean(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Attributes without empty texts; other texts are redacted and cut."""
    return {
        name: _clean_text(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value != ""
    }


@lru_cache(maxsize=1024)  # most texts of a span are those of the span before it, and redaction is most of its cost
def _clean_text(text: str) -> str:
    return redact_text(text[: 4 * MOST_TEXT])[:MOST_TEXT]
