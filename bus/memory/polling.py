"""Whether a call waits for something: polling is no loop."""

from __future__ import annotations

from typing import Final

from bus.events import Event
from bus.lazy.regex import lazy_regex
from bus.shell import commands_if_light
from bus.tool_arguments import command_of

_PROGRAMS: Final = frozenset({"sleep", "usleep", "wait", "watch", "inotifywait", "fswatch"})
_FOLLOWS: Final = frozenset({"--watch", "--wait", "--follow"})
_TOOL: Final = lazy_regex(
    r"(?i)(?:bash|task|shell|agent|terminal|command|process)_?(?:output|status|result)|wait|await|poll|monitor|sleep"
)


def waits(event: Event) -> bool:
    """Whether the call of an event waits: `sleep 30`, `gh run watch`, a tool that gives the output of what still runs."""
    line = command_of(event)
    if line is None:
        return _TOOL.search((event.native_tool or event.tool).rpartition("__")[2]) is not None
    found = commands_if_light(line)
    for command in found.items if found is not None else ():
        words = command.words
        if command.program in _PROGRAMS or not _FOLLOWS.isdisjoint(words):
            return True
        if "watch" in words[:3] or (command.program in {"tail", "journalctl"} and "-f" in words):
            return True
    return False
