"""Stops: put in force, lifted, listed. Each is recorded with who, when, where and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from bus.errors import ConfigError, NotFound
from bus.events import OWN_SOURCE, Event, EventType
from bus.ids import event_id, host_name
from bus.lazy.conversions import from_json
from bus.matching.scopes import scope_of
from bus.secrets.redaction import redact_text
from bus.wire.codec import encode_event
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import call, checked, flat, server_now

MOST_STOPS: Final = 100
MOST_REASON: Final = 500

Via = Literal["token", "user"]


class ActiveStop(msgspec.Struct, frozen=True, kw_only=True):
    """One stop in force."""

    id: str
    at: int
    """Since when, in milliseconds by the server's clock."""
    by: str
    """Who stopped: a token's name, or `user@host`."""
    via: Via = "user"
    where: Annotated[str, Meta(description="The CEL condition on the event; empty: every agent.")] = ""
    reason: str = ""


class StopChange(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the history: a stop, or the end of stops."""

    at: int
    what: Literal["stopped", "resumed"]
    stops: tuple[str, ...]
    by: str
    via: str
    where: str = ""
    reason: str = ""


async def place_stop(
    connections: Connections, keys: Keys, *, by: str, via: Via = "user", where: str = "", reason: str = ""
) -> ActiveStop:
    """Put a stop in force for the events that fulfil `where`. Raises PatternError, ConfigError if there are too many."""
    where = where.strip()
    scope_of(where)
    at = await server_now(connections)
    stop = ActiveStop(
        id="s" + event_id(at)[5:19],
        at=at,
        by=by,
        via=via,
        where=where,
        reason=redact_text(reason.strip())[:MOST_REASON],
    )
    log = (
        "what",
        "stopped",
        "stops",
        stop.id,
        "by",
        by,
        "via",
        via,
        "where",
        redact_text(where),
        "reason",
        stop.reason,
    )
    data = {"stop": stop.id, "where": redact_text(where), "reason": stop.reason, "by": by, "via": via}
    args = (stop.id, msgspec.json.encode(stop), MOST_STOPS, len(log), *log, *_event(EventType.FLEET_STOPPED, at, data))
    if not await call(connections, "freeze", _names(keys), args):
        raise ConfigError(f"{MOST_STOPS} stops are in force already", hint="lift some: `fleethook resume`")
    return shown_stop(stop)


async def lift_stops(
    connections: Connections, keys: Keys, ids: Sequence[str] = (), *, by: str, via: Via = "user", reason: str = ""
) -> list[ActiveStop]:
    """Lift the stops with these ids, or all; returns those that were in force. Raises NotFound for an unknown id."""
    known = {stop.id: stop for stop in await stops_in_force(connections, keys)}
    if unknown := [name for name in ids if name not in known]:
        raise NotFound(f"no stop {unknown[0][:40]!r} is in force; `fleethook stop --list` shows those that are")
    lifted = [known[name] for name in ids] if ids else list(known.values())
    if not lifted:
        return []
    names, text = [stop.id for stop in lifted], redact_text(reason.strip())[:MOST_REASON]
    at = await server_now(connections)
    log = ("what", "resumed", "stops", " ".join(names), "by", by, "via", via, "reason", text)
    data = {"stops": names, "reason": text, "by": by, "via": via}
    args = (len(names), *names, len(log), *log, *_event(EventType.FLEET_RESUMED, at, data))
    await call(connections, "thaw", _names(keys), args)
    return lifted


async def stops_in_force(connections: Connections, keys: Keys) -> list[ActiveStop]:
    """Every stop in force, oldest first, as people may see it; raises Unreachable."""
    with connections.lease() as connection:
        (raw,) = await connection.exchange([("HVALS", keys("stops"))])
    return [shown_stop(stop) for stop in read_stops(checked(raw, "reading the stops"))]


def shown_stop(stop: ActiveStop) -> ActiveStop:
    """The stop without the secrets in its condition, which only those who evaluate it need."""
    return msgspec.structs.replace(stop, where=redact_text(stop.where))


async def stop_history(connections: Connections, keys: Keys, most: int = 20) -> list[StopChange]:
    """Who stopped and resumed agents, newest first."""
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("XREVRANGE", keys("stops", "log"), "+", "-", "COUNT", most)])
    found = []
    for entry, fields in checked(rows, "reading who stopped agents"):
        row = {name.decode(): value.decode("utf-8", "replace") for name, value in flat(fields).items()}
        found.append(
            StopChange(
                at=int(entry.partition(b"-")[0]),
                what="resumed" if row.get("what") == "resumed" else "stopped",
                stops=tuple(row.get("stops", "").split()),
                by=row.get("by", ""),
                via=row.get("via", ""),
                where=row.get("where", ""),
                reason=row.get("reason", ""),
            )
        )
    return found


def read_stops(values: Iterable[bytes]) -> list[ActiveStop]:
    """The stops in their stored form, oldest first. One that cannot be read counts for every agent."""
    found = []
    for raw in values:
        try:
            found.append(from_json(raw, ActiveStop))
        except (msgspec.DecodeError, UnicodeDecodeError):  # of a newer version: the stricter reading
            found.append(ActiveStop(id="unreadable", at=0, by="an unknown version of fleethook"))
    return sorted(found, key=lambda stop: (stop.at, stop.id))


def _names(keys: Keys) -> tuple[str, ...]:
    return (keys("stops"), keys("stops", "log"), keys("events"), keys("late"))


def _event(kind: EventType, at: int, data: Mapping[str, Any]) -> tuple[str | bytes, ...]:
    """The fields of the event that announces a change."""
    host, name = host_name(), event_id()
    event = Event(type=kind.value, id=name, source=OWN_SOURCE, host=host, time=at, data=dict(data))
    return ("id", name, "source", OWN_SOURCE, "event", kind.value, "host", host, "body", encode_event(event))
