"""A rule is a hook without a process: what it looks for, and what it decides. It answers in well under a millisecond."""

from __future__ import annotations

import pytest

from bus import Event, SyncBus
from bus.tools import canonical_tool
from tests.support.fleet import Fleet

HOOKS = """
hooks:
  - id: no-force-push
    on: tool:pre_execute:bash
    rule:
      decision: deny
      commands:
        - {program: [git], args: [push], flags_any: [--force, -f]}
      reason: This rewrites history that others have.
      instead: Push to a branch of your own.
"""


def asks_to_run(command: str) -> Event:
    return Event(type="tool:pre_execute", source="claude", tool="bash", input={"command": command})


@pytest.mark.req("B-02", "F-04")
def test_a_deny_says_why_what_to_do_instead_and_who_said_so(fleet: Fleet, bus: SyncBus) -> None:
    fleet.publish_hooks(HOOKS)

    verdict = bus.request(asks_to_run("git push --force origin main"))

    assert verdict.decision == "deny"
    assert verdict.reason.startswith("This rewrites history that others have")
    assert verdict.instead == "Push to a branch of your own."
    (part,) = verdict.parts
    assert (part.hook, part.decision) == ("no-force-push", "deny")
    assert part.origin == "fleethook.yaml:3", "where the rule stands"


def test_commands_are_read_as_a_shell_reads_them(fleet: Fleet, bus: SyncBus) -> None:
    fleet.publish_hooks(HOOKS)
    for command in ("cd /src && sudo git push -f", "bash -c 'git push --force'", "git -C /src push origin main -f"):
        assert bus.request(asks_to_run(command)).blocks, command
    for command in ("git push", "echo git push --force", "git commit -m 'push --force'"):
        assert not bus.request(asks_to_run(command)).blocks, command


@pytest.mark.req("X-01")
def test_one_rule_for_every_agents_name_of_the_tool(fleet: Fleet, bus: SyncBus) -> None:
    fleet.publish_hooks(HOOKS)
    for source, native in (("claude", "Bash"), ("codex", "shell"), ("gemini", "run_shell_command")):
        tool = canonical_tool(source, native)  # as an agent's dialect does it
        assert tool == "bash"
        event = Event(type="tool:pre_execute", source=source, tool=tool, input={"command": "git push -f"})
        assert bus.request(event).blocks
