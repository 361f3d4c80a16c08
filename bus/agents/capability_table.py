"""The capabilities of every agent's events, from the tables of the dialects: for people, for programs, and as a page."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from bus.agents import find
from bus.agents.base import Capability
from bus.events import GATES, SOURCES, EventType

HEAD: Final = ("EVENT", "TYPE", "DENY", "ASK", "ALLOW", "CHANGED INPUT", "CHANGED OUTPUT", "CONTEXT", "TIMEOUT")

COMMAND: Final = "fleethook hooks agents --markdown"
"""The command that writes the page."""

_NO: Final = "-"
_CALLS: Final = frozenset({EventType.TOOL_PRE_EXECUTE.value, EventType.PERMISSION_REQUEST.value})
_INTRO: Final = f"""\
# What each agent's events can carry

`{COMMAND}` prints this page from the tables that Fleethook itself uses; a test checks that the page is up to date.

An agent runs its hook command and waits for the answer. At the events in the tables an answer has an effect, so the command
asks for a verdict. All other events are only published, and the command ends at once. If an event cannot carry a part of a
verdict, that part is mapped by the rules below. A lost part is shown to the person if the agent has a place for that. It is
also counted, and shown by `fleethook trace`.

- **deny**: `blocks` (the call does not run, its result is replaced, the prompt is not sent, or the agent goes on instead of
  stopping); `as context`: nothing can be blocked any more, and the model gets the reason; `-`: lost.
- **ask**: `asks` the person; `denies`: the agent cannot ask, and the call has not run yet; `asks anyway`: the agent asks if
  the hook has no opinion; `elsewhere`: another event of the same call asks; `-`: lost.
- **allow**: `said`; `silence`: the agent has no form for it, and its own rules decide.
- **changed input**: `applied`; `applied, or asks` and `applied, or denies`: a change without an allow becomes an ask with the
  change, or a deny that names it; `denies`: a deny that names the change, since the agent accepts none; `elsewhere`: another
  event of the same call carries it; `-`: lost.
- **changed output**: `applied`; `of MCP tools` only; `as a block`: its reason replaces the output; `-`: lost, and the model
  reads the tool's own output.
- **context**: `taken`, with the limit if it is short; `-`: lost.
- **timeout**: the agent's default for a hook, in the unit of its settings.

A hook without an opinion says nothing, which is never an allow. A failure policy of deny or ask is used only at these events:
{", ".join(f"`{kind}`" for kind in sorted(GATES))}.
"""


def about(source: str) -> str:
    """The first line of a dialect's docstring: the agent's name, the form, and the version that it was checked with."""
    text = importlib.import_module(f"bus.agents.{find(source).name}").__doc__ or source
    return text.splitlines()[0]


def remarks(source: str) -> tuple[str, ...]:
    """Remarks on an agent for people: the `REMARKS` of its dialect, a paragraph each."""
    module = importlib.import_module(f"bus.agents.{find(source).name}")
    return tuple(getattr(module, "REMARKS", ()))


def row(native: str, can: Capability) -> tuple[str, ...]:
    """One event in words, in the order of `HEAD`."""
    call = can.type in _CALLS
    return (
        native,
        str(can.type),
        _deny(can),
        _ask(can),
        ("said" if can.allow else "silence") if call else _NO,
        _rewrite(can) if call or can.rewrite else _NO,
        _output(can),
        (f"taken, up to {can.context_limit:,}" if can.context_limit else "taken") if can.context else _NO,
        f"{can.timeout * 1000:.0f} ms" if can.unit == "ms" else f"{can.timeout:g} s",
    )


def rows(source: str) -> list[tuple[str, ...]]:
    """The events of an agent at which an answer changes something."""
    return [row(native, can) for native, can in find(source).capabilities.items() if can.waits]


def record(source: str) -> dict[str, Any]:
    """One agent's whole table as plain data, every event in it."""
    events = {native: msgspec.to_builtins(can) for native, can in find(source).capabilities.items()}
    for event in events.values():
        event["elsewhere"] = sorted(event["elsewhere"])
    return {"agent": find(source).name, "about": about(source), "events": events}


def page(sources: Iterable[str] = SOURCES) -> str:
    """The capability tables of all agents as Markdown."""
    return "\n".join([_INTRO, *(line for source in sources for line in _section(source))]).rstrip("\n")


def _section(source: str) -> Iterator[str]:
    table = find(source).capabilities
    asked = [can for can in table.values() if can.waits]
    yield f"## {source}"
    yield ""
    yield about(source)
    yield f"No opinion: {' / '.join(dict.fromkeys(f'`{can.silence}`' for can in asked))}."
    shut = [f"`{native}`" for native, can in table.items() if can.failure == "closed"]
    yield f"A hook that fails (a crash, a timeout): it goes on{', except at ' + ', '.join(shut) if shut else ''}."
    yield ""
    yield _line(name.lower() for name in HEAD)
    yield _line("---" for _ in HEAD)
    for native, *rest in rows(source):
        yield _line((f"`{native}`", *rest))
    yield ""
    published = [f"`{native}` ({can.type})" for native, can in table.items() if not can.waits]
    if published:
        yield f"Only published: {', '.join(published)}."
        yield ""
    for remark in remarks(source):
        yield remark
        yield ""


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _deny(can: Capability) -> str:
    if can.block:
        return "blocks"
    return "as context" if can.deny_else == "context" and can.context else _NO


def _ask(can: Capability) -> str:
    if can.ask:
        return "asks"
    if "ask" in can.elsewhere:
        return "elsewhere"
    if can.ask_else == "deny":
        return "denies"
    return "asks anyway" if can.asks_anyway else _NO


def _output(can: Capability) -> str:
    return {"field": "applied", "mcp": "of MCP tools", "block": "as a block", "": _NO}[can.output]


def _rewrite(can: Capability) -> str:
    if can.rewrite:
        return {"ask": "applied, or asks", "deny": "applied, or denies", "alone": "applied"}[can.rewrite_as]
    if "rewrite" in can.elsewhere:
        return "elsewhere"
    return "denies" if can.rewrite_else == "deny" else _NO
