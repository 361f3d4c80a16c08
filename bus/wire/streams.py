"""Script calls, stream entries and error replies, for agents and workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bus.errors import FleethookError, Unreachable
from bus.wire.connections import Argument, Command, Connections
from bus.wire.scripts import script

log = logging.getLogger("fleethook.streams")

LATEST_MS: Final = 253_402_300_799_000
"""The last second of the year 9999, the latest that Python's dates can have; stream ids can name later ones."""

MOST_DELIVERIES: Final = 3
"""An entry that was delivered more often is a poison entry (docs/architecture.md, "Time and failure")."""

_AWAY: Final = (
    "OUTOFMEMORY",
    "OOM",
    "READONLY",
    "MISCONF",
    "NOPERMISSION",
    "NOPERM",
    "NOREPLICAS",
    "MASTERDOWN",
    "UNBLOCKED",
    "exhausted the last possible ID",  # until a worker has repaired the stream (workers/runtime/stream_repair.py)
)
"""Error replies (redis-py's class or the server's code) that are treated like a server that is away."""


class StreamEntry(NamedTuple):
    """One stream entry as a group member got it; `delivered` counts how often it was delivered to a member."""

    stream: str
    id: str
    fields: dict[bytes, bytes]
    delivered: int = 1

    @property
    def ms(self) -> int:
        """When it was added, in milliseconds by the server's clock; at most the end of the year 9999."""
        return min(int(self.id.partition("-")[0]), LATEST_MS)


def flat(fields: Iterable[Any]) -> dict[bytes, bytes]:
    """The map in a list of alternating names and values, the form that RESP2 has for maps."""
    items = iter(fields)
    return dict(zip(items, items, strict=False))


class ScriptCall(NamedTuple):
    """One call of a script."""

    name: str
    keys: Sequence[str]
    args: Sequence[Argument]

    def command(self) -> Command:
        """The EVALSHA command."""
        return ("EVALSHA", script(self.name).sha, len(self.keys), *self.keys, *self.args)

    def whole_command(self) -> Command:
        """The EVAL command, for a short script among other commands: it works on a server that has no scripts loaded."""
        return ("EVAL", script(self.name).text, len(self.keys), *self.keys, *self.args)


async def call_all(connections: Connections, calls: Sequence[ScriptCall]) -> list[Any]:
    """The results of `calls`, sent in one write; an error reply is in the list as an exception.

    If the server does not know a script, loads the script and calls it again.
    """
    with connections.lease() as connection:
        replies = await connection.exchange([script_call.command() for script_call in calls])
    await repeat_unknown(connections, calls, replies)
    return replies


async def repeat_unknown(connections: Connections, calls: Sequence[ScriptCall], replies: list[Any]) -> None:
    """Load the scripts that the server did not know, call them again, and put the results into `replies`.

    Safe to repeat: a call that got NOSCRIPT has done nothing. `replies` begins with the replies to `calls`.
    """
    if not any(isinstance(reply, Exception) for reply in replies[: len(calls)]):
        return
    missing = [index for index in range(len(calls)) if is_error(replies[index], "NOSCRIPT")]
    if missing:
        names = {calls[index].name for index in missing}
        with connections.lease() as connection:
            await connection.exchange([("SCRIPT", "LOAD", script(name).text) for name in sorted(names)])
            repeated = await connection.exchange([calls[index].command() for index in missing])
        for index, reply in zip(missing, repeated, strict=True):
            replies[index] = reply
    for script_call, reply in zip(calls, replies, strict=False):
        if isinstance(reply, Exception):
            log.error("script %s: %s; its entry stays pending", script_call.name, reply)


async def call(connections: Connections, name: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
    """The result of one script; raises FleethookError if the server answers with an error."""
    (reply,) = await call_all(connections, [ScriptCall(name, keys, args)])
    return checked(reply, f"script {name}")


def checked(reply: Any, doing: str) -> Any:
    """`reply`, unless it is an error: raises Unreachable if the server takes no writes, else FleethookError."""
    if isinstance(reply, Exception):
        if any(is_error(reply, word) for word in _AWAY):
            raise Unreachable(f"{doing}: {reply}") from reply
        raise FleethookError(f"{doing}: {reply}") from reply
    return reply


def note_refused(replies: Iterable[Any], doing: str) -> None:
    """Log, once, what the server refused of work that is only of use to readers; raises Unreachable if it is away.

    Rights that are older than a key must not stop the work for which the agents wait.
    """
    for reply in replies:
        if isinstance(reply, Exception) and not is_away(reply):
            _log_once(f"{doing}: {reply}")
        else:
            checked(reply, doing)


@lru_cache(256)
def _log_once(text: str) -> None:
    log.error("%s", text)


def is_away(reply: object) -> bool:
    """Whether the server takes no writes now, and may take them later. A missing right does not come by waiting."""
    return any(is_error(reply, word) for word in _AWAY if not word.startswith("NOPERM"))


def is_momentary(error: FleethookError) -> bool:
    """Whether an error passes when the server is back: it is away, or takes no writes now."""
    return isinstance(error, Unreachable) and not is_error(error.__cause__, "NOPERM")


def is_full(reply: object) -> bool:
    """Whether the server refused a command because it is at its memory limit."""
    return is_error(reply, "OOM") or is_error(reply, "OUTOFMEMORY")


def is_error(reply: object, word: str) -> bool:
    """Whether a reply is an error with this word in its class name (redis-py's) or its text (the server's)."""
    return isinstance(reply, Exception) and word in f"{type(reply).__name__.upper()} {reply}"


async def server_now(connections: Connections) -> int:
    """Milliseconds since 1970 by the server's clock: deadlines never depend on the clock of an agent or worker."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("TIME",)])
    seconds, micros = checked(reply, "asking for the time")
    return int(seconds) * 1000 + int(micros) // 1000


class Backoff:
    """Pauses between tries while Redis is away: 0.1 s, doubling to 2 s. Logs the first failure and the recovery."""

    def __init__(self, who: str) -> None:
        self._who, self._pause = who, 0.0

    async def wait(self, error: Exception) -> None:
        """Wait before the next try."""
        if not self._pause:
            log.error("%s: %s; trying again until it works", self._who, error)
        self._pause = min(2.0, self._pause * 2 or 0.1)
        await asyncio.sleep(self._pause)

    def back(self) -> None:
        """Reset the pause after a success."""
        if self._pause:
            log.warning("%s: it works again", self._who)
        self._pause = 0.0
