"""Lists, records and forgets the hosts that have blocking hooks of their own."""

from __future__ import annotations

import msgspec

from bus.errors import ConfigError
from bus.hooksets.host_hooks import HostHooks, own_hooks, read_record, record_commands
from bus.host_requests import role
from bus.system.directories import Directories, config_file
from bus.wire.connections import Command, Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat


class KnownHost(msgspec.Struct, frozen=True, kw_only=True):
    """One host that has blocking hooks of its own."""

    host: str
    alive: bool
    """Whether its `fleethook worker host` runs."""
    hooks: int
    """How many, as the user counts them: a guard pack counts as one."""
    which: str
    """How many of each, and their names: `1 guard pack (destructive-commands) and 1 blocking hook (mine)`."""
    policies: tuple[str, ...]
    """The failure policies that the hooks declare."""
    ms: int
    """When the host last recorded them, in milliseconds since 1970; 0 if there is no record."""

    @property
    def text(self) -> str:
        """The consequence if its worker does not run, and what to do."""
        if not self.ms:
            return (
                f"no `fleethook worker host` has ever run on {self.host!r}: evaluators on other hosts cannot ask "
                f"{self.which} of its user's and projects' files; run `fleethook up` or `fleethook worker host` there"
            )
        declared = f" (those that declare one: {', '.join(self.policies)})" if self.policies else ""
        return (
            f"no `fleethook worker host` runs on {self.host!r}: evaluators on {self.host!r} itself still run "
            f"{self.which} of its user's and projects' files; where evaluators of other hosts judge a call, the failure "
            f"policies{declared} answer for them; start the worker there, or run `fleethook hosts forget` if the host is gone"
        )


async def known_hosts(
    connections: Connections, keys: Keys, here: tuple[str, Directories] | None = None
) -> list[KnownHost]:
    """Every host that has blocking hooks of its own, by name.

    `here` is this host's name and folders: it is added if it has such hooks and no record.
    """
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("ZRANGE", keys("hosts"), 0, -1, "WITHSCORES")])
        scores = flat(checked(rows, "listing hosts"))
        names = [(name.decode("utf-8", "replace"), int(float(score))) for name, score in scores.items()]
        commands: list[Command] = []
        for name, _ in names:
            commands += [("HGETALL", keys("host", name)), ("EXISTS", keys("alive", role(name)))]
        replies = await connection.exchange(commands) if commands else []
    found = []
    for (name, ms), fields, alive in zip(names, replies[::2], replies[1::2], strict=True):
        record = read_record(flat(checked(fields, f"reading host {name}")).values())
        if record is not None:
            found.append(_known_host(name, record, alive=alive == 1, ms=ms))
    if here is not None and here[0] not in {known.host for known in found}:
        found += await _unrecorded(connections, keys, *here)
    return sorted(found, key=lambda known: known.host)


async def _unrecorded(connections: Connections, keys: Keys, host: str, places: Directories) -> list[KnownHost]:
    try:
        hooks, _ = own_hooks(config_file(places.config), places.trust_file, places.last_good)
    except ConfigError:  # the check of the hook files reports it
        return []
    with connections.lease() as connection:
        (alive,) = await connection.exchange([("EXISTS", keys("alive", role(host)))])
    found = HostHooks(hooks.blocking)
    if not found.count:
        return []
    return [_known_host(host, found, alive=alive == 1, ms=0)]


def _known_host(host: str, record: HostHooks, *, alive: bool, ms: int) -> KnownHost:
    return KnownHost(host=host, alive=alive, hooks=record.count, which=record.text, policies=record.policies, ms=ms)


async def record_now(connections: Connections, keys: Keys, places: Directories, host: str) -> KnownHost | None:
    """Record this host's own hooks as its files are now; returns what the fleet knows of the host, None if it has none.

    For commands that change hook files, since no worker may run here. Raises ConfigError and Unreachable.
    """
    hooks, _ = own_hooks(config_file(places.config), places.trust_file, places.last_good)
    with connections.lease() as connection:
        for reply in await connection.exchange(record_commands(keys, host, hooks)):
            checked(reply, "recording this host's hooks")
    return next((known for known in await known_hosts(connections, keys) if known.host == host), None)


async def forget_host(connections: Connections, keys: Keys, host: str) -> bool:
    """Remove the record of a host; returns whether there was one."""
    with connections.lease() as connection:
        commands: list[Command] = [("DEL", keys("host", host), keys("background", host)), ("ZREM", keys("hosts"), host)]
        replies = await connection.exchange(commands)
    counts = [int(checked(reply, f"forgetting host {host}")) for reply in replies]
    return sum(counts) > 0
