"""Imported hooks for which nobody waits: the agent has its answer while they have not even begun to end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bus.connections import Links
from bus.keys import Keys
from tests.support.delivering import carrying, dispatching
from tests.support.running import ask, evaluating, until_true
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
    made: Any, server: Server, keys: Keys, links: Links, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        first = await ask(links, keys)
        await until_true(began.exists, "the hook runs in the background")
        second = await ask(links, keys)  # while it runs, others are answered as well
        assert not ended.exists()
        for verdict in (first, second):
            assert (verdict.decision, verdict.parts, verdict.layers) == ("abstain", (), ("user",))
        door = os.open(gate, os.O_RDWR)  # both ways, so that nobody waits for the other side
        try:
            os.write(door, b"go\n" * 2)
            await until_true(lambda: ended.exists() and len(ended.read_text()) == 4, "both ended when they were let go")
        finally:
            os.close(door)
