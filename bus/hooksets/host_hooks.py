"""Records in Redis which hooks exist only on each host, so that the fleet knows of them while the host's worker is away.

While it is away, the failure policies of these blocking hooks answer, and the events for the background hooks are kept
(`workers/runtime/kept_events.py`). A record has the matchers and failure policies of hooks, and no commands or URLs. It is
removed when the host has no such hooks any more, or by `fleethook hosts forget`.
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
from bus.event_folder import UNKNOWN_FOLDER, EventFolder, is_within
from bus.events import Event
from bus.hooks import DECIDING, NATIVE, Hook, Layer
from bus.hooksets.files_in_force import file_in_force
from bus.hooksets.hookfile import HookFile
from bus.hooksets.in_force import POLL_SECONDS, HookSet, Watcher, compile_file
from bus.hooksets.layers import Layered
from bus.hooksets.projects import project_in_force
from bus.hooksets.trust import listed
from bus.lazy.conversions import converted
from bus.verdicts import Policy, Verdict
from bus.wire.codec import pack, unpack
from bus.wire.connections import Command, Connections
from bus.wire.keys import Keys

log = logging.getLogger("fleethook.hosts")

_AGAIN_SECONDS: Final = 5.0
"""The record is written again after this time, in case the server's data was deleted."""

_MOST_GROUPS: Final = 1_000
_MOST_RECORDS: Final = 1_000
_MOST_NAMES: Final = 3
_OWN_FIELDS: Final = ("event", "matchers", "if", "itself")
"""The fields of `Hook.own` that a dialect needs to decide whether the hook fits an event."""


class HookGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hooks of one host that fit the same events and share a failure policy."""

    id: str
    """The id of the first hook."""
    on: tuple[str, ...]
    layer: Layer
    origin: str = ""
    folder: str = ""
    """The project's folder; empty for the user's own file."""
    tool: str = ""
    when: str = ""
    on_failure: Policy | None = None
    dialect: str = NATIVE
    own: dict[str, Any] = msgspec.field(default_factory=dict)
    count: int = 1
    blocking: bool = True
    pack: str = ""
    """The guard pack whose rules these are; empty for hooks that the user wrote."""

    @property
    def hook(self) -> Hook:
        """A command hook that fits the same events and does nothing."""
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
    """The hooks that run in the background, and the endpoints."""


class HostHooks:
    """The record of one host, compiled. Finds which of the host's own hooks fit an event."""

    def __init__(self, groups: Sequence[HookGroup]) -> None:
        self.groups = tuple(groups)
        folders = dict.fromkeys(group.folder for group in groups)
        self._sets = {folder: _compiled([group for group in groups if group.folder == folder]) for folder in folders}

    @property
    def count(self) -> int:
        """How many hooks were recorded, as the user counts them: a guard pack counts as one."""
        return len(self._packs) + sum(group.count for group in self._written)

    @property
    def text(self) -> str:
        """How many, and which: `2 guard packs (a and b) and 1 blocking hook (mine)`."""
        packs = list(dict.fromkeys(pack for _, pack in self._packs))
        hooks = sum(group.count for group in self._written)
        ids = [group.id for group in self._written[:_MOST_NAMES]]
        ids += [f"{hooks - len(ids)} more"] if hooks > len(ids) else []
        parts = [f"{len(packs)} guard pack{'s'[: len(packs) - 1]} ({_joined(packs)})"] if packs else []
        parts += [f"{hooks} blocking hook{'s'[: hooks - 1]} ({_joined(ids)})"] if hooks else []
        return _joined(parts)

    @property
    def _packs(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((group.folder, group.pack) for group in self.groups if group.pack))

    @property
    def _written(self) -> list[HookGroup]:
        return [group for group in self.groups if not group.pack]

    @property
    def policies(self) -> tuple[str, ...]:
        """The failure policies that the hooks declare, sorted."""
        return tuple(sorted({group.on_failure for group in self.groups if group.on_failure is not None}))

    def fitting(self, event: Event, folder: EventFolder = UNKNOWN_FOLDER) -> list[Hook]:
        """One hook for each group that fits: the user's first, then those of the event's project.

        `folder` is the folder in which the event's hook command ran. If the event names another folder, the projects of
        both count, because the two names may mean the same folder.
        """
        return [hook for hook_set in self._around(event, folder) for hook in hook_set.blocking(event)]

    def has_background(self, event: Event, verdict: Verdict | None, folder: EventFolder = UNKNOWN_FOLDER) -> bool:
        """Whether any hook of the host would run in the background for this event. Evaluating conditions may take long."""
        return any(hook_set.background(event, verdict) for hook_set in self._around(event, folder))

    def _around(self, event: Event, folder: EventFolder) -> list[HookSet]:
        """The hook sets of the user, and of the projects around an event."""
        named = os.path.normpath(event.cwd) if os.path.isabs(event.cwd) else folder.path
        projects = (self._project(path, folder.repository) for path in (folder.path, named))
        return [self._sets[folder] for folder in dict.fromkeys(["", *projects]) if folder in self._sets]

    def _project(self, path: str, repository: str) -> str:
        """The nearest recorded project around `path`; empty if `path` is in a repository nested in that project."""
        nearest = max((project for project in self._sets if is_within(path, project)), key=len, default="")
        apart = nearest != repository and is_within(path, repository) and is_within(repository, nearest)
        return "" if apart else nearest


def _joined(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _compiled(groups: Sequence[HookGroup]) -> HookSet:
    layered = [Layered(groups[0].layer, "", HookFile(hooks=tuple(group.hook for group in groups)))]
    try:
        return HookSet(layered)
    except FleethookError as error:  # another version of Fleethook wrote it: assume that its hooks fit
        log.warning("the hooks of another host cannot be compiled: %s; they count for every event", error)
        wide = [msgspec.structs.replace(group.hook, on=("*",), tool="", when="", own={}) for group in groups]
        return HookSet([Layered(groups[0].layer, "", HookFile(hooks=tuple(wide)))])


def _group_hooks(layer: Layer, folder: str, compiled: HookSet, packs: Iterable[str]) -> list[HookGroup]:
    """The blocking hooks of one file, with its guards and its endpoints that can block; without hooks that only observe."""
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
            pack=_pack_of(hook, packs),
        )
        for hook in compiled.hooks.values()
        if hook.blocking and not hook.observe
    )


def _pack_of(hook: Hook, packs: Iterable[str]) -> str:
    """The guard pack of a rule; its origin names the pack's file, where a hook that the user wrote has a whole path."""
    return next((pack for pack in packs if hook.origin.startswith(f"{pack}.") and hook.id.startswith(f"{pack}_")), "")


def _group_background(layer: Layer, folder: str, compiled: HookSet) -> list[HookGroup]:
    """The hooks of one file that may run in the background (all except rules), and its endpoints."""
    others = (hook for hook in compiled.hooks.values() if hook.kind not in DECIDING)
    hooks = [hook for hook in others if hook.id not in compiled.endpoints]
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
                id=endpoint.id,
                on=endpoint.events,
                layer=layer,
                folder=folder,
                tool=endpoint.tool,
                when=endpoint.when,
                blocking=False,
            )
            for endpoint in compiled.endpoints.values()
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
    """The groups, merged if there are too many; a merged group may fit more events than its hooks do, and never fewer."""
    if len(groups) > _MOST_GROUPS:
        groups = _merged(msgspec.structs.replace(group, tool="", when="", own={}) for group in groups)
    if len(groups) > _MOST_GROUPS:
        groups = _merged(msgspec.structs.replace(group, on=("*",), folder="", layer="user") for group in groups)
    return groups


def own_hooks(user_file: Path | None, trust_file: Path, last_good: Path | None) -> tuple[OwnHooks, tuple[Source, ...]]:
    """The hooks in force of this user's file and trusted projects, and the files to watch for changes of them.

    Raises ConfigError if a file cannot be read and has no last good content.
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
    compiled = compile_file(layer, file)
    own.blocking.extend(_group_hooks(layer, folder, compiled, file.guards))
    own.background.extend(_group_background(layer, folder, compiled))


def record_commands(keys: Keys, host: str, own: OwnHooks) -> list[Command]:
    """The commands that record this user's hooks on `host`; without hooks, they remove the record."""
    commands: list[Command] = []
    owner = str(os.getuid())
    # Two keys: workers of older versions treat every hook in the first one as blocking.
    for name, groups in ((keys("host", host), own.blocking), (keys("background", host), own.background)):
        record = pack([msgspec.to_builtins(group) for group in groups])
        commands.append(("HSET", name, owner, record) if groups else ("HDEL", name, owner))
    if own.blocking:
        commands.append(("ZADD", keys("hosts"), time.time_ns() // 10**6, host))
    return commands


def read_record(fields: Iterable[bytes]) -> HostHooks | None:
    """The record of one host, of all its users; None if there is none."""
    groups: list[HookGroup] = []
    for raw in fields:
        try:
            groups += converted(unpack(raw), list[HookGroup], strict=False)
        except (DecodeError, msgspec.ValidationError) as error:
            log.warning("another host's record of hooks cannot be read: %s; it counts for every event", error)
            groups.append(HookGroup(id="unknown", on=("*",), layer="user"))
    return HostHooks(groups) if groups else None


class KnownRecords:
    """Compiled records of hosts, so that a worker compiles a record only when it changes."""

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
    """Keeps the record of this host's own hooks up to date, in a process that watches their files."""

    def __init__(self, connections: Connections, keys: Keys, watcher: Watcher) -> None:
        self._connections, self._keys, self._watcher = connections, keys, watcher
        self._sources: tuple[Source, ...] | None = None
        self._own = OwnHooks([], [])
        self._looked = self._recorded_at = 0.0
        self._new = False

    async def keep(self) -> None:
        """Check the files, and write the record if it changed or was last written some seconds ago."""
        now = time.monotonic()
        if self._looked and now - self._looked < POLL_SECONDS:
            return
        self._looked = now
        if self._sources is None or any(source.changed() for source in self._sources):
            self._read_own_hooks()
        if not self._new and (not any(self._own) or now - self._recorded_at < _AGAIN_SECONDS):
            return
        with self._connections.lease() as connection:
            replies = await connection.exchange(record_commands(self._keys, self._watcher.host, self._own))
        refused = next((reply for reply in replies if isinstance(reply, Exception)), None)
        if refused is not None:  # the ACL may be older than these keys: the worker goes on without them
            log.error("this host's hooks cannot be recorded: %s; renew the ACL (`fleethook acl`)", refused)
        self._recorded_at, self._new = now, False

    def _read_own_hooks(self) -> None:
        watcher = self._watcher
        try:
            own, self._sources = own_hooks(watcher.user_file, watcher.trust_file, watcher.last_good)
        except ConfigError as error:  # the watcher reports it; the record stays as it was
            log.warning("this host's own hooks cannot be read, so their record stays as it was: %s", error)
            return
        self._new = self._new or own != self._own or not self._recorded_at
        self._own = own
