"""Spans of this process, as a real receiver of OTLP gets them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bus.errors import OverBudget
from bus.events import Event
from bus.hooks import Hook
from bus.matching.rules import Rule
from bus.outcomes import NOTHING, Outcome
from bus.requests import Request
from bus.runners.evaluation_spans import evaluation_span, with_fallback_span, with_held_span
from bus.runners.hook_spans import traced
from bus.tracing import spans
from bus.tracing.context import NO_CONTEXT, TraceContext, at_trace, derived_trace_id
from bus.tracing.post_spans import note_reply, post_span
from bus.verdicts import Approval, Verdict
from bus.wire.streams import StreamEntry
from tests.support.otlp import Collector, collector, grpc_collector
from workers.delivery.delivery_spans import delivery_span, note_result
from workers.delivery.results import AttemptResult

pytestmark = [pytest.mark.live, pytest.mark.req("X-05", "F-15")]

PARENT = TraceContext(f"00-{'a' * 32}-{'b' * 16}-01", "vendor=1")
EVENT = at_trace(Event(type="tool:pre_execute", id="e1", source="claude", tool="bash"), PARENT)
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """What this process sends its spans to; `spans.shut_down` sends them."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    with collector() as made:
        assert spans.configure("test", "fleet", made.url)
        yield made
        spans.shut_down()


def request(trace: TraceContext = NO_CONTEXT) -> Request:
    return Request(
        entry=StreamEntry("requests", "1-1", {}),
        id="e1",
        reply="",
        deadline=1,
        latest=1,
        source="claude",
        native="PreToolUse",
        host="",
        body=b"",
        parent="",
        fallback="",
        policy="deny",
        trace=trace,
    )


def test_a_setting_names_the_collector_and_variables_name_the_process(
    sink: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans.start("one", "internal", NO_CONTEXT, event="e7").end()
    spans.shut_down()
    (one,) = sink.spans
    assert (one.trace, one.parent) == (derived_trace_id("e7"), "")
    assert (one.resource["service.name"], one.resource["service.namespace"]) == ("fleethook-test", "fleet")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    assert spans.configure("test", "fleet", sink.url)
    spans.start("two", "internal", NO_CONTEXT).end()
    spans.shut_down()
    assert [span.resource["service.name"] for span in sink.spans] == ["fleethook-test", "mine"]


@pytest.mark.parametrize("by", ["setting", "variable"])
def test_spans_go_by_grpc_where_a_variable_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    """The collector is named by Fleethook's setting or by OpenTelemetry's variable; one that is away is said."""
    pytest.importorskip("grpc", reason="the extra otel-grpc is not installed")
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k1")
    with grpc_collector() as made:
        if by == "variable":
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        assert spans.configure("test", "fleet", made.url if by == "setting" else "http://127.0.0.1:9")
        spans.start("one", "internal", NO_CONTEXT, event="e7").end()
        spans.shut_down(30)
        (one,) = made.spans
        assert (one.trace, one.resource["service.name"]) == (derived_trace_id("e7"), "fleethook-test")
        assert made.headers[0]["api-key"] == "k1"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    assert spans.configure("test", "fleet", made.url)
    spans.start("two", "internal", NO_CONTEXT).end()
    spans.shut_down(30)
    assert "the collector takes no spans (grpc)" in caplog.text


def test_a_batch_begins_a_trace_with_links(sink: Collector) -> None:
    other = at_trace(Event(type="tool:pre_execute", id="e2"), TraceContext(f"00-{'c' * 32}-{'d' * 16}-01"))
    with delivery_span("webhook", "e1.log", "log", 1, [EVENT, other, Event(type="a:b")]) as span:
        note_result(span, AttemptResult("retry", "timeout: no answer"))
    assert span.context.trace_id not in {"a" * 32, "c" * 32}
    spans.shut_down()
    (sent,) = sink.spans
    assert (sent.name, sent.parent, sent.links) == ("process rq.webhooks", "", ("a" * 32, "c" * 32))
    assert (sent.attributes["messaging.batch.message_count"], sent.attributes["fleethook.delivery.attempt"]) == (3, 2)
    assert (sent.failed, sent.attributes["error.type"]) == (True, "timeout")


async def test_rules_have_a_span_if_they_say_something_and_hooks_always(sink: Collector) -> None:
    """A hook below gets the context of its own span; a failure is an error with a word."""
    outcomes = {
        "no": Outcome(decision="deny"),
        "quiet": NOTHING,
        "late": Outcome(failure="hook timed out after 1.0 s"),
        "broken": Outcome(failure="exited with 1", exit_code=1),
        "changed": Outcome(updated_input={"command": "ls"}),
    }
    seen: dict[str, str] = {}

    async def run(hook: Hook, event: Event, seconds: float) -> Outcome:
        seen[hook.id] = event.traceparent
        return outcomes[hook.id]

    hooks = [
        Hook(id=name, on=("*",), **({"rule": Rule(decision="deny")} if name in {"no", "quiet"} else {"command": "x"}))
        for name in outcomes
    ]
    for hook in hooks:
        assert await traced(run)(hook, EVENT, 1.5) is outcomes[hook.id]
    spans.shut_down()
    found = {span.name.removeprefix("execute_hook "): span for span in sink.spans}
    words = {name: span.attributes["fleethook.verdict"] for name, span in found.items()}
    assert words == {"no": "deny", "late": "timeout", "broken": "error", "changed": "modify"}
    assert {name: span.attributes.get("error.type") for name, span in found.items() if span.failed} == {
        "late": "timeout",
        "broken": "hook_failed",
    }
    assert seen["changed"] == f"{found['changed'].traceparent}-01"
    assert {span.parent for span in found.values()} == {"b" * 16}
    assert found["late"].attributes["fleethook.deadline_ms"] == 1500


def test_an_evaluation_that_moves_on_has_one_span_and_a_broken_one_says_so(sink: Collector) -> None:
    with (
        pytest.raises(OverBudget),
        evaluation_span(request(), EVENT, "evaluators", "allow"),
    ):
        raise OverBudget("heavy")
    with pytest.raises(ZeroDivisionError), evaluation_span(request(), EVENT, "evaluators", "allow"):
        raise ZeroDivisionError
    late = Verdict(decision="deny", fallback="the budget was used up before an evaluator was free")
    placed = with_fallback_span(request(PARENT), None, "evaluators", "deny", late)
    approval = Approval(question="e1", state="denied", asked=1_000)
    held = with_held_span(request(), EVENT, "evaluators", Verdict(decision="deny", approval=approval))
    spans.shut_down()
    broken, fallback, wait = sink.spans
    assert (broken.attributes["error.type"], broken.failed) == ("ZeroDivisionError", True)
    assert (fallback.attributes["fleethook.verdict"], fallback.attributes["error.type"]) == ("timeout", "timeout")
    assert placed.trace.traceparent == f"{fallback.traceparent}-01"
    assert (wait.name, wait.attributes["fleethook.approval.state"]) == ("await approval", "denied")
    assert held.trace.span_id == wait.id


def test_a_post_has_no_path_no_secret_and_its_answer(sink: Collector) -> None:
    with post_span(f"https://hooks.example/services/{SECRET}?token={SECRET}#{SECRET}", PARENT, 2) as span:
        note_reply(span, 503, "")
        span.set({"note": f"it said {SECRET}", "empty": "", "long": "x" * 2_000})
    with post_span("http://[::1]:8080/x", PARENT) as span:
        note_reply(span, 0, "timeout")
    spans.shut_down()
    first, second = sink.spans
    assert first.attributes["url.full"] == "https://hooks.example:443/"
    assert (first.attributes["http.response.status_code"], first.attributes["error.type"]) == (503, "503")
    assert (first.attributes["http.request.resend_count"], first.kind) == (2, "client")
    assert "[redacted" in first.attributes["note"]
    assert len(first.attributes["long"]) == spans.MOST_TEXT
    assert "empty" not in first.attributes
    assert (second.attributes["url.full"], second.attributes["error.type"]) == ("http://[::1]:8080/", "timeout")
    assert not any(SECRET.encode() in body for body in sink.bodies)
