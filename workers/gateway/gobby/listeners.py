"""The ports of Gobby's daemon, open while a hook file in force imports Gobby's configuration."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol

from starlette.types import ASGIApp

from bus.config.settings import Settings
from bus.events import Event
from bus.hooksets.in_force import Watcher
from bus.transport import Transport
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.fleet_control.enforcement import Enforcement
from workers.gateway.access import Access
from workers.gateway.gobby.app import Parts, http_app, websocket_app
from workers.gateway.gobby.config import GobbyConfig, gobby_config, may_replace
from workers.gateway.gobby.execute import HookCalls
from workers.gateway.gobby.plugin_lists import PluginLists
from workers.gateway.gobby.status import GobbyStatus
from workers.gateway.gobby.tally import GobbyTally
from workers.gateway.gobby.websocket import GobbySocket
from workers.gateway.live.feed import Feed
from workers.gateway.metrics import Metrics
from workers.waiting.pulses import next_pulse

log = logging.getLogger("fleethook.gateway")

_HOST: Final = "127.0.0.1"

MOST_MESSAGE: Final = 5 * 2**20
"""The most bytes of a message of a WebSocket client, as in Gobby's last releases."""


class Server(Protocol):
    """The part of a uvicorn server's interface that is used here."""

    should_exit: bool

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve on these sockets until `should_exit`."""
        ...


class GobbyListeners:
    """Serves Gobby's ports, and follows changes of the configuration within seconds."""

    def __init__(
        self,
        settings: Settings,
        watcher: Watcher,
        connections: Connections,
        keys: Keys,
        transport: Transport,
        stops: Enforcement,
        feed: Feed,
        metrics: Metrics,
        access: Access,
        new_server: Callable[[ASGIApp, float, float], Server],
    ) -> None:
        self._settings, self._watcher, self._connections, self._keys = settings, watcher, connections, keys
        self._feed, self._metrics, self._access, self._new_server = feed, metrics, access, new_server
        self._tally = GobbyTally()
        self._execute = HookCalls(
            transport,
            stops,
            self._tally,
            budget=settings.budget,
            policy=settings.on_failure,
            approves=bool(settings.gobby_approves),
        )
        self._running: dict[int, tuple[Server, asyncio.Task[None]]] = {}
        self._refused: set[int] = set()
        self._ended = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`."""
        current: GobbyConfig | None = None
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                wanted = await self._config()
                if wanted != current:
                    await self._end()
                    current = wanted
                if current is not None:
                    self._open(current)
                waits: set[asyncio.Future[Any]] = {stopping, next_pulse()}
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await self._end()

    async def _config(self) -> GobbyConfig | None:
        try:
            await self._watcher.refresh()
            layers = self._watcher.for_event(Event(type="", host=self._watcher.host)).files
            if not may_replace(self._settings, layers):  # the usual case needs no thread
                return None
            return await asyncio.to_thread(gobby_config, self._settings, layers)
        except Exception:
            log.exception("the configuration of Gobby; its ports stay closed")  # the gateway's own are not touched
            return None

    def _open(self, config: GobbyConfig) -> None:
        """Open the ports that are not open yet. A port that another program has is tried again a second later."""
        wanted = {port for port in (config.port, config.websocket_port) if port} - self._running.keys()
        if not wanted:
            return
        parts = self._parts(config)
        for port in wanted:
            try:
                sock = _listening(port)
            except OSError as error:
                if port not in self._refused:
                    self._refused.add(port)
                    log.error("port %d of gobby: %s; it is tried again every second", port, _reason(error))
                continue
            self._refused.discard(port)
            app = http_app(parts) if port == config.port else websocket_app(parts)
            server = self._new_server(app, config.ping_interval, config.ping_timeout)
            self._running[port] = server, asyncio.create_task(server.serve([sock]))
            log.info("listening for gobby's clients on %s:%d", _HOST, port)

    def _parts(self, config: GobbyConfig) -> Parts:
        return Parts(
            self._execute,
            GobbyStatus(self._connections, self._keys, config, self._metrics, self._tally),
            PluginLists(self._connections, self._keys, self._watcher, config, self._settings.gobby_reload),
            self._tally,
            GobbySocket(self._feed, config, self._ended),
            self._access,
        )

    async def _end(self) -> None:
        """Close all connections and ports."""
        self._ended.set()
        running, self._running = list(self._running.values()), {}
        for server, _ in running:
            server.should_exit = True
        if running:
            await asyncio.gather(*(task for _, task in running), return_exceptions=True)
        self._ended = asyncio.Event()


def _listening(port: int) -> socket.socket:
    """A socket on loopback, even if the gateway itself listens elsewhere: Gobby's clients have no token."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((_HOST, port))
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program has it (Gobby's own daemon?)"
    return error.strerror or str(error)
