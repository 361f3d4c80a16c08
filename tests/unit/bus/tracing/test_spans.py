"""OpenTelemetry is loaded only where it is wanted, and without it a span only passes the context on."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from bus.tracing import spans
from bus.tracing.context import NO_CONTEXT, TraceContext
from bus.tracing.post_spans import post_span

pytestmark = pytest.mark.req("X-05")

PARENT = TraceContext(f"00-{'a' * 32}-{'b' * 16}-01", "vendor=1")
_LOADED = """
import sys, workers.cli
try:
    workers.cli.main(["version"])
except SystemExit:
    pass
import redis, workers.evaluator, workers.carrier
from bus.tracing import spans
print(spans.configure("evaluator", "default"), *(name for name in sys.modules if name.startswith("opentelemetry.")))
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the developer's own."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


def test_nothing_is_loaded_where_no_traces_are_configured() -> None:
    """Although it is installed, and although redis-py would load it."""
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_without_tracing_a_span_passes_its_parent_on() -> None:
    assert not spans.is_on()
    with spans.span("name", "server", PARENT, {"a": 1}) as span:
        span.set({"b": 2})
        span.fail("timeout")
    assert span.context is PARENT
    assert not span.is_recording
    assert post_span("https://x.example/y", NO_CONTEXT).context is NO_CONTEXT


@pytest.mark.parametrize(
    ("variables", "endpoint", "exporters"),
    [
        ({}, "", []),
        ({}, "http://c:4318", ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "", ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/t"}, "", ["otlp"]),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "", ["otlp"]),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, "", ["console", "otlp"]),
        ({"OTEL_TRACES_EXPORTER": "none"}, "http://c:4318", []),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "", []),
        ({"OTEL_SDK_DISABLED": "True"}, "http://c:4318", []),
    ],
)
def test_the_standard_variables_switch_traces_on_and_off(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], endpoint: str, exporters: list[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert spans._wanted_exporters(endpoint) == exporters


def test_a_worker_without_the_package_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And works without traces."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with caplog.at_level(logging.WARNING):
        assert not spans.configure("evaluator", "default", "http://127.0.0.1:9")
    assert "pip install 'fleethook[otel]'" in caplog.text
    assert not spans.is_on()


def test_a_worker_that_is_to_send_by_grpc_says_which_package_it_needs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", None)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with caplog.at_level(logging.WARNING):
        assert not spans.configure("evaluator", "default", "http://127.0.0.1:9")
    assert "pip install 'fleethook[otel-grpc]'" in caplog.text


@pytest.mark.parametrize(
    ("protocol", "url", "words"),
    [
        ("", "http://127.0.0.1:4317", "port 4317 is usually for grpc"),
        ("http/protobuf", "http://127.0.0.1:4317/", "set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"),
        ("grpc", "http://127.0.0.1:4318", "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"),
        ("", "http://127.0.0.1:4318", ""),
        ("grpc", "http://127.0.0.1:4317", ""),
        ("", "http://127.0.0.1:14317/v1/traces", ""),
        ("", "", ""),
    ],
)
def test_a_collector_at_the_port_of_the_other_protocol_is_explained(protocol: str, url: str, words: str) -> None:
    hint = spans._port_hint(protocol or "http/protobuf", url)
    assert words in hint
    assert bool(words) is bool(hint)


def test_a_protocol_that_does_not_exist_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    try:
        assert spans.configure("evaluator", "default", "http://127.0.0.1:9")
    finally:
        spans.shut_down()
    assert "not by http/json; it uses http/protobuf" in caplog.text


@pytest.mark.parametrize("url", ["https://hooks.example/T0/B0/secret?key=secret#secret", "http://[::1]:70000/"])
def test_a_program_passes_its_own_context_on(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """That of its environment; a bad one is dropped, and no URL breaks a span."""
    monkeypatch.setenv("TRACEPARENT", PARENT.traceparent)
    monkeypatch.setenv("TRACESTATE", PARENT.tracestate)
    assert spans.ambient() == PARENT
    monkeypatch.setenv("TRACEPARENT", "00-bad")
    assert spans.ambient() is NO_CONTEXT
    assert post_span(url, PARENT).context is PARENT


def test_a_program_with_opentelemetry_passes_its_current_span_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes before the environment."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    monkeypatch.setenv("TRACEPARENT", PARENT.traceparent)
    provider = TracerProvider(shutdown_on_exit=False)
    with provider.get_tracer("test").start_as_current_span("mine") as mine:
        assert spans.ambient().span_id == f"{mine.get_span_context().span_id:016x}"
    assert spans.ambient().traceparent == PARENT.traceparent
    assert trace.get_current_span() is trace.INVALID_SPAN
