"""What a workflow may do outside of its state while an event waits; the caller says how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from bus.workflows.values import Action


class WebhookAnswer(NamedTuple):
    """The answer to a webhook that was waited for."""

    status: int = 0
    body: str = ""
    headers: Mapping[str, str] = {}
    error: str = ""
    """Why there is no answer; empty if there is one."""


class CommandAnswer(NamedTuple):
    """How a command ended that was waited for."""

    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    """Why it did not run to its end; empty if it did."""


class ToolAnswer(NamedTuple):
    """What a tool of an MCP server gave."""

    value: Any = None
    """Its structured result, else its text; a text that is JSON is read."""
    is_error: bool = False
    """Whether the tool says that it failed; then `value` says why."""
    error: str = ""
    """Why it could not be called; empty if it was."""


class Effects(Protocol):
    """Does what a workflow waits for. What fails raises FleethookError, and the workflow goes on without it."""

    async def condition(self, function: str, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """The answer of a plugin's condition, by the name of its function."""
        ...

    async def plugin(self, action: Action, kwargs: dict[str, Any], context: dict[str, Any]) -> Any:
        """What a plugin's action returns."""
        ...

    async def webhook(self, action: Action, request: Mapping[str, Any]) -> WebhookAnswer:
        """The answer to a request: `url`, `method`, `headers`, `body`, `timeout`."""
        ...

    async def command(self, action: Action, names: Mapping[str, Any]) -> CommandAnswer:
        """How the action's command ended; its texts read `names`."""
        ...

    async def model(self, prompt: str) -> str:
        """A model's answer."""
        ...

    async def tool(self, server: str, tool: str, arguments: dict[str, Any], seconds: float) -> ToolAnswer:
        """What a tool of an MCP server gives within so many seconds."""
        ...

    def read_file(self, pattern: str) -> tuple[str, str] | None:
        """Path and text of the newest file of the event's folder that a pattern fits; None if there is none."""
        ...

    def write_file(self, name: str, text: str, *, append: bool) -> None:
        """Write a file in the event's folder."""
        ...
