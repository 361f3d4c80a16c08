"""The hooks and endpoints of one layer as they are in force: with their layer, its guards, and unique ids."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar

import msgspec

from bus.config.file_types import GuardSettings
from bus.hooks import Endpoint, Hook, Layer
from bus.hooksets.guards import load_pack
from bus.hooksets.hookfile import HookFile
from bus.http.proxies import MAY_NAME

log = logging.getLogger("fleethook.hooks")

_T = TypeVar("_T")
_E = TypeVar("_E", Hook, Endpoint)


class Layered(NamedTuple):
    """One layer's content and its version."""

    layer: Layer
    version: str
    file: HookFile
    waiting: tuple[str, ...] = ()
    """Changed files that are not in force, each with the reason."""

    @property
    def key(self) -> tuple[object, ...]:
        """What its compiled hooks are remembered by: all that the version covers, and the MCP servers that the file accepts."""
        accepted = [(one.path, one.enabled, one.servers, one.env_pass) for one in self.file.imports if one.servers]
        return (self.layer, self.version, *self.waiting, *accepted)


def highest(layers: Sequence[Layered], part: Callable[[HookFile], _T | None]) -> _T | None:
    """A part of the highest layer that has it, of those that may name where requests go; None if none has it."""
    found = (part(layered.file) for layered in layers if layered.layer in MAY_NAME)
    return next((value for value in found if value), None)


def place_entry(entry: _E, layered: Layered, taken: dict[str, Hook | Endpoint]) -> _E | None:
    """The entry with its layer; None if a higher layer has the same entry (for example of a file that was also published).

    A different entry whose id is taken gets a new id, so that a lower layer's guard is not lost.
    """
    placed = msgspec.structs.replace(entry, layer=layered.layer, version=layered.version)
    known = taken.get(placed.id)
    if known is not None and _without_place(known) == _without_place(placed):
        return None
    if known is not None:
        renamed = next(
            name
            for n in range(1, len(taken) + 2)
            if (name := f"{placed.id[:48]}-{layered.layer}{n if n > 1 else ''}") not in taken
        )
        log.warning("%s: the id %r is taken in %s; here it is %r", placed.origin, placed.id, known.origin, renamed)
        placed = msgspec.structs.replace(placed, id=renamed)
    taken[placed.id] = placed
    return placed


def _without_place(entry: Hook | Endpoint) -> Hook | Endpoint:
    """The entry without file, line and layer, for comparison."""
    if isinstance(entry, Hook):
        return msgspec.structs.replace(entry, layer="fleet", version="", origin="", position=0, pins={})
    return msgspec.structs.replace(entry, layer="fleet", version="", origin="")


def guard_hooks(layered: Layered) -> list[Hook]:
    """The rules of the guard packs that the layer switches on."""
    hooks: list[Hook] = []
    for name, settings in layered.file.guards.items():
        if settings.enabled:
            hooks.extend(
                _guard_hook(hook, name, settings)
                for hook in load_pack(name).rules
                if not is_disabled(hook, name, settings)
            )
    return hooks


def is_disabled(hook: Hook, pack: str, settings: GuardSettings) -> bool:
    """Whether a file switches this rule of a pack off."""
    return not _names(hook, pack).isdisjoint(settings.disable)


def chosen_decision(hook: Hook, pack: str, settings: GuardSettings) -> Literal["deny", "ask"] | None:
    """The decision that a file sets for this rule of a pack; None if it leaves the rule's own."""
    return next(
        (settings.decisions[name] for name in _names(hook, pack) & settings.decisions.keys()), settings.decision
    )


def _names(hook: Hook, pack: str) -> frozenset[str]:
    return frozenset({hook.id, hook.id.removeprefix(f"{pack}_")})


def _guard_hook(hook: Hook, pack: str, settings: GuardSettings) -> Hook:
    rule, chosen = hook.rule, chosen_decision(hook, pack, settings)
    if chosen is not None and rule is not None:
        rule = msgspec.structs.replace(rule, decision=chosen)
    unless = tuple(call for call in settings.unless if call.rule in _names(hook, pack))
    return msgspec.structs.replace(hook, rule=rule, observe=settings.observe, hold=settings.hold, unless=unless)


def content_key(layers: Sequence[Layered]) -> tuple[tuple[object, ...], ...]:
    """What is the same for sets with the same hooks, also of different watchers."""
    return tuple((*layered.key, layered.file.digest) for layered in layers)
