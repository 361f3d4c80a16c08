"""Checks whether the server answers and keeps its data, and whether the processes that are needed are alive."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.config.settings import Settings
from bus.errors import FleethookError, Unreachable
from bus.hooksets.guard_presence import PUBLISH, missing_guard
from bus.hooksets.known_hosts import known_hosts
from bus.hooksets.published import current_version, load_version
from bus.ids import host_name
from bus.system.directories import Directories
from bus.wire.connections import START_HINT, Connections
from bus.wire.keys import DAY, Keys
from bus.wire.streams import server_now
from workers.admin.doctor import Check, State
from workers.admin.doctor.append_only_user import append_only_user_check
from workers.admin.doctor.default_user import default_user_check
from workers.coverage.gaps import sessions_with_gaps
from workers.coverage.reports import has_other_hosts
from workers.records.bounds import FULL, memory_in_use
from workers.records.status import read_roles, server_facts
from workers.runtime.stream_repair import read_repairs
from workers.runtime.wording import counted

CANNOT_ASK: Final = "the server cannot be asked"
FLOOR: Final = {"redis": (6, 2), "valkey": (7, 2)}


_STATES: Final[dict[str, State]] = {"ok": "ok", "idle": "ok", "missing": "fail", "off": "warn", "unknown": "unknown"}


async def server_checks(connections: Connections, rq: Connections, keys: Keys, settings: Settings) -> list[Check]:
    """Check the server, how it keeps its data, and whether every process type is alive."""
    try:
        facts = await server_facts(connections)
    except (Unreachable, FleethookError) as error:
        away = [
            Check(id=name, status="unknown", what=CANNOT_ASK, cause="server")
            for name in (
                "appendonly",
                "maxmemory-policy",
                "memory",
                "default-user",
                "append-only-user",
                "evaluator",
                "dispatcher",
                "carrier",
                "chores",
                "hooks",
            )
        ]
        what = str(error).removesuffix(START_HINT)
        return [Check(id="server", status="fail", what=what, fix="fleethook up"), *away]
    found = [_version_check(facts.brand, facts.version, facts.url, facts.ms)]
    found += await _config_checks(connections)
    memory = await _memory_check(connections)
    found.append(memory)
    found.append(await default_user_check(connections, keys))
    found.append(await append_only_user_check(connections))
    found.append(await _repairs_check(connections, keys))
    # Hook commands need no gateway, so its absence is no finding.
    roles = [
        role
        for role in await read_roles(connections, rq, keys, settings)
        if (role.role, role.health) != ("gateway", "off")
    ]
    complete = all(role.health in {"ok", "idle"} for role in roles)
    for role in roles:
        state = _STATES[role.health]
        text = f"{role.alive} alive" if role.alive else f"no {role.role} is alive"
        text = f"no {role.role} runs: it is started when there is work" if role.health == "idle" else text
        text = f"whether a {role.role} is alive cannot be seen" if role.health == "unknown" else text
        if (state, memory.status) == ("fail", "fail"):  # one that runs cannot write there that it is alive
            what = f"whether a {role.role} is alive: a full server takes no heartbeat"
            found.append(Check(id=role.role, status="unknown", what=what, cause="memory"))
            continue
        fix = "" if state == "ok" else f"`fleethook up`, or `fleethook worker {role.role}`; `fleethook logs` says more"
        found.append(Check(id=role.role, status=state, what=text, fix=fix, brief="" if complete else role.role))
    if complete:
        found[-1] = msgspec.structs.replace(found[-1], brief=f"all {len(roles)} worker types")
    found.append(await _set_check(connections, keys))
    return found


async def host_checks(connections: Connections, keys: Keys, host: str, places: Directories) -> list[Check]:
    """Check whether each host with blocking hooks of its own can answer for them."""
    try:
        known = await known_hosts(connections, keys, (host, places))
    except Unreachable:
        return [Check(id="hosts", status="unknown", what=CANNOT_ASK, cause="server")]
    except FleethookError as error:
        return [Check(id="hosts", status="unknown", what=f"hosts with hooks of their own cannot be seen: {error}")]
    away = [host_entry for host_entry in known if not host_entry.alive]
    if not away:
        singular, plural = "host has blocking hooks of its own", "hosts have blocking hooks of their own"
        text = f"{counted(len(known), singular, plural)}, with a worker each"
        return [Check(id="hosts", status="ok", what=text if known else "no host has blocking hooks of its own")]
    fix = "`fleethook up` or `fleethook worker host` there; `fleethook hosts forget NAME` where it is gone"
    return [Check(id="hosts", status="warn", what=host_entry.text, fix=fix) for host_entry in away]


async def coverage_check(connections: Connections, keys: Keys) -> Check:
    """Check whether hooks are asked about the tool calls that run (X-15)."""
    try:
        found = await sessions_with_gaps(connections, keys, await server_now(connections) - DAY)
    except Unreachable:
        return Check(id="coverage", status="unknown", what=CANNOT_ASK, cause="server")
    except FleethookError as error:
        return Check(
            id="coverage", status="unknown", what=f"calls that no hook was asked about cannot be seen: {error}"
        )
    if not found:
        return Check(id="coverage", status="ok", what="no tool call of the last day ran without its pre-hook event")
    more = f"; {counted(len(found) - 1, 'more session has', 'more sessions have')} such calls" if found[1:] else ""
    fix = "`fleethook sessions --gaps` has each cause; `fleethook install` on that host writes the hooks again"
    return Check(id="coverage", status="warn", what=f"{found[0].text}{more}", fix=fix)


async def fleet_guard_check(connections: Connections, keys: Keys, settings: Settings, places: Directories) -> Check:
    """Check whether the fleet has any guard."""
    try:
        shared = bool(settings.redis_url) or await has_other_hosts(connections, keys, settings.host or host_name())
        missing = await missing_guard(connections, keys, places, shared=shared)
    except Unreachable:
        return Check(id="fleet-guards", status="unknown", what=CANNOT_ASK, cause="server")
    except FleethookError as error:
        return Check(id="fleet-guards", status="unknown", what=f"whether the fleet has a guard cannot be seen: {error}")
    if missing:
        return Check(id="fleet-guards", status="warn", what=missing, fix=PUBLISH)
    return Check(id="fleet-guards", status="ok", what="the fleet has a guard", brief="guarded")


def _version_check(brand: str, version: str, url: str, ms: float) -> Check:
    text = f"{brand or 'server'} {version} at {url}, {ms:.1f} ms"
    number = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if not number:
        return Check(id="server", status="unknown", what=f"{text}: it does not say what it is", fix="allow INFO")
    if brand in FLOOR and number < FLOOR[brand]:
        least = ".".join(map(str, FLOOR[brand]))
        return Check(id="server", status="fail", what=text, fix=f"use {brand} {least} or newer")
    return Check(id="server", status="ok", what=text, brief=f"{brand} {version}")


async def _memory_check(connections: Connections) -> Check:
    """Check whether the server is near its memory limit, at which it refuses every write."""
    try:
        used, limit = await memory_in_use(connections)
    except FleethookError as error:
        return Check(id="memory", status="unknown", what=f"the server's memory cannot be seen: {error}")
    if not limit:
        return Check(id="memory", status="ok", what=f"{used / 2**20:.1f} MiB in use; the server sets no limit")
    text = f"{used / 2**20:.1f} of {limit / 2**20:.1f} MiB in use"
    if used < limit * FULL:
        return Check(id="memory", status="ok", what=text)
    fix = "raise maxmemory, or remove what others keep there: workers forget finished deliveries and events first"
    if used < limit:
        return Check(id="memory", status="warn", what=f"{text}: at its limit the server refuses requests", fix=fix)
    return Check(id="memory", status="fail", what=f"{text}: hook calls are refused and fall back", fix=fix)


async def _config_checks(connections: Connections) -> list[Check]:
    wanted = (
        ("appendonly", "yes", "warn", "what was acknowledged is lost when the server ends: set appendonly yes"),
        ("maxmemory-policy", "noeviction", "fail", "events and verdicts vanish when memory is full: set noeviction"),
    )
    found = []
    with connections.lease() as connection:
        replies = await connection.exchange([("CONFIG", "GET", name) for name, *_ in wanted])
    for (name, right, state, why), reply in zip(wanted, replies, strict=True):
        value = reply[1].decode("utf-8", "replace") if isinstance(reply, list) and len(reply) == 2 else ""
        if not value:
            found.append(Check(id=name, status="unknown", what=f"{name} cannot be seen with our rights"))
        elif value == right:
            found.append(Check(id=name, status="ok", what=f"{name} is {value}"))
        else:
            bad: State = "fail" if state == "fail" else "warn"
            found.append(Check(id=name, status=bad, what=f"{name} is {value}", fix=why))
    return found


async def _repairs_check(connections: Connections, keys: Keys) -> Check:
    """Check for made-up ids: the stream was repaired, but the program that sent them may do it again."""
    try:
        since = await server_now(connections) - DAY
        recent = [repair for repair in await read_repairs(connections, keys) if repair.ms >= since]
    except FleethookError as error:
        return Check(id="streams", status="unknown", what=f"whether streams were repaired cannot be seen: {error}")
    if not recent:
        return Check(id="streams", status="ok", what="no stream has an id from the future")
    text = "; ".join(repair.text for repair in recent)
    fix = "find who it is (`fleethook events list`); hosts that must not trust each other use the gateway"
    return Check(id="streams", status="warn", what=text, fix=fix)


async def _set_check(connections: Connections, keys: Keys) -> Check:
    try:
        version = await current_version(connections, keys)
        if not version:
            return Check(
                id="hooks",
                status="ok",
                what="no hook set was published; user and project files apply",
                brief="no hook set",
            )
        file = await load_version(connections, keys, version)
    except FleethookError as error:
        return Check(id="hooks", status="fail", what=str(error), fix="fleethook hooks rollback")
    if file.problems:
        return Check(
            id="hooks", status="fail", what=f"version {version}: {file.problems[0]}", fix="fleethook hooks rollback"
        )
    text = f"hook set version {version}: {counted(len(file.hooks), 'hook')}, {counted(len(file.endpoints), 'endpoint')}"
    return Check(id="hooks", status="ok", what=text, brief=f"hook set version {version}")
