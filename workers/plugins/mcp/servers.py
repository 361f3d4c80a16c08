"""The MCP servers of plugins in one process: started by their first use, stopped when idle, started again after they died."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from bus.errors import FleethookError
from bus.events import Event
from bus.hooksets.in_force import Watcher
from bus.http.address_policy import AddressPolicy
from bus.http.webhook_client import WebhookClient
from workers.plugins.mcp.accepted_servers import OfferedServer, check_accepted, filled, offered_servers, variables
from workers.plugins.mcp.http_connection import HttpConnection
from workers.plugins.mcp.messages import (
    MOST_PAGES,
    MOST_TOOLS,
    PROTOCOL,
    Answer,
    ServerDown,
    ServerRefuses,
    ServerTool,
    result_of,
    tool_of,
)
from workers.plugins.mcp.stdio_connection import StdioConnection

log = logging.getLogger("fleethook.mcp")

START_SECONDS: Final = 30.0
"""How long a server may take until it answers: some fetch themselves first."""
LIST_SECONDS: Final = 10.0
WAIT_SECONDS: Final = 10.0
"""How long a list of tools waits for servers that start; the tools of slower ones are in the next list."""
CALL_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 300.0
"""After so long without a call a server is stopped; its tools stay known."""
STEADY_SECONDS: Final = 10.0
"""A server that ran for so long is started again at once after it died."""
FIRST_PAUSE: Final = 0.5
MOST_PAUSE: Final = 30.0
_MOST_CALLS: Final = 16
_LONGEST_NAME: Final = 64
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")

Connection = StdioConnection | HttpConnection


class Offers(NamedTuple):
    """What may be started now, and where servers at URLs may be."""

    servers: Sequence[OfferedServer]
    network: AddressPolicy
    proxy: str = ""


def offers_here(watcher: Watcher) -> Callable[[], Awaitable[Offers]]:
    """What the user's file on this machine offers, read again when it changed."""

    async def offers() -> Offers:
        await watcher.refresh()
        here = watcher.for_event(Event(type="", host=watcher.host))
        return Offers(offered_servers(here.files), here.network, here.proxy)

    return offers


class PluginTool(NamedTuple):
    """A tool under the name that it has here."""

    name: str
    plugin: str
    server: str
    tool: ServerTool


@dataclass(slots=True)
class _Slot:
    """One offered server, over all its connections."""

    offered: OfferedServer
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MOST_CALLS))
    running: int = 0
    connection: Connection | None = None
    tools: tuple[ServerTool, ...] | None = None
    learning: asyncio.Task[None] | None = None
    late: bool = False
    """Whether a list of tools has waited for it in vain; the next ones do not wait."""
    started_at: float = 0.0
    used_at: float = 0.0
    failures: int = 0
    not_before: float = 0.0
    why: str = ""


class PluginServers:
    """The servers of this process; `project` is the folder that they may be told to work in."""

    def __init__(
        self, offers: Callable[[], Awaitable[Offers]], *, project: str = "", idle: float = IDLE_SECONDS
    ) -> None:
        self._offers, self._project, self._idle = offers, project, idle
        self._slots: dict[tuple[str, str], _Slot] = {}
        self._client: tuple[tuple[object, ...], WebhookClient] | None = None
        self._janitor: asyncio.Task[None] | None = None

    async def tools(self) -> list[PluginTool]:
        """The tools of all servers that can be used now; starts those whose tools are not known yet."""
        slots = await self._current()
        late = await self._learn([slot for slot in slots if not slot.late], WAIT_SECONDS)
        await self._learn([slot for slot in slots if slot.late], 0.0)
        for slot in late:
            slot.late = True
        return _named(slots)

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        """The result of a tool; raises ServerDown and ServerRefuses."""
        slots = await self._current()
        wanted = [slot for slot in slots if name.startswith(_prefix(slot.offered)[:_LONGEST_NAME])] or slots
        await self._learn(wanted, START_SECONDS + LIST_SECONDS)
        found = next((tool for tool in _named(slots) if tool.name == name), None)
        if found is None:
            reasons = "; ".join(f"{_prefix(slot.offered)}: {slot.why}" for slot in wanted if slot.why)
            raise ServerDown(f"no plugin has a tool {name[:80]!r}" + (f" ({reasons})" if reasons else ""))
        slot = self._slots[found.plugin, found.server]
        async with slot.calls:
            slot.running += 1
            try:
                connection = await self._connected(slot)
                params = {"name": found.tool.name, "arguments": arguments}
                return result_of(await connection.request("tools/call", params, CALL_SECONDS))
            except (ServerDown, ServerRefuses) as error:
                raise type(error)(f"the MCP server {found.server!r} of the plugin {found.plugin!r}: {error}") from error
            finally:
                slot.running -= 1
                slot.used_at = time.monotonic()

    async def close(self) -> None:
        """Stop all servers."""
        if self._janitor is not None:
            self._janitor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._janitor
        learning = [slot.learning for slot in self._slots.values() if slot.learning is not None]
        for task in learning:
            task.cancel()
        await asyncio.gather(*learning, return_exceptions=True)
        await asyncio.gather(*(self._stop(slot, "it was stopped") for slot in self._slots.values()))
        if self._client is not None:
            await self._client[1].close()

    async def _current(self) -> list[_Slot]:
        """A slot for each server that is offered now; others are stopped, also those with another definition."""
        offers = await self._offers()
        await self._use(offers)
        wanted = {offered.key: offered for offered in offers.servers}
        gone = [key for key, slot in self._slots.items() if wanted.get(key) != slot.offered]
        for key in gone:
            if (slot := self._slots.pop(key, None)) is not None:
                await self._stop(slot, "its plugin was changed, disabled or removed")
        return [self._slots.setdefault(key, _Slot(offered)) for key, offered in wanted.items()]

    async def _use(self, offers: Offers) -> None:
        key = (offers.network.allow, offers.proxy)
        if self._client is None or self._client[0] != key:
            old, self._client = self._client, (key, WebhookClient(offers.network, proxy=offers.proxy))
            if old is not None:
                await old[1].close()

    async def _learn(self, slots: Sequence[_Slot], seconds: float) -> list[_Slot]:
        """Read the tools that are not known, of all servers at a time. Returns the slower ones, which go on by themselves."""
        for slot in slots:
            if slot.connection is not None and slot.connection.tools_changed:
                slot.tools = None
            if slot.tools is None and (slot.learning is None or slot.learning.done()):
                slot.learning = asyncio.create_task(self._read_tools(slot))
        waited = [slot.learning for slot in slots if slot.tools is None and slot.learning is not None]
        if waited:
            await asyncio.wait(waited, timeout=seconds)
        return [slot for slot in slots if slot.learning is not None and not slot.learning.done()]

    async def _read_tools(self, slot: _Slot) -> None:
        """Read the tools of a server; a failure is kept in the slot."""
        slot.running += 1
        try:
            connection = await self._connected(slot)
            connection.tools_changed = False
            slot.tools, slot.late = await _listed(connection), False
        except FleethookError as error:
            slot.why = slot.why or str(error)
            slot.tools = () if isinstance(error, ServerRefuses) else None
            log.warning("the MCP server %s of the plugin %s: %s", slot.offered.server.name, slot.offered.plugin, error)
        finally:
            slot.running -= 1
            slot.used_at = time.monotonic()

    async def _connected(self, slot: _Slot) -> Connection:
        """The running server, started if it is not; raises ServerDown."""
        async with slot.turn:
            await self._check(slot)
            connection = slot.connection
            if connection is not None and not connection.ending:
                return connection
            now = time.monotonic()
            if connection is not None:
                await connection.close()
                slot.connection = None
                _note_failure(slot, connection.ending, now, now - slot.started_at)
            if now < slot.not_before:
                raise ServerDown(f"it failed {slot.failures} times ({slot.why}); the next try is in "
                                 f"{slot.not_before - now:.1f} s")  # fmt: skip
            try:
                slot.connection = await self._start(slot.offered)
            except ServerDown as error:
                _note_failure(slot, str(error), time.monotonic(), 0.0)
                raise
            slot.started_at, slot.why = time.monotonic(), ""
            if self._janitor is None or self._janitor.done():
                self._janitor = asyncio.create_task(self._tidy())
            return slot.connection

    async def _check(self, slot: _Slot) -> None:
        try:
            await asyncio.to_thread(check_accepted, slot.offered)
        except ServerDown as error:
            await self._stop(slot, str(error))
            slot.tools, slot.why = None, str(error)
            raise

    async def _start(self, offered: OfferedServer) -> Connection:
        known = variables(offered, self._project)
        server = filled(offered, known)
        name = f"{offered.plugin}/{server.name}"
        connection: Connection
        if server.type == "http":
            assert self._client is not None  # noqa: S101 - `_current` made it
            connection = HttpConnection(self._client[1], server.url, server.headers)
        elif server.type == "stdio":
            with contextlib.suppress(OSError):  # its own error says what it cannot write
                os.makedirs(offered.data, exist_ok=True, mode=0o700)
            env = {**known, **{key: value for key, value in server.env.items() if not key.startswith("FLEETHOOK_")}}
            command = (server.command, *server.args)
            connection = StdioConnection(command, env, server.cwd, lambda line: log.info("%s: %s", name, line))
        else:
            raise ServerDown(f"it speaks {server.type}; servers are offered over stdio and http only")
        try:
            await connection.start()
            await _greet(connection)
        except BaseException as error:
            await connection.close(str(error) or "it was stopped")
            if isinstance(error, ServerRefuses):
                raise ServerDown(str(error)) from error
            raise
        return connection

    async def _stop(self, slot: _Slot, why: str) -> None:
        connection, slot.connection = slot.connection, None
        if connection is not None:
            await connection.close(why)

    async def _tidy(self) -> None:
        """Stop servers that are idle or not offered any more, while any runs."""
        while any(slot.connection is not None for slot in self._slots.values()):
            await asyncio.sleep(min(self._idle / 4, 2.0))
            with contextlib.suppress(FleethookError):
                await self._current()
            for slot in list(self._slots.values()):
                async with slot.turn:
                    if not slot.running and time.monotonic() - slot.used_at >= self._idle:
                        await self._stop(slot, "it was idle")


async def _greet(connection: Connection) -> None:
    """Begin a session of MCP; raises ServerDown and ServerRefuses."""
    about = {"name": "fleethook", "version": "1"}
    params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": about}
    answer = await connection.request("initialize", params, START_SECONDS)
    if not isinstance(answer.get("protocolVersion"), str):
        raise ServerRefuses("its answer to initialize names no version of MCP")
    if isinstance(connection, HttpConnection):
        connection.protocol = answer["protocolVersion"][:32]
        await connection.ready(LIST_SECONDS)
    else:
        connection.notify("notifications/initialized")


async def _listed(connection: Connection) -> tuple[ServerTool, ...]:
    """The usable tools of a server; the first of each name, and at most MOST_TOOLS."""
    found: dict[str, ServerTool] = {}
    params: Answer = {}
    for _ in range(MOST_PAGES):
        answer = await connection.request("tools/list", params, LIST_SECONDS)
        raw = answer.get("tools")
        for item in raw[: 2 * MOST_TOOLS] if isinstance(raw, list) else ():
            tool = tool_of(item)
            if tool is not None and len(found) < MOST_TOOLS:
                found.setdefault(tool.name, tool)
        cursor = answer.get("nextCursor")
        if not isinstance(cursor, str) or len(found) >= MOST_TOOLS:
            break
        params = {"cursor": cursor}
    return tuple(found.values())


def _note_failure(slot: _Slot, why: str, now: float, lived: float) -> None:
    """Count a failure of a server that lived for some seconds, and say when the next start may be.

    A server that worked is started again at once for the first time; then later and later.
    """
    slot.failures = 1 if lived >= STEADY_SECONDS else slot.failures + 1
    pause = 0.0 if slot.failures == 1 and lived else min(FIRST_PAUSE * 2 ** min(slot.failures - 1, 10), MOST_PAUSE)
    slot.not_before, slot.why = now + pause, why
    log.warning("the MCP server %s of the plugin %s failed: %s", slot.offered.server.name, slot.offered.plugin, why)


def _prefix(offered: OfferedServer) -> str:
    return f"{_UNFIT.sub('-', offered.plugin)}__{_UNFIT.sub('-', offered.server.name)}__"


def _named(slots: Sequence[_Slot]) -> list[PluginTool]:
    """The known tools with their names here: `<plugin>__<server>__<tool>`, of letters, digits, `_` and `-`.

    A name that had to be changed or cut ends in six characters computed from the original, so that no two are the same.
    """
    found: dict[str, PluginTool] = {}
    for slot in slots:
        prefix = _prefix(slot.offered)
        plain = prefix == f"{slot.offered.plugin}__{slot.offered.server.name}__"
        for tool in slot.tools or ():
            name = prefix + _UNFIT.sub("-", tool.name)
            if not plain or _UNFIT.search(tool.name) or len(name) > _LONGEST_NAME or name in found:
                raw = "\0".join((*slot.offered.key, tool.name)).encode("utf-8", "surrogatepass")
                name = f"{name[: _LONGEST_NAME - 7]}_{hashlib.sha256(raw).hexdigest()[:6]}"
            found.setdefault(name, PluginTool(name, *slot.offered.key, tool))
    return list(found.values())
