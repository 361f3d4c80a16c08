"""Names to addresses by the system's resolver, so that a name server that hangs holds up those who need it and nobody else.

`getaddrinfo` blocks its thread for as long as the name servers are silent, 10 s and more with glibc, however early whoever
asked gave up. In a pool of threads each attempt for such a name would take another one, until healthy names wait too.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Final

MOST: Final = 128
"""Names that are looked up at the same time, those whose name server hangs among them; a thread each."""

Lookup = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host, given with its port; raises OSError where there are none."""

Resolve = Callable[[str], list[str]]
"""The addresses of a name, as texts; may block, and raises OSError where there are none."""


def system_addresses(host: str) -> list[str]:
    """What the system's resolver says, in its order; blocks; raises socket.gaierror."""
    return [str(answer[4][0]) for answer in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Lookups:
    """The look-ups of one event loop: one at a time for a name, which everyone who needs it waits for.

    An answer goes to those who wait when it comes and is not kept: the next connection looks the name up anew.
    """

    def __init__(self, resolve: Resolve = system_addresses) -> None:
        self._resolve = resolve
        self._places = asyncio.Semaphore(MOST)
        self._under_way: dict[str, asyncio.Task[list[str]]] = {}

    async def __call__(self, host: str, _port: int) -> list[str]:
        """The addresses of `host`; raises socket.gaierror. Whoever gives up earlier leaves the others their answer."""
        asked = self._under_way.get(host)
        if asked is None:
            asked = self._under_way[host] = asyncio.create_task(self._ask(host))
            asked.add_done_callback(lambda task: self._ended(host, task))
        return list(await asyncio.shield(asked))

    def close(self) -> None:
        """Wait for no answer any more."""
        for task in list(self._under_way.values()):
            task.cancel()

    async def _ask(self, host: str) -> list[str]:
        async with self._places:
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[list[str]] = loop.create_future()

            def look() -> None:
                found: list[str] | Exception
                try:
                    found = self._resolve(host)
                except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
                    found = error
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(_tell, answer, found)

            # A daemon, since an executor's threads would keep the whole process from ending until they have answers.
            threading.Thread(target=look, name=f"lookup {host}", daemon=True).start()
            return await answer

    def _ended(self, host: str, task: asyncio.Task[list[str]]) -> None:
        del self._under_way[host]
        if not task.cancelled():
            task.exception()  # whoever waited has it; perhaps nobody does any more


def _tell(answer: asyncio.Future[list[str]], found: list[str] | Exception) -> None:
    if answer.done():
        return
    if isinstance(found, Exception):
        answer.set_exception(found)
    else:
        answer.set_result(found)
