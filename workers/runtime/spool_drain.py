"""Drains the spools of this machine, where a hook command that finds no server leaves its events.

Every evaluator, dispatcher and host worker checks them; the drain lock lets only one of them send. A spool is ours
if its agent's answer file names our fleet and server, or its own name does (`bus/shim/spool.py`).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Final

from bus.errors import FleethookError
from bus.shim.answer_file import RedisServer, program_spool, read_answer_file, server_from_url
from bus.shim.spool import Draining, add_commands, spools
from bus.system.directories import Directories, directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, server_now
from workers.runtime.process import Work, with_task
from workers.waiting.pulses import pulse

log = logging.getLogger("fleethook.spools")

_LOCK_SECONDS: Final = 0.1
"""How long we wait for a spool that a hook command has locked, before we try again later."""


def draining(url: str, work: Work) -> Work:
    """The work of a process, plus a task that drains this machine's spools."""
    return with_task(work, partial(_drain_on, url))


async def drain_spools(places: Directories, url: str, keys: Keys, connections: Connections) -> int:
    """Send the entries of this machine's spools for the server at `url`, in order; returns how many.

    Raises Unreachable; entries that are not acknowledged stay.
    """
    sent, program_folder = 0, program_spool(places, url, keys.prefix)
    for path in map(Path, spools(program_folder.parent)):
        waits, marked = _is_there(path, "") or _is_there(path, ".draining"), _is_there(path, ".away")
        if not (waits or marked):
            continue
        if path != program_folder and not is_ours(
            path.name, places, await asyncio.to_thread(server_from_url, url), keys
        ):
            continue
        if marked:  # the server can be reached, so hook commands may wait for it again
            await server_now(connections)
            path.with_name(path.name + ".away").unlink(missing_ok=True)
        if waits:
            sent += await drain(path, keys, connections)
    return sent


async def drain(path: str | Path, keys: Keys, connections: Connections) -> int:
    """Send the entries of one spool; returns how many, 0 if another process drains it. Raises Unreachable and OSError."""
    try:
        with Draining(path, _LOCK_SECONDS) as spool:
            for batch in spool.batches():
                with connections.lease() as connection:
                    for reply in await connection.exchange(add_commands(keys.prefix, batch)):
                        checked(reply, f"sending the entries of {path}")
            return spool.done.sent
    except (BlockingIOError, TimeoutError):
        return 0


async def _drain_on(url: str, keys: Keys, connections: Connections) -> None:
    places = directories()
    while True:
        try:
            if sent := await drain_spools(places, url, keys, connections):
                log.info("sent %d events that waited on this machine's disk", sent)
        except (FleethookError, OSError) as error:
            log.debug("spools are not drained: %s", error)
        await pulse()


def _is_there(path: Path, end: str) -> bool:
    return path.with_name(path.name + end).exists()


def is_ours(agent: str, places: Directories, server: RedisServer, keys: Keys) -> bool:
    """Whether the hook commands of an agent on this machine ask our fleet, by its answer file."""
    try:
        answers, path = read_answer_file(places.answer_file(agent)), places.spool(agent)
    except FleethookError:
        return False
    known = answers.server
    if known.gateway:
        return known.address == str(places.gateway_socket) and Path(answers.spool) == path
    same = (known.kind, known.address, known.port, known.db) == (
        server.kind,
        server.address,
        server.port,
        server.db,
    )
    named = known.name != "" and (known.name, known.port, known.db) == (
        server.name,
        server.port,
        server.db,
    )
    return answers.prefix == keys.prefix and Path(answers.spool) == path and (same or named)
