"""The types of Claude Code's and ion's hook files: a matcher group, and a handler of any type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from bus.config.field_types import EnvName


class Group(msgspec.Struct, frozen=True):
    """One entry of an event: a matcher and its handlers."""

    hooks: list[Any]
    matcher: str = ""
    # Fields that people write although Claude Code does not know them.
    id: Any = None
    name: Any = None
    description: Any = None


class Handler(msgspec.Struct, frozen=True, kw_only=True):
    """One handler, of any type, with every field that Claude Code or ion has."""

    type: Literal["command", "http", "mcp_tool", "prompt", "agent"]
    command: str | None = None
    args: list[str] | None = None
    async_: bool = msgspec.field(default=False, name="async")
    wakes: bool = msgspec.field(default=False, name="asyncRewake")
    shell: Literal["bash", "powershell"] | None = None
    on_failure: Literal["continue", "block"] | None = msgspec.field(default=None, name="onFailure")
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    rule: str | None = msgspec.field(default=None, name="if")
    once: bool = False
    url: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    allowed: list[str] | None = msgspec.field(default=None, name="allowedEnvVars")
    env_pass: list[EnvName] = msgspec.field(default_factory=list)
    """A field of Fleethook: further environment variables that the command gets."""
    status: Any = msgspec.field(default=None, name="statusMessage")
    description: str = ""
    prompt: str | None = None
    model: str | None = None
    go_on: bool | None = msgspec.field(default=None, name="continueOnBlock")
    # Fields of a type that does not run here: they are accepted, so that they are not reported as unknown.
    server: Any = None
    tool: Any = None
    input: Any = None


TIMEOUTS: Final[Mapping[str, float]] = {
    "UserPromptSubmit": 30.0,
    "PreModelSwitch": 30.0,
    "PostModelSwitch": 30.0,
    "MessageDisplay": 10.0,
    "SessionEnd": 1.5,
}
"""Claude Code's default timeouts in seconds for hooks of these events; 600 for any other event."""
