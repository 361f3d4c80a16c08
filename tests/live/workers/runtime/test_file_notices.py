"""What of a hook file is not in force is said: to each session's user once, and as an event once (X-10)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.requests import read_event, read_request
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.running import answer, bash, evaluating, put, stream, verdict
from tests.support.servers import Server
from tests.support.waiting import until

pytestmark = pytest.mark.req("X-10")

RULE = "hooks: [{id: no-rm, on: tool:pre_execute, when: 'event.input.command == \"rm x\"', rule: {reason: no rm}}]\n"


async def ask(connections: Connections, keys: Keys, command: str = "ls", **more: Any) -> Verdict:
    """The verdict on a command."""
    _, reply = await put(connections, keys, bash(command, **more))
    return await verdict(connections, reply)


async def test_the_last_good_hooks_hold_over_a_restart_and_every_gap_is_said(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """Two evaluators agree; a session is told once, at an event that can carry it; the event comes once."""
    user, kept = tmp_path / "fleethook.yaml", tmp_path / "last-good"
    user.write_text(RULE)
    options: dict[str, Any] = {"user_file": user, "last_good": kept}
    async with evaluating(server.url, keys, **options):
        assert (await ask(connections, keys, "rm x")).reason == "no rm"
    user.write_text(RULE.replace("reason", "reasn"))
    async with evaluating(server.url, keys, **options), evaluating(server.url, keys, **options):
        for _ in range(6):
            found = await ask(connections, keys, "rm x")
            assert (found.decision, found.reason) == ("deny", "no rm")
            assert f"{user}:1:" in found.waiting[0]
        first, again, other = [await ask(connections, keys, session=name) for name in ("s1", "s1", "s2")]
        assert [len(one.notes) for one in (first, again, other)] == [1, 0, 1]
        assert 'unknown key "reasn"; did you mean "reason"?' in first.notes[0]
        assert "the last good content stays in force" in first.notes[0]

        async def announced() -> bool:
            return len(await rejections(connections, keys)) == 1

        await until(announced, "the event is there")
        (data,) = await rejections(connections, keys)
        assert (data["file"], data["line"]) == (str(user), 1)
        assert data["column"] > 1
        await until(lambda: _tells(connections, keys, "PreToolUse"), "a user of Claude Code is told")
        assert not await _tells(connections, keys, "PreToolUse"), "once"
        user.write_text("hooks: []\n")

        async def gone() -> bool:
            return not (await ask(connections, keys, "rm x")).blocks

        await until(gone, "what a person takes away is gone")
    assert len(await rejections(connections, keys)) == 1


async def _tells(connections: Connections, keys: Keys, native: str) -> bool:
    payload = {"hook_event_name": native, "session_id": "c1", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    body = b"\xc5" + len(raw := json.dumps(payload).encode()).to_bytes(2, "big") + raw
    _, reply = await put(connections, keys, body, source="claude", event=native)
    return b"the last good content stays in force" in (await answer(connections, reply) or b"")


async def rejections(connections: Connections, keys: Keys) -> list[dict[str, Any]]:
    """The data of every `hooks:rejected`."""
    return [
        read_event(read_request(one, keys)).data
        for one in await stream(connections, keys)
        if one.fields[b"event"] == b"hooks:rejected"
    ]


async def test_a_file_that_nobody_could_ever_read_is_said_to_each_session(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    """Nothing of it is in force, and its user hears why, not only that no guard is in force."""
    user = tmp_path / "fleethook.yaml"
    user.write_text("hooks: [")
    async with evaluating(server.url, keys, user_file=user, last_good=tmp_path / "last-good"):
        first, again = [await ask(connections, keys, session="s1") for _ in range(2)]
        assert f"{user}:2:1: " in first.notes[0]
        assert first.notes[0].endswith("nothing of it is in force")
        assert again.notes == ()
        assert again.waiting == first.waiting
