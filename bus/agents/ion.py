"""ion as an agent: Claude Code's hook protocol, with ion's own field names beside Claude Code's (I-01 to I-03)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from bus.agents.base import Capability
from bus.agents.claude import DIALECT as CLAUDE
from bus.agents.claude_protocol import Family
from bus.agents.degrade import Agent
from bus.agents.payloads import opened
from bus.events import Event
from bus.shim.answer import HookAnswer
from bus.verdicts import Verdict

NAME: Final = "ion"

TIMEOUT: Final = 5.0
"""Seconds that ion gives a hook without a timeout; its files write milliseconds (I-04)."""

CAPABILITIES: Final[dict[str, Capability]] = {
    native: msgspec.structs.replace(can, timeout=min(can.timeout, TIMEOUT), unit="ms")
    for native, can in CLAUDE.capabilities.items()
    if not can.type.startswith("claude:")
}
"""Claude Code's events without those that are about Claude Code itself."""

_CLAUDES: Final = {"event": "hook_event_name", "tool_output": "tool_response"}
"""ion's own names for fields of Claude Code (I-02). Its other fields have one name only."""

_FAMILY: Final[Family] = replace(
    CLAUDE,
    agent=Agent(NAME, "ion", CLAUDE.agent.limit),
    capabilities=CAPABILITIES,
    # ion reads a block from the exit code only: 2, with the message on stderr (I-03).
    by_exit_code=frozenset(native for native, can in CAPABILITIES.items() if can.block),
)


class _Dialect:
    """ion's hook protocol; it has no state."""

    name = NAME
    capabilities = CAPABILITIES

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a payload with ion's or Claude Code's field names. If a field has both names, Claude Code's counts."""
        fields = opened("ion", payload)
        if fields.keys().isdisjoint(_CLAUDES):
            return _FAMILY.opened(native, fields, host=host)
        renamed = {_CLAUDES.get(name, name): value for name, value in fields.items() if name in _CLAUDES}
        plain = renamed | {name: value for name, value in fields.items() if name not in _CLAUDES}
        return msgspec.structs.replace(_FAMILY.opened(native, plain, host=host), raw=fields)

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """A deny as exit code 2 with its reason on stderr (I-03). All other answers are Claude Code's JSON."""
        return _FAMILY.render(native, verdict, event)


DIALECT: Final = _Dialect()
