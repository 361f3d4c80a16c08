"""Each Python plugin with its state in the whole fleet, and those that could be enabled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bus.hooks import Plugin
from bus.hooksets.layers import Layered
from bus.hooksets.plugins.sources import PluginSource
from workers.plugins.figures import PluginState


class PluginSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One Python plugin; `calls` and `failures` are of all workers, the times are of the slowest."""

    name: str
    dialect: str = "python"
    enabled: bool
    state: str
    """`running` and the other states if all workers agree, else `mixed`; `off` or `not running` without a worker."""
    layer: str = ""
    hooks: int = 0
    """How many handlers it has."""
    version: str = ""
    description: str = ""
    path: str = ""
    origin: str = ""
    """`file:line` of the entry that enables it."""
    requires: tuple[str, ...] = ()
    handlers: tuple[tuple[str, str, int], ...] = ()
    """Method, event and priority of each handler, in order."""
    actions: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    calls: int = 0
    failures: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    problem: str = ""
    workers: tuple[PluginState, ...] = ()


def summaries(
    layers: Iterable[Layered], states: Sequence[PluginState], offered: Iterable[tuple[str, PluginSource]] = ()
) -> list[PluginSummary]:
    """Every plugin by name and layer; `offered` are those that can be enabled here."""
    found: dict[tuple[str, str], PluginSummary] = {}
    for layered in layers:
        for plugin in layered.file.plugins:
            handlers = tuple(
                (hook.handler.method, hook.handler.event, hook.priority)
                for hook in layered.file.hooks
                if hook.plugin == plugin.name and hook.handler is not None and hook.handler.method
            )
            found[plugin.name, layered.layer] = _summary(plugin, layered.layer, handlers)
    running: dict[tuple[str, str], list[PluginState]] = {}
    for state in states:
        running.setdefault((state.name, state.layer), []).append(state)
    for key, group in running.items():
        known = found.get(key) or PluginSummary(name=key[0], layer=key[1], enabled=True, state="")
        found[key] = _with_states(known, group)
    names = {name for name, _ in found}
    for name, source in offered:
        if name not in names:
            names.add(name)
            found[name, ""] = PluginSummary(name=name, enabled=False, state="off", path=source.path)
    return sorted(found.values(), key=lambda plugin: (not plugin.enabled, plugin.name, plugin.layer))


def _summary(plugin: Plugin, layer: str, handlers: tuple[tuple[str, str, int], ...]) -> PluginSummary:
    return PluginSummary(
        name=plugin.name,
        enabled=True,
        state="not running",
        layer=layer,
        hooks=len(handlers),
        path=plugin.path or plugin.module,
        origin=plugin.origin,
        requires=plugin.requires,
        handlers=handlers,
    )


def _with_states(known: PluginSummary, states: list[PluginState]) -> PluginSummary:
    loaded = next((state for state in states if state.handlers or state.version), states[0])
    kinds = {state.state for state in states}
    return msgspec.structs.replace(
        known,
        state=kinds.pop() if len(kinds) == 1 else "mixed",
        version=loaded.version,
        description=loaded.description,
        path=known.path or loaded.path,
        requires=loaded.requires or known.requires,
        handlers=loaded.handlers or known.handlers,
        hooks=len(loaded.handlers or known.handlers),
        actions=loaded.actions,
        conditions=loaded.conditions,
        calls=sum(state.calls for state in states),
        failures=sum(state.failures for state in states),
        p50_ms=max(state.p50_ms for state in states),
        p99_ms=max(state.p99_ms for state in states),
        problem="; ".join(dict.fromkeys(state.problem for state in states if state.problem)),
        workers=tuple(states),
    )
