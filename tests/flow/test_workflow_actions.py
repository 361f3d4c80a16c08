"""Workflows of the user's own file and of Gobby's: actions and conditions of plugins, and answers that an event waits for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.hooksets.plugins.folder_digest import folder_digest
from bus.verdicts import Verdict
from tests.support.beside import beside
from tests.support.fleet import HOST, Fleet, fleet
from tests.support.plugin_server import server_plugin
from tests.support.plugins import enabled, plugin
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("G-16")]

LINTER = """
def on_load(self, config):
    self.clean = False
    self.register_action("lint", self.lint)
    self.register_workflow_action("note", {"required": ["text"], "properties": {"text": {"type": "string"}}}, self.note)
    self.register_condition("passes", lambda what="all": self.clean and what == "all")

async def lint(self, context, files=None):
    self.clean = bool(files)
    context.state.variables["linted"] = context.session_id
    return {"passed": self.clean, "inject_context": f"linted {context.state.step}: {files}"}

def note(self, context, text):
    if "stop" in text:
        return {"decision": "block", "reason": f"{self.name}: {text}"}
"""

GOBBY = """
name: gobby-flow
variables: {tries: 0}
steps:
  - name: draft
    transitions:
      - to: draft
        when: "prompt == 'call'"
        on_transition:
          - {action: call_mcp_tool, server_name: s, tool_name: say, arguments: {text: "{{ prompt }}ed"}, as: said}
          - {action: call_mcp_tool, server_name: unknown, tool_name: say}
          - {action: inject_message, content: "{{ said }}"}
      - to: lint
        when: "event.event_type == 'before_agent' and prompt == 'lint'"
        on_transition: [{action: "plugin:tested:lint", files: ["{{ prompt }}.py"]}]
      - to: lint
        when: "prompt == 'stop'"
        on_transition: [{action: "plugin:tested:note", text: "{{ prompt }}"}]
      - to: lint
        when: "prompt == 'wrong'"
        on_transition: [{action: "plugin:tested:note", text: 7}]
  - name: lint
    transitions:
      - {to: done, when: "plugin_tested_passes() and variables.linted == session_id and tool_name == 'Edit'"}
  - name: done
    on_enter: [{action: inject_message, content: "done after {{ tries }}"}]
    allowed_tools: []
"""

NATIVE = """
network: {{allow: ["127.0.0.1:{port}"]}}
import:
  - "{gobby}"
  - {{path: "{kit}", dialect: claude, servers: "{digest}"}}
workflows:
  - name: gates
    sources: [codex, generic]
    config: {{server: "http://127.0.0.1:{port}"}}
    steps:
      - name: closed
        transitions:
          - to: open
            on: user:prompt_submit
            when: event.data.prompt == "open"
            actions:
              - action: webhook
                url: "{{{{ config.server }}}}/gate"
                can_block: true
                capture_response: {{status_var: status}}
              - {{action: command, command: "echo made by $FLEETHOOK_SOURCE", save: made}}
              - {{action: command, command: "test -n '{{{{ vars.made }}}}'", can_block: true}}
      - name: open
        on_enter: [{{action: context, text: "open: {{{{ vars.status }}}}, {{{{ vars.made }}}}"}}]
  - name: tools
    sources: [cursor]
    on_failure: deny
    steps:
      - name: first
        transitions:
          - to: second
            on: user:prompt_submit
            actions:
              - action: mcp_tool
                server: s
                tool: odd
                can_block: true
                save: judged
                with:
                  result:
                    structuredContent: {{decision: "{{{{ event.data.decision }}}}", reason: not yet, ok: "{{{{ prompt }}}}"}}
              - {{action: mcp_tool, server: kit/s, tool: pid, save: pid, when: event.data.prompt != "die"}}
              - {{action: mcp_tool, server: s, tool: die, when: event.data.prompt == "die"}}
      - name: second
        on_enter: [{{action: context, text: "{{{{ vars.judged.ok }}}} from {{{{ vars.pid }}}}"}}]
        transitions: [{{to: first, on: session:start}}]
"""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with beside(receiving) as made:
        yield made


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("actions")
    with fleet(folder) as made:
        config = made.places.config
        config.mkdir(parents=True, exist_ok=True)
        gobby = config / "gobby-flow.yaml"
        gobby.write_text(GOBBY)
        kit = server_plugin(folder / "kit", {"s": {"env": {"STARTS": str(folder / "starts")}}})
        text = NATIVE.format(port=receiver.port, gobby=gobby, kit=kit, digest=folder_digest(str(kit)))
        enabled(config, {"tested": plugin(LINTER)}, text)
        made.start("evaluator", "dispatcher", "carrier", "host")
        yield made


def ask(world: Fleet, session: str, kind: str, source: str = "claude", **fields: Any) -> Verdict:
    """The verdict on an event of this session."""

    async def work() -> Verdict:
        async with world.bus() as bus:
            return await bus.request(Event(type=kind, source=source, session=session, host=HOST, **fields))

    return asyncio.run(work())


def prompt(world: Fleet, session: str, text: str, source: str = "claude") -> Verdict:
    """The verdict on a prompt."""
    return ask(world, session, "user:prompt_submit", source, data={"prompt": text})


def did(verdict: Verdict, workflow: str) -> str:
    """What a workflow did, as the trace shows it."""
    return next(part.output for part in verdict.parts if part.hook == workflow)


def edit(world: Fleet, session: str) -> Verdict:
    """The verdict on an edit of Claude Code."""
    return ask(world, session, "tool:pre_execute", tool="edit", native_tool="Edit", input={"path": "a.py"})


def test_actions_and_conditions_of_plugins_take_part(world: Fleet) -> None:
    assert edit(world, "plugins").decision == "abstain"
    linted = prompt(world, "plugins", "lint")
    assert linted.contexts[0] == "linted draft: ['lint.py']", linted
    assert "plugin tested:lint" in did(linted, "gobby-flow")
    done = edit(world, "plugins")
    assert done.contexts == ("done after 0",), done
    assert edit(world, "plugins").decision == "deny", "no tool is allowed in the last step"


def test_a_plugins_action_can_refuse_a_step(world: Fleet) -> None:
    refused = prompt(world, "refused", "stop")
    assert (refused.decision, refused.reason) == ("deny", "tested: stop")
    wrong = prompt(world, "refused", "wrong")
    assert any("Schema validation failed" in note for note in wrong.notes), wrong
    assert wrong.decision == "abstain"


def test_an_event_waits_for_answers_that_count(world: Fleet, receiver: Receiver) -> None:
    receiver.by_path["/gate"] = Answer(403, json.dumps({"decision": "deny", "reason": "not today"}).encode())
    denied = prompt(world, "gates", "open", "codex")
    assert (denied.decision, denied.reason) == ("deny", "not today"), denied
    assert "closed -> open refused" in did(denied, "gates")
    receiver.by_path["/gate"] = Answer(200, b"{}")
    opened = prompt(world, "gates", "open", "codex")
    assert opened.contexts == ("open: 200, made by codex",), opened
    asked = [got for got in receiver.got if got.path == "/gate"]
    assert len({got.id for got in asked}) == len(asked) == 2
    assert asked[-1].json["event_id"] == opened.event


@pytest.mark.req("I-10")
def test_tools_of_accepted_mcp_servers_are_called_and_can_refuse(world: Fleet) -> None:
    def turn(text: str, decision: str = "allow") -> Verdict:
        return ask(world, "tools", "user:prompt_submit", "cursor", data={"prompt": text, "decision": decision})

    denied = turn("go", "deny")
    assert (denied.decision, denied.reason) == ("deny", "not yet"), denied
    went = turn("go")
    pids = (world.folder / "starts").read_text().split()
    assert went.contexts == (f"go from {pids[-1]}",), went
    assert ask(world, "tools", "session:start", "cursor").decision == "abstain"
    died = turn("die")
    assert any("the tool s:die" in note and "exit" in note for note in died.notes), died.notes
    assert died.contexts, "a tool whose failure does not count lets the step go on"
    assert ask(world, "tools", "session:start", "cursor").decision == "abstain"
    again = turn("go")
    assert again.contexts == (f"go from {(world.folder / 'starts').read_text().split()[-1]}",), again
    called = prompt(world, "gobby tools", "call")
    assert called.contexts[0].startswith("called"), called
    assert any("no plugin that was added here has an MCP server 'unknown'" in note for note in called.notes), called


@pytest.mark.req("I-10", "X-10")
def test_a_server_that_changed_since_it_was_accepted_is_not_started(world: Fleet) -> None:
    with (world.folder / "kit" / "server.py").open("a") as file:
        file.write("# evil\n")
    denied = ask(world, "changed", "user:prompt_submit", "cursor", data={"prompt": "go", "decision": "allow"})
    assert denied.decision == "deny"
    assert "changed since you accepted it" in denied.reason
    assert "its failure policy is deny" in denied.reason


def test_an_announced_event_moves_it_and_its_context_comes_later(world: Fleet) -> None:
    async def publish() -> None:
        async with world.bus() as bus:
            fields: dict[str, Any] = {"source": "generic", "session": "later", "host": HOST}
            await bus.publish(Event(type="user:prompt_submit", data={"prompt": "open"}, **fields))

    asyncio.run(publish())

    def told() -> bool:
        return any("open: 200" in text for text in prompt(world, "later", "hello", "generic").contexts)

    wait_until(told, "the context came with a later event")


def test_a_file_with_a_new_error_changes_nothing(world: Fleet) -> None:
    path = Path(world.places.config) / "gobby-flow.yaml"
    path.write_text(GOBBY.replace("name: draft", "nam: draft").replace("to: lint", "to: done"))
    waiting: list[str] = []

    def rejected() -> bool:
        waiting[:] = prompt(world, "kept", "hello").waiting
        return bool(waiting)

    wait_until(rejected, "the verdict says that the file waits")
    assert f"{path}:5:5: a step is a mapping with a `name`" in waiting[0]
    assert prompt(world, "kept", "lint").contexts[0] == "linted draft: ['lint.py']"
