"""When each hook ran last, as the record has it: the newest events' verdicts, and the newest deliveries.

Nothing is written for it while hooks run: whoever asks looks back a little, and a hook that ran longer ago shows none.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bus.errors import DecodeError
from bus.requests import read_event, read_request
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import Entry
from workers.delivery.deliveries import deliveries
from workers.records.events import events_pages

EVENTS: Final = 500
"""Newest events that are looked through; fewer where their bodies are large."""

DELIVERIES: Final = 200
_BYTES: Final = 8 * 1024 * 1024


class HookRun(NamedTuple):
    """One run of a hook: when (milliseconds since 1970), and what came of it: a decision, `failed`, or a delivery's state."""

    ms: int
    what: str


class RunHistory(NamedTuple):
    """What the newest part of the record says: the last run by hook, and the folders in which agents of a host were."""

    runs: dict[str, HookRun]
    folders: tuple[str, ...] = ()


async def last_runs(connections: Connections, keys: Keys, *, host: str = "") -> RunHistory:
    """The newest run of every hook in the newest events and deliveries; `folders` only where a `host` is asked for."""
    runs: dict[str, HookRun] = {}
    folders: dict[str, None] = {}
    looked = size = 0
    async for entries in events_pages(connections, keys, newest_first=True):
        for entry in entries:
            for hook, run in _parts(entry.fields.get(b"verdict"), entry.ms):
                runs.setdefault(hook, run)
            if host:
                folders |= dict.fromkeys(filter(None, [_folder(entry, keys, host)]))
            size += sum(map(len, entry.fields.values()))
        looked += len(entries)
        if looked >= EVENTS or size >= _BYTES:
            break
    for one in await deliveries(connections, keys, most=DELIVERIES):
        known = runs.get(one.hook)
        if one.attempts and (known is None or known.ms < one.updated):
            runs[one.hook] = HookRun(one.updated, one.state)
    return RunHistory(runs, tuple(folders))


def _parts(raw: bytes | None, ms: int) -> list[tuple[str, HookRun]]:
    if raw is None:
        return []
    try:
        verdict = decode_verdict(raw)
    except DecodeError:  # of another version: it says nothing of a run here
        return []
    spoke = [(part.hook, HookRun(ms, "failed" if part.fallback else part.decision)) for part in verdict.parts]
    return spoke + [(hook, HookRun(ms, "abstain")) for rules in verdict.silent.values() for hook in rules]


def _folder(entry: Entry, keys: Keys, host: str) -> str:
    """Where the event happened, if that was on `host`."""
    request = read_request(entry, keys)
    if request.host != host:
        return ""
    try:
        return read_event(request).cwd
    except DecodeError:
        return ""
