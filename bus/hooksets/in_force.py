"""The hooks in force for an event: fleet, user and project layers, compiled, watched, swapped without a pause."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from bus.errors import ConditionError, ConfigError, FleethookError, OverBudget, Unreachable
from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hooks import LAYERS, Endpoint, Hook, Layer
from bus.hooksets.candidates import Candidates, CandidatesMemory
from bus.hooksets.files_in_force import Rejected
from bus.hooksets.guard_watch import GuardWatch
from bus.hooksets.hookfile import HookFile
from bus.hooksets.layers import Layered, guard_hooks, place_entry
from bus.hooksets.published import KEPT_VERSIONS, current_version, load_version
from bus.hooksets.sieve import Sieve
from bus.hooksets.trust import trusted_file
from bus.hooksets.watched_file import WatchedFile
from bus.http.address_policy import AddressPolicy
from bus.http.address_policy import policy as address_policy
from bus.http.proxies import MAY_NAME
from bus.ids import host_name
from bus.matching.condition_cost import size_of
from bus.matching.conditions import compile_condition
from bus.matching.disk import Disk, light_disk
from bus.matching.findings import Findings, holds
from bus.matching.patterns import Index
from bus.matching.questions import Question
from bus.matching.rules import Rule, check_rule, seen_call
from bus.shell import commands_if_light
from bus.system.directories import CONFIG_NAMES, Directories, config_file
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys

__all__ = ["POLL_SECONDS", "HookSet", "Layered", "Watcher"]

log = logging.getLogger("fleethook.hooks")

POLL_SECONDS: Final = 0.5
"""How often the published version and the files are looked at: a change is in force within a second."""
_NO_VERDICT: Final = {"decision": "", "reason": ""}
_LONG_TEXT: Final = 64 * 1024
"""Characters of a tool call above which no regular expression is searched for in the loop that answers."""
_MOST_SETS: Final = 64
_MOST_FOLDERS: Final = 1024
_LONGEST_FOLDER: Final = 4096  # characters of a remembered folder's name: no system has longer ones


class HookSet:
    """Several layers, compiled: finds the hooks and endpoints that fit an event, in order."""

    def __init__(self, layers: Sequence[Layered]) -> None:
        self.version = " ".join(f"{one.layer}@{one.version}" for one in layers) or "none"
        self.layers = tuple(one.layer for one in layers)
        self.files = tuple(layers)
        self.waiting = tuple(text for one in layers for text in one.waiting)
        """Newer content of the layers' files that is not in force, and why, in words."""
        self.hooks: dict[str, Hook] = {}
        self.endpoints: dict[str, Endpoint] = {}
        taken: dict[str, Hook | Endpoint] = {}
        allow: list[str] = []
        for one in layers:
            for hook in (*guard_hooks(one), *one.file.hooks):
                placed = place_entry(hook, one, taken) if hook.enabled else None
                if placed is not None:
                    self.hooks[placed.id] = placed
            for number, endpoint in enumerate(one.file.endpoints, len(one.file.hooks)):
                target = place_entry(endpoint, one, taken) if endpoint.enabled else None
                if target is not None:
                    self.endpoints[target.id] = target
                    if target.can_block:
                        self.hooks[target.id] = target.question(number)
            if one.layer != "project":  # a cloned repository may not open the network
                allow.extend(one.file.network_allow)
        self.network: AddressPolicy = address_policy(allow)
        said = (one.file.network_proxy for one in layers if one.layer in MAY_NAME and one.file.network_proxy)
        self.proxy: str = next(said, "")
        """What `network.proxy` says in the highest layer that says anything."""
        ordered = sorted(self.hooks.values(), key=lambda hook: hook.order)
        self._conditions = {one.id: compile_condition(one.when) for one in taken.values() if one.when}
        self._index = Index([(hook, hook.on) for hook in ordered])
        self._sieve = Sieve({hook.id: hook.rule for hook in ordered if hook.rule is not None})
        self._candidates = CandidatesMemory(self._conditions, self._sieve.always)
        self._targets = Index([(endpoint, endpoint.events) for endpoint in self.endpoints.values()])

    def prepare(self) -> HookSet:
        """Compile now what is otherwise compiled when a first event asks for it; both guard packs take 0.3 s."""
        for hook in self.hooks.values():
            with suppress(FleethookError):  # said, and left to the rule's failure policy, when an event asks for it
                check_rule(hook.rule or Rule())
        self._sieve.prepare()
        return self

    def question(self, event: Event) -> Question | None:
        """What a process that can be killed has to be asked before `blocking`; None where all can be told at once."""
        candidates = self._candidates.of(self._index.find(event))
        heavy = self._is_heavy(candidates, event)
        size = size_of(event.facts()) if candidates.conditions else None
        costly = dict.fromkeys(one.text for one in candidates.conditions if size is not None and one.is_costly(size))
        if not heavy and not costly:
            return None
        rules = {hook.id: hook.rule for hook in candidates.blocking if hook.rule is not None} if heavy else {}
        return Question(event=event, rules=rules, conditions=tuple(costly), verdict=_NO_VERDICT)

    def _is_heavy(self, candidates: Candidates, event: Event) -> bool:
        """Whether these hooks' rules may take long over the event's command, or over the texts that it carries."""
        if candidates.read_texts and size_of(event.input).characters > _LONG_TEXT:
            return True
        if not candidates.read_lines:
            return False  # a patch is a text of that name, too
        text = seen_call(event).text
        try:
            return text is not None and commands_if_light(text) is None
        except Exception:
            log.exception("a command cannot be read here")
            return True

    def blocking(self, event: Event, findings: Findings | None = None, disk: Disk | None = None) -> list[Hook]:
        """The blocking hooks that fit `event`, in order; a `when:` that fails keeps its hook in (see `holds`).

        `findings` are what a process found about the event's `question`; `disk` is what the event's rules may look up.
        """
        candidates = self._candidates.of(self._index.find(event))
        fitting = self._fitting(candidates, event, findings, disk or light_disk())
        if candidates.unconditional:
            return list(fitting)
        return [hook for hook in fitting if self.holds(hook, event, findings=findings)]

    def _fitting(self, candidates: Candidates, event: Event, findings: Findings | None, disk: Disk) -> Sequence[Hook]:
        """The blocking ones whose matchers fit; not a rule about programs that the event's command does not run (F-05)."""
        found = candidates.blocking
        if findings is not None and findings.rules:
            return [hook for hook in found if (answer := findings.rules.get(hook.id)) is None or answer.counts]
        if not candidates.read_lines:
            return found  # a patch is a text of that name, too, and takes long to be read as a command
        call = seen_call(event)
        if call.text is None:
            return found
        try:
            line = call.line
            if line.unread or line.incomplete:
                return found
            return candidates.only(self._sieve.passing(line, call.text, call.facts(disk)))
        except Exception:
            log.exception("event %s: its command cannot be read; each rule fails on it by its own policy", event.id)
            return found

    def background(self, event: Event, verdict: Verdict | None) -> list[Hook]:
        """The hooks that run in the background: the non-blocking ones, and all where nobody asked for a verdict.

        A rule only decides, so it has nothing to do there, and an endpoint that can block is told by its delivery.
        """
        return [
            hook
            for hook in self._index.find(event)
            if hook.kind != "rule"
            and (verdict is None or not hook.blocking)
            and hook.id not in self.endpoints
            and self.holds(hook, event, verdict)
        ]

    def targets(self, event: Event, verdict: Verdict | None) -> list[Endpoint]:
        """The endpoints that are told of `event`: all but those that were asked about it and answered."""
        answered = {part.hook for part in verdict.parts if not part.fallback} if verdict is not None else frozenset()
        return [
            one
            for one in self._targets.find(event)
            if not (one.can_block and one.id in answered) and self.holds(one, event, verdict)
        ]

    def is_costly(self, event: Event) -> bool:
        """Whether `background` and `targets` have to ask a process about this event, and block for as long."""
        entries: list[Hook | Endpoint] = [*self._index.find(event), *self._targets.find(event)]
        conditions = [one for entry in entries if (one := self._conditions.get(entry.id)) is not None]
        size = size_of(event.facts()) if conditions else None
        return size is not None and any(one.is_costly(size) for one in conditions)

    def holds(
        self,
        entry: Hook | Endpoint,
        event: Event,
        verdict: Verdict | None = None,
        findings: Findings | None = None,
    ) -> bool:
        """Whether the entry's `when:` holds; one that cannot be evaluated counts as holding, so that no guard is lost.

        A rule that allows is no guard: in doubt it says nothing.
        """
        if isinstance(entry, Hook) and entry.own and not find_hooks(entry.dialect).applies(entry, event):
            return False
        condition = self._conditions.get(entry.id)
        if condition is None:
            return True
        said = {"decision": verdict.decision, "reason": verdict.reason} if verdict else _NO_VERDICT
        try:
            if findings is not None and findings.knows(condition.text):
                return findings.holds(condition.text)
            return holds(condition, event, said)
        except (ConditionError, OverBudget) as error:
            counts = not (isinstance(entry, Hook) and entry.rule is not None and entry.rule.decision == "allow")
            log.warning(
                "%s: when: of %r cannot be evaluated (%s); it counts as %s", entry.origin, entry.id, error, counts
            )
            return counts


class Watcher:
    """Keeps the sets in force: polls the published version and the files, and swaps whole sets atomically.

    A file with errors keeps what was in force of it and says so; Redis away keeps everything. `last_good` is where that
    is kept for other processes and later ones (`Directories.last_good`); None keeps it in this process alone.
    """

    def __init__(
        self,
        connections: Connections,
        keys: Keys,
        *,
        host: str,
        user_file: Path | None,
        trust_file: Path,
        last_good: Path | None = None,
    ) -> None:
        self._connections, self._keys, self.host, self.user_file = connections, keys, host, user_file
        self.last_good = last_good
        self._fleet = Layered("fleet", "0", HookFile())
        self._files: dict[Path, WatchedFile] = {}
        self._sets: dict[tuple[str, ...], HookSet] = {}
        self._looked = 0.0
        self._seen = 0
        """The published version that was looked at last, good or bad."""
        self.trust_file = trust_file
        self._projects: dict[str, tuple[float, Path | None]] = {}
        self._recent: dict[tuple[bool, str | None], tuple[float, HookSet]] = {}
        self.guards = GuardWatch(host, last_good, lambda layer, file: _single(layer, file).hooks)
        """What changes took from the guards of a file or of the published set."""

    @classmethod
    def here(cls, connections: Connections, keys: Keys, places: Directories, host: str = "") -> Watcher:
        """The hooks in force on this host, for this user."""
        user = config_file(places.config) or places.config / CONFIG_NAMES[0]
        return cls(
            connections,
            keys,
            host=host or host_name(),
            user_file=user,
            trust_file=places.trust_file,
            last_good=places.last_good,
        )

    async def refresh(self, *, force: bool = False) -> None:
        """Look at the published version, at most every half second.

        Raises only when forced: Unreachable, and ConfigError where a set was published, none was in force here before, and no
        earlier version can be read either. To go on without any would let through what they are there to stop.
        """
        now = time.monotonic()
        if not force and now - self._looked < POLL_SECONDS:
            return
        self._looked = now
        try:
            await self._load(await current_version(self._connections, self._keys))
        except Unreachable:
            if force:
                raise
        except FleethookError as error:
            if force and self._fleet.version == "0":
                await self._load_earlier(error)
            log.error("the published hook set: %s; %s stays in force", error, self._fleet.version)
        if self.user_file is not None and self.user_file not in self._files:  # no first event waits for its guards
            await asyncio.to_thread(lambda: self._layered(here=True, folder=None).prepare())

    async def _load_earlier(self, error: FleethookError) -> None:
        """Put in force what a worker that has run for longer would have kept: the newest version that can be read."""
        newest = self._seen
        for version in range(newest - 1, max(0, newest - KEPT_VERSIONS), -1):
            try:
                await self._put_in_force(version, await load_version(self._connections, self._keys, version))
            except Unreachable:
                raise
            except FleethookError:
                continue
            self._seen = newest
            return
        self._seen = 0  # looked at again by whoever tries again
        raise ConfigError(
            f"{error}; nor is an earlier one", hint="publish a good set: `fleethook hooks apply`"
        ) from error

    async def _load(self, version: int) -> None:
        if version == self._seen:
            return
        if version == 0:
            log.error("the published hook set is gone; %s stays in force until one is published", self._fleet.version)
            self._seen = 0
            return
        try:
            await self._put_in_force(version, await load_version(self._connections, self._keys, version))
        except Unreachable:
            raise
        except FleethookError as error:
            self._seen = version  # said once, and not tried again before another is published
            raise FleethookError(f"version {version} is not put in force: {error}") from error

    async def _put_in_force(self, version: int, file: HookFile) -> None:
        layered = Layered("fleet", str(version), file)
        # On a thread: both guard packs take 0.4 s of a core, and the loop has requests and heartbeats to see to.
        compiled = await asyncio.to_thread(lambda: HookSet([layered]).prepare())
        if self._fleet.version != "0":
            name = f"version {version}"
            self.guards.note(self.fleet().hooks, compiled.hooks, "published", name, name)
        self._seen, self._fleet, self._sets = version, layered, {_key([layered]): compiled}
        self._recent.clear()
        log.info("hook set %s is in force: %d hooks, %d endpoints", version, len(file.hooks), len(file.endpoints))

    def for_event(self, event: Event) -> HookSet:
        """The set in force for `event`: user and project layers exist only on their own host."""
        here = event.host == self.host
        folder, now = event.cwd if here and len(event.cwd) <= _LONGEST_FOLDER else None, time.monotonic()
        place = (here, folder)
        known = self._recent.get(place)
        if known is None or now >= known[0]:
            if len(self._recent) >= _MOST_FOLDERS:
                self._recent.clear()
            # Agents ask many times a second from one folder; a tenth of the time between two looks is no delay.
            known = self._recent[place] = (now + POLL_SECONDS / 10, self._layered(here=here, folder=folder))
        return known[1]

    def _layered(self, *, here: bool, folder: str | None) -> HookSet:
        layers = [self._fleet]
        if here:
            if self.user_file is not None:
                layers.append(self._file("user", self.user_file))
            # Absolute: below a relative one would lie the worker's own folder.
            project = self._project(folder) if folder is not None and os.path.isabs(folder) else None
            if project is not None:
                layers.append(self._file("project", project))
        used = [one for one in layers if one.version not in {"", "0"}]
        return self._compiled(used)

    def _project(self, cwd: str) -> Path | None:
        """The project file above `cwd`, looked for at most every half second: it costs a walk up the folders."""
        now = time.monotonic()
        known = self._projects.get(cwd)
        if known is None or now - known[0] >= POLL_SECONDS:
            if len(self._projects) >= _MOST_FOLDERS:
                self._projects.clear()
            known = self._projects[cwd] = (now, trusted_file(Path(cwd), self.trust_file, user=self.user_file))
        return known[1]

    def rejected(self) -> tuple[Rejected, ...]:
        """Newer content that is not in force: of the user's file, and of the projects that events came from lately."""
        if self.user_file is not None:
            self._file("user", self.user_file)
        found = {path: (watched.layer, watched.current(POLL_SECONDS)) for path, watched in self._files.items()}
        for path, (layer, now) in found.items():
            self.guards.compare(layer, path, now)  # every process sees the same state of the file, and says it once
        return tuple(one for _, now in found.values() for one in now.rejected)

    def fleet(self) -> HookSet:
        """The fleet's own layer alone."""
        return self._compiled([self._fleet] if self._fleet.version != "0" else [])

    def _compiled(self, layers: list[Layered]) -> HookSet:
        key = _key(layers)
        known = self._sets.get(key)
        if known is None:
            known = HookSet(layers)
            if len(self._sets) >= _MOST_SETS:
                self._sets.clear()
            self._sets[key] = known
        return known

    def _file(self, layer: Layer, path: Path) -> Layered:
        watched = self._files.get(path)
        if watched is None:
            self.guards.recall(path)
            check = partial(_single, layer)
            watched = self._files[path] = WatchedFile(layer, path, self.trust_file, self.last_good, check)
        found = watched.current(POLL_SECONDS)
        self.guards.compare(layer, path, found)
        return Layered(layer, found.file.digest[:8], found.file, tuple(one.text for one in found.rejected))


def _single(layer: Layer, file: HookFile) -> HookSet:
    return HookSet([Layered(layer, file.digest[:8], file)])


def _key(layers: Sequence[Layered]) -> tuple[str, ...]:
    return tuple(text for one in layers for text in (f"{LAYERS.index(one.layer)}{one.version}", *one.waiting))
