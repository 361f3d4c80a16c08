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
from workers.plugins.mcp.first_exchanges import LIST_SECONDS, START_SECONDS, Connection, greet, listed
from workers.plugins.mcp.http_connection import HttpConnection
from workers.plugins.mcp.messages import Answer, ServerDown, ServerRefuses, ServerTool, result_of
from workers.plugins.mcp.stdio_connection import StdioConnection

log = logging.getLogger("fleethook.mcp")

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


class Offers(NamedTuple):
    """What may be started now, and where servers at URLs may be."""

    servers: Sequence[OfferedServer]
    network: AddressPolicy
    proxy: str = ""


def offers_here(watcher: Watcher, *, reads_again: bool = True) -> Callable[[], Awaitable[Offers]]:
    """What the user's file on this machine offers. It is read again when it changed, unless its owner does that."""

    async def offers() -> Offers:
        if reads_again:
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
    starting: asyncio.Task[Connection] | None = None
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
                raise type(error)(f"{_described(slot)}: {error}") from error
            finally:
                slot.running -= 1
                slot.used_at = time.monotonic()

    async def call_tool(self, server: str, tool: str, arguments: dict[str, Any], seconds: float) -> Answer:
        """The result of a server's own tool within so many seconds; raises ServerDown and ServerRefuses.

        `server` is its name, or `PLUGIN/SERVER`. A server that starts longer than that goes on starting.
        """
        until = time.monotonic() + seconds
        slot = _chosen(await self._current(), server)
        slot.running += 1
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + seconds):
                async with slot.calls:
                    connection = await self._started(slot)
                    params = {"name": tool, "arguments": arguments}
                    left = max(0.001, until - time.monotonic())
                    return result_of(await connection.request("tools/call", params, left))
        except TimeoutError:
            raise ServerDown(f"{_described(slot)} did not answer within {seconds:.3g} s") from None
        except (ServerDown, ServerRefuses) as error:
            raise type(error)(f"{_described(slot)}: {error}") from error
        finally:
            slot.running -= 1
            slot.used_at = time.monotonic()

    async def _started(self, slot: _Slot) -> Connection:
        """The running server. Its start goes on where the caller stops waiting, so that the next caller finds it."""
        if slot.starting is None or slot.starting.done():
            slot.starting = asyncio.create_task(self._connected(slot))
            slot.starting.add_done_callback(lambda task: task.cancelled() or task.exception())
        starting = slot.starting
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if starting.cancelled():
                raise ServerDown("its plugin was changed, disabled or removed") from None
            raise

    async def close(self) -> None:
        """Stop all servers."""
        if self._janitor is not None:
            self._janitor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._janitor
        await _ended(*(task for slot in self._slots.values() for task in (slot.learning, slot.starting)))
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
                await _ended(slot.learning, slot.starting)
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
            slot.tools, slot.late = await listed(connection), False
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
            await greet(connection)
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


async def _ended(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel these tasks, and return when they have ended."""
    under_way = [task for task in tasks if task is not None]
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)


def _note_failure(slot: _Slot, why: str, now: float, lived: float) -> None:
    """Count a failure of a server that lived for some seconds, and say when the next start may be.

    A server that worked is started again at once for the first time; then later and later.
    """
    slot.failures = 1 if lived >= STEADY_SECONDS else slot.failures + 1
    pause = 0.0 if slot.failures == 1 and lived else min(FIRST_PAUSE * 2 ** min(slot.failures - 1, 10), MOST_PAUSE)
    slot.not_before, slot.why = now + pause, why
    log.warning("the MCP server %s of the plugin %s failed: %s", slot.offered.server.name, slot.offered.plugin, why)


def _described(slot: _Slot) -> str:
    return f"the MCP server {slot.offered.server.name!r} of the plugin {slot.offered.plugin!r}"


def _chosen(slots: Sequence[_Slot], name: str) -> _Slot:
    """The server with this name; raises ServerDown where none or several have it."""
    spelled = name.replace(":", "/").removeprefix("plugin/")
    found = [slot for slot in slots if spelled in {slot.offered.server.name, "/".join(slot.offered.key)}]
    if len(found) == 1:
        return found[0]
    names = ", ".join("/".join(slot.offered.key) for slot in found or slots)
    if found:
        raise ServerDown(f"several plugins have an MCP server {name[:80]!r}; write one of: {names}")
    raise ServerDown(
        f"no plugin that was added here has an MCP server {name[:80]!r} (there are: {names or 'none'}); "
        "`fleethook plugins add PATH` accepts a plugin with its servers"
    )


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
