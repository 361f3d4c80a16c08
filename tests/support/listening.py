"""Ends a server of asyncio without losing a connection that it is just accepting."""

from __future__ import annotations

import asyncio

_ACCEPTING = 4
"""Turns of the loop in which an accepted connection becomes a transport, and then a task of ours."""


async def stop_listening(server: asyncio.Server) -> None:
    """Accept nothing more, let what was accepted become tasks, and close the server.

    `Server.close` alone breaks a connection that was accepted in the same turn of the loop (Python 3.11: `Server._attach`
    fails an assertion). Its socket is closed by the garbage collector, whose warning fails a later test.
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())
    for _ in range(_ACCEPTING):
        await asyncio.sleep(0)
    server.close()
