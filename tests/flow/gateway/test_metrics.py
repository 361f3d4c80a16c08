"""Metrics and `/admin/status`: names, labels, sums over processes, restarts, and a real Prometheus (issue 12, item 7)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.beside import beside
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway
from tests.support.metrics import NOT_HERE, PROMETHEUS, PROMTOOL, Scrape, prometheus
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("G-19", "G-22")]

MONITORING = Path(__file__).parents[3] / "examples/monitoring"
HOOKS = """
version: 1
network: {{allow: ["127.0.0.1:{port}"]}}
hooks:
  - {{id: no-rm, on: 'tool:pre_execute:bash', rule: {{reason: no rm, commands: [{{program: [rm]}}]}}}}
  - {{id: slow, on: 'tool:pre_execute:bash', when: 'event.session == "slow"', command: 'sleep 5', timeout: 0.2}}
  - id: hang
    on: 'tool:pre_execute:bash'
    when: event.session == "hang"
    command: '[ -e {folder}/go ] || {{ touch {folder}/hangs; sleep 60; }}'
    timeout: 60
endpoints:
  - {{id: chat, url: "http://127.0.0.1:{port}/chat", events: [session:end], retry: [0.1]}}
"""
CALL = {"type": "tool:pre_execute", "source": "codex", "tool": "Bash", "session": "m", "input": {"command": "ls"}}
needs_prometheus = pytest.mark.skipif(PROMETHEUS is None or PROMTOOL is None, reason=NOT_HERE)


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with beside(receiving) as one:
        yield one


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("metrics")
    hooks = HOOKS.format(port=receiver.port, folder=folder)
    kinds = ("evaluator", "evaluator", "dispatcher", "carrier")
    with fleet(folder, *kinds, hooks=hooks) as one:
        yield one


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with gateway.tcp(gateway.token("metrics", "observe", "publish")) as one:
        yield one


def rises(client: httpx.Client, by: float, name: str, **labels: str) -> Any:
    """Wait for a rise, from now on, by exactly so much; returns what to call after the cause."""
    before = Scrape(client).sum(name, **labels)

    def check() -> None:
        wait_until(lambda: Scrape(client).sum(name, **labels) >= before + by, f"{name} {labels} rises by {by}")
        assert Scrape(client).sum(name, **labels) == before + by

    return check


def counted(client: httpx.Client, name: str) -> None:
    """Wait until something of this name is counted."""
    wait_until(lambda: Scrape(client).sum(name) > 0, f"there is {name}")


def test_what_two_evaluators_count_adds_up_and_outlives_them(world: Fleet, client: httpx.Client) -> None:
    codex = {"agent": "codex", "event": "tool:pre_execute"}
    denied = rises(client, 5, "fleethook_verdicts_total", **codex, verdict="deny", source="rule")
    passed = rises(client, 20, "fleethook_verdicts_total", **codex, verdict="abstain", source="default")
    timed = rises(client, 25, "fleethook_verdict_duration_seconds_count", **codex)
    within = rises(client, 25, "fleethook_verdict_duration_seconds_bucket", **codex, le="+Inf")
    counted = rises(client, 25, "fleethook_events_total", **codex, blocking="true")
    handled = rises(client, 5, "fleethook_handler_duration_seconds_count", handler="no-rm", outcome="deny")
    matched = rises(client, 5, "fleethook_rule_matches_total", rule="no-rm", verdict="deny")
    for number in range(25):
        command = "rm x" if number % 5 == 0 else "ls"
        assert client.post("/v1/requests", json={**CALL, "input": {"command": command}}).status_code == 200
    evaluators = [worker for worker in world.workers if worker.kind == "evaluator"]
    for worker in evaluators:  # no answer is without its counts: the same script writes both
        worker.process.kill()
        worker.process.wait(PATIENCE)
    world.start("evaluator", "evaluator")
    for check in (denied, passed, timed, within, counted, handled, matched):
        check()
    assert Scrape(client).sum("fleethook_verdict_duration_seconds_sum", **codex) > 0


def test_names_that_agents_make_up_make_no_series(client: httpx.Client) -> None:
    other = rises(client, 3, "fleethook_verdicts_total", agent="other", event="other")
    for number in range(3):
        made_up = {"type": f"acme{number}:deploy", "source": f"acme{number}", "session": "x"}
        assert client.post("/v1/requests", json=made_up).status_code == 200
    other()
    assert "acme" not in Scrape(client).text


def test_a_hook_that_fails_is_counted_by_its_reason(client: httpx.Client) -> None:
    opened = rises(client, 1, "fleethook_fail_open_total", reason="timeout")
    failed = rises(client, 1, "fleethook_handler_duration_seconds_count", handler="slow", outcome="failed")
    assert client.post("/v1/requests", json={**CALL, "session": "slow"}).json()["decision"] == "abstain"
    opened()
    failed()


def test_attempts_of_webhooks_are_counted_by_how_they_end(client: httpx.Client, receiver: Receiver) -> None:
    failed = rises(client, 1, "fleethook_webhook_attempts_total", endpoint="chat", outcome="5xx")
    took = rises(client, 1, "fleethook_webhook_attempts_total", endpoint="chat", outcome="2xx")
    timed = rises(client, 2, "fleethook_webhook_duration_seconds_count", endpoint="chat")
    delivered = rises(client, 1, "fleethook_deliveries_total", outcome="delivered")
    aged = rises(client, 1, "fleethook_webhook_delivery_age_seconds_count", endpoint="chat")
    events = rises(client, 1, "fleethook_events_total", agent="generic", event="session:end", blocking="false")
    receiver.next_answers.append(Answer(503))
    client.post("/v1/events", json={"type": "session:end", "session": "m"})
    for check in (failed, took, timed, delivered, aged, events):
        check()
    scrape = Scrape(client)
    assert 'fleethook_webhook_circuit_open{endpoint="chat"} 0.0' in scrape.text
    assert 'fleethook_queue_jobs{queue="carrier",status="failed"} 0.0' in scrape.text


def test_a_replaced_secret_and_the_times_of_redis_are_counted(world: Fleet, client: httpx.Client) -> None:
    named = rises(client, 1, "fleethook_redactions_total", kind="github-token")
    secret = "ghp_" + "a1B2c3D4" * 5
    client.post("/v1/events", json={"type": "session:start", "session": "r", "data": {"text": secret}})
    wait_until(lambda: client.get("/v1/events?session=r").json()["items"], "the event is listed")
    text = Scrape(client).text
    assert secret not in text
    named()
    for command in ("answer.lua", "pass.lua", "xadd", "pipeline"):
        wait_until(
            lambda: Scrape(client).sum("fleethook_redis_command_duration_seconds_count", command=command) > 0,  # noqa: B023
            f"{command} took a time",
        )
    scrape = Scrape(client)
    assert 0 < scrape.sum("fleethook_config_reload_timestamp_seconds") <= time.time()
    assert scrape.sum("fleethook_workers", queue="carrier") == 1
    assert 'fleethook_dlq_messages{source="deliveries"} 0.0' in scrape.text
    assert 'fleethook_live_clients{transport="websocket"} 0.0' in scrape.text


def test_an_entry_that_is_taken_over_from_the_dead_is_counted(world: Fleet, client: httpx.Client) -> None:
    """The evaluators are killed while the hook of a request runs."""
    taken = rises(client, 1, "fleethook_reclaimed_messages_total", stream="requests", group="evaluators")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.post, "/v1/requests?wait=30s", json={**CALL, "session": "hang"})
        wait_until((world.folder / "hangs").exists, "the hook runs")
        (world.folder / "go").touch()
        for worker in [one for one in world.workers if one.kind == "evaluator" and one.runs()]:
            worker.process.kill()
            worker.process.wait(PATIENCE)
        world.start("evaluator", "evaluator")
        assert waiting.result(60).status_code == 200
    taken()


def test_the_oldest_entry_that_nothing_has_acknowledged_has_an_age(world: Fleet, client: httpx.Client) -> None:
    (dispatcher,) = (worker for worker in world.workers if worker.kind == "dispatcher" and worker.runs())
    dispatcher.process.terminate()
    dispatcher.process.wait(PATIENCE)
    client.post("/v1/events", json={"type": "session:start", "session": "m"})
    labels = {"stream": "events", "group": "dispatchers"}
    wait_until(lambda: Scrape(client).sum("fleethook_stream_oldest_pending_seconds", **labels) > 0.5, "it gets old")
    world.start("dispatcher")
    wait_until(lambda: Scrape(client).sum("fleethook_stream_oldest_pending_seconds", **labels) == 0, "it is done")


def test_admin_status_has_the_whole_fleet(world: Fleet, client: httpx.Client) -> None:
    found = client.get("/admin/status").json()
    assert found["hook_sets"].startswith("fleet@1")
    assert {role["role"]: role["alive"] for role in found["fleet"]["roles"]}["evaluator"] == 2
    (events,) = (stream for stream in found["fleet"]["streams"] if stream["name"] == "events")
    assert {"length", "lag", "pending", "oldest_ms"} <= events.keys()
    (chat,) = found["endpoints"]
    assert (chat["id"], chat["standing"]) == ("chat", "active")
    assert [queue["queue"] for queue in found["queues"]] == ["carrier", "chores"]
    assert (found["plugins"], found["live_clients"], found["fleet"]["dead"]) == ([], 0, 0)
    assert client.get("/admin/status?what=1").status_code == 400


@needs_prometheus
def test_promtool_finds_nothing_to_say_about_metrics_and_rules(client: httpx.Client) -> None:
    tool = str(PROMTOOL)
    text = Scrape(client).text.encode()
    checked = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr.decode()) == (0, "")
    for words in (("rules", "fleethook-alerts.yml"), ("config", "--syntax-only", "prometheus.yml")):
        done = subprocess.run([tool, "check", *words], cwd=MONITORING, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


ALERTS = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'fleethook_fail_open_total{{reason="timeout"}}', values: '0x5 1+1x20'}}
      - {{series: 'fleethook_dlq_messages{{source="deliveries"}}', values: '3x30'}}
      - {{series: 'fleethook_dlq_oldest_seconds{{source="deliveries"}}', values: '90000x30'}}
      - {{series: 'fleethook_processes{{role="evaluator"}}', values: '1x5 0x25'}}
      - {{series: 'fleethook_stream_oldest_pending_seconds{{stream="requests",group="g"}}', values: '0x30'}}
      - {{series: 'fleethook_redis_errors_total{{reason="timeout"}}', values: '0x5 1+1x20'}}
      - {{series: 'fleethook_redis_errors_total{{reason="memory"}}', values: '0x30'}}
      - {{series: 'fleethook_reclaimed_messages_total{{stream="requests",group="g"}}', values: '0x5 3x25'}}
    alert_rule_test:
      - {{eval_time: 4m, alertname: FleethookFailOpen}}
      - {{eval_time: 20m, alertname: FleethookFailOpen, exp_alerts: [{{exp_labels: {{severity: warning}}}}]}}
      - {{eval_time: 4m, alertname: FleethookNoEvaluator}}
      - {{eval_time: 20m, alertname: FleethookNoEvaluator, exp_alerts: [{{exp_labels: {{severity: critical}}}}]}}
      - eval_time: 20m
        alertname: FleethookDeadLetters
        exp_alerts: [{{exp_labels: {{severity: warning, source: deliveries}}}}]
      - {{eval_time: 20m, alertname: FleethookOldestPending}}
      - {{eval_time: 4m, alertname: FleethookRedisErrors}}
      - {{eval_time: 20m, alertname: FleethookRedisErrors, exp_alerts: [{{exp_labels: {{severity: warning}}}}]}}
      - eval_time: 10m
        alertname: FleethookProcessesDie
        exp_alerts: [{{exp_labels: {{severity: warning, stream: requests}}}}]
      - {{eval_time: 28m, alertname: FleethookProcessesDie}}
"""


@needs_prometheus
def test_rules_fire_on_what_they_are_for_and_on_nothing_else(tmp_path: Path) -> None:
    rules = yaml.safe_load((MONITORING / "fleethook-alerts.yml").read_text(encoding="utf-8"))
    for rule in rules["groups"][0]["rules"]:
        del rule["annotations"]  # promtool would compare their texts
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules), encoding="utf-8")
    (tmp_path / "test.yml").write_text(ALERTS.format(rules="rules.yml"), encoding="utf-8")
    done = subprocess.run([str(PROMTOOL), "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


@needs_prometheus
def test_a_real_prometheus_scrapes_and_every_panel_and_rule_has_its_series(
    world: Fleet, gateway: Gateway, client: httpx.Client, tmp_path: Path
) -> None:
    client.post("/v1/requests", json={**CALL, "input": {"command": "rm x"}})
    client.post("/v1/events", json={"type": "session:end", "session": "p"})
    for name in (
        "webhook_attempts_total",
        "webhook_delivery_age_seconds_count",
        "handler_duration_seconds_count",
        "events_total",
        "deliveries_total",
        "rule_matches_total",
        "redis_command_duration_seconds_count",
    ):
        counted(client, f"fleethook_{name}")
    shutil.copy(MONITORING / "fleethook-alerts.yml", tmp_path)
    (tmp_path / "fleethook.token").write_text(gateway.token("real-prometheus", "observe"), encoding="utf-8")
    config = (MONITORING / "prometheus.yml").read_text(encoding="utf-8")
    config = config.replace("127.0.0.1:4665", f"127.0.0.1:{gateway.port}").replace("15s", "1s")
    with prometheus(tmp_path, config) as real:
        wait_until(lambda: real.result('up{job="fleethook"} == 1'), "it has scraped")
        wait_until(lambda: real.result("fleethook_verdicts_total offset 2s"), "it has scraped twice")
        names = set(real.get("label/__name__/values"))
        dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text(encoding="utf-8"))
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
        assert len(expressions) > 20
        rules = yaml.safe_load((MONITORING / "fleethook-alerts.yml").read_text(encoding="utf-8"))
        expressions += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
        for expression in expressions:
            asked = expression.replace("$__rate_interval", "1m").replace("$agent", ".*").replace("$queue", ".*")
            real.result(asked)  # raises for an expression that is wrong
            for name in re.findall(r"fleethook_\w+", asked):
                assert name in names, f"{name} of {expression}"
        loaded = real.get("rules")["groups"][0]["rules"]
        wait_until(
            lambda: all(rule["health"] == "ok" for rule in real.get("rules")["groups"][0]["rules"]),
            "every rule is evaluated",
        )
        assert len(loaded) == len(rules["groups"][0]["rules"])
        firing = [alert["labels"]["alertname"] for alert in real.get("alerts")["alerts"] if alert["state"] == "firing"]
        assert "FleethookDown" not in firing
