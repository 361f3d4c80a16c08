"""What every agent's dialect has: what each event can carry, and both directions of its wire format."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from bus.events import Event
from bus.shim.answer import HookAnswer
from bus.verdicts import Verdict


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """What one event of one agent can carry back, as observed or documented."""

    type: str
    """The canonical event type."""
    waits: bool = False
    """The agent waits for the answer: the shim requests; elsewhere it publishes."""
    block: bool = False
    deny_else: Literal["context", "abstain"] = "abstain"
    """What a deny becomes if the agent cannot block: context with its reason for the model, or nothing."""
    allow: bool = True
    """An allow can be said; elsewhere it is silence, and the agent's own rules decide."""
    ask: bool = False
    ask_else: Literal["deny", "abstain"] = "abstain"
    """What an ask becomes where the agent cannot ask: nothing that may still be prevented should slip through."""
    asks_anyway: bool = False
    """No answer makes the agent ask the person, so an ask that becomes abstain is no loss."""
    rewrite: bool = False
    rewrite_as: Literal["ask", "deny", "alone"] = "ask"
    """A changed input without an allow: the agent's ask with it, a deny that names it, or just the input."""
    rewrite_else: Literal["deny", "drop"] = "drop"
    """What a changed input becomes where the agent takes none: a call that a hook did not want as it is must not run."""
    elsewhere: frozenset[Literal["ask", "rewrite"]] = frozenset()
    """What another event of the same call carries: it is left out here, and nothing is lost."""
    output: Literal["", "field", "mcp", "block"] = ""
    """How a changed output is carried: by a field of its own, for MCP tools only, or as the reason of a block that takes
    the output's place; empty where the agent shows its model what the tool gave."""
    halts: bool = False
    """The agent's work can be ended here (`continue: false`)."""
    grants: bool = False
    """An allow can change the agent's permissions."""
    interrupts: bool = False
    """A deny can end what the agent does now."""
    context: bool = False
    context_limit: int = 0
    """The longest context that this event takes, where it is shorter than the agent's own limit."""
    timeout: float = 600.0
    """The agent's own default timeout, in seconds."""
    unit: Literal["s", "ms"] = "s"
    """In which the agent's configuration writes a timeout."""
    failure: Literal["open", "closed"] = "open"
    """What the agent does when its hook fails."""
    silence: str = "exit 0 and an empty stdout"
    """What "no opinion" is."""


class AgentDialect(Protocol):
    """One agent's wire format in both directions."""

    name: str
    capabilities: dict[str, Capability]
    """By the agent's own event name."""

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in an agent's payload; raises DecodeError where it cannot be read."""
        ...

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """The agent's own answer for a verdict; `event` is None where the payload could not be read."""
        ...
