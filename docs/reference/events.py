"""docs/events.md: every event type, the fields of an event, and the conditions of `when`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bus.agents import find
from bus.events import MEANINGS, OWN, SOURCES, Event, EventType
from bus.matching.conditions import FUNCTIONS
from docs.reference.fields import code, field_table, table

CONDITIONS: Final[dict[str, tuple[str, str]]] = {
    "event.type": ("The event type.", 'event.type.startsWith("tool:")'),
    "event.tool": ("The canonical name of the tool; empty for other events.", 'event.tool in ["write", "edit"]'),
    "event.input": ("The input of the tool.", 'has(event.input.command) && event.input.command.contains("sudo")'),
    "event.session": ("The agent's session.", 'event.session != ""'),
    "event.host": ("The machine that the agent runs on.", 'event.host.matches("^build-[0-9]+$")'),
    "event.source": ("The agent.", 'event.source == "claude"'),
    "event.cwd": ("The agent's directory.", 'event.cwd.startsWith("/srv/")'),
    "event.data": (
        "What is not about a tool, such as `prompt`.",
        "has(event.data.prompt) && size(event.data.prompt) > 1000",
    ),
    "verdict.decision": (
        "For endpoints: the decision; empty for an event without a verdict.",
        'verdict.decision == "deny"',
    ),
    "verdict.reason": ("For endpoints: the reason of the decision.", 'verdict.reason.contains("secret")'),
}
"""What a condition can read, with an example."""

BY_PAYLOAD: Final[dict[str, tuple[EventType, ...]]] = {
    "gemini": (EventType.TOOL_ERROR,),
    "cursor": (EventType.AGENT_ERROR, EventType.PERMISSION_DENIED, EventType.USER_INTERRUPT),
    "opencode": (EventType.PERMISSION_DENIED,),
    "qwen": (EventType.TURN_START,),
    "copilot": (EventType.PERMISSION_DENIED,),
    "cline": (EventType.TOOL_ERROR,),
    "pigo": (EventType.TOOL_ERROR,),
    "gobby": (EventType.TOOL_ERROR,),
}
"""Types that an agent's event gets only with a certain content, such as a tool's result that is an error."""

_OTHERS: Final = ("generic", "forge")
"""Dialects that accept canonical events as they are; they send every type that a program publishes."""


def events_page() -> str:
    """The page of events."""
    return f"""\
# Events

An event is one thing that happened in an agent. Every agent's events become the same canonical value, so one hook serves all
of them. [Agents](agents.md) shows what a verdict can say to each agent at each of its events.

## Types

A hook's `on` and an endpoint's `events` match these types; `tool:*` matches all types that begin so, and `*` every event. An
event of an agent without a canonical type has the type `<source>:<native name>`, such as `claude:WorktreeCreate`. Every
program can publish any type with `fleethook publish`, from [Python](python.md), or [in another language](wire.md).

{table(("type", "meaning", "sent by", "fields"), _types())}
## Fields

Every event has a `type`, an `id`, a `source`, a `host` and a `time`. A field without a value is left out. `input.command`,
`input.path`, `input.paths` and `data.prompt` are the same for every agent. What else an event has, under the agent's own
names, shows `fleethook events show ID`.

{field_table(Event)}
## Conditions

`when` of a hook or endpoint is an expression in CEL, the
[Common Expression Language](https://github.com/google/cel-spec/blob/master/doc/langdef.md), that is true or false. It reads
these fields. Ask `has(…)` before reading a key that is not always there: a missing key is a failure of the hook.

{table(("field", "meaning", "example"), _conditions())}
Conditions can use {", ".join(f"`{name}`" for name in sorted(FUNCTIONS))}."""


def _types() -> Iterable[tuple[str, str, str, str]]:
    for kind in EventType:
        meaning = MEANINGS[kind]
        yield code(kind.value), meaning.sentence, _senders(kind), ", ".join(map(code, meaning.fields)) or "-"


def types_of(source: str) -> set[str]:
    """The types of an agent's events."""
    return {row.type for row in find(source).capabilities.values()} | {*BY_PAYLOAD.get(source, ())}


def _senders(kind: EventType) -> str:
    if kind.value in OWN:
        return "Fleethook"
    known = [source for source in SOURCES if source not in _OTHERS and kind in types_of(source)]
    return ", ".join(known) or "programs"


def _conditions() -> Iterable[tuple[str, str, str]]:
    for name, (meaning, expression) in CONDITIONS.items():
        yield code(name), meaning, code(f"when: {expression}")
