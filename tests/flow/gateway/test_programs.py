"""Events and requests of programs, in canonical JSON and as CloudEvents, and the health of a gateway (issue 12)."""

from __future__ import annotations

import base64
import json
import re
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bus.events import Event
from bus.wire.codec import encode_event
from tests.support.fleet import Fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("B-01", "G-19")]

RULES = """
version: 1
guards: {destructive-commands: true}
hooks: [{id: no-rm, on: 'tool:pre_execute:bash', rule: {reason: no rm, instead: ls, commands: [{program: [rm]}]}}]
"""
DENIED = 'fleethook_verdicts_total{agent="generic",event="tool:pre_execute",source="rule",verdict="deny"}'
CALL = {"type": "tool:pre_execute", "tool": "bash", "session": "over-http", "input": {"command": "rm x"}}
CLOUD = {"specversion": "1.0", "id": "a 1", "source": "/ci/7", "type": "dev.fleethook.session.start"}


BASE64 = b'{"specversion":"1.0","id":"b","source":"/ci","type":"a:b","data_base64":"%b"}'


def packed(words: list[bytes]) -> bytes:
    """A record of the spool."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


@pytest.fixture(scope="module", autouse=True)
def rules(world: Fleet) -> None:
    world.publish_hooks(RULES)


def test_an_announced_event_is_on_record_once_however_often_it_is_sent(world: Fleet, gateway: Gateway) -> None:
    with gateway.unix() as client:
        sent = client.post("/v1/events", json={**CALL, "id": "mine-1"})
        assert (sent.status_code, sent.json()) == (202, {"id": "mine-1"})
        many = client.post("/v1/events", json=[{**CALL, "session": f"m{n}"} for n in range(3)])
        assert many.status_code == 202
        ids = many.json()["ids"]
        assert len(set(ids)) == 3
    assert [world.event(name).event.session for name in ids] == ["m0", "m1", "m2"]
    assert world.event("mine-1").event.input["command"] == "rm x"


@pytest.mark.parametrize("form", ["binary", "structured", "batch"])
def test_cloudevents_come_in_every_form(world: Fleet, gateway: Gateway, form: str) -> None:
    data = {"session": f"ce-{form}", "cwd": "/tmp", "model": "m"}
    cloud: dict[str, Any] = {**CLOUD, "id": form, "traceid": "t1"}
    with gateway.unix() as client:
        if form == "binary":
            headers = {f"ce-{name}": str(value) for name, value in cloud.items()}
            response = client.post("/v1/events", json=data, headers=headers)
        elif form == "structured":
            body = json.dumps({**cloud, "data": data})
            response = client.post("/v1/events", content=body, headers={"Content-Type": "application/cloudevents+json"})
        else:
            body = json.dumps([{**cloud, "data": data}])
            kind = {"Content-Type": "application/cloudevents-batch+json; charset=utf-8"}
            response = client.post("/v1/events", content=body, headers=kind)
    assert response.status_code == 202, response.text
    answer = response.json()
    event = world.event(answer["ids"][0] if form == "batch" else answer["id"]).event
    assert (event.type, event.session, event.cwd) == ("session:start", f"ce-{form}", "/tmp")
    assert event.data["model"] == "m"
    assert event.data["cloudevent"] == {"source": "/ci/7", "id": form, "traceid": "t1"}


@pytest.mark.parametrize(
    ("kind", "raw", "found"),
    [
        ("application/json", b'{"session": "b64", "model": "m"}', {"model": "m"}),
        ("image/png", b"\x89PNG", {"base64": "iVBORw=="}),
    ],
)
def test_bytes_in_cloudevents_are_read_and_header_values_are_decoded(
    world: Fleet, gateway: Gateway, kind: str, raw: bytes, found: dict[str, str]
) -> None:
    cloud = {**CLOUD, "id": kind, "datacontenttype": kind, "data_base64": base64.b64encode(raw).decode()}
    with gateway.unix() as client:
        sent = client.post("/v1/events", json=cloud, headers={"Content-Type": "application/cloudevents+json"})
        headers = {f"ce-{name}": str(value) for name, value in {**CLOUD, "id": f"h-{kind}"}.items()}
        other = client.post("/v1/events", json={}, headers={**headers, "ce-subject": "caf%C3%A9%20%25"})
    data = world.event(sent.json()["id"]).event.data
    assert {name: value for name, value in data.items() if name != "cloudevent"} == found
    assert world.event(other.json()["id"]).event.session == "café %"


@pytest.mark.req("X-03")
def test_no_caller_announces_what_only_fleethook_announces(gateway: Gateway) -> None:
    """Else the record, the feed and webhooks would say that somebody resumed, or answered, who did not."""
    event = {"type": "approval:answered", "data": {"by": "ana"}}
    body = encode_event(Event(type="approval:answered"))
    fields = [b"events", b"id", b"made-up", b"source", b"claude", b"event", b"PreToolUse", b"body", body]
    with gateway.unix() as client:
        for response in (
            client.post("/v1/events", json=[CALL, event]),
            client.post("/v1/requests", json=event),
            client.post("/v1/hooks/mine/approval:answered", json={}),
            client.post("/v1/hooks/generic/notification", json=event),
            client.post("/v1/entries", content=packed(fields)),
            client.post("/v1/entries", content=packed([*fields[:4], b"mine", *fields[5:]])),
        ):
            assert (response.status_code, response.json()["code"]) == (400, "type-reserved"), response.text


@pytest.fixture
def silent(world: Fleet) -> Iterator[None]:
    """No evaluator answers, however quick it is."""
    evaluators = [one.process for one in world.workers if one.kind == "evaluator" and one.runs()]
    for one in evaluators:
        one.send_signal(signal.SIGSTOP)
    yield
    for one in evaluators:
        one.send_signal(signal.SIGCONT)


@pytest.mark.usefixtures("silent")
def test_a_request_names_its_failure_policy(gateway: Gateway) -> None:
    with gateway.unix() as client:
        for policies, decision in ((["allow"], "abstain"), (["ask", "allow"], "ask"), (["deny"], "deny")):
            params = [("wait", "1ms"), *(("on_failure", policy) for policy in policies)]
            response = client.post("/v1/requests", json=CALL, params=tuple(params))
            verdict = response.json()
            assert (verdict["decision"], bool(verdict["fallback"])) == (decision, True)


def test_a_request_gets_the_verdict(world: Fleet, gateway: Gateway) -> None:
    with gateway.unix() as client:
        denied = client.post("/v1/requests", json=CALL, params={"wait": "60s"})
        fine = client.post("/v1/requests", json={**CALL, "input": {"command": "ls"}})
    assert denied.status_code == 200
    verdict = denied.json()
    assert (verdict["decision"], verdict["reason"], verdict["instead"]) == ("deny", "no rm (matched: `rm x`)", "ls")
    assert verdict["event"] == denied.headers["fleethook-event"]
    assert "fleethook-fallback" not in denied.headers
    assert fine.json()["decision"] == "abstain"
    recorded = world.event(verdict["event"]).verdict
    assert recorded is not None
    assert recorded.decision == "deny"


@pytest.mark.parametrize(
    ("body", "kind", "status", "words"),
    [
        (b"{", "application/json", 400, "not JSON"),
        (b"[1]", "application/json", 400, "an event is a JSON object"),
        (b'[{"type":"a:b"},{"tool":1}]', "application/json", 400, "event 2 of 2"),
        (b"{}", "application/json", 400, "no type"),
        (b'{"type":"a:b","id":"x y"}', "application/json", 400, "an event's id"),
        (b"<a/>", "application/xml", 415, "media type"),
        (b"{}", "application/cloudevents+json", 400, "needs specversion, id, source, type"),
        (b"{}", "application/cloudevents-batch+json", 400, "a JSON list"),
        (BASE64 % b"!!!", "application/cloudevents+json", 400, "data_base64 is not base64"),
        (BASE64 % b'e30K","data":"x', "application/cloudevents+json", 400, "either data or"),
        (b'{"type":"a:%b"}' % (b"b" * 254), "application/json", 400, "at most 255 characters"),
        (b'{"type":"fleet:resumed"}', "application/json", 400, "only Fleethook itself announces fleet:resumed"),
    ],
)
def test_what_is_no_event_is_an_error_in_words(
    gateway: Gateway, body: bytes, kind: str, status: int, words: str
) -> None:
    with gateway.unix() as client:
        for path in ("/v1/events", "/v1/requests"):
            response = client.post(path, content=body, headers={"Content-Type": kind})
            assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
            assert words in response.json()["detail"]
            assert "decision" not in response.json()


def test_health_and_metrics_say_what_there_is(world: Fleet, gateway: Gateway) -> None:
    token = gateway.token("prometheus", "observe")
    with gateway.tcp(token) as client:
        assert client.get("/livez").text == "ok\n"
        ready = "[+]redis ok\n[+]evaluator ok\nready\n"
        wait_until(lambda: client.get("/readyz?verbose").text == ready, "a busy machine answers within the second")
        wait_until(lambda: client.get("/readyz").status_code == 200, "and without words")
        client.post("/v1/requests", json=CALL)
        with gateway.unix() as local:
            local.post("/v1/requests", json=CALL)
        wait_until(lambda: _metric(client, DENIED) >= 1, "the verdict is counted")
        for role in ("evaluator", "gateway"):  # a busy machine may miss a heartbeat
            name = f'fleethook_processes{{role="{role}"}}'
            wait_until(lambda name=name: _metric(client, name) == 1, "it is alive")  # type: ignore[misc]  # a default
        assert _metric(client, 'fleethook_stream_length{stream="events"}') >= 1
        text = client.get("/admin/metrics").text
    assert "# HELP fleethook_verdicts_total Answers to requests, by what decided." in text
    assert "# TYPE fleethook_verdicts_total counter" in text


def _metric(client: httpx.Client, name: str) -> float:
    response = client.get("/metrics")
    assert response.status_code == 200, response.text
    found = re.search(rf"^{re.escape(name)} ([0-9.e+]+)$", response.text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_a_gateway_without_redis_lives_and_is_not_ready_and_keeps_events(tmp_path: Any) -> None:
    """Events go to the spool and arrive later; hooks hear their fallback; nothing looks like an allow."""
    from tests.support.fleet import fleet

    with fleet(tmp_path, "evaluator", persistent=True) as world:
        gateway = start_gateway(world)
        with gateway.unix() as client:
            world.server.kill()
            assert client.get("/livez").status_code == 200
            problem = client.get("/readyz")
            assert (problem.status_code, problem.json()["code"]) == (503, "not-ready")
            assert "[-]redis" in client.get("/readyz?verbose").text
            kept = client.post("/v1/events", json={**CALL, "id": "kept-1"})
            assert (kept.status_code, kept.json()) == (202, {"id": "kept-1"})
            asked = client.post("/v1/requests", json=CALL)
            assert asked.status_code == 200
            assert (asked.json()["decision"], bool(asked.headers["fleethook-fallback"])) == ("abstain", True)
            world.server.start()
            wait_until(lambda: client.get("/readyz").status_code == 200, "it is ready again")
        wait_until(lambda: "kept-1" in {seen.id for seen in world.events()}, "the kept event is sent")
