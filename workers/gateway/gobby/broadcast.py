"""An event of the live feed as Gobby's `hook_event` message, and which events a client gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bus.agents.gobby import event_types
from bus.agents.payloads import mapping
from bus.errors import DecodeError, PatternError
from bus.events import Event
from bus.matching.patterns import parse_pattern
from bus.wire.codec import read_json
from workers.gateway.gobby.names import kebab, plain, unified, unified_of
from workers.gateway.live.messages import FeedMessage
from workers.gateway.live.subscriptions import Subscription

EVERYTHING: Final = frozenset({"*", "hook_event"})
"""The names by which a client subscribes to every event that is sent at all."""


def patterns_of(name: str) -> tuple[str, ...]:
    """The event patterns for a name in any of Gobby's spellings or ours; empty if no event has the name."""
    if plain(name) in EVERYTHING:
        return ("*",)
    found = event_types(unified(name))
    if found:
        return found
    try:
        parse_pattern(name)
    except PatternError:
        return ()
    return (name,) if ":" in name else ()


class Chosen:
    """The names that one client has subscribed to. A client that never subscribed gets everything that is broadcast."""

    def __init__(self, broadcast: Sequence[str]) -> None:
        self._broadcast = tuple(pattern for name in broadcast for pattern in patterns_of(name))
        self._names: dict[str, str] | None = None

    @property
    def names(self) -> list[str]:
        """The names, as the client spelled them."""
        return list(self._names or ())

    @property
    def rules(self) -> tuple[Subscription, ...]:
        """The subscriptions in the form of the feed."""
        if self._names is None:
            return tuple(Subscription(pattern) for pattern in self._broadcast)
        found = [
            Subscription(pattern, where) for name, where in self._names.items() for pattern in self._expanded(name)
        ]
        return tuple(dict.fromkeys(found))

    def subscribe(self, names: Iterable[str], where: str) -> None:
        """Add names, each with a condition in CEL (empty: none)."""
        self._names = {**(self._names or {}), **dict.fromkeys(names, where)}

    def unsubscribe(self, names: Sequence[str]) -> None:
        """Remove names, in whichever spelling they were added; an empty list, or `*`, removes all."""
        gone = {unified(name) for name in names}
        left = (self._names or {}).items() if names and "*" not in names else ()
        self._names = {name: where for name, where in left if unified(name) not in gone}

    def spelled(self, event: Event) -> str:
        """The event's name in the client's spelling: `before_tool` if it subscribed so, else `pre-tool-use`."""
        name = unified_of(event.type)
        wanted = [one for one in self._names or () if unified(one) == name]
        return name if wanted and all("_" in one for one in wanted) else kebab(name)

    def _expanded(self, name: str) -> tuple[str, ...]:
        patterns = patterns_of(name)
        return self._broadcast if patterns == ("*",) else patterns


def hook_event(message: FeedMessage, *, payload: bool) -> dict[str, Any]:
    """The redacted message without the event's name, which depends on the client.

    Gobby's code and its plan differ, so it has the fields of both: `result` of the code, `source` and `response` of the plan.
    """
    event = message.event
    try:
        body: Any = read_json(message.body.encode())
    except DecodeError:
        body = {}
    if not payload:
        return {"type": "hook_event", "event_type": "", "timestamp": body.get("at")}
    verdict = body.get("verdict") or {}
    decision = "allow" if message.verdict["decision"] in {"", "abstain"} else message.verdict["decision"]
    full = {
        "type": "hook_event",
        "event_type": "",
        "event": unified_of(event.type),
        "timestamp": body.get("at"),
        "session_id": event.session,
        "source": event.data.get("gobby_source") or event.source,
        "data": _data(event) if "data" in body or "input" in body else None,
        "result": _result(decision, verdict),
        "response": {"decision": decision, **({"reason": verdict["reason"]} if verdict.get("reason") else {})},
        "task_id": event.data.get("task_id"),
    }
    return {name: value for name, value in full.items() if value is not None}


def _data(event: Event) -> dict[str, Any]:
    """The agent's payload, or for an event without one its fields under Gobby's names."""
    fields = event.raw
    if fields is None:
        call = {"tool_name": event.native_tool or event.tool, "tool_input": event.input} if event.tool else {}
        output = {"tool_output": event.output} if event.output is not None else {}
        fields = {**event.data, **call, **output, "session_id": event.session, "cwd": event.cwd}
    changes = mapping(fields.get("tool_input")).get("changes")
    if event.source == "codex" and changes is not None:  # which Gobby knows as a write of these
        fields = {**fields, "tool_name": "Write", "tool_input": changes}
    return {**fields, "external_id": event.session}


def _result(decision: str, verdict: Mapping[str, Any]) -> dict[str, Any]:
    refused = decision == "deny"
    context = "\n\n".join(verdict.get("contexts") or ())
    notes = "; ".join(verdict.get("notes") or ())
    return {
        "status": "error" if verdict.get("fallback") else "success",
        "continue": not refused,
        "decision": "block" if refused else "ask" if decision == "ask" else "approve",
        **({"stopReason": verdict["reason"]} if refused and verdict.get("reason") else {}),
        **({"systemMessage": notes} if notes else {}),
        **({"context": context} if context else {}),
    }
