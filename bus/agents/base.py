"""The interface of every agent's dialect: what each event can carry, and both directions of its wire format."""

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
    """Whether the agent waits for the answer. If so, the shim sends a request, else it publishes the event."""
    block: bool = False
    deny_else: Literal["context", "abstain"] = "abstain"
    """What a deny becomes if the agent cannot block: context with its reason for the model, or nothing."""
    allow: bool = True
    """Whether the agent can read an allow. If not, an allow is written as no opinion, and the agent's own rules decide."""
    ask: bool = False
    ask_else: Literal["deny", "abstain"] = "abstain"
    """What an ask becomes if the agent cannot ask: a deny where the action can still be prevented."""
    asks_anyway: bool = False
    """Whether the agent asks the person if it gets no answer. Then an ask that becomes abstain loses nothing."""
    rewrite: bool = False
    rewrite_as: Literal["ask", "deny", "alone"] = "ask"
    """How a changed input without an allow is written: with the agent's ask, as a deny that names it, or alone."""
    rewrite_else: Literal["deny", "drop"] = "drop"
    """What a changed input becomes if the agent takes none: a deny, because the call must not run as it was, or nothing."""
    elsewhere: frozenset[Literal["ask", "rewrite"]] = frozenset()
    """What another event of the same call carries. It is left out here, and nothing is lost."""
    output: Literal["", "field", "mcp", "block"] = ""
    """How a changed output is carried: in a field of its own, in a field for MCP tools only, or as the reason of a block that
    replaces the output. Empty if it cannot be changed."""
    halts: bool = False
    """Whether the agent's work can be ended here (`continue: false`)."""
    grants: bool = False
    """Whether an allow can change the agent's permissions."""
    interrupts: bool = False
    """Whether a deny can end what the agent does now."""
    context: bool = False
    context_limit: int = 0
    """The longest context that this event takes, if that is shorter than the agent's own limit."""
    timeout: float = 600.0
    """The agent's own default timeout, in seconds."""
    unit: Literal["s", "ms"] = "s"
    """The unit of timeouts in the agent's configuration."""
    failure: Literal["open", "closed"] = "open"
    """What the agent does when its hook fails."""
    silence: str = "exit 0 and an empty stdout"
    """The answer that leaves the decision to the agent."""


class AgentDialect(Protocol):
    """One agent's wire format in both directions."""

    name: str
    capabilities: dict[str, Capability]
    """The capabilities by the agent's own event name."""

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in an agent's payload; raises DecodeError if it cannot be read."""
        ...

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """The agent's own answer for a verdict; `event` is None if the payload could not be read."""
        ...
