"""The plugins of all workers in Redis: what each worker reports, and orders to reload that every worker carries out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from bus.errors import DecodeError, FleethookError, Unreachable
from bus.ids import host_name
from bus.lazy.conversions import converted
from bus.secrets.redaction import redact_text
from bus.wire.codec import pack, unpack
from bus.wire.connections import Connections
from bus.wire.keys import PLUGINS_MS, Keys
from bus.wire.streams import checked, flat
from workers.plugins.figures import PluginState
from workers.plugins.host import PluginHost

log = logging.getLogger("fleethook.plugins")

ALL: Final = "*"
"""The name that means every plugin in an order."""

_LAST: Final = "#"
"""The field with the number of the last order."""
_EVERY_SECONDS: Final = 0.5
_REPORT_SECONDS: Final = 2.0


class PluginRecorder:
    """Reports one worker's plugins, and carries out orders to reload."""

    def __init__(self, connections: Connections, keys: Keys, host: PluginHost, worker: str) -> None:
        self._connections, self._keys, self._host, self._worker = connections, keys, host, worker
        self._orders: dict[str, int] | None = None
        """The numbers of the orders that were carried out or were older than this worker, by plugin."""
        self._looked_at = self._reported_at = 0.0
        self._reported: tuple[tuple[str, str, int, str], ...] = ()
        self._running: set[asyncio.Task[None]] = set()
        """One task for each order, so that a plugin that takes long to load does not keep another one's order waiting."""

    async def keep(self) -> None:
        """Read the orders, and report when something changed or some seconds have passed; raises Unreachable."""
        now = time.monotonic()
        if now - self._looked_at < _EVERY_SECONDS:
            return
        self._looked_at = now
        with self._connections.lease() as connection:
            (reply,) = await connection.exchange([("HGETALL", self._keys("pluginorders"))])
        orders = {
            name.decode(): int(number) for name, number in flat(checked(reply, "reading orders to reload")).items()
        }
        orders.pop(_LAST, None)
        if self._orders is None:
            self._orders = orders  # given before this worker started, which has loaded everything anew
        elif orders != self._orders:
            due = {name: number for name, number in orders.items() if number > self._orders.get(name, 0)}
            self._orders = orders
            for name, number in due.items():
                task = asyncio.create_task(self._carry_out(name, number))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
        await self._report(now)

    async def leave(self) -> None:
        """Remove the report. Errors are ignored, because it expires by itself."""
        try:
            with self._connections.lease() as connection:
                await connection.exchange(
                    [("DEL", self._keys("plugins", self._worker)), ("ZREM", self._keys("plugins"), self._worker)]
                )
        except FleethookError:
            pass

    async def _carry_out(self, name: str, number: int) -> None:
        try:
            await self._host.reload(name, number)
        except Exception:  # what one order meets must not stop the recorder
            log.exception("reloading the plugin %s", name)
        self._reported_at = 0.0

    async def _report(self, now: float) -> None:
        states = self._host.states()
        brief = tuple((state.name, state.state, state.reloaded, state.problem) for state in states)
        if brief == self._reported and now - self._reported_at < _REPORT_SECONDS:
            return
        host = host_name()
        found = [
            msgspec.structs.replace(state, worker=self._worker, host=host, problem=redact_text(state.problem))
            for state in states
        ]
        at = time.time_ns() // 10**6
        with self._connections.lease() as connection:
            replies = await connection.exchange(
                [
                    ("SET", self._keys("plugins", self._worker), pack(msgspec.to_builtins(found)), "PX", PLUGINS_MS),
                    ("ZADD", self._keys("plugins"), at, self._worker),
                    ("ZREMRANGEBYSCORE", self._keys("plugins"), 0, at - PLUGINS_MS),
                ]
            )
        for reply in replies:
            if isinstance(reply, Exception):  # the ACL may be older than these keys: the worker goes on without them
                log.error("the plugins of this worker cannot be reported: %s; renew the ACL (`fleethook acl`)", reply)
        self._reported, self._reported_at = brief, now


async def list_plugins(connections: Connections, keys: Keys) -> list[PluginState]:
    """Every plugin in every live worker, by name and worker; raises Unreachable."""
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("ZRANGE", keys("plugins"), 0, -1)])
        names = [row.decode() for row in checked(rows, "listing workers with plugins")]
        reports = await connection.exchange([("GET", keys("plugins", name)) for name in names]) if names else []
    found: list[PluginState] = []
    for report in reports:
        if isinstance(report, bytes):
            try:
                found += converted(unpack(report), list[PluginState], strict=False)
            except (DecodeError, msgspec.ValidationError) as error:
                log.warning("a worker's report of its plugins cannot be read: %s", error)
    return sorted(found, key=lambda state: (state.name, state.worker))


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """What an order to reload did."""

    name: str
    number: int
    done: tuple[PluginState, ...] = ()
    """The plugin in each worker that has carried it out; `problem` says where it was not put in force."""
    waiting: tuple[str, ...] = ()
    """The workers that have not carried it out in time."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Each different reason why it was not put in force somewhere."""
        return tuple(dict.fromkeys(state.problem for state in self.done if state.problem))


async def reload_plugin(connections: Connections, keys: Keys, name: str = ALL, seconds: float = 30.0) -> Reloaded:
    """Order every worker to load a plugin anew (all of them by default), and wait until they have.

    Raises Unreachable, and FleethookError where no worker has a plugin of this name.
    """
    known = [state for state in await list_plugins(connections, keys) if name in {ALL, state.name}]
    if not known:
        what = f"the plugin {name!r}" if name != ALL else "a plugin"
        raise FleethookError(f"no worker runs {what}: `fleethook plugins list` lists those that run")
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("HINCRBY", keys("pluginorders"), _LAST, 1)])
        number = int(checked(reply, "ordering a reload"))
        checked((await connection.exchange([("HSET", keys("pluginorders"), name, number)]))[0], "ordering a reload")
    until = time.monotonic() + seconds
    while True:
        states = [state for state in await list_plugins(connections, keys) if name in {ALL, state.name}]
        waiting = [state for state in states if state.reloaded < number]
        if not waiting or time.monotonic() >= until:
            break
        await asyncio.sleep(0.1)
    return Reloaded(
        name=name,
        number=number,
        done=tuple(state for state in states if state.reloaded >= number),
        waiting=_workers(waiting),
    )


async def until_started(connections: Connections, keys: Keys, name: str, seconds: float = 10.0) -> list[PluginState]:
    """The plugin in each worker that reports it, once it runs or has failed in all of them; raises Unreachable."""
    until = time.monotonic() + seconds
    while True:
        states = [state for state in await list_plugins(connections, keys) if state.name == name]
        if (states and all(state.state in {"running", "failed"} for state in states)) or time.monotonic() >= until:
            return states
        await asyncio.sleep(0.1)


def _workers(states: Sequence[PluginState]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(state.worker for state in states))


__all__ = ["ALL", "PluginRecorder", "Reloaded", "Unreachable", "list_plugins", "reload_plugin", "until_started"]
