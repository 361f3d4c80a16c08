"""Past events with their verdicts: from the event stream, as agents sent them, or from exports, which are redacted."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from bus.errors import ConditionError, ConfigError, DecodeError, OverBudget
from bus.events import Event
from bus.ids import event_id
from bus.lazy.conversions import converted
from bus.matching.conditions import Condition, compile_condition
from bus.matching.findings import holds
from bus.requests import read_event, read_request
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry
from workers.admin.dry_run import payload_source
from workers.admin.dry_run import read_event as read_payload
from workers.delivery.deliveries import now_ms
from workers.records.events import events_pages

_MARK: Final = "[redacted"
"""The beginning of what replaces a secret (bus/secrets/replacements.py)."""
_MOST_LINE: Final = 64 * 1024 * 1024
_MOST_DEPTH: Final = 32
_BETWEEN_MS: Final = 1_000


class PastEvent(NamedTuple):
    """A recorded event, and the verdict that it got; None if its agent asked for none."""

    id: str
    ms: int
    event: Event
    verdict: Verdict | None
    is_redacted: bool
    """Whether secrets in it were replaced, so that hooks may see another text than they saw then."""


class Unreadable(NamedTuple):
    """A recorded event that cannot be read."""

    place: str
    """Its id, or the file and line."""
    why: str


Past = PastEvent | Unreadable


async def recorded_events(connections: Connections, keys: Keys, since: int, until: int) -> AsyncIterator[list[Past]]:
    """The events of the stream between two times (ms), oldest first, in pages. Raises Unreachable.

    Agents' reports of their fallbacks, and repeats of a call that was answered before, are left out.
    """
    end = str(until) if until else "+"
    async for entries in events_pages(connections, keys, start=str(since or "-"), end=end):
        yield [_read_entry(entry, keys) for entry in entries if not {b"of", b"same"} & entry.fields.keys()]


def _read_entry(entry: StreamEntry, keys: Keys) -> Past:
    request = read_request(entry, keys)
    try:
        verdict = decode_verdict(entry.fields[b"verdict"]) if b"verdict" in entry.fields else None
        return PastEvent(request.id, entry.ms, read_event(request), verdict, _MARK.encode() in request.body)
    except DecodeError as error:
        return Unreadable(request.id, str(error))


def exported_events(path: Path, since: int = 0, until: int = 0) -> Iterator[Past]:
    """The events in a file of JSON lines, oldest first if the file is in that order; `.gz` is decompressed.

    A line is a record of `events list --json`, `events show --json` or `dead export`, an event in Fleethook's form, or an
    agent's payload. Raises ConfigError if the file cannot be read.
    """
    try:
        with _opened(path) as stream:
            for number, line in enumerate(iter(lambda: stream.readline(_MOST_LINE), b""), 1):
                past = _read_line(line, f"{path}:{number}", path) if line.strip() else None
                if isinstance(past, Unreadable) or (past is not None and _is_within(past.ms, since, until)):
                    yield past
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"the export cannot be read: {why}", file=str(path)) from error


def _is_within(ms: int, since: int, until: int) -> bool:
    """Whether a time is between two others; an event without a time always is."""
    return not ms or (ms >= since and (not until or ms <= until))


def _opened(path: Path) -> gzip.GzipFile | BinaryIO:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _read_line(line: bytes, place: str, path: Path) -> Past | None:
    try:
        value = json.loads(line.decode("utf-8", "replace"))
        if isinstance(value, dict) and "letter" in value:  # of `dead export`
            value = value.get("event")
            if value is None:
                return None  # a poison entry has no event
        if not isinstance(value, dict):
            return Unreadable(place, "it is no JSON object")
        if value.get("of") or value.get("same"):
            return None
        return _of_record(value, place, path)
    except (ValueError, RecursionError, DecodeError) as error:
        return Unreadable(place, str(error))


def _of_record(value: Mapping[str, Any], place: str, path: Path) -> Past:
    verdict = None
    if isinstance(value.get("verdict"), dict):
        verdict = converted(value["verdict"], Verdict)
    if "type" in value and "verdict" in value:
        if value.get("problem"):
            return Unreadable(place, str(value["problem"]))
        event = converted(dict(value), Event)
    else:
        raw = json.dumps(value).encode()
        event = read_payload(raw, source=payload_source(raw), cwd=path.absolute().parent)
    name = value.get("id")
    is_redacted = _MARK in json.dumps(value, ensure_ascii=False)
    return PastEvent(name if isinstance(name, str) and name else place, event.time, event, verdict, is_redacted)


def oldest_first(exported: list[Past]) -> list[PastEvent]:
    """The events that can be read, by their times: `events list` writes the newest first."""
    return sorted((past for past in exported if isinstance(past, PastEvent)), key=lambda past: past.ms)


def in_order(path: Path) -> tuple[list[Event], list[str]]:
    """The events of a file, oldest first, each with an id and a time, and what cannot be read; raises ConfigError.

    An event without a time is a second after the one before it.
    """
    found = list(exported_events(path))
    timed = all(past.ms for past in found if isinstance(past, PastEvent))
    past_events = oldest_first(found) if timed else [past for past in found if isinstance(past, PastEvent)]
    events: list[Event] = []
    for past in past_events:
        before = events[-1].time if events else now_ms() - _BETWEEN_MS * (len(past_events) + 1)
        event = past.event
        events.append(
            msgspec.structs.replace(event, id=event.id or event_id(), time=event.time or before + _BETWEEN_MS)
        )
    return events, [f"{past.place}: {past.why}" for past in found if isinstance(past, Unreadable)]


def redacted_fields(event: Event) -> list[str]:
    """The fields of an event in which secrets were replaced, such as `input.command`; not those of its raw payload."""
    found: dict[str, None] = {}
    for name in ("input", "output", "data", "cwd"):
        _find_marks(getattr(event, name), name, found, _MOST_DEPTH)
    return list(found)


def _find_marks(value: object, path: str, found: dict[str, None], depth: int) -> None:
    if isinstance(value, str):
        if _MARK in value:
            found[path] = None
    elif depth and isinstance(value, Mapping):
        for key, item in value.items():
            _find_marks(item, f"{path}.{key}", found, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for item in value:
            _find_marks(item, path, found, depth - 1)


def only_where(page: list[Past], where: str) -> list[Past]:
    """The events for which a CEL condition holds, and those that cannot be read; all without a condition."""
    if not where:
        return page
    condition = _compiled(where)
    return [past for past in page if isinstance(past, Unreadable) or _holds(condition, past)]


@cache
def _compiled(where: str) -> Condition:
    return compile_condition(where)


def _holds(condition: Condition, past: PastEvent) -> bool:
    """Whether the condition holds; False if it uses a field that the event does not have."""
    verdict = past.verdict
    facts = {"decision": verdict.decision if verdict else "", "reason": verdict.reason if verdict else ""}
    try:
        return holds(condition, past.event, facts)
    except (ConditionError, OverBudget):
        return False
