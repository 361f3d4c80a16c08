"""Name look-ups by the system's resolver; a name server that hangs delays only the requests that need it.

`getaddrinfo` blocks its thread while the name servers are silent, 10 s and more with glibc, even if the caller gave up
long before. In a pool of threads each attempt for such a name would take another thread, until healthy names wait too.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Final

MOST: Final = 128
"""Names that are looked up at the same time, a thread each."""

Lookup = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host (the arguments are host and port); raises OSError if there are none."""

Resolve = Callable[[str], list[str]]
"""Returns the addresses of a name, as texts; may block, and raises OSError if there are none."""


def system_addresses(host: str) -> list[str]:
    """The addresses that the system's resolver returns, in its order; blocks; raises socket.gaierror."""
    return [str(answer[4][0]) for answer in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Lookups:
    """The look-ups of one event loop, one at a time for a name: callers who need the same name wait for the same look-up.

    Its result is not kept: the next connection looks the name up again.
    """

    def __init__(self, resolve: Resolve = system_addresses) -> None:
        self._resolve = resolve
        self._slots = asyncio.Semaphore(MOST)
        self._under_way: dict[str, asyncio.Task[list[str]]] = {}

    async def __call__(self, host: str, _port: int) -> list[str]:
        """The addresses of `host`; raises socket.gaierror. A cancelled caller does not end the look-up for others."""
        task = self._under_way.get(host)
        if task is None:
            task = self._under_way[host] = asyncio.create_task(self._look_up(host))
            task.add_done_callback(lambda ended: self._ended(host, ended))
        return list(await asyncio.shield(task))

    def close(self) -> None:
        """Cancel every look-up under way."""
        for task in list(self._under_way.values()):
            task.cancel()

    async def _look_up(self, host: str) -> list[str]:
        async with self._slots:
            loop = asyncio.get_running_loop()
            result: asyncio.Future[list[str]] = loop.create_future()

            def resolve() -> None:
                found: list[str] | Exception
                try:
                    found = self._resolve(host)
                except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
                    found = error
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(_settle, result, found)

            # A daemon, since an executor's threads would keep the process from ending until they return.
            threading.Thread(target=resolve, name=f"lookup {host}", daemon=True).start()
            return await result

    def _ended(self, host: str, task: asyncio.Task[list[str]]) -> None:
        del self._under_way[host]
        if not task.cancelled():
            task.exception()  # marks it as retrieved: every caller may have been cancelled


def _settle(result: asyncio.Future[list[str]], found: list[str] | Exception) -> None:
    if result.done():
        return
    if isinstance(found, Exception):
        result.set_exception(found)
    else:
        result.set_result(found)
