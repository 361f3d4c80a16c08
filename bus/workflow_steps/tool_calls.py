"""Which tool call an event is about, and whether a step's limits and rules let it run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from bus.events import Event, EventType
from bus.matching.regexes import compile_regex
from bus.tools import tool_for
from bus.workflows.values import FlowStep, RuleDecision, ToolRule

_CALLERS: Final = frozenset({"call_tool", "mcp__gobby__call_tool", "mcp__fleethook__call_tool"})
"""Tools that call another server's tool, named in their input."""

Holds = Callable[[str, bool], Awaitable[bool]]
"""Whether a rule's `when` is true; the second argument is what counts where it cannot be evaluated."""


class Objection(NamedTuple):
    """Why a tool call should not run as it is."""

    decision: RuleDecision
    reason: str


def tool_names(event: Event) -> frozenset[str]:
    """The names of the called tool, in lower case: the canonical one, the agent's, and Claude Code's."""
    names = (event.tool, event.native_tool, tool_for("claude", event.tool) if event.tool else "")
    return frozenset(name.lower() for name in names if name)


def mcp_tool(event: Event) -> tuple[str, str] | None:
    """Server and tool of a call of an MCP tool; None for other calls."""
    if event.native_tool in _CALLERS or event.tool in _CALLERS:
        server, tool = event.input.get("server_name"), event.input.get("tool_name")
        return (str(server), str(tool)) if server and tool else None
    server, tool = event.data.get("mcp_server"), event.data.get("mcp_tool")
    if isinstance(server, str) and isinstance(tool, str):
        return server, tool
    for name in (event.native_tool, event.tool):
        if name.startswith("mcp__"):
            server, _, tool = name.removeprefix("mcp__").partition("__")
            return server, tool
    return None


def fits_tool(event: Event, patterns: Iterable[str]) -> bool:
    """Whether the called tool is among these; `*` stands for any characters."""
    names = tool_names(event)
    return any(fnmatchcase(name, pattern.lower()) for pattern in patterns for name in names)


def fits_mcp(event: Event, patterns: Iterable[str]) -> bool:
    """Whether the call is of one of these tools of MCP servers, as `server:tool` or `server:*`."""
    found = mcp_tool(event)
    return found is not None and any(
        fnmatchcase(f"{found[0]}:{found[1]}".lower(), pattern.lower()) for pattern in patterns
    )


async def objection(
    event: Event, workflow: str, step: FlowStep | None, rules: Iterable[ToolRule], holds: Holds
) -> list[Objection]:
    """What speaks against a tool call: limits of the step, then its rules and the workflow's, up to the first deny."""
    if event.type != EventType.TOOL_PRE_EXECUTE:
        return []
    found = [refused] if step is not None and (refused := _limits(event, workflow, step)) is not None else []
    for rule in (*(step.rules if step is not None else ()), *rules):
        if any(each.decision == "deny" for each in found):
            break
        if await _applies(rule, event, holds):
            if rule.decision == "allow":
                break
            found.append(Objection(rule.decision, rule.message or _rule_text(rule, event, workflow)))
    return found


def _limits(event: Event, workflow: str, step: FlowStep) -> Objection | None:
    place = f"in the step {step.name!r} of the workflow {workflow!r}"
    name = event.native_tool or event.tool
    called = mcp_tool(event)
    if called is not None:
        name = f"{called[0]}:{called[1]}"
        if fits_mcp(event, step.blocked_mcp_tools):
            return Objection("deny", f"the tool {name} is blocked {place}")
        if step.allowed_mcp_tools is not None:
            if fits_mcp(event, step.allowed_mcp_tools):
                return None
            return Objection("deny", f"the tool {name} is not allowed {place}{_choices(step.allowed_mcp_tools)}")
    if fits_tool(event, step.blocked_tools):
        return Objection("deny", f"the tool {name} is blocked {place}")
    if step.allowed_tools is not None and not fits_tool(event, step.allowed_tools):
        return Objection("deny", f"the tool {name} is not allowed {place}{_choices(step.allowed_tools)}")
    return None


def _choices(allowed: tuple[str, ...]) -> str:
    return f"; allowed: {', '.join(allowed[:20])}" if allowed else "; no tool is allowed there"


async def _applies(rule: ToolRule, event: Event, holds: Holds) -> bool:
    if (rule.tools or rule.mcp_tools) and not (fits_tool(event, rule.tools) or fits_mcp(event, rule.mcp_tools)):
        return False
    if rule.command_pattern or rule.command_not_pattern:
        command = event.input.get("command")
        if not isinstance(command, str):
            return False
        if rule.command_pattern and not compile_regex(rule.command_pattern).search(command):
            return False
        if rule.command_not_pattern and compile_regex(rule.command_not_pattern).search(command):
            return False
    return await holds(rule.when, rule.decision in {"deny", "ask"})


def _rule_text(rule: ToolRule, event: Event, workflow: str) -> str:
    named = f" {rule.name!r}" if rule.name else ""
    return f"a rule{named} of the workflow {workflow!r} is against the tool {event.native_tool or event.tool}"
