"""The hosts of the fleet: which agents report from each, which workers run there, and its hooks of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from bus.hooksets.known_hosts import KnownHost
from bus.host_requests import role
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.coverage.gaps import Coverage, sessions_with_gaps
from workers.coverage.reports import AgentReport, read_reports

_CONSUMER: Final = re.compile(r"([a-z]+)-(.+)-\d+-[0-9a-f]{6}")
"""The name of a worker (`bus.ids.consumer_name`): its type, its host, its process."""


class HostAgent(AgentReport, frozen=True, kw_only=True):
    """What one version of an agent on one host reported last, and its sessions with gaps."""

    gaps: int = 0
    """Its sessions with tool calls that ran without their pre-hook event (X-15)."""
    uncovered: int = 0
    """Those calls."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """One host: what its agents reported, its workers, and its own hooks."""

    host: str
    last: int
    """When its last event came, or when it last recorded its hooks (ms since 1970)."""
    workers: dict[str, int]
    """How many processes of each type are alive there."""
    agents: tuple[HostAgent, ...]
    """By agent and version, the one with the newest event first."""
    alive: bool = False
    """Whether its `fleethook worker host` runs."""
    hooks: int = 0
    """The blocking hooks that only it has, in its user's and projects' files; a guard pack counts as one."""
    policies: tuple[str, ...] = ()
    """The failure policies that they declare."""
    ms: int = 0
    """When it last recorded them (ms since 1970); 0: it has none."""


async def hosts(
    connections: Connections, keys: Keys, known: Iterable[KnownHost], live: Mapping[str, Sequence[str]]
) -> list[Host]:
    """Every host that has reported anything, by name: `known` have own hooks, `live` has the live processes by type."""
    reports = await read_reports(connections, keys)
    gaps = await sessions_with_gaps(connections, keys, 0)
    own = {one.host: one for one in known}
    by_host: dict[str, list[AgentReport]] = {}
    for report in reports:
        by_host.setdefault(report.host, []).append(report)
    workers = workers_by_host(live)
    names = sorted({one.host for one in reports} | own.keys() | workers.keys())
    with connections.lease() as connection:
        lives = await connection.exchange([("EXISTS", keys("alive", role(name))) for name in names]) if names else []
    for name, alive in zip(names, lives, strict=True):
        if alive == 1:
            workers.setdefault(name, {}).setdefault("host", 1)
    return [_host(name, own.get(name), workers.get(name, {}), by_host.get(name, []), gaps) for name in names]


def _host(
    name: str, own: KnownHost | None, workers: dict[str, int], reports: Sequence[AgentReport], gaps: Sequence[Coverage]
) -> Host:
    agents = []
    for report in reports:
        found = [one for one in gaps if (one.host, one.agent, one.version) == (name, report.agent, report.version)]
        uncovered = sum(one.uncovered for one in found)
        agents.append(HostAgent(**msgspec.structs.asdict(report), gaps=len(found), uncovered=uncovered))
    newest = max((one.last for one in reports), default=0)
    return Host(
        host=name,
        last=max(newest, own.ms if own is not None else 0),
        workers=workers,
        agents=tuple(agents),
        alive="host" in workers,
        hooks=own.hooks if own is not None else 0,
        policies=own.policies if own is not None else (),
        ms=own.ms if own is not None else 0,
    )


def workers_by_host(live: Mapping[str, Sequence[str]]) -> dict[str, dict[str, int]]:
    """How many live processes of each type a host has, by the names that the processes gave themselves."""
    found: dict[str, dict[str, int]] = {}
    for kind, names in live.items():
        for name in names:
            if parts := _CONSUMER.fullmatch(name):
                there = found.setdefault(parts[2], {})
                there[kind] = there.get(kind, 0) + 1
    return found
