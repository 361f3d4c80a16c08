"""All connections to Redis, with their timeouts. No other module opens one.

redis-py 8's defaults (5 s socket timeout, 10 retries) turn a blocking read into a 59 s stall and add an entry twice
when its reply is lost (measured on 8.1.0). Here the client never retries: its caller first checks what arrived.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from bus.errors import Unreachable
from bus.secrets.redaction import redact_url

if TYPE_CHECKING:  # importing redis takes 60 to 150 ms, so functions import it when they need it
    import redis as redis_sync
    import redis.asyncio as redis_async

    from bus.wire.exchange_times import ExchangeTimes
    from bus.wire.protocol import Wire

START_HINT: Final = "; is it running? `fleethook up` starts one"
CONNECT_SECONDS: Final = 0.25
"""Longest wait of a hook for a connection, in seconds; part of the budget (docs/architecture.md, "Time and failure")."""

PATIENT_CONNECT_SECONDS: Final = 3.0
"""The same of a command that a person runs: on a busy machine, or to a far server with TLS, a second is too short."""

LOGIN_SECONDS: Final = 1.0
"""How many seconds longer than for the connection a new one waits for the server's first replies: a server that hangs accepts
connections, and says nothing."""

LOADING_SECONDS: Final = 10.0
"""How long such a command waits for a server that has just started and still reads its data."""

_LOOK_SECONDS: Final = 0.1
_LOADING: Final = "LOADING"
_METRICS: Final = "opentelemetry.sdk.metrics"

COMMAND_SECONDS: Final = 5.0
"""Longest wait for the reply to a command that does not block."""

MARGIN_SECONDS: Final = 1.0
"""How many seconds longer than requested a blocking read may take before the connection counts as dead."""

_MOMENT: Final = 4
"""For how many turns of the event loop commands are collected that go out together: tasks that one timer wakes need two."""

Argument = bytes | str | int | float
Command = tuple[Argument, ...]


def _options(seconds: float | None, connect: float) -> dict[str, Any]:
    """The options of every connection: no retry, RESP2, which Redis 6.2 and Valkey speak, and no client banner."""
    from redis.backoff import NoBackoff

    return {
        "socket_timeout": seconds,
        "socket_connect_timeout": connect,
        "retry_on_timeout": False,
        "protocol": 2,
        "driver_info": None,
        "backoff": NoBackoff(),
    }


class Connection:
    """One connection, used by one caller at a time: sends several commands in one write and reads their replies."""

    times: ClassVar[ExchangeTimes | None] = None
    """Where this process notes how long its exchanges take; None where nothing reads that."""

    def __init__(self, connection: redis_async.Connection, connect: float, loading: float = 0.0) -> None:
        """`loading`: for how many seconds to wait for a server that still reads its data."""
        self._connection, self._connect, self._loading = connection, connect, loading
        self._wire: Wire | None = None
        self._refused = self._explains = False
        """Whether a reply has said that our user lacks a right, and whether it is being found out which."""
        self._explained: dict[tuple[Any, ...], Exception] = {}

    async def exchange(
        self,
        commands: Sequence[Command],
        seconds: float | None = COMMAND_SECONDS,
        first: Callable[[Any], None] | None = None,
        firsts: int = 1,
    ) -> list[Any]:
        """The replies to `commands`, in order; an error reply is in the list as an exception.

        `seconds` bounds the whole exchange, after the time that a new connection takes. `first` gets each of the first `firsts`
        replies and may raise, which closes the connection without waiting for the others.

        Raises Unreachable if the connection fails. The server may have run the commands even then, so check before you repeat
        them.
        """
        if not commands:  # the server sends no reply that could be waited for
            return []
        try:
            wire = await self._opened(seconds)
            began = time.perf_counter()
            replies = await wire.exchange(commands, seconds, first, firsts)
        except BaseException as error:  # noqa: BLE001 - `_fail` raises it again
            await self._fail(error)
        if self.times is not None:
            self.times.note(commands, time.perf_counter() - began)
        if self._refused and not self._explains:
            await self._explain(commands, replies)
        return replies

    async def open(self, seconds: float = COMMAND_SECONDS) -> None:
        """Connect if it is not connected: for a caller whose commands say how much time is left. Raises Unreachable."""
        try:
            await self._opened(seconds)
        except BaseException as error:  # noqa: BLE001 - `_fail` raises it again
            await self._fail(error)

    async def _fail(self, error: BaseException) -> NoReturn:
        """Close the connection and raise `error`, as Unreachable if the connection failed.

        A caller may be cancelled between write and read: without closing, the next caller would get this caller's replies.
        """
        await self.close()
        if not isinstance(error, OSError):  # TimeoutError is a subclass
            raise error
        if self.times is not None:
            self.times.note_error(error)
        raise Unreachable(unreachable_text(error)) from error

    async def _opened(self, seconds: float | None) -> Wire:
        if self._wire is None or self._wire.lost:
            longest = min(self._connect + LOGIN_SECONDS, seconds or COMMAND_SECONDS)
            async with asyncio.timeout(max(self._connect, longest)):
                self._wire = await self._open()
            if self._loading:
                await self._wait_while_loading(self._wire)
        return self._wire

    async def _wait_while_loading(self, wire: Wire) -> None:
        """Return when the server answers; raises ConnectionError after too long. Only a PING is repeated."""
        until = time.monotonic() + self._loading
        while True:
            try:
                await wire.exchange([("PING",)], COMMAND_SECONDS, None)
            except ConnectionError as error:
                if _LOADING not in str(error) or time.monotonic() > until:
                    raise
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                return

    async def _explain(self, commands: Sequence[Command], replies: list[Any]) -> None:
        """Say in those replies which say that our user lacks a right which one that is."""
        from bus.wire.missing_rights import explained, is_refused

        self._explains, user = True, getattr(self._connection, "username", "")
        try:
            for index, (command, reply) in enumerate(zip(commands, replies, strict=False)):
                if is_refused(reply):
                    about = (command[0], command[1:2], str(reply))
                    if about not in self._explained:
                        self._explained[about] = await explained(self.exchange, user, command, reply)
                    replies[index] = self._explained[about]
        finally:
            self._refused = self._explains = False

    async def _open(self) -> Wire:
        from redis.exceptions import BusyLoadingError, RedisError
        from redis.exceptions import ConnectionError as RedisConnectionError

        from bus.wire.protocol import Wire

        connection = self._connection
        try:
            await connection.disconnect(nowait=True)  # redis-py does not know yet that a lost connection is closed
            await connection.connect()  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
        except RedisError as error:
            if self.times is not None:
                self.times.note_error(error)
            raise Unreachable(unreachable_text(error)) from error
        # redis-py has no public access to its transport; the contract tests fail if these names change.
        writer, parser = connection._writer, connection._parser  # noqa: SLF001
        assert writer is not None  # noqa: S101 - it has just been opened

        def parse(text: str) -> Exception:
            self._refused = self._refused or text.startswith(("NOPERM", "ERR ACL failure"))
            error: Exception = parser.parse_error(text)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
            if isinstance(error, BusyLoadingError):
                return ConnectionError(f"{_LOADING} {error}")  # redis-py leaves the word out
            return ConnectionError(str(error)) if isinstance(error, RedisConnectionError) else error

        return Wire(writer.transport, parse)

    async def close(self) -> None:
        """Close the connection; the next exchange opens it again."""
        self._wire = None
        await self._connection.disconnect(nowait=True)


class LeasedConnection:
    """A connection while its caller uses it. Not a generator, which took a tenth of an exchange's time (measured)."""

    __slots__ = ("_connection", "_connections")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def __enter__(self) -> Connection:
        self._connection = self._connections.take()
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connections.give_back(self._connection)


class Connections:
    """The connections to one server: a caller takes one and gives it back; a new one is opened if none is free."""

    def __init__(self, url: str, *, connect: float = CONNECT_SECONDS, loading: float = 0.0) -> None:
        """`connect`: the longest wait for a connection. `loading`: how long to wait for a server that still reads its data."""
        self.url = url
        self._connect, self._loading = connect, loading
        self._free: list[Connection] = []
        self._all: list[Connection] = []
        self._pool: redis_async.ConnectionPool | None = None
        self._together: list[Command] = []
        self._sending: asyncio.Task[list[Any]] | None = None

    def lease(self) -> LeasedConnection:
        """A connection for the caller alone: `with connections.lease() as connection`."""
        return LeasedConnection(self)

    def take(self) -> Connection:
        """A free connection, or a new one; the caller gives it back."""
        return self._free.pop() if self._free else self._open()

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next caller."""
        self._free.append(connection)

    async def together(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to `commands`. Commands of several callers at the same moment are sent in one write.

        For what is done from time to time: each exchange of its own would wake this process and the server once more. Raises
        Unreachable.
        """
        if self._sending is None:
            self._together = []
            self._sending = asyncio.create_task(self._send_together(self._together))
            self._sending.add_done_callback(_note_error)
        sending, start = self._sending, len(self._together)
        self._together += commands
        replies = await asyncio.shield(sending)
        return replies[start : start + len(commands)]

    async def _send_together(self, commands: list[Command]) -> list[Any]:
        for _ in range(_MOMENT):
            await asyncio.sleep(0)
        self._sending = None
        with self.lease() as connection:
            return await connection.exchange(commands)

    def _open(self) -> Connection:
        if self._pool is None:
            self._pool = _async_pool(self.url, COMMAND_SECONDS, self._connect)
        made = self._pool.make_connection()  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
        connection = Connection(made, self._connect, self._loading)
        self._all.append(connection)
        return connection

    async def close(self) -> None:
        """Close every connection."""
        for connection in self._all:
            await connection.close()
        self._all.clear()
        self._free.clear()


def _note_error(task: asyncio.Task[list[Any]]) -> None:
    """Take the error of a shared exchange: at a process's end those who asked may be gone, and asyncio would log it."""
    if not task.cancelled():
        task.exception()


def _async_pool(url: str, seconds: float | None, connect: float) -> redis_async.ConnectionPool:
    import redis.asyncio as redis_async
    from redis.asyncio.retry import Retry

    options = _options(seconds, connect)
    retry = Retry(options.pop("backoff"), 0)
    try:
        return redis_async.ConnectionPool.from_url(url, retry=retry, **options)
    except ValueError as error:
        raise Unreachable(f"redis URL {redact_url(url)!r} is not valid: {error}") from error


def client(url: str, *, seconds: float | None = COMMAND_SECONDS, connect: float = 1.0) -> redis_async.Redis:
    """An asynchronous client for commands that do not block longer than `seconds`; the caller closes it."""
    import redis.asyncio as redis_async

    return redis_async.Redis.from_pool(_async_pool(url, seconds, connect))


def sync_client(url: str, *, seconds: float | None = COMMAND_SECONDS, name: str = "") -> redis_sync.Redis:
    """A synchronous client, for RQ and for tests. RQ raises the timeout of its pool, so it gets a pool of its own.

    With a `name`, the server lists each of its connections under that name, also after a reconnect.
    """
    import redis as redis_sync
    from redis.retry import Retry

    options = _options(seconds, 1.0)
    retry = Retry(options.pop("backoff"), 0)
    named = {"client_name": name} if name else {}
    client: redis_sync.Redis = redis_sync.Redis.from_url(url, retry=retry, **options, **named)
    return client


def unreachable_text(error: BaseException) -> str:
    """The message about a server that cannot be used: what is wrong, and what to do."""
    text = str(error) or type(error).__name__
    if isinstance(error, TimeoutError | asyncio.TimeoutError) or "Timeout" in type(error).__name__:
        return f"redis did not answer in time ({text})"
    # redis-py cuts off the server's error code if it has a class for it, and wraps the error of a failed log-in.
    inner = error.__cause__ or error.__context__
    known = f"{type(error).__name__} {type(inner).__name__} {text}"
    if any(word in known for word in ("NOAUTH", "WRONGPASS", "NOPERM", "Authentication", "NoPermission")):
        return f"redis refused the credentials ({text}); see `fleethook acl`"
    if _LOADING in known or "BusyLoading" in known:
        return f"redis has just started and still reads its data ({text}); try again in a moment"
    if any(word in known for word in ("OOM", "MISCONF", "READONLY", "OutOfMemory", "ReadOnly")):
        return f"redis does not take writes ({text})"
    return f"redis cannot be reached ({text}){START_HINT}"


def import_redis() -> None:
    """Import redis-py without the SDK's metrics.

    redis-py imports them wherever they are installed, and no process of Fleethook uses them (redis-py 8.1: 2.3 MiB and 30 ms
    of each process). Only for processes of our own: in a user's program redis-py has to find what it looks for.
    """
    if _METRICS in sys.modules or "redis" in sys.modules:
        return
    sys.modules[_METRICS] = None  # type: ignore[assignment]  # the import system's own word for "there is none"
    try:
        import redis.asyncio  # noqa: F401
    finally:
        del sys.modules[_METRICS]
