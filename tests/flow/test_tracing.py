"""Traces through the whole fleet: from an agent's context to the spans of a real receiver of OTLP (issue 12, item 8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.ids import event_id
from bus.system.directories import directories
from bus.tracing.context import derived_trace_id
from tests.cli_kit import fleethook_in
from tests.support.beside import beside
from tests.support.fleet import HOST, Fleet, fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.otlp import Collector, Received, collector
from tests.support.receivers import Got, Receiver, receiving
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("X-05", "F-15")]

SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
PROCESSED = "process fleethook.events"
HOOKS = """
network: {{allow: ["127.0.0.1:{port}"]}}
endpoints:
  - {{id: log, url: "http://127.0.0.1:{port}/log", events: "tool:*", format: cloudevents}}
hooks:
  - id: variables
    on: "tool:pre_execute"
    command: 'printf "%s %s" "$TRACEPARENT" "$TRACESTATE" > {folder}/$FLEETHOOK_EVENT_ID'
  - {{id: ask, on: "tool:pre_execute", http: {{url: "http://127.0.0.1:{port}/ask?key={secret}"}}}}
  - {{id: no-rm, on: "tool:pre_execute", rule: {{reason: no rm, commands: [{{program: [rm]}}]}}}}
"""


class World:
    """A fleet with its receiver of webhooks."""

    def __init__(self, made: Fleet, receiver: Receiver) -> None:
        self.fleet, self.receiver = made, receiver

    def variables(self, event: str) -> list[str]:
        """What the command hook had in TRACEPARENT and TRACESTATE."""
        return (self.fleet.folder / event).read_text().split(" ")

    def webhook(self, event: str, path: str) -> Got:
        """What came to one path for an event."""

        def fitting() -> list[Got]:
            return [got for got in self.receiver.got if got.path.startswith(path) and event.encode() in got.body]

        wait_until(fitting, f"{path} got event {event}")
        return fitting()[0]


def started(stack: ExitStack, folder: Path, **more: str) -> World:
    receiver = stack.enter_context(beside(receiving))
    made = stack.enter_context(fleet(folder))
    made.start("evaluator", "dispatcher", "carrier", **more)
    made.publish_hooks(HOOKS.format(port=receiver.port, folder=folder, secret=SECRET))
    return World(made, receiver)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Gateway, Collector]]:
    """A fleet whose workers send spans, and what they send them to."""
    with ExitStack() as stack:
        spans = stack.enter_context(collector())
        world = started(stack, tmp_path_factory.mktemp("traced"), **sending_to(spans))
        yield world, start_gateway(world.fleet, **sending_to(spans)), spans


def sending_to(sink: Collector) -> dict[str, str]:
    """The variables with which a process sends its spans to `sink`."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={SECRET}",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }


def payload(command: str, session: str = "s1") -> dict[str, Any]:
    return {
        "session_id": session,
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_use_id": event_id(),
        "cwd": "/tmp",
        "tool_input": {"command": command},
    }


def named(spans: list[Received], name: str, parent: str) -> Received:
    """The one span of this name below this parent."""
    (found,) = [span for span in spans if span.name == name and span.parent == parent]
    return found


def test_a_call_over_http_is_one_trace_from_its_caller_to_every_webhook(
    traced: tuple[World, Gateway, Collector],
) -> None:
    """Each span is below the one that caused it, and hooks and receivers get the span that called them."""
    world, gateway, sink = traced
    trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = {"traceparent": f"00-{trace}-{caller}-01", "tracestate": "vendor=1"}
    with gateway.unix() as client:
        reply = client.post("/v1/hooks/claude/PreToolUse", json=payload("ls"), headers=headers)
    event = reply.headers["fleethook-event"]
    log, ask = world.webhook(event, "/log"), world.webhook(event, "/ask")
    wait_until(lambda: len([span for span in sink.spans if span.trace == trace]) >= 7, "its spans have arrived")
    spans = [span for span in sink.spans if span.trace == trace]

    server = named(spans, "POST /v1/hooks/{agent}/{event}", caller)
    consumer = named(spans, PROCESSED, server.id)
    command, http = (named(spans, f"execute_hook {name}", consumer.id) for name in ("variables", "ask"))
    asked = named(spans, "POST", http.id)
    delivery = named(spans, "process rq.webhooks", consumer.id)
    posted = named(spans, "POST", delivery.id)
    kinds = [span.kind for span in (server, consumer, command, http, asked, delivery, posted)]
    assert kinds == ["server", "consumer", "internal", "internal", "client", "consumer", "client"]
    assert not any(span.failed for span in spans)

    assert world.variables(event) == [f"{command.traceparent}-01", "vendor=1"]
    assert (ask.headers["traceparent"], ask.headers["tracestate"]) == (f"{asked.traceparent}-01", "vendor=1")
    assert (log.headers["traceparent"], log.headers["tracestate"]) == (f"{posted.traceparent}-01", "vendor=1")
    assert (log.json["traceparent"], log.json["tracestate"]) == (f"{consumer.traceparent}-01", "vendor=1")

    roles = [span.resource["service.name"] for span in (server, consumer, posted)]
    assert roles == ["fleethook-gateway", "fleethook-evaluator", "fleethook-carrier"]
    assert {**consumer.attributes, "fleethook.deadline_ms": 0} == {
        "messaging.system": "redis",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "fleethook.events",
        "messaging.consumer.group.name": "evaluators",
        "messaging.message.id": event,
        "cloudevents.event_id": event,
        "cloudevents.event_source": f"/agents/claude/{HOST}",
        "cloudevents.event_spec_version": "1.0",
        "cloudevents.event_type": "dev.fleethook.tool.pre_execute",
        "gen_ai.agent.name": "claude",
        "gen_ai.conversation.id": "s1",
        "gen_ai.tool.name": "Bash",
        "gen_ai.tool.call.id": consumer.attributes["gen_ai.tool.call.id"],
        "fleethook.agent.kind": "claude",
        "fleethook.hook.event": "PreToolUse",
        "fleethook.blocking": True,
        "fleethook.deadline_ms": 0,
        "fleethook.fail_mode": "open",
        "fleethook.verdict": "abstain",
    }
    assert command.attributes["gen_ai.operation.name"] == "execute_hook"
    assert (command.attributes["fleethook.handler.id"], command.attributes["process.exit.code"]) == ("variables", 0)
    assert (posted.attributes["http.response.status_code"], posted.attributes["server.port"]) == (
        200,
        world.receiver.port,
    )
    assert delivery.attributes["fleethook.delivery.outcome"] == "delivered"

    (only,) = world.fleet.events(trace=trace[:12])
    assert only.id == event
    tool = {"FLEETHOOK_TRACE_URL": "http://localhost:16686/trace/{trace}"}
    shown = fleethook_in({**world.fleet.environment, **tool}, world.fleet.folder, "trace", event)
    assert f"trace    {trace}  http://localhost:16686/trace/{trace}" in shown.out


def test_an_agents_variable_goes_through_the_hook_command(traced: tuple[World, Gateway, Collector]) -> None:
    """Also a denied call; the rule that denied has a span, and rules without an opinion have none."""
    world, _, sink = traced
    trace, caller = "1" * 32, "2" * 16
    call = payload("rm x")
    world.fleet.agent().hook(
        "PreToolUse", call, env={"PATH": "/bin:/usr/bin", "TRACEPARENT": f"00-{trace}-{caller}-01"}
    )
    spans = sink.trace(trace, PROCESSED, "execute_hook no-rm", "execute_hook variables")
    consumer, rule = spans[PROCESSED], spans["execute_hook no-rm"]
    assert (consumer.parent, consumer.attributes["fleethook.verdict"]) == (caller, "deny")
    assert consumer.attributes["fleethook.handler.id"] == "no-rm"
    assert (rule.parent, rule.attributes["fleethook.rule.id"]) == (consumer.id, "no-rm")


def test_an_event_without_a_context_begins_the_trace_of_its_id(traced: tuple[World, Gateway, Collector]) -> None:
    """Every process finds the same trace, although the hook command sent none."""
    world, _, sink = traced
    with world.fleet.bus().sync() as bus:
        published = bus.publish(Event(type="tool:post_execute", tool="bash", host=HOST))
        asked = bus.request(Event(type="tool:pre_execute", tool="bash", host=HOST, input={"command": "ls"})).event
    spans = sink.trace(derived_trace_id(published), "process rq.webhooks", "POST")
    assert spans["process rq.webhooks"].parent == ""
    assert spans["POST"].parent == spans["process rq.webhooks"].id
    spans = sink.trace(derived_trace_id(asked), PROCESSED, "process rq.webhooks", "POST")
    assert spans[PROCESSED].parent == ""


def test_a_trace_that_is_not_sampled_is_passed_on_and_makes_no_span(
    traced: tuple[World, Gateway, Collector],
) -> None:
    """The flag of the caller counts; a bad context is dropped, and a second header makes it bad."""
    world, gateway, sink = traced
    silent, bad = "3" * 32, "4" * 32
    calls = [
        [("traceparent", f"00-{silent}-{'5' * 16}-00")],
        [("traceparent", f"00-{bad}-{'0' * 16}-01")],
        [("traceparent", f"00-{bad}-{'5' * 16}-01"), ("traceparent", f"00-{bad}-{'6' * 16}-01")],
        [("traceparent", ""), ("tracestate", "")],  # as an agent sends variables that are not set
        [],
    ]
    with gateway.unix() as client:
        events = [
            client.post("/v1/hooks/claude/PreToolUse", json=payload("ls"), headers=headers).headers["fleethook-event"]
            for headers in calls
        ]
    quiet, *others = [world.variables(event)[0] for event in events]
    assert quiet.startswith(f"00-{silent}-")
    assert quiet.endswith("-00")
    assert [text[3:35] for text in others] == [derived_trace_id(event) for event in events[1:]]
    sink.trace(derived_trace_id(events[-1]), "POST /v1/hooks/{agent}/{event}", "process rq.webhooks")
    assert not {silent, bad} & {span.trace for span in sink.spans}


def test_the_worker_of_an_agents_host_has_spans_below_those_of_the_evaluator(
    traced: tuple[World, Gateway, Collector], tmp_path: Path
) -> None:
    """For the blocking hooks of the host's own file; its background hooks are run by carriers."""
    world, _, sink = traced
    host, home = "far-host", tmp_path / "far"
    file = directories({"FLEETHOOK_HOME": str(home)}).config / "fleethook.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"""
hooks:
  - {{id: far, on: tool:pre_execute, command: 'printf "%s" "$TRACEPARENT" > {tmp_path}/far-hook'}}
  - {{id: no-far, on: tool:pre_execute, rule: {{decision: deny, command: [far-barred], reason: not here}}}}
""")
    world.fleet.start("host", FLEETHOOK_HOST=host, FLEETHOOK_HOME=str(home), HOME=str(home), **sending_to(sink))
    trace, caller = "9" * 32, "c" * 16
    call = Event(
        type="tool:pre_execute",
        tool="bash",
        host=host,
        input={"command": "far-barred"},
        traceparent=f"00-{trace}-{caller}-01",
    )
    with world.fleet.bus().sync() as bus:
        assert bus.request(call).decision == "deny"
    sink.trace(trace, "execute_hook far", "execute_hook no-far")

    def consumers() -> dict[str, Received]:
        """The spans of workers that processed the call, by the span above each."""
        return {span.parent: span for span in sink.spans if span.trace == trace and span.name == PROCESSED}

    wait_until(
        lambda: caller in consumers() and consumers()[caller].id in consumers(),
        "the evaluator and the host worker have sent theirs",
    )
    spans = [span for span in sink.spans if span.trace == trace]
    evaluator = named(spans, PROCESSED, caller)
    worker = named(spans, PROCESSED, evaluator.id)
    hook, rule = (named(spans, f"execute_hook {name}", worker.id) for name in ("far", "no-far"))
    assert worker.resource["service.name"] == hook.resource["service.name"] == "fleethook-host"
    assert worker.attributes["messaging.consumer.group.name"] == "hosts"
    assert (worker.attributes["fleethook.verdict"], rule.attributes["fleethook.handler.layer"]) == ("deny", "user")
    assert (tmp_path / "far-hook").read_text() == f"{hook.traceparent}-01"


def test_a_test_of_an_endpoint_passes_the_context_on(traced: tuple[World, Gateway, Collector]) -> None:
    """By command from its environment, and over HTTP from the headers; with tracing it is a span of the trace."""
    world, gateway, sink = traced
    trace, caller = "d" * 32, "e" * 16
    parent = f"00-{trace}-{caller}-01"
    variables = {**world.fleet.environment, **sending_to(sink), "TRACEPARENT": parent, "TRACESTATE": "vendor=1"}

    def sent() -> list[Got]:
        return [got for got in world.receiver.got if trace in got.headers.get("traceparent", "")]

    done = fleethook_in(variables, world.fleet.folder, "webhooks", "test", "log")
    assert done.code == 0, done.err
    (by_command,) = sent()
    post = sink.trace(trace, "POST")["POST"]
    assert (post.parent, post.resource["service.name"]) == (caller, "fleethook-cli")
    assert by_command.headers["traceparent"] == f"{post.traceparent}-01"
    assert (by_command.headers["tracestate"], by_command.json["traceparent"]) == ("vendor=1", parent)
    with gateway.tcp(gateway.token("tester", "operate")) as client:
        assert client.post("/v1/endpoints/log/test", headers={"traceparent": parent}).json()["ok"]
        assert client.post("/v1/endpoints/log/test", headers={"traceparent": "00-bad"}).json()["ok"]
    assert len(sent()) == 2
    plain = fleethook_in(world.fleet.environment, world.fleet.folder, "webhooks", "test", "log")
    assert (plain.code, len(sent())) == (0, 2)


def test_no_span_and_no_context_has_a_secret(traced: tuple[World, Gateway, Collector]) -> None:
    """Attributes are redacted, URLs have no path, and a state with a secret is dropped."""
    world, gateway, sink = traced
    trace = "7" * 32
    headers = {"traceparent": f"00-{trace}-{'8' * 16}-01", "tracestate": f"v={SECRET}", "user-agent": SECRET}
    with gateway.unix() as client:
        call = payload(f"echo {SECRET}", session=SECRET)
        event = client.post("/v1/hooks/claude/PreToolUse", json=call, headers=headers).headers["fleethook-event"]
    spans = sink.trace(trace, "process rq.webhooks", PROCESSED, "execute_hook ask")
    assert spans[PROCESSED].attributes["gen_ai.conversation.id"].startswith("[redacted")
    assert world.variables(event)[1] == ""
    assert "tracestate" not in world.webhook(event, "/log").headers
    assert not any(SECRET.encode() in body for body in sink.bodies)
    assert all(got["api-key"] == SECRET for got in sink.headers)  # which the collector itself asked for


def test_a_collector_that_is_away_changes_nothing_for_an_agent(tmp_path: Path) -> None:
    """A verdict comes as fast as ever, the worker says once what is lost, and it ends in order."""
    with fleet(tmp_path) as made:
        (worker,) = made.start(
            "evaluator",
            OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
            OTEL_EXPORTER_OTLP_TIMEOUT="1",
            OTEL_BSP_SCHEDULE_DELAY="50",
        )
        with made.bus().sync() as bus:
            verdicts = [bus.request(Event(type="turn:start", host=HOST, session=str(n))) for n in range(3)]
        assert [(verdict.decision, verdict.fallback) for verdict in verdicts] == [("abstain", "")] * 3
        wait_until(lambda: worker.said("takes no spans"), "the worker says it")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A fleet without tracing."""
    with ExitStack() as stack:
        yield started(stack, tmp_path_factory.mktemp("plain"))


def test_without_tracing_the_context_is_passed_on_unchanged(plain: World) -> None:
    """From the agent's environment, and from a program's event, to hooks, requests and webhooks."""
    parent, state = f"00-{'a' * 32}-{'b' * 16}-01", "vendor=1"
    call, env = payload("ls", session="over-shim"), {"PATH": "/bin:/usr/bin"}
    plain.fleet.agent().hook("PreToolUse", call, env={**env, "TRACEPARENT": parent, "TRACESTATE": state})
    wait_until(lambda: plain.fleet.events(session="over-shim"), "it is on record")
    by_command = plain.fleet.events(session="over-shim")[0].id
    with plain.fleet.bus().sync() as bus:
        mine = Event(type="tool:pre_execute", host=HOST, tool="bash", traceparent=parent, tracestate=state)
        by_program = bus.request(mine).event
    for event in (by_command, by_program):
        log, ask = plain.webhook(event, "/log"), plain.webhook(event, "/ask")
        assert plain.variables(event) == [parent, state]
        for got in (log.headers, ask.headers, log.json):
            assert (got["traceparent"], got["tracestate"]) == (parent, state)
        assert plain.fleet.event(event).event.traceparent == parent


def test_without_tracing_and_without_a_context_there_is_none(plain: World) -> None:
    """A bad variable is dropped; hooks and receivers get nothing, not even an empty header."""
    call = payload("ls", session="bad")
    plain.fleet.agent("other").hook("PreToolUse", call, env={"PATH": "/bin:/usr/bin", "TRACEPARENT": "0" * 55})
    wait_until(lambda: plain.fleet.events(session="bad"), "it is on record")
    event = plain.fleet.events(session="bad")[0].id
    log = plain.webhook(event, "/log")
    assert plain.variables(event) == ["", ""]
    assert not {"traceparent", "tracestate"} & {*log.headers, *log.json, *plain.webhook(event, "/ask").headers}
    assert json.loads(plain.webhook(event, "/ask").body)["event"]["traceparent"] == ""
