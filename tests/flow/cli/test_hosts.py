"""Hosts that have hooks of their own and nobody to run them: named by trust, status and doctor, forgotten by a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.ids import event_id, host_name
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run
from tests.support.delivering import dispatching, publish, turn_end
from tests.support.running import HOST, bash, evaluating, put, verdict
from tests.support.servers import Server
from tests.support.waiting import until
from workers.coverage.decisions import decide_gaps
from workers.runtime.kept_events import kept_events

pytestmark = pytest.mark.req("X-10")


@pytest.fixture
def project(server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a hook that fails closed, on a machine whose fleet is elsewhere."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("FLEETHOOK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FLEETHOOK_TEST_CONFIRMS", "1")
    monkeypatch.setenv("FLEETHOOK_HOST", "laptop")
    folder = tmp_path / "app"
    folder.mkdir()
    hook = {"id": "theirs", "on": "tool:pre_execute", "command": "true", "on_failure": "deny"}
    (folder / "fleethook.yaml").write_text(json.dumps({"hooks": [hook]}))
    monkeypatch.chdir(folder)
    return folder


def test_a_host_that_never_had_a_worker_is_named_and_falls_to_its_policies_once_it_trusts(
    project: Path, server: Server, keys: Keys
) -> None:
    trusted = fleethook("hooks", "trust", "--yes")
    assert trusted.code == 0, trusted.err
    assert "no `fleethook worker host` runs on" in trusted.err
    (known,) = fleethook("hosts", "list", "--json").json
    assert (known["host"], known["alive"], known["hooks"], known["policies"]) == (host_name(), False, 1, ["deny"])
    assert f"no `fleethook worker host` runs on {host_name()!r}" in fleethook("status").out
    checks = {check["id"]: check for check in fleethook("doctor", "--json").json["checks"]}
    assert checks["hosts"]["status"] == "warn"
    assert f"evaluators on {host_name()!r} itself still run 1 blocking hook (theirs)" in checks["hosts"]["what"]
    assert "where evaluators of other hosts judge a call, the failure policies" in checks["hosts"]["what"]

    here = host_name()

    async def ask(connections: Connections) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FLEETHOOK_HOST", HOST)
            async with evaluating(server.url, keys):
                _, reply = await put(connections, keys, bash(cwd=str(project)), host=here)
                return (await verdict(connections, reply)).decision

    assert run(server.url, ask) == "deny"
    forgotten = fleethook("hosts", "forget", here, "--yes")
    assert forgotten.code == 0, forgotten.err
    assert fleethook("hosts", "list", "--json").json == []
    assert run(server.url, ask) == "abstain"
    assert fleethook("hosts", "forget", here, "--yes").code == 1
    status = fleethook("status").out
    assert "has ever run on" in status, "its files have hooks that the fleet does not know of"
    fleethook("hooks", "untrust")
    assert "has ever run on" not in fleethook("status").out


def test_what_waits_for_a_host_is_shown_and_given_up_when_the_host_is_forgotten(
    project: Path, server: Server, keys: Keys
) -> None:
    logs = {"id": "logs", "on": "turn:end", "command": "true", "blocking": False}
    (project / "fleethook.yaml").write_text(json.dumps({"hooks": [logs]}))
    fleethook("hooks", "trust", "--yes")
    here = host_name()

    async def end_turn(connections: Connections) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FLEETHOOK_HOST", HOST)
            async with dispatching(server.url, keys):
                await publish(connections, keys, turn_end(host=here, cwd=str(project)))
                await until(lambda: kept_events(connections, keys), "it is kept")

    run(server.url, end_turn)
    assert f"1 event waits for `fleethook worker host` on {here!r}" in fleethook("status").out
    (kept,) = fleethook("status", "--json").json["kept"]
    assert (kept["host"], kept["events"]) == (here, 1)
    forgotten = fleethook("hosts", "forget", here, "--yes", "--json")
    assert (forgotten.code, forgotten.json["events"]) == (0, 1), forgotten.err
    assert fleethook("status", "--json").json["kept"] == []
    (letter,) = fleethook("dead", "list", "--json").lines
    assert "was forgotten while this event waited" in letter["reason"]


def test_a_host_whose_worker_runs_is_not_forgotten(project: Path, server: Server, keys: Keys) -> None:
    fleethook("hooks", "trust", "--yes")
    run(server.url, lambda connections: _beat(connections, keys))
    refused = fleethook("hosts", "forget", host_name(), "--yes")
    assert refused.code == 1
    assert "stop it first" in refused.err
    assert len(fleethook("hosts", "list", "--json").json) == 1


@pytest.mark.req("X-15")
def test_calls_that_no_hook_was_asked_about_are_shown_everywhere(project: Path, server: Server, keys: Keys) -> None:
    """`sessions`, `hosts list`, `status` and `doctor` say what ran, where, and why."""
    assert fleethook("sessions", "--gaps").err.strip() == "no session has a gap"

    async def run_calls(connections: Connections) -> None:
        async with dispatching(server.url, keys, grace=0.0):
            common: dict[str, Any] = {"source": "claude", "session": "s-gap", "host": "build-7"}
            await publish(connections, keys, Event(type="session:start", id=event_id(), **common))
            for name, tool in (("c1", "bash"), ("c2", "bash"), ("c3", "write")):
                if tool == "bash":
                    await publish(connections, keys, bash(id=event_id(), call=name, **common))
                done = Event(type="tool:post_execute", id=event_id(), tool=tool, call=name, **common)
                await publish(connections, keys, done)

            async def is_decided() -> bool:
                return await decide_gaps(connections, keys) > 0

            await until(is_decided, "the gap is decided")

    run(server.url, run_calls)
    (session,) = fleethook("sessions", "--gaps", "--json").json
    assert (session["id"], session["calls"], session["uncovered"]) == ("s-gap", 2, 1)
    (gap,) = session["gaps"]
    assert (gap["cause"], gap["calls"], gap["tool"]) == ("matcher", 1, "write")
    shown = fleethook("sessions")
    assert "UNCOVERED" in shown.out
    assert "1 call: pre-hook events of this session come for bash and not for write" in shown.err
    (host,) = [one for one in fleethook("hosts", "list", "--json").json if one["host"] == "build-7"]
    (agent,) = host["agents"]
    assert (agent["agent"], agent["type"], agent["gaps"], agent["uncovered"]) == ("claude", "tool:post_execute", 1, 1)
    assert "build-7" in fleethook("hosts", "list").out
    words = "1 tool call of claude session s-gap on build-7 ran without asking any hook"
    assert words in fleethook("status").out
    assert [one["session"] for one in fleethook("status", "--json").json["gaps"]] == ["s-gap"]
    checks = {check["id"]: check for check in fleethook("doctor", "--json").json["checks"]}
    assert (checks["coverage"]["status"], words in checks["coverage"]["what"]) == ("warn", True)


async def _beat(connections: Connections, keys: Keys) -> None:
    with connections.lease() as connection:
        await connection.exchange([("SET", keys("alive", f"host-{host_name()}"), "1", "PX", "60000")])
