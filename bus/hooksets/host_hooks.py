"""The hooks that one host alone has: recorded in Redis, so that a host whose worker is away is known to have them.

The blocking ones fall to their failure policies then, and the events of the others are kept (`workers/runtime/kept_events.py`).
Only what tells whether a hook fits an event, and its failure policy: neither commands nor URLs. The record stays while the
worker is away, and goes when the host has no such hooks any more or a person forgets it (`fleethook hosts forget`).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bus.config.files import Source, stamp
from bus.errors import ConfigError, DecodeError, FleethookError
from bus.event_folder import NOT_SAID, EventFolder, lies_in
from bus.events import Event
from bus.hooks import NATIVE, Hook, Layer
from bus.hooksets.files_in_force import file_in_force
from bus.hooksets.hookfile import HookFile
from bus.hooksets.in_force import POLL_SECONDS, HookSet, Watcher
from bus.hooksets.layers import Layered
from bus.hooksets.projects import project_in_force
from bus.hooksets.trust import listed
from bus.host_requests import role
from bus.system.directories import Directories, config_file
from bus.verdicts import Policy, Verdict
from bus.wire.codec import pack, unpack
from bus.wire.connections import Command, Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat

log = logging.getLogger("fleethook.hosts")

_AGAIN_SECONDS: Final = 5.0
"""A record is written again so often: a server that was emptied has it back soon."""

_MOST_GROUPS: Final = 1_000
_MOST_RECORDS: Final = 1_000
_OWN_FIELDS: Final = ("event", "matchers", "if", "itself")
"""What of a hook's `own` its dialect needs to tell whether it fits an event."""


class HookGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hooks of one host that fit the same events and share a failure policy."""

    id: str
    """Of the first of them."""
    on: tuple[str, ...]
    layer: Layer
    origin: str = ""
    folder: str = ""
    """Of the project; empty for the user's own file."""
    tool: str = ""
    when: str = ""
    on_failure: Policy | None = None
    dialect: str = NATIVE
    own: dict[str, Any] = msgspec.field(default_factory=dict)
    count: int = 1
    blocking: bool = True

    @property
    def hook(self) -> Hook:
        """A hook that fits the same events and does nothing; rules are never recorded as what runs in the background."""
        return Hook(
            id=self.id,
            on=self.on,
            tool=self.tool,
            when=self.when,
            on_failure=self.on_failure,
            dialect=self.dialect,
            own=self.own,
            layer=self.layer,
            origin=self.origin,
            description="" if self.count == 1 else f"and {self.count - 1} more like it",
            blocking=self.blocking,
            command=":",
        )


class OwnHooks(NamedTuple):
    """The hooks in force of one user's file and trusted projects."""

    blocking: list[HookGroup]
    background: list[HookGroup]
    """What runs where nobody waits, or is told: hooks and endpoints."""


class HostHooks:
    """What is recorded of one host, compiled: which of its own hooks fit an event."""

    def __init__(self, groups: Sequence[HookGroup]) -> None:
        self.groups = tuple(groups)
        folders = dict.fromkeys(group.folder for group in groups)
        self._sets = {folder: _compiled([one for one in groups if one.folder == folder]) for folder in folders}

    @property
    def count(self) -> int:
        """How many hooks these are."""
        return sum(group.count for group in self.groups)

    @property
    def policies(self) -> tuple[str, ...]:
        """The failure policies that they declare themselves, sorted."""
        return tuple(sorted({group.on_failure for group in self.groups if group.on_failure is not None}))

    def fitting(self, event: Event, folder: EventFolder = NOT_SAID) -> list[Hook]:
        """One hook for each group that fits: the user's first, then those of the event's project.

        `folder` is where its hook command ran, as its own machine knows it. Where the event names another one, that may
        be the same by another name or not: the projects of both count.
        """
        return [hook for one in self._around(event, folder) for hook in one.blocking(event)]

    def has_background(self, event: Event, verdict: Verdict | None, folder: EventFolder = NOT_SAID) -> bool:
        """Whether a hook that fits would run in the background; may take long."""
        return any(one.background(event, verdict) for one in self._around(event, folder))

    def _around(self, event: Event, folder: EventFolder) -> list[HookSet]:
        """The hooks of the user, and of the projects around an event."""
        named = os.path.normpath(event.cwd) if os.path.isabs(event.cwd) else folder.path
        projects = (self._project(path, folder.repository) for path in (folder.path, named))
        return [self._sets[one] for one in dict.fromkeys(["", *projects]) if one in self._sets]

    def _project(self, path: str, repository: str) -> str:
        """The nearest recorded project around a folder; none where that lies in a repository of its own within it."""
        nearest = max((one for one in self._sets if lies_in(path, one)), key=len, default="")
        apart = nearest != repository and lies_in(path, repository) and lies_in(repository, nearest)
        return "" if apart else nearest


def _compiled(groups: Sequence[HookGroup]) -> HookSet:
    layered = [Layered(groups[0].layer, "", HookFile(hooks=tuple(group.hook for group in groups)))]
    try:
        return HookSet(layered)
    except FleethookError as error:  # another version of ours wrote it: in doubt its hooks fit
        log.warning("the hooks of another host cannot be compiled: %s; they count for every event", error)
        wide = [msgspec.structs.replace(group.hook, on=("*",), tool="", when="", own={}) for group in groups]
        return HookSet([Layered(groups[0].layer, "", HookFile(hooks=tuple(wide)))])


def group_hooks(layer: Layer, folder: str, file: HookFile) -> list[HookGroup]:
    """The blocking hooks of one file, with its guards and the endpoints that are asked; observers decide nothing."""
    hooks = HookSet([Layered(layer, file.digest[:8], file)]).hooks.values()
    return _merged(
        HookGroup(
            id=hook.id,
            on=hook.on,
            layer=layer,
            origin=hook.origin,
            folder=folder,
            tool=hook.tool,
            when=hook.when,
            on_failure=hook.on_failure,
            dialect=hook.dialect,
            own={name: hook.own[name] for name in _OWN_FIELDS if name in hook.own},
        )
        for hook in hooks
        if hook.blocking and not hook.observe
    )


def group_background(layer: Layer, folder: str, file: HookFile) -> list[HookGroup]:
    """What of one file may run in the background: its hooks (rules only decide), and its endpoints."""
    compiled = HookSet([Layered(layer, file.digest[:8], file)])
    hooks = [hook for hook in compiled.hooks.values() if hook.kind != "rule" and hook.id not in compiled.endpoints]
    return _merged(
        [
            HookGroup(
                id=hook.id,
                on=hook.on,
                layer=layer,
                folder=folder,
                tool=hook.tool,
                when=hook.when,
                dialect=hook.dialect,
                own={name: hook.own[name] for name in _OWN_FIELDS if name in hook.own},
                blocking=hook.blocking,
            )
            for hook in hooks
        ]
        + [
            HookGroup(
                id=one.id, on=one.events, layer=layer, folder=folder, tool=one.tool, when=one.when, blocking=False
            )
            for one in compiled.endpoints.values()
        ]
    )


def _merged(groups: Iterable[HookGroup]) -> list[HookGroup]:
    found: dict[bytes, HookGroup] = {}
    for group in groups:
        name = pack(msgspec.to_builtins(msgspec.structs.replace(group, id="", origin="", count=1)))
        known = found.get(name)
        found[name] = group if known is None else msgspec.structs.replace(known, count=known.count + group.count)
    return list(found.values())


def _bounded(groups: list[HookGroup]) -> list[HookGroup]:
    """At most so many groups: with more, each counts for every event of its types."""
    if len(groups) > _MOST_GROUPS:
        groups = _merged(msgspec.structs.replace(group, tool="", when="", own={}) for group in groups)
    if len(groups) > _MOST_GROUPS:
        groups = _merged(msgspec.structs.replace(group, on=("*",), folder="", layer="user") for group in groups)
    return groups


def own_hooks(user_file: Path | None, trust_file: Path, last_good: Path | None) -> tuple[OwnHooks, tuple[Source, ...]]:
    """The hooks in force of this user's file and trusted projects, and what has to change before they are others.

    ConfigError where a file cannot be read now and never could.
    """
    sources = [Source(str(trust_file), stamp(trust_file))]
    own = OwnHooks([], [])
    if user_file is not None:
        found = file_in_force(user_file, "user", last_good)
        sources += found.sources
        _add(own, "user", "", found.file)
    for entry in listed(trust_file):
        project = project_in_force(Path(entry.path), trust_file, last_good)
        sources += project.sources
        _add(own, "project", os.path.dirname(entry.path), project.file)
    return OwnHooks(*map(_bounded, own)), tuple(sources)


def _add(own: OwnHooks, layer: Layer, folder: str, file: HookFile) -> None:
    own.blocking.extend(group_hooks(layer, folder, file))
    own.background.extend(group_background(layer, folder, file))


def record_commands(keys: Keys, host: str, own: OwnHooks) -> list[Command]:
    """Say which hooks this user has on `host`; nothing of it stays where there are none."""
    commands: list[Command] = []
    owner = str(os.getuid())
    # Two keys: workers of an older version take all that the first one has for blocking hooks.
    for name, groups in ((keys("host", host), own.blocking), (keys("background", host), own.background)):
        record = pack([msgspec.to_builtins(group) for group in groups])
        commands.append(("HSET", name, owner, record) if groups else ("HDEL", name, owner))
    if own.blocking:
        commands.append(("ZADD", keys("hosts"), time.time_ns() // 10**6, host))
    return commands


def read_record(fields: Iterable[bytes]) -> HostHooks | None:
    """What the users of one host have recorded; None where there is nothing."""
    groups: list[HookGroup] = []
    for raw in fields:
        try:
            groups += msgspec.convert(unpack(raw), list[HookGroup], strict=False)
        except (DecodeError, msgspec.ValidationError) as error:
            log.warning("what another host recorded cannot be read: %s; it counts for every event", error)
            groups.append(HookGroup(id="unknown", on=("*",), layer="user"))
    return HostHooks(groups) if groups else None


class KnownRecords:
    """The record of each host as it was last read, so that a worker compiles it only when it changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, ...], HostHooks | None] = {}

    def read(self, records: tuple[bytes, ...]) -> HostHooks | None:
        """As `read_record`."""
        if not records:
            return None
        if records not in self._known:
            if len(self._known) >= _MOST_RECORDS:
                self._known.clear()
            self._known[records] = read_record(records)
        return self._known[records]


class HostRecorder:
    """Keeps the record of this host's own hooks up to date, for one process that watches its files."""

    def __init__(self, connections: Connections, keys: Keys, watcher: Watcher) -> None:
        self._connections, self._keys, self._watcher = connections, keys, watcher
        self._sources: tuple[Source, ...] | None = None
        self._own = OwnHooks([], [])
        self._looked = self._said = 0.0
        self._new = False

    async def keep(self) -> None:
        """Look at the files, and write the record where it is another or has not been written for a while."""
        now = time.monotonic()
        if self._looked and now - self._looked < POLL_SECONDS:
            return
        self._looked = now
        if self._sources is None or any(source.changed() for source in self._sources):
            self._look()
        if not self._new and (not any(self._own) or now - self._said < _AGAIN_SECONDS):
            return
        with self._connections.lease() as connection:
            replies = await connection.exchange(record_commands(self._keys, self._watcher.host, self._own))
        refused = next((reply for reply in replies if isinstance(reply, Exception)), None)
        if refused is not None:  # an ACL that is older than these keys: the worker goes on without them
            log.error("this host's hooks cannot be recorded: %s; renew the ACL (`fleethook acl`)", refused)
        self._said, self._new = now, False

    def _look(self) -> None:
        watcher = self._watcher
        try:
            own, self._sources = own_hooks(watcher.user_file, watcher.trust_file, watcher.last_good)
        except ConfigError as error:  # the watcher shows it; what is recorded stays
            log.warning("which hooks this host has cannot be told: %s", error)
            return
        self._new = self._new or own != self._own or not self._said
        self._own = own


class KnownHost(msgspec.Struct, frozen=True, kw_only=True):
    """One host that has blocking hooks of its own."""

    host: str
    alive: bool
    """Whether its `fleethook worker host` runs."""
    hooks: int
    policies: tuple[str, ...]
    """The failure policies that they declare themselves."""
    ms: int
    """When it last said so, in milliseconds since 1970; 0 where the fleet does not know of it."""

    @property
    def text(self) -> str:
        """What its worker's absence means, in words."""
        hooks = "1 blocking hook" if self.hooks == 1 else f"{self.hooks} blocking hooks"
        if not self.ms:
            return (
                f"no `fleethook worker host` has ever run on {self.host!r}: {hooks} of its user's and projects' files "
                "cannot be asked by evaluators elsewhere; `fleethook up` or `fleethook worker host` there"
            )
        declared = f" ({', '.join(self.policies)}, where they declare one)" if self.policies else ""
        return (
            f"no `fleethook worker host` runs on {self.host!r}: {hooks} of its user's and projects' files fall to their "
            f"failure policies{declared}; `fleethook hosts forget` where it is gone"
        )


async def known_hosts(
    connections: Connections, keys: Keys, here: tuple[str, Directories] | None = None
) -> list[KnownHost]:
    """Every host that has blocking hooks of its own, by name.

    `here` adds this host, by its name and folders, where it has some that the fleet does not know of.
    """
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("ZRANGE", keys("hosts"), 0, -1, "WITHSCORES")])
        scores = flat(checked(rows, "listing hosts"))
        names = [(name.decode("utf-8", "replace"), int(float(score))) for name, score in scores.items()]
        asked: list[Command] = []
        for name, _ in names:
            asked += [("HGETALL", keys("host", name)), ("EXISTS", keys("alive", role(name)))]
        replies = await connection.exchange(asked) if asked else []
    found = []
    for (name, ms), fields, alive in zip(names, replies[::2], replies[1::2], strict=True):
        record = read_record(flat(checked(fields, f"reading host {name}")).values())
        if record is not None:
            found.append(KnownHost(host=name, alive=alive == 1, hooks=record.count, policies=record.policies, ms=ms))
    if here is not None and here[0] not in {one.host for one in found}:
        found += await _unrecorded(connections, keys, *here)
    return sorted(found, key=lambda one: one.host)


async def _unrecorded(connections: Connections, keys: Keys, host: str, places: Directories) -> list[KnownHost]:
    try:
        hooks, _ = own_hooks(config_file(places.config), places.trust_file, places.last_good)
    except ConfigError:  # shown as what it is elsewhere
        return []
    with connections.lease() as connection:
        (alive,) = await connection.exchange([("EXISTS", keys("alive", role(host)))])
    own = HostHooks(hooks.blocking)
    return [KnownHost(host=host, alive=alive == 1, hooks=own.count, policies=own.policies, ms=0)] if own.count else []


async def record_now(connections: Connections, keys: Keys, places: Directories, host: str) -> KnownHost | None:
    """Record this host's own hooks as its files are now; what is known of it then, None where it has none.

    Raises ConfigError and Unreachable. For commands that change what is in force: no worker may run here.
    """
    own, _ = own_hooks(config_file(places.config), places.trust_file, places.last_good)
    with connections.lease() as connection:
        for reply in await connection.exchange(record_commands(keys, host, own)):
            checked(reply, "recording this host's hooks")
    return next((one for one in await known_hosts(connections, keys) if one.host == host), None)


async def forget_host(connections: Connections, keys: Keys, host: str) -> bool:
    """Remove what is recorded of a host; whether there was anything."""
    with connections.lease() as connection:
        commands: list[Command] = [("DEL", keys("host", host), keys("background", host)), ("ZREM", keys("hosts"), host)]
        replies = await connection.exchange(commands)
    counts = [int(checked(reply, f"forgetting host {host}")) for reply in replies]
    return sum(counts) > 0
