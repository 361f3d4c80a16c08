"""The gateway's process: its sockets, its servers, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import socket
import time
from collections.abc import Callable, Generator, Sequence
from email.utils import formatdate
from typing import Final

import uvicorn
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope
from uvicorn.server import ServerState

from bus.config.settings import Settings
from bus.errors import ConfigError, FleethookError
from bus.hooksets.in_force import Watcher
from bus.ids import consumer_name
from bus.shim.answer_file import program_spool
from bus.system.directories import Directories
from bus.system.locks import Held, own, write_private
from bus.system.version import installed_version
from bus.transport import Transport
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.fleet_control.enforcement import Enforcement
from workers.gateway import registration
from workers.gateway.access import LOCAL, Access
from workers.gateway.app import api_paths, application
from workers.gateway.approvals.link_pages import link_pages
from workers.gateway.approvals.question_paths import approval_paths
from workers.gateway.approvals.remember_paths import remember_paths
from workers.gateway.asyncapi import AsyncApi
from workers.gateway.calls.entries import Entries
from workers.gateway.calls.hooks import Hooks
from workers.gateway.calls.programs import Programs
from workers.gateway.door import Door
from workers.gateway.gobby.listeners import MOST_MESSAGE, GobbyListeners
from workers.gateway.gobby.websocket import gobby_socket
from workers.gateway.health import Health
from workers.gateway.hooksets.hookset_paths import Publishing
from workers.gateway.hooksets.operator import Operator
from workers.gateway.hooksets.trials import Trials
from workers.gateway.limits import Admission, allow_open_files, limits_for
from workers.gateway.live.feed import Feed
from workers.gateway.live.sse import LiveEvents
from workers.gateway.live.websocket import LiveSocket
from workers.gateway.mcp.path import McpPath
from workers.gateway.mcp.tools import Tools
from workers.gateway.metrics import Metrics
from workers.gateway.pages.sign_in_paths import sign_in_paths
from workers.gateway.pages.sign_ins import SignIns
from workers.gateway.pages.static_files import page_paths
from workers.gateway.protocols import limited
from workers.gateway.records.delivery_views import delivery_paths
from workers.gateway.records.message_paths import message_paths
from workers.gateway.records.operations import Operations
from workers.gateway.records.record_lists import RecordLists
from workers.gateway.records.replays import Replays
from workers.gateway.records.stop_paths import stop_paths
from workers.gateway.sockets import BACKLOG, is_loopback, socket_address, tcp_socket, tcp_url, unix_socket
from workers.gateway.tokens import TokenBook
from workers.runtime.consumer_loop import cancel_tasks
from workers.runtime.counters import Counters
from workers.runtime.process import DRAIN_SECONDS

log = logging.getLogger("fleethook.gateway")

_PORT_SECONDS: Final = 1.0
_GOODBYE_SECONDS: Final = 0.5
"""How long WebSockets may take to close themselves at the gateway's end."""
_MOST_MESSAGE: Final = 64 * 1024
"""The most bytes of a message that a client of the live feed sends."""


class Gateway:
    """One gateway: serves HTTP on a TCP port and on a unix socket, in front of the bus at `url`."""

    def __init__(
        self,
        url: str,
        rq: Connections,
        keys: Keys,
        connections: Connections,
        watcher: Watcher,
        settings: Settings,
        places: Directories,
        door: Door | None = None,
    ) -> None:
        """`door`: the sockets that have listened so far; None: it opens its own."""
        self._connections, self._keys, self._settings = connections, keys, settings
        self.socket, self._file = places.gateway_socket, places.gateway_file
        self._door = door
        self.name = consumer_name("gateway") if door is None else door.name
        self._tokens = TokenBook(connections, keys)
        self._transport = transport = Transport(
            connections, keys, program_spool(places, url, keys.prefix), drains=False
        )
        policy, budget, self._stops = settings.on_failure, settings.budget, Enforcement(connections, keys)
        self._counters = Counters(connections, keys)
        self._feed = Feed(
            connections,
            keys,
            events=settings.feed_events,
            payload=bool(settings.feed_payload),
            on_dropped=lambda transport: self._counters.add("live_dropped", transport),
        )
        self._operator = Operator(url, settings, places)
        metrics = Metrics(connections, rq, keys, settings, places, watcher, self._feed, installed_version())
        access = Access(settings, self._tokens, SignIns(connections, keys, self._tokens))
        self._gobby = GobbyListeners(
            settings,
            watcher,
            connections,
            keys,
            transport,
            self._stops,
            self._feed,
            metrics,
            access,
            self._gobby_server,
        )
        self._mcp = McpPath(Tools(connections, rq, keys, settings, places, watcher), installed_version(), watcher)
        self._app = application(
            api_paths(
                Hooks(transport, self._stops, budget=budget, policy=policy),
                Entries(transport),
                Programs(transport, self._stops, budget=budget, policy=policy),
                Health(connections, keys),
                metrics,
                RecordLists(connections, rq, keys, settings, watcher),
                Operations(connections, keys, watcher),
                LiveEvents(self._feed),
                AsyncApi(keys, installed_version()),
                installed_version(),
                (
                    *approval_paths(connections, keys),
                    *remember_paths(connections, keys, watcher, self._operator),
                    *stop_paths(connections, keys),
                    *message_paths(connections, keys),
                    *delivery_paths(connections, keys, watcher),
                    *Publishing(connections, keys, self._operator).paths(),
                    *Trials(watcher, settings).paths(),
                    *Replays(connections, keys, watcher).paths(),
                    *sign_in_paths(connections, keys, self._tokens),
                ),
                (*link_pages(connections, keys), *page_paths(), *self._mcp.paths()),
            ),
            {"/v1/live": LiveSocket(self._feed).handle, "/ws": gobby_socket(self._feed).handle},
            access,
        )
        self._servers: list[_Server] = []
        self._addresses: list[str] = []
        self._lock_file = places.gateway_lock
        self._lock: Held | None = None if door is None else door.lock

    async def prepare(self) -> None:
        """Take this machine's lock, then check that the bus can be reached, and that there is a token if others can call.

        Raises ServerError if another gateway of this user runs here, Unreachable, and ConfigError without a token.
        """
        if self._lock is None:  # it comes first: a gateway that may not run is never on the fleet's list
            self._lock = own(self._lock_file, "this user's gateway")
        tokens, host = await self._tokens.tokens(), self._settings.gateway_host
        if self._settings.gateway_port and not tokens and not is_loopback(host):
            raise ConfigError(
                f"the gateway does not listen on {host} while there is no token",
                hint="run `fleethook tokens create NAME` first, or set FLEETHOOK_GATEWAY_HOST to 127.0.0.1",
            )
        await registration.beat_once(self._connections, self._keys, self.name, "")

    async def run(self, stop: asyncio.Event, on_listening: Callable[[], None]) -> None:
        """Serve until `stop`, then finish the calls under way. Calls `on_listening` when the sockets accept calls.

        Call `prepare` first.
        """
        beating: asyncio.Task[None] | None = None
        if self._door is not None:  # somebody calls already
            with contextlib.suppress(FleethookError):
                await self._stops.follow()
        counting, following = (
            asyncio.create_task(one) for one in (self._counters.send_always(), self._stops.keep_fresh())
        )
        try:
            listening = [asyncio.Event(), asyncio.Event()]
            serving = [
                asyncio.create_task(self._serve_socket(listening[0])),
                asyncio.create_task(self._serve_port(stop, listening[1])),
            ]
            ready = asyncio.create_task(_all_set(listening))
            await asyncio.wait([ready, *serving], return_when=asyncio.FIRST_COMPLETED)
            if ready.done():  # else a server has failed
                beating = asyncio.create_task(self._beat())
                serving.append(asyncio.create_task(self._gobby.run(stop)))
                on_listening()
            ending = asyncio.create_task(stop.wait())
            await asyncio.wait([ending, *serving], return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            stop.set()  # if one server has failed, the other one ends too
            self._feed.ended.set()
            self._transport.ends = True
            for server in self._servers:
                server.should_exit = True
            await asyncio.gather(*serving)
        finally:
            await cancel_tasks([counting, following, *([beating] if beating is not None else [])])
            with contextlib.suppress(FleethookError):
                await self._counters.send(now=True)
            for path in (self.socket, self._file):
                path.unlink(missing_ok=True)
            await registration.leave(self._connections, self._keys, self.name)
            await self._operator.close()
            await self._mcp.end()
            if self._lock is not None:
                self._lock.release()

    async def _beat(self) -> None:
        await registration.beat(self._connections, self._keys, self.name, lambda: " ".join(self._addresses))

    async def _serve_socket(self, listening: asyncio.Event) -> None:
        sock = unix_socket(self.socket) if self._door is None else self._door.unix
        await self._serve(_local(self._app), sock, socket_address(self.socket), listening, shared=False)

    async def _serve_port(self, stop: asyncio.Event, listening: asyncio.Event) -> None:
        """Serve the TCP port. If another program has it, log that and try again until it is free."""
        host, port = self._settings.gateway_host, self._settings.gateway_port
        if not port:
            listening.set()
            await stop.wait()
            return
        url = tcp_url(host, port)
        while not stop.is_set():
            try:
                given = self._door and self._door.tcp
                sock = given or tcp_socket(host, port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise ConfigError(f"the gateway cannot listen on {url}: {error.strerror or error}") from error
                if not listening.is_set():
                    log.error(
                        "%s belongs to another program; the gateway serves only %s until it is free. "
                        "FLEETHOOK_GATEWAY_PORT sets another port",
                        url,
                        self.socket,
                    )
                listening.set()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _PORT_SECONDS)
                continue
            await self._serve(self._app, sock, url, listening, shared=True)
            return

    def _gobby_server(self, app: ASGIApp, ping_interval: float, ping_timeout: float) -> _Server:
        admission = Admission(limits_for(allow_open_files(self._settings.gateway_connections), shared=False))
        config = server_config(app, admission, most_message=MOST_MESSAGE)
        config.ws_ping_interval, config.ws_ping_timeout = ping_interval, ping_timeout
        return _Server(config, asyncio.Event())

    def _new_server(self, app: ASGIApp, listening: asyncio.Event, *, shared: bool) -> _Server:
        most = allow_open_files(self._settings.gateway_connections)
        return _Server(server_config(app, Admission(limits_for(most, shared=shared))), listening)

    async def _serve(
        self, app: ASGIApp, sock: socket.socket, address: str, listening: asyncio.Event, *, shared: bool
    ) -> None:
        server = self._new_server(app, listening, shared=shared)
        self._servers.append(server)
        self._addresses.append(address)
        write_private(self._file, "".join(f"{line}\n" for line in self._addresses))
        await server.serve([sock])


class _DatedState(ServerState):
    """What the connections of a server share; the date of a response is made when it is needed."""

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every response."""
        return [(b"date", formatdate(usegmt=True).encode())]

    @default_headers.setter
    def default_headers(self, _headers: list[tuple[bytes, bytes]]) -> None:
        """Leave the headers as they are: uvicorn sets none at the start."""


class _Server(uvicorn.Server):
    """A server that sets an event when it listens, and leaves signals to the process."""

    def __init__(self, config: uvicorn.Config, listening: asyncio.Event) -> None:
        self._ending = asyncio.Event()
        super().__init__(config)
        self._listening = listening
        self.server_state = _DatedState()

    @property
    def should_exit(self) -> bool:
        """Whether the server has to end."""
        return self._ending.is_set()

    @should_exit.setter
    def should_exit(self, ends: bool) -> None:
        (self._ending.set if ends else self._ending.clear)()

    async def main_loop(self) -> None:
        """Wait for the end. uvicorn's own loop looks for it ten times a second, and writes the date of all responses.

        WebSockets close themselves at the end, each with the code of its protocol; uvicorn closes those that are left.
        """
        await self._ending.wait()
        until = time.monotonic() + _GOODBYE_SECONDS
        while self._has_websockets() and time.monotonic() < until:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)

    def _has_websockets(self) -> bool:
        return any(isinstance(one, self.config.ws_protocol_class or ()) for one in self.server_state.connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def server_config(app: ASGIApp, admission: Admission, *, most_message: int = _MOST_MESSAGE) -> uvicorn.Config:
    """The settings of one socket's server: headers of proxies are ignored (`proxy_headers`), and calls are not logged."""
    http, web_socket = limited(admission)
    return uvicorn.Config(
        app,
        http=http,
        ws=web_socket,
        ws_max_size=most_message,
        ws_per_message_deflate=False,  # compression takes time and memory for each of a thousand clients
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=math.ceil(admission.limits.idle_seconds),
        timeout_graceful_shutdown=int(DRAIN_SECONDS),
    )


def _local(app: ASGIApp) -> ASGIApp:
    """The application with every call marked as one through the unix socket."""

    async def marked(scope: AsgiScope, receive: Receive, send: Send) -> None:
        scope[LOCAL] = True
        await app(scope, receive, send)

    return marked


async def _all_set(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        await event.wait()
