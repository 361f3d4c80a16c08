"""A hook that prints a JSON object can say more: a decision, context for the model, and a changed input for the tool."""

from __future__ import annotations

from bus import Event, SyncBus
from tests.support.fleet import Fleet


def runs(command: str) -> Event:
    return Event(type="tool:pre_execute", tool="bash", input={"command": command, "timeout": 5})


def test_context_of_several_hooks_is_joined_in_their_order(fleet: Fleet, bus: SyncBus) -> None:
    fleet.publish_hooks("""
hooks:
  - id: second
    on: session:start
    command: echo "Deploys are frozen until Monday."
  - id: first
    on: session:start
    priority: 10
    command: |
      echo '{"context": "This is the payments service."}'
""")
    verdict = bus.request(Event(type="session:start"))
    assert verdict.contexts == ("This is the payments service.", "Deploys are frozen until Monday.")


def test_a_changed_input_is_merged_key_by_key(fleet: Fleet, bus: SyncBus) -> None:
    fleet.publish_hooks("""
hooks:
  - id: quiet
    on: tool:pre_execute:bash
    command: |
      echo '{"decision": "allow", "updated_input": {"command": "npm test --silent"}}'
""")
    verdict = bus.request(runs("npm test"))
    assert verdict.decision == "allow"
    assert verdict.updated_input == {"command": "npm test --silent"}, "the other fields stay as they were"


def test_what_was_changed_is_looked_at_once_more(fleet: Fleet, bus: SyncBus) -> None:
    fleet.publish_hooks("""
hooks:
  - id: no-rm
    on: tool:pre_execute:bash
    rule: {decision: deny, reason: No rm here, commands: [{program: [rm]}]}
  - id: too-clever
    on: tool:pre_execute:bash
    command: |
      echo '{"decision": "allow", "updated_input": {"command": "rm -rf cache && make"}}'
""")
    verdict = bus.request(runs("make"))
    assert verdict.decision == "deny"
    assert verdict.updated_input is None
    assert verdict.reason.startswith("No rm here")


def test_the_strictest_decision_wins(fleet: Fleet, bus: SyncBus) -> None:
    fleet.publish_hooks("""
hooks:
  - {id: fine, on: "tool:pre_execute", rule: {decision: allow}}
  - {id: careful, on: "tool:pre_execute", rule: {decision: ask, reason: Look at it first}}
""")
    verdict = bus.request(runs("make"))
    assert (verdict.decision, verdict.reason) == ("ask", "Look at it first")
    assert [part.decision for part in verdict.parts] == ["allow", "ask"]
