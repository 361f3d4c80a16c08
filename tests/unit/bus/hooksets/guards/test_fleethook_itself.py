"""The pack `fleethook-itself`: 200 ways to switch Fleethook off are stopped, its harmless look-alikes are not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event, EventType
from bus.hooksets.guards import check_pack, load_pack
from bus.matching.patterns import Index
from bus.matching.rules import judge
from bus.tool_names import TABLE
from bus.tools import canonical_input, canonical_tool

ROOT = Path(__file__).parents[5]
CORPUS = ROOT / "tests" / "corpora" / "fleethook-itself"
SHELLS = {agent: next(name for name, use in tools.items() if use.tool == "bash") for agent, tools in TABLE.items()}
INDEX = Index([(hook, hook.on) for hook in load_pack("fleethook-itself").rules])


def lines(name: str) -> list[dict[str, Any]]:
    """The calls of a corpus."""
    return [json.loads(line) for line in (CORPUS / name).read_text("utf-8").splitlines() if line]


def event_of(call: dict[str, Any]) -> Event:
    """The event of a call, as the agent's own dialect names tool and fields."""
    agent = call["agent"]
    native = call.get("tool") or SHELLS[agent]
    given = call.get("input") or {"command": call["command"]}
    tool = canonical_tool(agent, native)
    return Event(
        type=EventType.TOOL_PRE_EXECUTE.value,
        source=agent,
        host="elsewhere",
        cwd=call["cwd"],
        tool=tool,
        native_tool=native,
        input=canonical_input(agent, native, given),
    )


def objections(call: dict[str, Any]) -> dict[str, str]:
    """Rule and decision of each rule of the pack that objects."""
    event = event_of(call)
    found = (hook for hook in INDEX.find(event) if hook.rule is not None and judge(hook.rule, event) is not None)
    return {hook.id.removeprefix("fleethook-itself_"): hook.rule.decision for hook in found if hook.rule is not None}


@pytest.mark.req("X-07")
def test_the_tests_beside_the_rules_come_out_as_they_say() -> None:
    assert [str(failure) for failure in check_pack(load_pack("fleethook-itself"))] == []


@pytest.mark.req("X-09")
def test_every_way_to_switch_fleethook_off_is_stopped() -> None:
    """By shell, by write and edit tools and by MCP tools of nine agents, under each agent's own names."""
    calls = lines("attacks.jsonl")
    assert len(calls) >= 200
    assert {call["agent"] for call in calls} == {
        "claude",
        "codex",
        "gemini",
        "qwen",
        "cursor",
        "opencode",
        "copilot",
        "windsurf",
        "cline",
    }
    passed = [call for call in calls if not {"deny", "ask"} & set(objections(call).values())]
    assert passed == []


@pytest.mark.req("X-09")
def test_every_command_that_asks_for_a_person_is_stopped() -> None:
    """A command that refuses to run below an agent is also stopped before it starts."""
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "workers" / "cli").rglob("*.py"))
    commands = set(re.findall(r"require_person\(\s*\"([^\"]+)\"", sources)) - {
        "suggest",
        "service install",
        "webhooks set",
    }
    assert {"down", "plugins disable", "approvals approve"} <= commands
    words = {"guards enable --decision": "guards enable force-push --decision ask"}
    calls = [{"agent": "claude", "cwd": "/", "command": f"fleethook {words.get(one, one)} x"} for one in commands]
    assert [call["command"] for call in calls if not objections(call)] == []


@pytest.mark.req("X-09")
def test_harmless_look_alikes_pass() -> None:
    """At most two of a hundred: reading, other people's files of the same names, words in texts."""
    calls = lines("harmless.jsonl")
    assert len(calls) >= 100
    stopped = [(call, objections(call)) for call in calls if call["expect"] == "allow" and objections(call)]
    assert len(stopped) <= 2 * len(calls) // 100, stopped
    wrong = [call for call in calls if call["expect"] == "ask" and "deny" in objections(call).values()]
    assert wrong == [], "an edit that is not about hooks is asked about at most"


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "command",
    [
        "rm -rf {0}",
        "mv {0} /srv/off",
        "rm -rf {0}/data",
        "echo > {0}/state/trust.json",
        "cd {0} && rm -r data",
        "rm {1}",
    ],
)
def test_this_machines_own_folders_are_known_wherever_they_are(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLEETHOOK_HOME names them, and `install` notes which files it wrote to (a variable may have moved these)."""
    home, moved = tmp_path / "elsewhere", tmp_path / "moved" / "conf.json"
    (home / "state").mkdir(parents=True)
    (home / "state" / "installed.json").write_text(json.dumps({str(moved): {"agent": "claude"}}))
    monkeypatch.setenv("FLEETHOOK_HOME", str(home))
    call = {"command": command.format(home, moved), "agent": "claude", "cwd": str(tmp_path)}
    assert "own-places" in objections(call)
    assert objections({**call, "command": f"cat {home}/state/trust.json {moved}"}) == {}
    assert objections({**call, "command": f"rm -rf {tmp_path}/other"}) == {}
