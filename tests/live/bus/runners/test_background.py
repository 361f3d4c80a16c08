"""Imported hooks for which nobody waits: the agent has its answer while they have not even begun to end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.ids import event_id, host_name
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.delivering import carrying, dispatching, publish, settled, turn_end
from tests.support.receivers import Answer, receiving
from tests.support.running import ask, evaluating, lines, until_true
from tests.support.servers import Server


def pigo(command: str) -> tuple[str, Any]:
    hook = {"command": command, "blocking": False, "match": {"tool": "bash"}}
    return "pigo", {"plugins": [{"name": "logger", "hooks": {"tool_start": [hook]}}]}


def claude(command: str) -> tuple[str, Any]:
    group = {"matcher": "Bash", "hooks": [{"type": "command", "command": command, "async": True}]}
    return "claude", {"hooks": {"PreToolUse": [group]}}


@pytest.mark.req("F-16", "P-11", "B-03")
@pytest.mark.parametrize("made", [pigo, claude])
async def test_an_agent_never_waits_for_a_hook_that_does_not_block(
    made: Any, server: Server, keys: Keys, connections: Connections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    gate, began, ended = tmp_path / "gate", tmp_path / "began", tmp_path / "ended"
    os.mkfifo(gate)
    dialect, config = made(f"touch {began}; read line < {gate}; echo x >> {ended}; exit 7")
    (tmp_path / "theirs.json").write_text(json.dumps(config))
    user_file = tmp_path / "fleethook.yaml"
    user_file.write_text(json.dumps({"import": [{"path": "theirs.json", "dialect": dialect}]}))
    async with (
        evaluating(server.url, keys, user_file=user_file),
        dispatching(server.url, keys, user_file=user_file),
        carrying(server.url, keys, user_file=user_file),
    ):
        first = await ask(connections, keys)
        await until_true(began.exists, "the hook runs in the background")
        second = await ask(connections, keys)  # while it runs, others are answered as well
        assert not ended.exists()
        for verdict in (first, second):
            assert (verdict.decision, verdict.parts, verdict.layers) == ("abstain", (), ("user",))
        door = os.open(gate, os.O_RDWR)  # both ways, so that nobody waits for the other side
        try:
            os.write(door, b"go\n" * 2)
            await until_true(lambda: ended.exists() and len(ended.read_text()) == 4, "both ended when they were let go")
        finally:
            os.close(door)


@pytest.mark.req("P-09", "P-11", "B-03")
async def test_pigo_s_hooks_run_one_after_the_other_where_nobody_waits(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    os.mkfifo(gate)
    plugins = [
        ("z", [f"echo 1 >> {ran}; read line < {gate}; echo 2 >> {ran}; exit 3", f"echo 3 >> {ran}"]),
        ("a", [f"echo 4 >> {ran}"]),
    ]
    config = [
        {"name": name, "hooks": {"tool_end": [{"command": command} for command in commands]}}
        for name, commands in plugins
    ]
    config[0]["hooks"]["tool_end"].insert(1, {"command": f"touch {tmp_path / 'beside'}", "blocking": False})  # type: ignore[index]  # a dict
    (tmp_path / "theirs.json").write_text(json.dumps({"plugins": config}))
    user_file = tmp_path / "fleethook.yaml"
    user_file.write_text(json.dumps({"import": [{"path": "theirs.json", "dialect": "pigo"}]}))
    event = Event(type="tool:post_execute", id=event_id(), tool="bash", host=host_name(), cwd=str(tmp_path))
    async with dispatching(server.url, keys, user_file=user_file), carrying(server.url, keys, user_file=user_file):
        await publish(connections, keys, event)
        await until_true(lambda: lines(ran) == ["1"], "the first one runs")
        await until_true((tmp_path / "beside").exists, "what is not waited for runs beside it")
        assert [
            one.state for one in await settled(connections, keys, event.id, "parked", "running", "delivered", "parked")
        ]
        assert lines(ran) == ["1"], "the second one waits"
        with gate.open("w") as door:
            door.write("go\n")
        await until_true(lambda: len(lines(ran)) == 4, "all have run")
    assert lines(ran) == ["1", "2", "3", "4"], "a failure lets the next one go on"


@pytest.mark.req("F-06", "F-11", "I-03")
async def test_a_failure_for_which_nobody_waits_is_in_the_carriers_log_once(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    retry: dict[str, Any] = {"on": "turn:end", "blocking": False, "retry": [0]}
    async with receiving() as receiver:
        receiver.usual = Answer(503, b"busy")
        there = f"127.0.0.1:{receiver.port}"
        hooks = [
            {"id": "noisy", **retry, "command": "echo careful >&2; exit 7"},
            {"id": "remote", **retry, "http": {"url": f"http://{there}/?token=hunter2-secret"}},
        ]
        user_file = tmp_path / "fleethook.yaml"
        user_file.write_text(json.dumps({"hooks": hooks, "network": {"allow": [there]}}))
        async with dispatching(server.url, keys, user_file=user_file), carrying(server.url, keys, user_file=user_file):
            event = turn_end()
            await publish(connections, keys, event)
            await settled(connections, keys, event.id, "dead", "dead")
    said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    noisy = [text for text in said if "noisy" in text]
    assert len(noisy) == 2, "once an attempt"
    assert noisy[0].endswith(f"failed: exit 7 (careful) at event {event.id}; stderr: careful")
    remote = [text for text in said if f"{event.id}.remote" in text]
    assert len(remote) == 2
    assert ("tried again" in remote[0], "given up" in remote[1]) == (True, True)
    assert "hunter2" not in caplog.text
