"""Gemini CLI: its hook payloads into events, and verdicts into the JSON that it reads (observed with 0.61.0).

Its hooks come before its own rules, so an allow says nothing to it, and a changed input is judged by those rules.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bus.agents.base import Capability
from bus.agents.claude_protocol import Family
from bus.agents.claude_protocol import can as family_can
from bus.agents.degrade import Agent, CarriedVerdict
from bus.agents.payloads import mapping, text
from bus.events import Event, EventType
from bus.shim.answer import HookAnswer
from bus.tools import canonical_tool
from bus.verdicts import Verdict

NAME: Final = "gemini"
LABEL: Final = "Gemini CLI"

TEXT_LIMIT: Final = 20_000
"""UTF-16 units: the longest reason that was seen to reach the model whole; no limit is documented."""

_AGENT: Final = Agent(NAME, LABEL, TEXT_LIMIT)


def _can(type_: str, *answers: str) -> Capability:
    """As in the Claude family. Hooks have 60 s, and its settings write milliseconds."""
    return family_can(type_, *answers, timeout=60.0, unit="ms")


GRANTS: Final = 600.0
"""The longest timeout that a hook may have, if its entry says so; the default is shorter."""

CAPABILITIES: Final[dict[str, Capability]] = {
    "SessionStart": _can(EventType.SESSION_START, "context"),
    "SessionEnd": _can(EventType.SESSION_END),
    "BeforeAgent": _can(EventType.USER_PROMPT_SUBMIT, "block", "before", "context", "halt"),
    "AfterAgent": _can(EventType.AGENT_STOP, "block"),
    "BeforeModel": _can(EventType.LLM_PRE_REQUEST, "block", "before"),
    "AfterModel": _can(EventType.LLM_POST_RESPONSE, "block", "halt"),
    "BeforeToolSelection": _can(EventType.TOOL_SELECT),
    "BeforeTool": msgspec.structs.replace(
        _can(EventType.TOOL_PRE_EXECUTE, "block", "ask", "rewrite", "halt"), allow=False, rewrite_as="alone"
    ),
    "AfterTool": _can(EventType.TOOL_POST_EXECUTE, "block", "context", "output as block", "halt"),
    "PreCompress": _can(EventType.CONTEXT_PRE_COMPACT),
    "Notification": _can(EventType.NOTIFICATION),
}
"""Every event of Gemini CLI, November 2026. It has none for permissions, subagents or failed tool calls."""

NEVER: Final[frozenset[str]] = frozenset()
"""Every event may be subscribed."""

QUIET: Final = NEVER | {"BeforeModel", "AfterModel", "BeforeToolSelection", "PreCompress"}
"""Off by default. AfterModel fires for each chunk of an answer, the others for each model request with the whole conversation.
PreCompress fires even if nothing is compressed (observed)."""


def _decision_fields(native: str, case: CarriedVerdict) -> dict[str, Any]:
    """The fields of the answer that carry the decision."""
    reply: dict[str, Any] = {}
    if case.decision in ("deny", "ask"):
        reply = {"decision": case.decision, "reason": case.reason}
    if case.decision == "ask":  # of an ask, it shows the message to the person, and the reason to no one
        case.notes.append(case.reason.rpartition(" [")[0])
    if native == "BeforeTool" and case.rewrite is not None:
        reply["hookSpecificOutput"] = {"tool_input": case.rewrite}
    return reply


class _Dialect:
    """Gemini CLI's hook protocol; it has no state."""

    name = NAME
    capabilities = CAPABILITIES
    _family = Family(_AGENT, CAPABILITIES, _decision_fields, wordless=frozenset({"BeforeAgent"}))

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a payload. A tool's error makes it a `tool:error`, and an MCP tool's name includes its server."""
        event = self._family.read(native, payload, host=host)
        fields = event.raw or {}
        if event.native == "AfterTool" and mapping(event.output).get("error"):
            event = msgspec.structs.replace(event, type=EventType.TOOL_ERROR.value)
        server = text(mapping(fields.get("mcp_context")), "server_name")
        if server and event.native_tool:
            event = msgspec.structs.replace(event, tool=canonical_tool(NAME, event.native_tool, server=server))
        return event

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """The answer as one line of ASCII JSON; empty if there is nothing to write."""
        return self._family.render(native, verdict, event)


DIALECT: Final = _Dialect()
