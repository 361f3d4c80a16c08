"""Keeps the flags of stops on this machine, beside the answer files of its agents, so that a stop outlives an outage here.

Every evaluator, dispatcher, gateway and host worker does this; they write the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from pathlib import Path
from typing import Final

from bus.errors import FleethookError
from bus.shim.answer_file import RedisServer, read_answer_file, server_from_url
from bus.shim.main import FLAG
from bus.shim.stop_flag import keep
from bus.system.directories import Directories, directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.fleet_control.enforcement import Enforcement
from workers.fleet_control.reach import Reach
from workers.runtime.process import Work, with_task
from workers.runtime.spool_drain import is_ours
from workers.waiting.pulses import pulse

log = logging.getLogger("fleethook.stops")

_AGAIN_SECONDS: Final = 5.0
"""How often it is recorded again what is kept here: an evaluator may record later what a call said before the stop."""


def keeping_flags(url: str, work: Work) -> Work:
    """The work of a process, plus a task that keeps this machine's flags."""
    return with_task(work, partial(_keep_on, url))


async def keep_flags(places: Directories, url: str, keys: Keys, stops: Enforcement, reach: Reach) -> None:
    """Write, change or remove the flags of this machine by the stops in force; raises Unreachable."""
    began = time.time()
    await stops.follow()
    folder = places.answer_file("any").parent
    if not stops.stops and not any(path.name.endswith(FLAG) for path in _files(folder)):
        return
    server = await asyncio.to_thread(server_from_url, url)
    await asyncio.to_thread(_write, folder, places, server, keys, stops, reach, began)
    await reach.send()


def _write(
    folder: Path,
    places: Directories,
    server: RedisServer,
    keys: Keys,
    stops: Enforcement,
    reach: Reach,
    began: float,
) -> None:
    for path in _files(folder):
        flag_file = path.with_name(path.name + FLAG)
        if path.name.endswith(FLAG) or path.name.startswith(".") or not is_ours(path.name, places, server, keys):
            continue
        try:
            answers = read_answer_file(path)
            flag = stops.flag(answers.host, answers.agent)
            if flag or flag_file.exists():
                keep(str(flag_file), flag, began)
                reach.note(answers.host, answers.agent, stops.names if flag else ())
        except (FleethookError, OSError) as error:
            log.error("the stop cannot be kept for %s: %s", path.name, error)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


async def _keep_on(url: str, keys: Keys, connections: Connections) -> None:
    places, stops, began = directories(), Enforcement(connections, keys), float("-inf")
    while True:
        if time.monotonic() - began >= _AGAIN_SECONDS:
            reach, began = Reach(connections, keys), time.monotonic()
        try:
            await keep_flags(places, url, keys, stops, reach)
        except (FleethookError, OSError) as error:
            log.debug("flags of stops are as they were: %s", error)
        await pulse()
