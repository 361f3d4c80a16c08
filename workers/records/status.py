"""The state of a fleet, read from its server and this machine's disk: which processes are alive, and which work waits."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from bus.config.settings import Settings
from bus.errors import FleethookError, Unreachable
from bus.hooksets.guard_changes import GuardChange, read_changes
from bus.hooksets.guard_presence import missing_guard
from bus.hooksets.known_hosts import KnownHost, known_hosts
from bus.hooksets.published import current_version
from bus.host_requests import GROUP as HOSTS
from bus.ids import host_name
from bus.secrets.redaction import redact_url
from bus.shim.spool import spool_status, spools
from bus.system.directories import Directories
from bus.wire.connections import Command, Connection, Connections
from bus.wire.counts import decisions
from bus.wire.keys import DAY, Keys
from bus.wire.streams import checked, flat, server_now
from workers.coverage.gaps import Coverage, sessions_with_gaps
from workers.coverage.reports import has_other_hosts
from workers.delivery.missing_keys import MissingKeyUse, missing_keys
from workers.records.bounds import memory_problem
from workers.records.registrations import registered_workers, uncarried
from workers.records.run_figures import raw_counts
from workers.runtime.kept_events import KeptEvents, kept_events
from workers.runtime.stream_repair import Repair, read_repairs
from workers.runtime.wording import counted
from workers.waiting.on_demand import KINDS as ON_DEMAND
from workers.waiting.on_demand import starts_key

RoleHealth = Literal["ok", "missing", "idle", "off", "unknown"]
"""`missing`: no process is alive, but one is needed; `idle`: a `fleethook up` starts one when there is work; `off`: none is
needed; `unknown`: the server cannot be asked."""

SCAN_ROUNDS: Final = 400
SCAN_COUNT: Final = 5_000
"""At most two million keys are searched for parked deliveries. With more keys, the number of these is unknown."""

_ANY_WAITING: Final = "[pbl][ai][rtn]*"
"""Matches `parked:*`, `batch:*` and `line:*`, so that one scan of all keys finds all three."""


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The server's own description; its texts are empty if our role may not ask for them."""

    url: str
    """Without credentials."""
    brand: str = ""
    version: str = ""
    ms: float = 0.0
    """One round trip."""
    memory: int = 0
    """Bytes."""

    @property
    def number(self) -> tuple[int, ...]:
        """Major and minor version; empty if unknown."""
        return tuple(int(part) for part in self.version.split(".")[:2] if part.isdigit())


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """One process type in the whole fleet."""

    role: str
    health: RoleHealth
    alive: int | None = None
    """How many processes are alive; None if unknown."""
    who: tuple[str, ...] = ()


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """One stream and the group that reads it."""

    name: str
    length: int
    group: str = ""
    lag: int | None = None
    """Entries that the group has not read yet; None if the server does not know (Redis 6.2, or after deletions)."""
    pending: int = 0
    """The number of entries that were read and not acknowledged: work under way."""
    oldest_ms: int | None = None
    """The age in milliseconds of the oldest entry that the group has not acknowledged; None if there is none."""


class Spool(msgspec.Struct, frozen=True, kw_only=True):
    """The events of one agent that wait on this machine's disk."""

    agent: str
    records: int
    bytes: int
    dropped: int
    """How many were lost because the spool or the disk was full."""
    oldest_ms: int
    damaged: int = 0
    """How many were lost because their record was cut off or changed on the disk."""

    @property
    def lost_text(self) -> str:
        """How many events were lost, and why; empty if none was."""
        found = []
        if self.dropped:
            found.append(
                f"{counted(self.dropped, 'event')} of {self.owner} did not fit into the spool or on the disk: lost"
            )
        if self.damaged:
            what = counted(self.damaged, "record was", "records were")
            found.append(f"{what} cut off or damaged in the spool of {self.owner}, and could not be sent: lost")
        return "; ".join(found)

    @property
    def owner(self) -> str:
        """The agent in words; the spools of programs have names of `program.` and a digest of their server."""
        return "programs (`Bus`, `fleethook publish`)" if self.agent.startswith("program.") else self.agent


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state; `problems` are sentences about missing processes."""

    namespace: str
    server: ServerFacts
    roles: tuple[Role, ...]
    streams: tuple[Stream, ...]
    due: int
    parked: int | None
    dead: int
    version: int
    """The version of the published hook set; 0 if none was ever published."""
    stats: dict[str, int]
    spools: tuple[Spool, ...]
    problems: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    """Sentences about events that this machine's spools lost. They stay until the counts beside the spool are removed."""
    repairs: tuple[Repair, ...] = ()
    """Streams that could take no entry, because one had an id from the future, and that were replaced."""
    weakened: tuple[GuardChange, ...] = ()
    """The last changes that weakened guards, newest first."""
    unguarded: str = ""
    """The message if the fleet has no guard; empty if it has one."""
    missing_keys: tuple[MissingKeyUse, ...] = ()
    """The keys of sealed secrets that deliveries wait for."""
    hosts: tuple[KnownHost, ...] = ()
    """Every host that has blocking hooks of its own."""
    gaps: tuple[Coverage, ...] = ()
    """The sessions of the last day with tool calls that ran without their pre-hook event, newest first (X-15)."""
    kept: tuple[KeptEvents, ...] = ()
    """The events that wait for hosts whose worker is away."""


async def status(
    connections: Connections, rq: Connections, keys: Keys, settings: Settings, places: Directories
) -> Status:
    """The state of the fleet; raises Unreachable if its server is away. `rq` goes to RQ's server."""
    server = await server_facts(connections)
    roles = await read_roles(connections, rq, keys, settings)
    starts = await started_on_demand(connections, keys)
    streams = await _streams(connections, keys)
    with connections.lease() as connection:
        due, dead, counters, metrics = await connection.exchange(
            [("ZCARD", keys("due")), ("ZCARD", keys("dead")), ("HGETALL", keys("stats")), ("HGETALL", keys("metrics"))]
        )
    stats = {name.decode(): int(value) for name, value in flat(checked(counters, "reading the counters")).items()}
    for decision, number in decisions(raw_counts(metrics)).items():
        stats[f"verdicts:{decision}"] = stats.get(f"verdicts:{decision}", 0) + number
    spools = read_spools(places)
    return Status(
        namespace=settings.namespace,
        server=server,
        roles=roles,
        streams=streams,
        due=int(checked(due, "counting what is due")),
        dead=int(checked(dead, "counting dead letters")),
        parked=await count_waiting(connections, keys),
        version=await current_version(connections, keys),
        stats=stats,
        spools=spools,
        problems=(
            *await memory_problem(connections),  # first: at its limit, workers cannot even write that they are alive
            *_problems(roles),
            *await uncarried(connections, rq, keys, settings, starts),
        ),
        lost=tuple(spool.lost_text for spool in spools if spool.lost_text),
        repairs=tuple(await read_repairs(connections, keys)),
        weakened=tuple(await read_changes(connections, keys, 3)),
        hosts=tuple(await known_hosts(connections, keys, (settings.host or host_name(), places))),
        gaps=tuple(await sessions_with_gaps(connections, keys, await server_now(connections) - DAY)),
        kept=tuple(await kept_events(connections, keys)),
        missing_keys=tuple(await missing_keys(connections, keys)),
        unguarded=await _unguarded(connections, keys, settings, places),
    )


async def _unguarded(connections: Connections, keys: Keys, settings: Settings, places: Directories) -> str:
    try:
        shared = bool(settings.redis_url) or await has_other_hosts(connections, keys, settings.host or host_name())
        return await missing_guard(connections, keys, places, shared=shared)
    except Unreachable:
        raise
    except FleethookError:  # `doctor` reports what is wrong with the published set
        return ""


async def server_facts(connections: Connections) -> ServerFacts:
    """Brand, version and round trip; raises Unreachable."""
    with connections.lease() as connection:
        await connection.exchange([("PING",)])
        began = time.perf_counter()
        checked((await connection.exchange([("PING",)]))[0], "asking the server")
        took = (time.perf_counter() - began) * 1000
        (reply,) = await connection.exchange([("INFO",)])
    info = _info(reply)
    return ServerFacts(
        url=redact_url(connections.url),
        brand=_brand(info),
        ms=round(took, 3),
        memory=int(info.get("used_memory", 0)),
        version=info.get("valkey_version") or info.get("redis_version", ""),
    )


async def read_roles(connections: Connections, rq: Connections, keys: Keys, settings: Settings) -> tuple[Role, ...]:
    """The live processes of every type: by their heartbeat, and RQ's workers by their registration."""
    evaluators = await _live_consumers(connections, keys, keys("requests"), "evaluators")
    with connections.lease() as connection:
        lives, lease = await connection.exchange(
            [("EXISTS", keys("alive", "evaluator")), ("GET", keys("alive", "dispatcher"))]
        )
    starts = await started_on_demand(connections, keys)
    holder = (lease.decode("utf-8", "replace"),) if isinstance(lease, bytes) else ()
    return (
        _role("evaluator", evaluators if lives == 1 else (), settings.evaluators),
        _role("dispatcher", holder, 1),
        # Off and not missing: a machine without agents needs no host worker.
        _role("host", await _live_consumers(connections, keys, keys("requests", host_name()), HOSTS), 0),
        _role("carrier", await registered_workers(rq, settings, "carrier"), settings.carriers, starts),
        _role("chores", await registered_workers(rq, settings, "chores"), settings.chores, starts),
        # Off and not missing: hook commands need no gateway.
        _role("gateway", await live_gateways(connections, keys), 0),
    )


async def started_on_demand(connections: Connections, keys: Keys) -> dict[str, str]:
    """The kinds of processes that a `fleethook up` starts when there is work, each with that one's dispatcher."""
    with connections.lease() as connection:
        found = await connection.exchange([("GET", starts_key(keys, kind)) for kind in ON_DEMAND])
    return {
        kind: who.decode("utf-8", "replace")
        for kind, who in zip(ON_DEMAND, found, strict=True)
        if isinstance(who, bytes)
    }


async def live_gateways(connections: Connections, keys: Keys) -> tuple[str, ...]:
    """The names of the gateways with a heartbeat; raises Unreachable."""
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("ZRANGE", keys("gateways"), 0, -1)])
        names = [row.decode() for row in checked(rows, "listing the gateways")]
        beats = await connection.exchange([("EXISTS", keys("beat", name)) for name in names]) if names else []
    return tuple(name for name, beat in zip(names, beats, strict=True) if beat == 1)


def read_spools(places: Directories) -> tuple[Spool, ...]:
    """The spools on this machine's disk, by agent; empty spools are left out."""
    folder = places.spool("claude").parent
    found = []
    for path in map(Path, spools(folder)):
        kept = spool_status(path)
        if kept.records or kept.dropped or kept.damaged or kept.bytes:
            found.append(
                Spool(
                    agent=path.name,
                    records=kept.records,
                    bytes=kept.bytes,
                    dropped=kept.dropped,
                    oldest_ms=kept.oldest_ms,
                    damaged=kept.damaged,
                )
            )
    return tuple(found)


def _role(role: str, who: Sequence[str] | None, wanted: int, starts: Container[str] = ()) -> Role:
    if who is None:
        return Role(role=role, health="unknown")
    health: RoleHealth = "ok" if who else "idle" if role in starts else "missing" if wanted else "off"
    return Role(role=role, health=health, alive=len(who), who=tuple(who))


def _problems(roles: Sequence[Role]) -> list[str]:
    meanings = {
        "evaluator": "hooks are not asked, agents get their fallback",
        "dispatcher": "events cause no deliveries",
        "carrier": "deliveries are not carried",
        "chores": "nothing is tidied up",
    }
    return [f"no {role.role} is alive: {meanings[role.role]}" for role in roles if role.health == "missing"]


async def _live_consumers(connections: Connections, keys: Keys, stream: str, group: str) -> tuple[str, ...]:
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("XINFO", "CONSUMERS", stream, group)])
        names = [] if isinstance(rows, Exception) else [flat(row)[b"name"].decode() for row in rows]
        beats = await connection.exchange([("EXISTS", keys("beat", name)) for name in names]) if names else []
    return tuple(name for name, beat in zip(names, beats, strict=True) if beat == 1)


async def _streams(connections: Connections, keys: Keys) -> tuple[Stream, ...]:
    wanted = (
        ("requests", "evaluators"),
        ("waiting", "evaluators"),
        ("events", "dispatchers"),
        ("deliveries", "carriers"),
        (f"deliveries:{host_name()}", "carriers"),
    )
    names = [keys(*name.split(":", 1)) for name, _ in wanted]
    with connections.lease() as connection:
        lengths = await connection.exchange([("XLEN", name) for name in names])
        groups = await connection.exchange([("XINFO", "GROUPS", name) for name in names])
        ages = await _oldest_entries(connection, names, [group for _, group in wanted], groups)
    found = []
    for (name, group), length, rows, oldest in zip(wanted, lengths, groups, ages, strict=True):
        facts: dict[bytes, Any] = {}
        for row in () if isinstance(rows, Exception) else rows:
            if (group_facts := flat(row)).get(b"name") == group.encode():
                facts = dict(group_facts)
        lag = facts.get(b"lag")
        found.append(
            Stream(
                name=name,
                length=int(checked(length, f"measuring {name}")),
                group=group if facts else "",
                lag=int(lag) if lag is not None else None,
                pending=int(facts.get(b"pending", 0)),
                oldest_ms=oldest,
            )
        )
    return tuple(found)


async def _oldest_entries(
    connection: Connection, names: Sequence[str], groups: Sequence[str], infos: Sequence[Any]
) -> list[int | None]:
    """The age of each group's oldest entry that is not acknowledged: read already, or still to be read."""
    asked: list[Command] = [("TIME",)]
    for name, group, rows in zip(names, groups, infos, strict=True):
        found = [] if isinstance(rows, Exception) else [flat(row) for row in rows]
        last = next((row[b"last-delivered-id"] for row in found if row.get(b"name") == group.encode()), b"0-0")
        asked += [("XPENDING", name, group), ("XRANGE", name, b"(" + last, "+", "COUNT", 1)]
    clock, *replies = await connection.exchange(asked)
    now = int(checked(clock, "reading the clock")[0]) * 1000
    found_ages = list[int | None]()
    for pending, unread in zip(replies[::2], replies[1::2], strict=True):
        oldest = [] if isinstance(pending, Exception) or not pending[1] else [pending[1]]
        oldest += [] if isinstance(unread, Exception) or not unread else [unread[0][0]]
        times = [int(entry.partition(b"-")[0]) for entry in oldest]
        found_ages.append(max(0, now - min(times)) if times else None)
    return found_ages


async def count_waiting(connections: Connections, keys: Keys) -> int | None:
    """How many deliveries wait for their target, their batch or their turn; None if there are too many keys to search."""
    cursor, asked = b"0", list[Command]()
    parked, batches, lines = (keys(name, "").encode() for name in ("parked", "batch", "line"))
    with connections.lease() as connection:
        for _ in range(SCAN_ROUNDS):
            (reply,) = await connection.exchange([("SCAN", cursor, "MATCH", keys(_ANY_WAITING), "COUNT", SCAN_COUNT)])
            cursor, page = checked(reply, "looking for parked deliveries")
            asked += [("LLEN", name) for name in page if name.startswith((parked, batches))]
            # In a line, the delivery whose turn it is has the score -1 and does not count.
            asked += [("ZCOUNT", name, 0, "+inf") for name in page if name.startswith(lines)]
            if cursor == b"0":
                counts = await connection.exchange(asked) if asked else []
                return sum(int(count) for count in counts if not isinstance(count, Exception))
    return None


def _info(reply: object) -> dict[str, str]:
    """The fields of INFO, which redis-py may have parsed already; empty if we may not ask."""
    if isinstance(reply, dict):
        return {str(name): str(value) for name, value in reply.items()}
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else ""
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))


def _brand(info: dict[str, str]) -> str:
    if "valkey_version" in info:
        return "valkey"
    return info.get("server_name") or ("redis" if "redis_version" in info else "")
