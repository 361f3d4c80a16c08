"""Gobby's rules about tool calls, as its files and its action `block_tools` write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bus.workflows.values import RuleDecision, ToolRule

_DECISIONS: Final[Mapping[str, RuleDecision]] = {
    "block": "deny",
    "deny": "deny",
    "warn": "warn",
    "allow": "allow",
    "ask": "ask",
    "require_approval": "ask",
}


def read_rule(rule: Mapping[str, Any]) -> ToolRule:
    """A rule; an unknown action counts as `block`."""
    return ToolRule(
        name=str(rule.get("name") or ""),
        tools=texts_of(rule.get("tools", rule.get("tool"))),
        mcp_tools=texts_of(rule.get("mcp_tools")),
        when=str(rule.get("when") if rule.get("when") is not None else ""),
        command_pattern=str(rule.get("command_pattern") or ""),
        command_not_pattern=str(rule.get("command_not_pattern") or ""),
        decision=_DECISIONS.get(str(rule.get("action") or rule.get("decision") or "block"), "deny"),
        message=str(rule.get("reason") or rule.get("message") or ""),
    )


def texts_of(value: object) -> tuple[str, ...]:
    """A text, or a list of texts, as a tuple."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split("|") if part.strip())
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()
