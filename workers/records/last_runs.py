"""When each hook ran last, read from the verdicts of the newest events and from the newest deliveries.

A run writes no record of its own, so a hook that ran only before the newest events has no entry.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bus.errors import DecodeError
from bus.requests import read_event, read_request
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry
from workers.delivery.deliveries import deliveries
from workers.records.events import events_pages

EVENTS: Final = 500
"""How many of the newest events are read; fewer if their bodies are large."""

DELIVERIES: Final = 200
_BYTES: Final = 8 * 1024 * 1024


class HookRun(NamedTuple):
    """One run of a hook: its time (milliseconds since 1970), and its decision, `failed`, or its delivery's state."""

    ms: int
    what: str


class RunHistory(NamedTuple):
    """The last run of each hook, and the folders in which agents of one host worked."""

    runs: dict[str, HookRun]
    folders: tuple[str, ...] = ()


async def last_runs(connections: Connections, keys: Keys, *, host: str = "") -> RunHistory:
    """The last run of each hook in the newest events and deliveries; `folders` is filled only for a `host`."""
    runs: dict[str, HookRun] = {}
    folders: dict[str, None] = {}
    looked = size = 0
    async for entries in events_pages(connections, keys, newest_first=True):
        for entry in entries:
            for hook, run in _hook_runs(entry.fields.get(b"verdict"), entry.ms):
                runs.setdefault(hook, run)
            if host:
                folders |= dict.fromkeys(filter(None, [_folder(entry, keys, host)]))
            size += sum(map(len, entry.fields.values()))
        looked += len(entries)
        if looked >= EVENTS or size >= _BYTES:
            break
    for delivery in await deliveries(connections, keys, most=DELIVERIES):
        known = runs.get(delivery.hook)
        if delivery.attempts and (known is None or known.ms < delivery.updated):
            runs[delivery.hook] = HookRun(delivery.updated, delivery.state)
    return RunHistory(runs, tuple(folders))


def _hook_runs(raw: bytes | None, ms: int) -> list[tuple[str, HookRun]]:
    if raw is None:
        return []
    try:
        verdict = decode_verdict(raw)
    except DecodeError:  # a verdict of another version cannot be read
        return []
    answered = [(part.hook, HookRun(ms, "failed" if part.fallback else part.decision)) for part in verdict.parts]
    return answered + [(hook, HookRun(ms, "abstain")) for rules in verdict.silent.values() for hook in rules]


def _folder(entry: StreamEntry, keys: Keys, host: str) -> str:
    """The working folder of an event of `host`; empty for an event of another host."""
    request = read_request(entry, keys)
    if request.host != host:
        return ""
    try:
        return read_event(request).cwd
    except DecodeError:
        return ""
