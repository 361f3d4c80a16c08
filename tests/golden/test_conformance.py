"""Every agent's hook command as a process, in every case of an answer: the exact bytes, and what its agent does with them.

The bytes stand in `conformance.json` (FLEETHOOK_GOLDEN=write writes it anew; read the diff). What they mean is judged by
`does`, which knows nothing of our dialects: it is the table of what real programs did with answers of this form (Claude
Code 2.1.330, Codex CLI 0.169.0, Gemini CLI 0.61.0, Qwen Code 0.24.4, OpenCode 1.18.33, observed 2026-11-21) and, for those
that were not run, their documentation.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from bus.agents import find
from bus.installs.hook_command import answer_events
from bus.shim.answer import HookAnswer
from bus.shim.answer_file import AnswerFile, compile_shim, hook_command, server_from_url, write_answer_file
from tests.support.fleet import HOST, NAMESPACE, Fleet, fleet
from tests.support.forked import hook_answer

pytestmark = [pytest.mark.flow, pytest.mark.req("B-08", "G-20"), pytest.mark.usefixtures("each_shim")]

HERE = Path(__file__).parent
GOLDEN = HERE / "conformance.json"
WRITE = os.environ.get("FLEETHOOK_GOLDEN") == "write"

Does = Literal["runs", "blocked", "asks", "changed", "stops", "goes on"]


class Agent(NamedTuple):
    """One agent's two moments."""

    name: str
    pre: str
    stop: str


AGENTS = (
    Agent("claude", "PreToolUse", "Stop"),
    Agent("codex", "PreToolUse", "Stop"),
    Agent("gemini", "BeforeTool", "AfterAgent"),
    Agent("qwen", "PreToolUse", "Stop"),
    Agent("cursor", "preToolUse", "stop"),
    Agent("copilot", "preToolUse", "agentStop"),
    Agent("windsurf", "pre_run_command", "post_cascade_response"),
    Agent("cline", "PreToolUse", "TaskComplete"),
    Agent("opencode", "tool.execute.before", "session.idle"),
)

SAID = {
    "allow": {"decision": "allow", "reason": "policy P-1"},
    "deny": {"decision": "deny", "reason": "policy P-1"},
    "ask": {"decision": "ask", "reason": "policy P-1"},
    "abstain": {},
    "context": {"context": ["remember the milk"]},
    "rewrite": {"updated_input": {"command": "echo changed"}},
    "long": {"decision": "deny", "reason": "policy P-1 " + "r" * 20_000},
}
"""What the one hook says, case by case."""

BROKEN = {"timeout": "sleep 30", "crash": "kill -SEGV $$"}


def hooks(command: str, **more: Any) -> str:
    """A hook file with one hook for everything; what it asked for stands in the file that it prints."""
    return json.dumps({"hooks": [{"id": "oracle", "on": "*", "command": command, **more}]})


def native_of(path: Path) -> str:
    """The event's name in a file's name: captured-http-Stop-1.json."""
    return re.sub(r"^[a-z]+-(http-)?", "", path.stem).rpartition("-")[0]


def payload(agent: Agent, native: str, mark: str) -> bytes:
    """A recorded payload of the event (of a shell call where there is one), as a call of its own: ids end in `mark`."""
    found = sorted(path for path in (HERE / agent.name).glob("*.json") if native_of(path) == native)
    assert found, f"no payload of {native} of {agent.name}"
    shells = [path for path in found if re.search(rb'"(command|command_line)"', path.read_bytes())]
    return re.sub(rb'("\w*[iI][dD]": *"[^"]+)"', rb"\1-" + mark.encode() + b'"', (shells or found)[0].read_bytes())


class World:
    """The fleet, and each agent's answer file, fail-open and fail-closed."""

    def __init__(self, made: Fleet) -> None:
        self.fleet = made
        compile_shim()
        self.commands: dict[tuple[str, bool, bool], Callable[[str], tuple[str, ...]]] = {}
        for agent in AGENTS:
            for closed in (False, True):
                for away in (False, True):
                    self.commands[agent.name, closed, away] = self._connected(agent, closed=closed, away=away)

    def _connected(self, agent: Agent, *, closed: bool, away: bool) -> Callable[[str], tuple[str, ...]]:
        folder = self.fleet.folder / f"{agent.name}-{closed}-{away}"
        folder.mkdir()
        url = f"unix://{folder}/nobody" if away else self.fleet.url("shim")
        dialect, file = find(agent.name), folder / "answers"
        events = answer_events(dialect, (agent.pre, agent.stop), fail_closed=closed, budget=5.0)
        write_answer_file(
            file,
            AnswerFile(
                agent=agent.name,
                server=server_from_url(url),
                prefix=self.fleet.keys.prefix,
                host=HOST,
                spool=str(folder / "spool"),
                events=events,
            ),
        )
        return lambda native: hook_command(sys.executable, agent.name, native, file)

    def ask(self, agent: Agent, native: str, raw: bytes, *, closed: bool, away: bool = False) -> HookAnswer:
        """One hook command, from its start to its end."""
        return hook_answer(self.commands[agent.name, closed, away](native), raw)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, each_shim: str) -> Iterator[World]:
    with fleet(tmp_path_factory.mktemp("conformance"), "evaluator", hooks=hooks("true")) as made:
        yield World(made)


@pytest.fixture(scope="module")
def answers(world: World) -> dict[str, HookAnswer]:
    """Every answer: `agent/event/case/open|closed`."""
    found: dict[str, HookAnswer] = {}

    def every(
        case: str, raw: Callable[[Agent, str, str], bytes] = payload, *, away: bool = False, pre_only: bool = False
    ) -> None:
        calls = [
            (agent, native, closed)
            for agent in AGENTS
            for closed in (False, True)
            for native in (agent.pre, agent.stop)[: 1 if pre_only else 2]
        ]
        with ThreadPoolExecutor(4) as pool:
            got = pool.map(
                lambda one: world.ask(
                    one[0], one[1], raw(one[0], one[1], f"{case}{one[2]}".replace(" ", "")), closed=one[2], away=away
                ),
                calls,
            )
            for (agent, native, closed), answer in zip(calls, got, strict=True):
                moment = "pre" if native == agent.pre else "stop"
                found[f"{agent.name}/{moment}/{case}/{'closed' if closed else 'open'}"] = answer

    for case, said in SAID.items():
        text = json.dumps(json.dumps(said))
        world.fleet.publish_hooks(hooks(f"cat > /dev/null; printf %s {text!s}" if said else "cat > /dev/null"))
        every(case)
    for case, command in BROKEN.items():
        world.fleet.publish_hooks(hooks(command, timeout=0.2))
        every(case)
    world.fleet.publish_hooks(hooks("true"))
    every("garbage", lambda _agent, _native, _mark: b'{"tool_name": "Bash", ')
    every(
        "oversized",
        lambda _agent, _native, _mark: b'{"tool_input": "' + b"x" * (17 * 1024 * 1024) + b'"}',
        pre_only=True,
    )
    every("redis gone", away=True)
    world.fleet.end()
    every("no evaluator")
    return found


def plain(answer: HookAnswer) -> list[object]:
    """An answer as it stands in the file: ids and times out."""

    def text(raw: bytes) -> str:
        shown = re.sub(r"e[0-9a-f]{32}", "EVENT", raw.decode("utf-8", "backslashreplace"))
        return re.sub(r"r{60,}", lambda run: f"<{len(run[0])} r>", shown)

    return [answer.exit_code, text(answer.stdout), text(answer.stderr)]


def test_the_answers_are_these_bytes(answers: dict[str, HookAnswer]) -> None:
    found = {name: plain(answer) for name, answer in answers.items()}
    if WRITE:
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
        GOLDEN.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    golden = json.loads(GOLDEN.read_text("utf-8"))
    assert found.keys() == golden.keys()
    assert {name: value for name, value in found.items() if value != golden[name]} == {}


def _json(answer: HookAnswer) -> dict[str, Any] | None:
    try:
        said = json.loads(answer.stdout)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _claude_family(answer: HookAnswer, known: frozenset[str] | None, *, silent_exit_2_blocks: bool) -> Does:
    """Claude Code, Codex and Qwen Code at a tool call; `known` are the keys beside which Codex takes none."""
    if answer.exit_code == 2:
        return "blocked" if answer.stderr.strip() or silent_exit_2_blocks else "runs"
    said = _json(answer)
    if answer.exit_code or said is None:
        return "runs"
    specific = said.get("hookSpecificOutput", {})
    if known is not None and not {*said, *specific} <= known:
        return "runs"
    if said.get("decision") == "block" and said.get("reason"):
        return "blocked"
    if specific.get("hookEventName") != "PreToolUse":
        return "runs"
    decision = specific.get("permissionDecision")
    if decision == "deny":
        return "blocked" if specific.get("permissionDecisionReason") else "runs"
    if decision == "ask":
        return "runs" if known is not None else "asks"
    return "changed" if "updatedInput" in specific else "runs"


def _told(decision: object, *, changed: bool) -> Does:
    return "blocked" if decision == "deny" else "asks" if decision == "ask" else "changed" if changed else "runs"


_CODEX = frozenset(
    {
        "hookSpecificOutput",
        "hookEventName",
        "permissionDecision",
        "permissionDecisionReason",
        "updatedInput",
        "additionalContext",
        "systemMessage",
        "decision",
        "reason",
    }
)


def pre(agent: str, answer: HookAnswer) -> Does:
    """What the agent does with a tool call after this answer."""
    said = _json(answer) or {}
    if agent == "claude":
        return _claude_family(answer, None, silent_exit_2_blocks=True)
    if agent == "qwen":  # a changed input is not applied
        done = _claude_family(answer, None, silent_exit_2_blocks=False)
        return "runs" if done == "changed" else done
    if agent == "codex":
        return _claude_family(answer, _CODEX, silent_exit_2_blocks=False)
    if agent == "gemini":
        if answer.exit_code >= 2:
            return "blocked" if answer.stderr.strip() or answer.stdout.strip() else "runs"
        decision = said.get("decision")
        if decision in ("deny", "block"):
            return "blocked"
        return (
            "asks"
            if decision == "ask"
            else "changed"
            if said.get("hookSpecificOutput", {}).get("tool_input")
            else "runs"
        )
    if agent == "cursor":
        if answer.exit_code == 2:
            return "blocked"
        return {"deny": "blocked", "ask": "asks"}.get(
            said.get("permission", ""), "changed" if said.get("updated_input") else "runs"
        )  # type: ignore[return-value]  # the values are of Does
    if agent == "copilot":
        if answer.exit_code:
            return "blocked"
        return _told(said.get("permissionDecision"), changed="modifiedArgs" in said)
    if agent == "windsurf":
        return "blocked" if answer.exit_code == 2 else "runs"
    if agent == "cline":
        return "blocked" if said.get("cancel") is True else "runs"
    assert agent == "opencode"
    if answer.exit_code == 2 or said.get("deny"):
        return "blocked"
    return "changed" if said.get("args") else "runs"


def stop(agent: str, answer: HookAnswer) -> Does:
    """What the agent does at its end after this answer."""
    said = _json(answer) or {}
    if answer.exit_code == 2:
        return "goes on"
    key = {"cursor": "followup_message", "opencode": "deny"}.get(agent)
    if key:
        return "goes on" if said.get(key) else "stops"
    return "goes on" if said.get("decision") in ("block", "deny") else "stops"


ASKS = frozenset({"claude", "gemini", "qwen", "copilot"})
CHANGES = frozenset({"claude", "codex", "gemini", "copilot", "opencode"})
"""Cursor has no ask with a changed input, and its allow would switch its own question off: it is told what to call."""

GOES_ON = frozenset({"claude", "codex", "gemini", "qwen", "cursor", "copilot", "opencode"})


def wanted(agent: str, moment: str, case: str, mode: str) -> set[Does]:
    """What has to come of a case, by what the agent can do at all."""
    if moment == "stop":  # never shut by a failure: there a block makes the agent go on
        if agent == "cursor" and case == "context":
            return {"goes on"}  # its one field is the next prompt
        return {"goes on"} if case in ("deny", "long") and agent in GOES_ON else {"stops"}
    if case in ("deny", "long"):
        return {"blocked"}
    if case == "ask":
        if agent == "cursor":
            return {"runs"}  # beforeShellExecution comes for the same call, gets the same verdict, and can ask
        return {"asks"} if agent in ASKS else {"blocked"}
    if case == "rewrite":  # never the original: changed, asked with the change, or denied by naming it
        return {"changed", "asks"} if agent in CHANGES else {"blocked"}
    if case in ("garbage", "oversized", "redis gone", "no evaluator"):
        return {"blocked"} if mode == "closed" else {"runs"}
    return {"runs"}


def test_each_agent_does_what_the_verdict_says(answers: dict[str, HookAnswer]) -> None:
    wrong = []
    for name, answer in answers.items():
        agent, moment, case, mode = name.split("/")
        done = pre(agent, answer) if moment == "pre" else stop(agent, answer)
        if done not in wanted(agent, moment, case, mode):
            wrong.append((name, done, plain(answer)))
    assert not wrong, "\n".join(map(str, wrong))


def test_every_answer_is_clean(answers: dict[str, HookAnswer]) -> None:
    """One JSON object and nothing before it, or nothing; exit 2 always with text on stderr and an empty stdout."""
    for name, answer in answers.items():
        assert answer.exit_code in (0, 2), (name, answer)
        if answer.exit_code == 2:
            assert answer.stderr.strip(), name
            assert answer.stdout == b"", name
        elif answer.stdout and not name.startswith("windsurf"):  # which reads no JSON, and shows stdout to the person
            assert answer.stdout.startswith(b"{"), name
            assert _json(answer) is not None, name
            assert answer.stdout.isascii(), "safe for any agent's parser"


def test_the_reason_reaches_the_model_and_the_loss_is_said(world: World, answers: dict[str, HookAnswer]) -> None:
    for agent in AGENTS:
        for case in ("deny", "long"):
            said = answers[f"{agent.name}/pre/{case}/open"]
            assert b"policy P-1" in said.stdout + said.stderr, agent.name
        long = answers[f"{agent.name}/pre/long/open"]
        assert b"fleethook cut" in long.stdout + long.stderr or len(long.stdout + long.stderr) > 20_000, agent.name
    assert NAMESPACE  # the fleet of this file
