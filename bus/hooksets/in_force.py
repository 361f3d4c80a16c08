"""The hooks in force for an event: the fleet's, the user's and the project's layer, compiled and kept up to date."""

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
from bus.hooks import DECIDING, Endpoint, Hook, Layer
from bus.hooksets.candidates import Candidates, CandidatesMemory, applies, is_heavy
from bus.hooksets.files_in_force import Rejected
from bus.hooksets.guard_watch import GuardWatch
from bus.hooksets.hookfile import HookFile
from bus.hooksets.layers import Layered, content_key, guard_hooks, highest, place_entry
from bus.hooksets.published import KEPT_VERSIONS, current_version, load_version
from bus.hooksets.sieve.sieve import later_sieve
from bus.hooksets.trust import trusted_file
from bus.hooksets.watched_file import WatchedFile
from bus.hooksets.workflows.carried import is_left
from bus.http.address_policy import AddressPolicy
from bus.http.address_policy import policy as address_policy
from bus.ids import host_name
from bus.matching.checker_messages import MatchQuestion
from bus.matching.conditions import Condition, compile_condition
from bus.matching.disk import Disk, light_disk
from bus.matching.findings import Findings, Session, holds, sized_facts
from bus.matching.patterns import Index
from bus.matching.rules import check_rule, seen_call
from bus.system.directories import CONFIG_NAMES, Directories, config_file
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys

__all__ = ["POLL_SECONDS", "PREPARED", "HookSet", "Layered", "Watcher"]

log = logging.getLogger("fleethook.hooks")

POLL_SECONDS: Final = 0.5
"""How often the published version and the files are checked: a change is in force within a second."""
_NO_VERDICT: Final = {"decision": "", "reason": ""}
_MOST_SETS: Final = 64
_MOST_FOLDERS: Final = 1024
PREPARED: Final[dict[tuple[tuple[object, ...], ...], HookSet]] = {}
"""Sets that were compiled before this process was forked, by their content."""
_LONGEST_FOLDER: Final = 4096  # characters of a remembered folder's name: no system has longer ones


class HookSet:
    """Several layers, compiled. Finds the hooks and endpoints that fit an event, in order."""

    def __init__(self, layers: Sequence[Layered]) -> None:
        self.version = " ".join(f"{layered.layer}@{layered.version}" for layered in layers) or "none"
        self.layers = tuple(layered.layer for layered in layers)
        self.files, self.made_at = tuple(layers), time.time()
        self.waiting = tuple(text for layered in layers for text in layered.waiting)
        """Messages about newer content of the layers' files that is not in force: which and why."""
        self.has_plugins = any(layered.file.plugins for layered in layers)
        self.hooks: dict[str, Hook] = {}
        self.endpoints: dict[str, Endpoint] = {}
        taken: dict[str, Hook | Endpoint] = {}
        allow: list[str] = []
        for layered in layers:
            for hook in (*guard_hooks(layered), *layered.file.hooks):
                if hook.enabled and (placed := place_entry(hook, layered, taken)) is not None:
                    self.hooks[placed.id] = placed
            for number, endpoint in enumerate(layered.file.endpoints, len(layered.file.hooks)):
                if endpoint.enabled and (target := place_entry(endpoint, layered, taken)) is not None:
                    self.endpoints[target.id] = target
                    if target.can_block:
                        self.hooks[target.id] = target.question(number)
            if layered.layer != "project":  # a cloned repository may not open the network
                allow.extend(layered.file.network_allow)
        self.network: AddressPolicy = address_policy(allow)
        self.proxy = highest(layers, lambda file: file.network_proxy) or ""
        """`network.proxy` of the highest layer that has it."""
        self.model = highest(layers, lambda file: file.model)
        ordered = sorted(self.hooks.values(), key=lambda hook: hook.order)
        self._conditions = {entry.id: compile_condition(entry.when) for entry in taken.values() if entry.when}
        self.reads_sessions = any(condition.uses_session for condition in self._conditions.values())
        self._index = Index([(hook, hook.on) for hook in ordered])
        self._sieve = later_sieve({hook.id: hook.rule for hook in ordered if hook.rule is not None})
        self.is_prepared, self._candidates = False, CandidatesMemory(self._index, self._conditions, self._sieve)
        self._targets = Index([(endpoint, endpoint.events) for endpoint in self.endpoints.values()])

    def prepare(self) -> HookSet:
        """Compile now what the first event would compile otherwise; both guard packs take 0.3 s."""
        for rule in (hook.rule for hook in self.hooks.values() if hook.rule is not None):
            with suppress(FleethookError):  # an event that needs the rule gets the error
                check_rule(rule)
        self._sieve().prepare()
        self.is_prepared = True
        return self

    def session_conditions(self, event: Event, disk: Disk) -> list[Condition]:
        """The conditions that read facts of the session, of the hooks that may fit; `blocking` needs these facts."""
        candidates = self._candidates.of(event)
        if not candidates.read_sessions:
            return []
        heavy = is_heavy(candidates, event)
        found = candidates.blocking if heavy else self._fitting(candidates, event, None, disk)
        conditions = (self._conditions.get(hook.id) for hook in found)
        return [condition for condition in conditions if condition is not None and condition.uses_session]

    def question(self, event: Event, session: Session = None) -> MatchQuestion | None:
        """The checks that may take long; None if there are none. A process that can be killed does them before `blocking`."""
        candidates = self._candidates.of(event)
        heavy, conditions = is_heavy(candidates, event), candidates.conditions
        size = sized_facts(event)[1] if conditions else None
        costly = {} if size is None else {entry.text: None for entry in conditions if entry.is_costly(size)}
        if not heavy and not costly:
            return None
        rules = {hook.id: hook.rule for hook in candidates.blocking if hook.rule is not None} if heavy else {}
        return MatchQuestion(event=event, rules=rules, conditions=tuple(costly), verdict=_NO_VERDICT, session=session)

    def blocking(
        self, event: Event, findings: Findings | None = None, disk: Disk | None = None, session: Session = None
    ) -> list[Hook]:
        """The blocking hooks that fit `event`, in order. A hook whose `when:` fails counts as fitting (see `holds`).

        `findings` are the answers to the event's `question`, `session` the facts for conditions; rules look up with `disk`.
        """
        candidates = self._candidates.of(event)
        fitting = self._fitting(candidates, event, findings, disk or light_disk())
        if candidates.unconditional:
            return fitting
        return [hook for hook in fitting if self.holds(hook, event, findings=findings, session=session)]

    def _fitting(self, candidates: Candidates, event: Event, findings: Findings | None, disk: Disk) -> list[Hook]:
        """The blocking hooks whose matchers fit, without rules about programs that the command does not run (F-05)."""
        found = candidates.blocking
        if findings is not None and findings.rules:
            return [hook for hook in found if (answer := findings.rules.get(hook.id)) is None or answer.counts]
        call = seen_call(event) if candidates.read_lines else None  # to read a patch as a line would take long
        if call is None or call.text is None:
            return list(found)
        if call.text in candidates.harmless:
            return []
        try:
            line = call.line
            if line.unread or line.incomplete:
                return list(found)
            rules = self._sieve().passing(line, call.text, partial(call.facts, disk), call.secrets)
            return candidates.only(rules, call)
        except Exception:
            log.exception("event %s: its command cannot be read; each rule answers by its failure policy", event.id)
            return list(found)

    def background(self, event: Event, verdict: Verdict | None) -> list[Hook]:
        """The hooks that run in the background: the non-blocking ones, and without a verdict the blocking ones too.

        Left out are kinds that only decide (`DECIDING`), and endpoints that can block, which get a delivery.
        """
        return [
            hook
            for hook in self._index.find(event)
            if hook.kind not in DECIDING
            and (verdict is None or not hook.blocking or is_left(hook, verdict))
            and hook.id not in self.endpoints
            and self.holds(hook, event, verdict)
        ]

    def observers(self, event: Event, verdict: Verdict | None) -> list[Hook]:
        """The handlers of plugins that see the event with its verdict; without a verdict (an announced event), all of them."""
        found = [hook for hook in self._index.find(event) if hook.handler] if self.has_plugins else []
        return [hook for hook in found if not (verdict and hook.blocking) and self.holds(hook, event, verdict)]

    def targets(self, event: Event, verdict: Verdict | None) -> list[Endpoint]:
        """The endpoints that get a delivery of `event`: all that fit, except those that gave a part of the verdict."""
        answered = {part.hook for part in verdict.parts if not part.fallback} if verdict is not None else frozenset()
        return [
            endpoint
            for endpoint in self._targets.find(event)
            if not (endpoint.can_block and endpoint.id in answered) and self.holds(endpoint, event, verdict)
        ]

    def is_costly(self, event: Event) -> bool:
        """Whether `background` and `targets` have to ask another process about this event, and block meanwhile."""
        entries: list[Hook | Endpoint] = [*self._index.find(event), *self._targets.find(event)]
        conditions = [self._conditions[entry.id] for entry in entries if entry.id in self._conditions]
        size = sized_facts(event)[1] if conditions else None
        return size is not None and any(condition.is_costly(size) for condition in conditions)

    def holds(
        self,
        entry: Hook | Endpoint,
        event: Event,
        verdict: Verdict | None = None,
        findings: Findings | None = None,
        session: Session = None,
    ) -> bool:
        """Whether the entry's `when:` is true and no call of its `unless:` fits.

        If `when:` cannot be evaluated it counts as true, so that no guard is lost, and as false for a rule that allows.
        """
        if isinstance(entry, Hook) and (entry.own or entry.unless) and not applies(entry, event):
            return False
        condition = self._conditions.get(entry.id)
        if condition is None:
            return True
        facts = {"decision": verdict.decision, "reason": verdict.reason} if verdict else _NO_VERDICT
        try:
            if findings is not None and findings.knows(condition.text):
                return findings.holds(condition.text)
            return holds(condition, event, facts, session)
        except (ConditionError, OverBudget) as error:
            counts = not (isinstance(entry, Hook) and entry.rule is not None and entry.rule.decision == "allow")
            log.warning(
                "%s: when: of %r cannot be evaluated (%s); it counts as %s", entry.origin, entry.id, error, counts
            )
            return counts


class Watcher:
    """Keeps the hook sets up to date: polls the published version and the files, and swaps whole sets at once.

    If a file has errors, its last good content stays in force. If Redis is away, every set stays in force. The folder
    `last_good` keeps last good contents for other and later processes; if it is None, only this process keeps them.
    Where `judges` is set, rules are compiled at once and not by the first event that needs them.
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
        judges: bool = False,
    ) -> None:
        self._connections, self._keys, self.host, self.user_file = connections, keys, host, user_file
        self.last_good, self._judges = last_good, judges
        self._fleet = Layered("fleet", "0", HookFile())
        self._files: dict[Path, WatchedFile] = {}
        self._sets: dict[tuple[tuple[object, ...], ...], HookSet] = {}
        self._looked = 0.0
        self._seen = 0
        """The published version that was checked last, whether it is in force or not."""
        self.trust_file = trust_file
        self._projects: dict[str, tuple[float, Path | None]] = {}
        self._recent: dict[tuple[bool, str | None], tuple[float, HookSet]] = {}
        self.guards = GuardWatch(host, last_good, lambda layer, file: compile_file(layer, file).hooks)
        """Notes guards that a change of a file or of the published set removed or weakened."""

    @classmethod
    def here(
        cls, connections: Connections, keys: Keys, places: Directories, host: str = "", *, judges: bool = False
    ) -> Watcher:
        """The hooks in force on this host, for this user."""
        user, host = config_file(places.config) or places.config / CONFIG_NAMES[0], host or host_name()
        trust, kept = places.trust_file, places.last_good
        return cls(connections, keys, host=host, user_file=user, trust_file=trust, last_good=kept, judges=judges)

    async def refresh(self, *, force: bool = False, at_once: bool = False) -> None:
        """Put a newly published version in force; checks at most every half second, and with `at_once` in any case.

        Raises only with `force`: Unreachable, and ConfigError if none of the published versions can be read and this
        process has none in force. Without the fleet's hooks it would let through what they block.
        """
        now = time.monotonic()
        if not (force or at_once) and now - self._looked < POLL_SECONDS:
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
        if self.user_file is not None and self.user_file not in self._files:  # so that the first event need not wait
            await asyncio.to_thread(lambda: self._ready(self._layered(here=True, folder=None)))

    async def _load_earlier(self, error: FleethookError) -> None:
        """Put the newest version in force that can be read: a worker that has run for longer still has it in force."""
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
        self._seen = 0  # the next refresh tries again
        raise ConfigError(
            f"{error}; no earlier version can be read either", hint="publish a good set: `fleethook hooks apply`"
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
            self._seen = version  # logged once, and not tried again until another version is published
            raise FleethookError(f"version {version} is not put in force: {error}") from error

    async def _put_in_force(self, version: int, file: HookFile) -> None:
        layered = Layered("fleet", str(version), file)
        # On a thread: compiling both guard packs takes 0.4 s of a core, and the loop has requests and heartbeats.
        compiled = await asyncio.to_thread(lambda: self._ready(HookSet([layered])))
        if self._fleet.version != "0":
            name = f"version {version}"
            self.guards.note(self.fleet().hooks, compiled.hooks, "published", name, name)
        self._seen, self._fleet, self._sets = version, layered, {_key([layered]): compiled}
        self._recent.clear()
        log.info("hook set %s is in force: %d hooks, %d endpoints", version, len(file.hooks), len(file.endpoints))

    def for_event(self, event: Event) -> HookSet:
        """The set in force for `event`. Events of other hosts have only the fleet's layer here."""
        here = event.host == self.host
        folder, now = event.cwd if here and len(event.cwd) <= _LONGEST_FOLDER else None, time.monotonic()
        place = (here, folder)
        known = self._recent.get(place)
        if known is None or now >= known[0]:
            if len(self._recent) >= _MOST_FOLDERS:
                self._recent.clear()
            # An agent asks many times a second from one folder, so the set is remembered for a tenth of the poll interval.
            known = self._recent[place] = (now + POLL_SECONDS / 10, self._layered(here=here, folder=folder))
        return known[1]

    def _layered(self, *, here: bool, folder: str | None) -> HookSet:
        layers = [self._fleet]
        if here:
            layers += [self._file("user", self.user_file)] if self.user_file is not None else []
            # Only an absolute folder: a relative one would be resolved in the worker's own folder.
            if folder and os.path.isabs(folder) and (project := self._project(folder)) is not None:
                layers.append(self._file("project", project))
        return self._compiled([layered for layered in layers if layered.version not in {"", "0"}])

    def _project(self, cwd: str) -> Path | None:
        """The project file above `cwd`. Finding it walks up the folders, so it is done at most every half second."""
        now = time.monotonic()
        known = self._projects.get(cwd)
        if known is None or now - known[0] >= POLL_SECONDS:
            if len(self._projects) >= _MOST_FOLDERS:
                self._projects.clear()
            known = self._projects[cwd] = (now, trusted_file(Path(cwd), self.trust_file, user=self.user_file))
        return known[1]

    def rejected(self) -> tuple[Rejected, ...]:
        """Newer content that is not in force: of the user's file, and of the projects of recent events."""
        if self.user_file is not None:
            self._file("user", self.user_file)
        found = {path: (watched.layer, watched.current(POLL_SECONDS)) for path, watched in self._files.items()}
        for path, (layer, now) in found.items():
            self.guards.compare(layer, path, now)
        return tuple(rejected for _, now in found.values() for rejected in now.rejected)

    def fleet(self) -> HookSet:
        """The fleet's own layer alone."""
        return self._compiled([self._fleet] if self._fleet.version != "0" else [])

    def _ready(self, hooks: HookSet) -> HookSet:
        return hooks.prepare() if self._judges and not hooks.is_prepared else hooks

    def _compiled(self, layers: list[Layered]) -> HookSet:
        if (known := self._sets.get(key := _key(layers))) is None:
            if len(self._sets) >= _MOST_SETS:
                self._sets.clear()
            known = self._sets[key] = PREPARED.get(content_key(layers)) or HookSet(layers)
        return known

    def _file(self, layer: Layer, path: Path) -> Layered:
        watched = self._files.get(path)
        if watched is None:
            self.guards.recall(path)
            check = partial(compile_file, layer)
            watched = self._files[path] = WatchedFile(layer, path, self.trust_file, self.last_good, check)
        found = watched.current(POLL_SECONDS)
        self.guards.compare(layer, path, found)
        return Layered(layer, found.version, found.file, tuple(rejected.text for rejected in found.rejected))


def compile_file(layer: Layer, file: HookFile) -> HookSet:
    layers = [Layered(layer, file.digest[:8], file)]
    return PREPARED.get(content_key(layers)) or HookSet(layers)


def _key(layers: Sequence[Layered]) -> tuple[tuple[object, ...], ...]:
    return tuple(layered.key for layered in layers)
