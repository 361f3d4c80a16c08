"""Gobby's last form: files of single rules (`rules: {NAME: {event, when, effect}}`), read as a workflow of triggers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bus.config.documents import Plain

_TOOL_KEYS: Final = ("tools", "mcp_tools", "command_pattern", "command_not_pattern", "reason", "message", "action")
_FIRST: Final = 100


def is_rules(value: Plain) -> bool:
    """Whether the content of a file is such rules."""
    rules = value.get("rules") if isinstance(value, dict) else None
    return isinstance(rules, dict) and any(
        isinstance(rule, dict) and ("effect" in rule or "effects" in rule) for rule in rules.values()
    )


def as_workflow(value: Mapping[str, Any], stem: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The rules as a workflow that is always in force, by priority; and what is not supported, by the rule's name."""
    rules = {str(name): rule for name, rule in value["rules"].items() if isinstance(rule, dict)}
    triggers: dict[str, list[dict[str, Any]]] = {}
    unsupported: list[tuple[str, str]] = []
    for name, rule in sorted(rules.items(), key=lambda item: _priority(item[1])):
        event = str(rule.get("event") or "").removeprefix("on_")
        if rule.get("enabled") is False:
            continue
        for effect in _effects(rule):
            action = _action(event, rule, effect)
            if action is None:
                unsupported.append((name, f"the effect {str(effect.get('type'))[:64]!r} does nothing here"))
            else:
                triggers.setdefault(f"on_{event}", []).append(action)
    whole = {"name": str(value.get("group") or stem), "type": "lifecycle", "triggers": triggers}
    kept = ("description", "enabled", "sources", "variables", "session_variables")
    return {**{key: value[key] for key in kept if key in value}, **whole}, unsupported


def _effects(rule: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    several = rule.get("effects")
    for effect in several if isinstance(several, list) else [rule.get("effect")]:
        if isinstance(effect, dict):
            yield effect


def _action(event: str, rule: Mapping[str, Any], effect: Mapping[str, Any]) -> dict[str, Any] | None:
    """The action of a trigger that does what an effect says; None if there is none."""
    kind, conditions = effect.get("type"), [text for text in (rule.get("when"), effect.get("when")) if text]
    when = " and ".join(f"({text})" for text in conditions)
    found: dict[str, Any] | None = None
    if kind == "block" and event == "before_tool":
        limits = {key: effect[key] for key in _TOOL_KEYS if key in effect}
        return {"action": "block_tools", "rules": [{**limits, "when": when}]}
    if kind == "block":
        found = {"action": "deny", "reason": effect.get("reason") or effect.get("message")}
    elif kind == "set_variable":
        found = {
            "action": "set_variable",
            "name": effect.get("variable", effect.get("name")),
            "value": effect.get("value"),
        }
    elif kind == "inject_context":
        found = {"action": "inject_message", "content": effect.get("template") or effect.get("content")}
    elif kind == "mcp_call":
        names = {"server_name": effect.get("server"), "tool_name": effect.get("tool")}
        found = {"action": "call_mcp_tool", **names, "arguments": effect.get("arguments") or {}}
    return None if found is None else {**found, "when": when}


def _priority(rule: Mapping[str, Any]) -> int:
    value = rule.get("priority", _FIRST)
    return value if isinstance(value, int) and not isinstance(value, bool) else _FIRST
