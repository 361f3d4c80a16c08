"""The gateway's process: its sockets, its servers, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Generator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from bus.config.settings import Settings
from bus.errors import ConfigError
from bus.hooksets.in_force import Watcher
from bus.ids import consumer_name
from bus.shim.answer_file import program_spool
from bus.system.directories import Directories
from bus.system.locks import own, write_private
from bus.transport import Transport
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.gateway import registration
from workers.gateway.access import LOCAL, Access, bracketed, is_loopback
from workers.gateway.app import application, endpoints
from workers.gateway.doing import Doing
from workers.gateway.entries import Entries
from workers.gateway.health import Health
from workers.gateway.hooks import Hooks
from workers.gateway.live.feed import Feed
from workers.gateway.live.sse import LiveEvents
from workers.gateway.live.websocket import LiveSocket
from workers.gateway.metrics import Metrics
from workers.gateway.programs import Programs
from workers.gateway.protocols import HttpProtocol, WebSocketProtocol
from workers.gateway.reading import Reading
from workers.gateway.tokens import TokenBook
from workers.runtime.process import DRAIN_SECONDS

log = logging.getLogger("fleethook.gateway")

_PORT_SECONDS: Final = 1.0
_BACKLOG: Final = 2048
_KEEP_ALIVE_SECONDS: Final = 75
_MOST_MESSAGE: Final = 64 * 1024
"""The most bytes of a message that a client of the live feed sends."""


class Gateway:
    """One gateway: HTTP on a TCP port and on a unix socket, in front of the bus at `url`."""

    def __init__(
        self,
        url: str,
        rq: Connections,
        keys: Keys,
        connections: Connections,
        watcher: Watcher,
        settings: Settings,
        places: Directories,
    ) -> None:
        self._connections, self._keys, self._settings = connections, keys, settings
        self.socket, self._file = places.gateway_socket, places.gateway_file
        self.name = consumer_name("gateway")
        self._tokens = TokenBook(connections, keys)
        transport = Transport(connections, keys, program_spool(places, url, keys.prefix), drains=False)
        policy, budget = settings.on_failure, settings.budget
        self._feed = Feed(connections, keys, events=settings.feed_events, payload=bool(settings.feed_payload))
        self._app = application(
            endpoints(
                Hooks(transport, budget=budget, policy=policy),
                Entries(transport),
                Programs(transport, budget=budget, policy=policy),
                Health(connections, keys),
                Metrics(connections, rq, keys, settings, places, _version()),
                Reading(connections, rq, keys, settings, watcher),
                Doing(connections, keys, watcher),
                LiveEvents(self._feed),
                _version(),
            ),
            LiveSocket(self._feed),
            Access(settings, self._tokens),
        )
        self._servers: list[_Server] = []
        self._addresses: list[str] = []
        self._lock = places.gateway_lock

    async def prepare(self) -> None:
        """Check that the bus can be reached, and that there are tokens where others than this machine can call.

        Raises Unreachable, and ConfigError where there is no token.
        """
        tokens, host = await self._tokens.tokens(), self._settings.gateway_host
        if self._settings.gateway_port and not tokens and not is_loopback(host):
            raise ConfigError(
                f"the gateway does not listen on {host} while there is no token",
                hint="run `fleethook tokens create NAME` first, or set FLEETHOOK_GATEWAY_HOST to 127.0.0.1",
            )
        await registration.beat_once(self._connections, self._keys, self.name, "")

    async def run(self, stop: asyncio.Event, on_listening: Callable[[], None]) -> None:
        """Serve until `stop`, then finish what is under way; `on_listening` is called once the sockets take calls.

        Raises ServerError if another gateway of this user runs here.
        """
        lock = own(self._lock, "this user's gateway")
        beating: asyncio.Task[None] | None = None
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
                on_listening()
            ending = asyncio.create_task(stop.wait())
            await asyncio.wait([ending, *serving], return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            stop.set()  # where a server has failed, the other one ends too
            self._feed.ended.set()
            for server in self._servers:
                server.should_exit = True
            await asyncio.gather(*serving)
        finally:
            if beating is not None:
                beating.cancel()
                await asyncio.wait([beating])
            for path in (self.socket, self._file):
                path.unlink(missing_ok=True)
            await registration.leave(self._connections, self._keys, self.name)
            lock.release()

    async def _beat(self) -> None:
        await registration.beat(self._connections, self._keys, self.name, lambda: " ".join(self._addresses))

    async def _serve_socket(self, listening: asyncio.Event) -> None:
        await self._serve(_local(self._app), _unix_socket(self.socket), f"unix:{self.socket}", listening)

    async def _serve_port(self, stop: asyncio.Event, listening: asyncio.Event) -> None:
        """Serve the TCP port; while another program has it, say so and try again until it is free."""
        host, port = self._settings.gateway_host, self._settings.gateway_port
        if not port:
            listening.set()
            await stop.wait()
            return
        url = f"http://{bracketed(host)}:{port}"
        while not stop.is_set():
            try:
                sock = _tcp_socket(host, port)
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
            await self._serve(self._app, sock, url, listening)
            return

    async def _serve(self, app: ASGIApp, sock: socket.socket, address: str, listening: asyncio.Event) -> None:
        server = _Server(_config(app), listening)
        self._servers.append(server)
        self._addresses.append(address)
        write_private(self._file, "".join(f"{line}\n" for line in self._addresses))
        await server.serve([sock])


class _Server(uvicorn.Server):
    """A server that says when it listens, and leaves signals to the process."""

    def __init__(self, config: uvicorn.Config, listening: asyncio.Event) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _config(app: ASGIApp) -> uvicorn.Config:
    """Nothing of what a caller says about itself is believed (`proxy_headers`), and no call is logged."""
    return uvicorn.Config(
        app,
        http=HttpProtocol,
        ws=WebSocketProtocol,
        ws_max_size=_MOST_MESSAGE,
        ws_per_message_deflate=False,  # a thousand clients would each cost its time and memory
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(DRAIN_SECONDS),
    )


def _local(app: ASGIApp) -> ASGIApp:
    """The application for calls through the unix socket."""

    async def marked(scope: AsgiScope, receive: Receive, send: Send) -> None:
        scope[LOCAL] = True
        await app(scope, receive, send)

    return marked


def _unix_socket(path: Path) -> socket.socket:
    """A listening socket that only this user can open; the lock says that an older one is nobody's."""
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(path))
    path.chmod(0o600)  # its folder is this user's alone, so nobody can connect before
    sock.setblocking(False)
    return sock


def _tcp_socket(host: str, port: int) -> socket.socket:
    """A socket that is bound to the address; raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


async def _all_set(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


def _version() -> str:
    try:
        return metadata.version("fleethook")
    except metadata.PackageNotFoundError:
        return "0+checkout"
