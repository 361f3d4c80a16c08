"""`fleethook status` on endpoints: a line for each that is not plain healthy, and all of them for a program (X-05)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sized
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import host_name
from bus.wire.codec import pack
from bus.wire.connections import sync_client
from bus.wire.keys import PLUGINS_MS, Keys
from tests.cli_kit import Result, fleethook, namespace, run, workers
from tests.support.beside import beside
from tests.support.forked import run_fleethook
from tests.support.receivers import Answer, receiving
from tests.support.servers import Server
from tests.support.waiting import wait_until
from workers.plugins.figures import PluginState

HOOKS = """
endpoints:
  - {{id: well, url: "{url}well"}}
  - {{id: sick, url: "{url}sick", retry: [60]}}
  - {{id: gone, url: "{url}gone"}}
  - {{id: calm, url: "{url}calm"}}
network: {{allow: ["127.0.0.1:{port}"]}}
"""


@pytest.mark.req("X-10")
def test_a_worker_of_rq_that_was_killed_is_not_counted(
    server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, long before its heartbeat is missed."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    root = Path(__file__).parents[3]

    def carriers() -> int:
        (role,) = (one for one in fleethook("status", "--json").json["roles"] if one["role"] == "carrier")
        return int(role["alive"])

    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "workers.cli", "worker", "carrier"],
                    stderr=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": str(root)},
                    cwd=root,
                )
            )
            for _ in range(2)
        ]
        try:
            for one in started:
                assert one.stderr is not None
                assert any(b"carrier ready" in line for line in one.stderr)
            assert carriers() == 2
            started[0].kill()
            started[0].wait()
            wait_until(lambda: carriers() == 1, "the killed one is not counted")
        finally:
            for one in started:
                one.kill()


def shown() -> dict[str, str]:
    """The lines about endpoints, by endpoint."""
    found = [line.split(maxsplit=2) for line in fleethook("status").out.splitlines() if line.startswith("endpoint ")]
    return {name: text for _, name, text in found}


@pytest.mark.req("X-05", "G-09")
def test_only_what_is_not_healthy_is_shown_and_a_program_sees_all(
    server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("FLEETHOOK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "home" / "config" / "fleethook.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("endpoints:\n  - {id: mine, url: 'https://203.0.114.1/'}\n")
    with ExitStack() as stack:
        receiver = stack.enter_context(beside(receiving))
        text = HOOKS.format(url=receiver.url(), port=receiver.port)
        run(server.url, lambda connections: apply(connections, keys, parse_hook_file(text, "fleet")))
        stack.enter_context(workers(server.url, keys, tmp_path / "home", "dispatcher", "carrier"))
        assert shown() == {}
        receiver.by_path |= {"/sick": Answer(503), "/gone": Answer(410)}
        assert fleethook("webhooks", "pause", "calm", "--reason", "a deploy").code == 0
        for number in range(6):
            fleethook("publish", stdin=json.dumps({"type": "turn:end", "host": "elsewhere", "data": {"n": number}}))
        wait_until(lambda: "breaker open" in shown().get("sick", ""), "five failures opened its breaker")
        lines = shown()
        waits = {
            name: fleethook("deliveries", "show", one["id"]).out.splitlines()[-1].strip()
            for name in ("calm", "sick")
            for one in fleethook("deliveries", "list", "--endpoint", name, "--state", "parked", "--json").lines[:1]
        }
    assert waits["calm"] == "waits: its endpoint is paused (a deploy)"
    assert set(lines) == {"sick", "gone", "calm"}
    assert "next probe in " in lines["sick"]
    assert "receiver answered 503" in lines["sick"]
    assert lines["calm"].endswith("parked: a deploy; `fleethook webhooks resume calm`")
    assert lines["gone"].startswith("disabled since 20")
    assert "by receiver" in lines["gone"]
    assert lines["gone"].endswith("`fleethook webhooks enable gone`")
    found = {
        one["endpoint"]: (one["standing"], one["breaker"]) for one in fleethook("status", "--json").json["endpoints"]
    }
    assert found == {
        "well": ("active", "closed"),
        f"mine@{host_name()}": ("active", "closed"),
        "sick": ("open", "open"),
        "gone": ("disabled", "closed"),
        "calm": ("paused", "closed"),
    }


@pytest.mark.req("X-10")
def test_content_that_is_not_in_force_is_shown_and_stops_no_command(
    server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In `status` and `doctor`, with its place, also while the server is away; the last good hooks are listed."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "home" / "config" / "fleethook.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("hooks: [{id: mine, on: 'tool:*', command: 'true'}]\n")
    assert [hook["id"] for hook in fleethook("hooks", "list", "--json").json["hooks"]] == ["mine"]
    mine.write_text("hooks: [{id: mine, on: 'tool:*', comand: 'true'}]\nsettings: {slots: none}\n")
    status = fleethook("status", "--json")
    (rejected,) = status.json["rejected"]
    assert (rejected["file"], rejected["line"], rejected["column"], rejected["layer"]) == (str(mine), 1, 34, "user")
    assert len(rejected["problems"]) == 2
    assert f"hooks       {mine}:1:34: " in fleethook("status").out
    assert any(
        row["id"] == "in-force" and f"{mine}:1:34" in row["what"] for row in checks(fleethook("doctor", "--json").json)
    )
    for words in (
        ("events", "list"),
        ("deliveries", "list"),
        ("webhooks", "list"),
        ("config", "show"),
        ("hooks", "history"),
    ):
        assert fleethook(*words).code in (0, 1), words
    assert [hook["id"] for hook in fleethook("hooks", "list", "--json").json["hooks"]] == ["mine"]
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", "redis://127.0.0.1:1")
    away = fleethook("status", "--json")
    assert (away.code, len(away.json["rejected"])) == (3, 1)


@pytest.mark.req("X-10")
@pytest.mark.parametrize(
    ("words", "times"), [("hooks list", 1), ("-v hooks list", 1), ("webhooks list", 1), ("doctor", 0)]
)
def test_a_command_tells_of_rejected_content_once(
    words: str, times: int, server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what the bus logs: as a program, where no test catches logs. `doctor` has it in its report."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    mine = tmp_path / "home" / "config" / "fleethook.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("hooks: [{id: mine, on: 'tool:*', comand: 'true'}]\n")
    done = run_fleethook(words.split(), cwd=tmp_path)
    assert done.stderr.count(f"{mine}:1:34: ") == times, done.stderr


@pytest.mark.req("X-10", "B-04")
def test_deliveries_go_to_the_last_good_endpoints_over_a_restart(
    server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes while a file has an error becomes no dead letter."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "home" / "config" / "fleethook.yaml"
    mine.parent.mkdir(parents=True)
    event = json.dumps({"type": "turn:end", "host": "test-host"})
    with ExitStack() as stack:
        receiver = stack.enter_context(beside(receiving))
        good = HOOKS.format(url=receiver.url(), port=receiver.port)
        mine.write_text(good)
        for number, text in enumerate((good, "endpoints: [", good.replace("id: well", "idd: well"))):
            if number:
                mine.write_text(text)
            with workers(server.url, keys, tmp_path / "home", "dispatcher", "carrier"):
                assert fleethook("publish", stdin=event).code == 0
                wait_until(partial(_has, receiver.got, 4 * (number + 1)), "all four endpoints are told")
    assert "no dead letters" in fleethook("dead", "list").err


def _has(got: Sized, count: int) -> bool:
    return len(got) == count


def checks(report: Any) -> list[dict[str, Any]]:
    """The checks in what `doctor --json` gives."""
    found: list[dict[str, Any]] = report["checks"] if isinstance(report, dict) else report
    return found


def test_status_tells_of_the_last_hour_and_of_what_is_in_force(
    server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards by name, events a minute, how long verdicts took, the last denials (issue 11, `status`)."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    hooks = parse_hook_file("guards: {destructive-commands: true}", "fleet")
    run(server.url, lambda connections: apply(connections, keys, hooks))
    call = {"type": "tool:pre_execute", "tool": "bash", "source": "codex", "input": {"command": "rm -rf /"}}
    with workers(server.url, keys, tmp_path, "evaluator"):
        assert fleethook("request", stdin=json.dumps(call)).json["decision"] == "deny"
    facts = {line[:11].strip(): line[12:] for line in fleethook("status").out.splitlines()}
    assert re.fullmatch(r"▁{28,29}█▁?  1 in the last hour, [01] this minute", facts["events"])
    assert facts["verdicts"].startswith("1, p50 ")
    assert facts["fallbacks"] == "0 in the last hour"
    assert "codex rm -rf / This deletes" in facts["denied"]
    assert facts["guards"].startswith("destructive-commands (")


@pytest.mark.req("G-14", "G-19")
def test_plugins_that_do_not_run_have_a_line(server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    states = [
        PluginState(name="calm", state="running", worker="w1"),
        PluginState(name="crashes", state="waiting", worker="w1", breaker="open", problem="was ended by SIGSEGV"),
        PluginState(name="tries", state="running", worker="w1", breaker="half-open"),
        PluginState(name="broken", state="failed", worker="w1", problem="SyntaxError: \x1b[31minvalid"),
    ]
    lines = [
        "plugin broken in w1: failed; SyntaxError: \\x1b[31minvalid",
        "plugin crashes in w1: waiting, breaker open; was ended by SIGSEGV",
        "plugin tries in w1: running, breaker half-open; it comes back",
    ]

    with sync_client(server.url) as client:

        def shown(*more: str) -> Result:
            client.set(keys("plugins", "w1"), pack(msgspec.to_builtins(states)), px=PLUGINS_MS)
            client.zadd(keys("plugins"), {"w1": 1})
            return fleethook("status", *more)

        def told() -> list[str]:
            return [re.sub(r" +", " ", line) for line in shown().out.splitlines() if line.startswith("plugin ")]

        def listed() -> list[tuple[str, str]]:
            return [(one["name"], one["state"]) for one in shown("--json").json["plugins"]]

        wait_until(lambda: told() == lines, "each that does not run well has a line")
        every = [("broken", "failed"), ("calm", "running"), ("crashes", "waiting"), ("tries", "running")]
        wait_until(lambda: listed() == every, "a program gets them all")
