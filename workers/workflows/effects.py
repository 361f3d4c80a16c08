"""What workflows do outside while an event waits: requests, commands, plugins, models, and files of the event's folder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from bus.errors import FleethookError
from bus.events import Event
from bus.hooks import Hook, HttpCall
from bus.hooksets.in_force import HookSet
from bus.http.webhook_client import Reply, WebhookClient
from bus.http.webhook_headers import webhook_headers
from bus.ids import delivery_id, webhook_id
from bus.judge.chat import Accepting, Chat
from bus.runners.command import GRACE, run_command
from bus.runners.model import NO_MODEL
from bus.secrets.redaction import redact, redact_text
from bus.tracing.context import trace_of
from bus.workflow_steps.effects import CommandAnswer, ToolAnswer, WebhookAnswer
from bus.workflow_steps.requests import command_hook
from bus.workflows.expressions import function_name
from bus.workflows.values import Action

if TYPE_CHECKING:  # a fleet without plugins does not import it
    from workers.plugins.host import PluginHost
    from workers.plugins.mcp.servers import PluginServers

_MOST_FILES: Final = 10_000
_MOST_TEXT: Final = 256 * 1024
_RETRIED: Final = (429, 500, 502, 503, 504)
_START_SECONDS: Final = 10.0


class Surroundings(NamedTuple):
    """What a worker has for the workflows of an event."""

    hook_set: HookSet
    client: WebhookClient
    plugins: PluginHost | None
    """The worker's plugins; None where no hook file enables one."""
    host: str
    """This machine's name."""
    servers: Callable[[], PluginServers]
    """Makes the worker's MCP servers of plugins, or gives them; none is started by this."""


class LiveEffects:
    """Does what a workflow waits for, within `seconds`."""

    def __init__(self, hook: Hook, event: Event, seconds: float, around: Surroundings) -> None:
        self._hook, self._event, self._around = hook, event, around
        self._until = time.monotonic() + seconds

    async def condition(self, function: str, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """The answer of a plugin's condition, by the name of its function."""
        plugins = await self._plugins()
        for state in plugins.states():
            for name in state.conditions:
                group = plugins.find(state.name) if function_name(state.name, name) == function else None
                if group is not None:
                    return bool(await group.invoke(state.name, "condition", name, dict(named), self._left(), *args))
        raise FleethookError(f"no plugin that runs here has the condition {function}")

    async def plugin(self, action: Action, kwargs: dict[str, Any], context: dict[str, Any]) -> Any:
        """What a plugin's action returns, and the variables as it left them."""
        plugin, name = str(action.values.get("plugin")), str(action.values.get("name"))
        group = (await self._plugins()).find(plugin)
        if group is None:
            raise FleethookError(f"the plugin {plugin!r} is not enabled here")
        return await group.invoke_action(plugin, name, kwargs, self._left(), context)

    async def webhook(self, action: Action, request: Mapping[str, Any]) -> WebhookAnswer:
        """The answer to a request. Its `webhook-id` is the same when a worker asks again after another one died."""
        call = HttpCall(url=str(request["url"]), headers=dict(request["headers"]))
        name = webhook_id(delivery_id(self._event.id, f"{self._hook.id}/{action.id}")).replace("/", "_")
        retry = action.values.get("retry")
        retry = retry if isinstance(retry, dict) else {}
        tries, pause = int(retry.get("max_attempts") or (3 if retry else 1)), float(retry.get("backoff_seconds") or 1.0)
        statuses = retry.get("retry_on_status") or _RETRIED
        reply = await self._post(call, request, name)
        for _ in range(tries - 1):
            if not reply.error and reply.status not in statuses:
                break
            if pause >= self._left():
                break
            await asyncio.sleep(pause)
            pause *= 2
            reply = await self._post(call, request, name)
        text = reply.body.decode("utf-8", "replace")
        error = f"{reply.error}: {reply.detail}" if reply.error else ""
        return WebhookAnswer(reply.status, text, dict(reply.headers), error)

    async def _post(self, call: HttpCall, request: Mapping[str, Any], name: str) -> Reply:
        body: bytes = request["body"]
        headers = webhook_headers(call, name, int(time.time()), body, trace_of(self._event).headers())
        seconds = min(float(request["timeout"]), self._left())
        return await self._around.client.post(call.url, body, headers, seconds=seconds, method=str(request["method"]))

    async def command(self, action: Action, names: Mapping[str, Any]) -> CommandAnswer:
        """How the action's command ended."""
        hook = command_hook(self._hook, action, names)
        seconds = min(hook.timeout, self._left())
        done = await run_command(hook, self._event, seconds, grace=GRACE)
        stdout, stderr = (redact_text(part.decode("utf-8", "replace")) for part in (done.stdout, done.stderr))
        error = ""
        if done.timed_out:
            error = f"it took longer than {seconds:g} s"
        elif done.exit_code is None:
            error = done.spawn_error or f"it was ended by the signal {done.signal}"
        return CommandAnswer(done.exit_code or 0, stdout, stderr, error)

    async def model(self, prompt: str) -> str:
        """A model's answer to a text."""
        server = self._around.hook_set.model
        if server is None:
            raise FleethookError(NO_MODEL)
        server = msgspec.structs.replace(server, answers="text")
        trace = trace_of(self._event)
        chat = Chat(self._around.client, server, server.name, Accepting(), deadline=self._until, trace=trace)
        reply = await chat.send([{"role": "user", "content": redact_text(prompt)}])
        return reply.text

    async def tool(self, server: str, tool: str, arguments: dict[str, Any], seconds: float) -> ToolAnswer:
        """What a tool of an accepted MCP server gives; the server is started if it does not run."""
        given: Any = redact(arguments)
        try:
            result = await self._around.servers().call_tool(server, tool, given, min(seconds, self._left()))
        except FleethookError as error:
            return ToolAnswer(error=redact_text(str(error)))
        return ToolAnswer(redact(tool_value(result)), bool(result.get("isError")))

    def read_file(self, pattern: str) -> tuple[str, str] | None:
        """Path and text of the newest file in the event's folder that a pattern fits."""
        folder = self._folder()
        if folder is None or not pattern or (os.path.isabs(pattern) and not Path(pattern).is_relative_to(folder)):
            return None
        found: list[tuple[float, Path]] = []
        relative = os.path.relpath(pattern, folder) if os.path.isabs(pattern) else pattern
        try:
            for count, path in enumerate(folder.glob(relative)):
                real = path.resolve()
                if real.is_relative_to(folder.resolve()) and real.is_file():
                    found.append((real.stat().st_mtime, path))
                if count >= _MOST_FILES:
                    break
            if not found:
                return None
            newest = max(found)[1]
            return str(newest), newest.read_bytes()[:_MOST_TEXT].decode("utf-8", "replace")
        except (OSError, ValueError, NotImplementedError):
            return None

    def write_file(self, name: str, text: str, *, append: bool) -> None:
        """Write a file in the event's folder; raises FleethookError where that is not possible."""
        folder = self._folder()
        if folder is None:
            raise FleethookError(f"{name!r} is not written: the event's folder is on another machine")
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise FleethookError(f"{name!r} is not in the event's folder")
        try:
            with path.open("a" if append else "w", encoding="utf-8") as file:
                file.write(text)
        except (OSError, ValueError) as error:
            raise FleethookError(f"{name!r} cannot be written: {error}") from error

    def _folder(self) -> Path | None:
        event = self._event
        here = event.host in {"", self._around.host} and os.path.isabs(event.cwd) and os.path.isdir(event.cwd)
        return Path(event.cwd) if here else None

    async def _plugins(self) -> PluginHost:
        plugins = self._around.plugins
        if plugins is None:
            raise FleethookError("no plugin is enabled here")
        plugins.adopt(self._around.hook_set, self._event.cwd)
        await plugins.settle(min(_START_SECONDS, self._left()))
        return plugins

    def _left(self) -> float:
        return max(0.0, self._until - time.monotonic())


def tool_value(result: Mapping[str, Any]) -> Any:
    """What a tool gave: its structured result, else its texts, read as JSON where they are an object or a list."""
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    texts = [part["text"] for part in result.get("content") or () if isinstance(part.get("text"), str)]
    whole = "\n".join(texts)
    if whole.lstrip()[:1] in {"{", "["}:
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(whole)
    return whole
