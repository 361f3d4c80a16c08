"""A hook file as it would be in force: in the place of one layer's hooks, or beside them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bus.events import Event
from bus.hooks import LAYERS, Hook, Layer
from bus.hooksets.hookfile import HookFile
from bus.hooksets.in_force import HookSet, Layered
from bus.hooksets.trust import project_file
from bus.verdicts import Decision, Part, Verdict, strictest

_OPINIONS_ONLY = frozenset({"project", "session"})
"""Layers whose `allow` counts as abstain (bus/tally.py)."""


class Candidate(NamedTuple):
    """Hooks that are not in force, and where they would be."""

    name: str
    hooks: HookSet
    layer: Layer
    beside: bool
    """Whether the hooks in force stay, and these are added; else they take the place of their layer's hooks."""
    replaced: str
    """The version of the layer that they take the place of; empty if the layer has none."""
    same_programs: frozenset[str]
    """The ids of its commands and requests that are the same in force: their recorded answers count as theirs."""
    concerns: Callable[[Event], bool]
    """Whether the layer has a say in an event: the user's and a project's files are only for their own machine."""

    def kept_parts(self, verdict: Verdict | None) -> tuple[Part, ...]:
        """The parts of a recorded verdict that hooks gave which stay in force."""
        if verdict is None:
            return ()
        return tuple(part for part in verdict.parts if self.beside or part.layer != self.layer)

    def denied_above(self, verdict: Verdict | None) -> bool:
        """Whether a hook of a layer above, which stays in force, denied the event: then hooks of this layer are not asked."""
        above = LAYERS[: LAYERS.index(self.layer)]
        return any(part.decision == "deny" and part.layer in above for part in self.kept_parts(verdict))


def candidate(
    file: HookFile, name: str, layer: Layer, in_force: HookSet, *, host: str, path: Path | None, beside: bool = False
) -> Candidate:
    """The candidate that a hook file would be as this layer.

    `in_force` are the hooks in force for this layer, on the machine `host`; `path` is where the file would be.
    """
    hooks = HookSet([Layered(layer, file.digest[:8], file)]).prepare()
    known = {hook.id: hook for hook in in_force.hooks.values() if hook.layer == layer}
    programs = (hook for hook in hooks.hooks.values() if hook.kind != "rule")
    same = frozenset(hook.id for hook in programs if _is_same_program(hook, known.get(hook.id)))
    versions = [layered.version for layered in in_force.files if layered.layer == layer]
    replaced = "" if beside or not versions else versions[0]
    return Candidate(name, hooks, layer, beside, replaced, same, _concerns(layer, host, path))


def _is_same_program(hook: Hook, known: Hook | None) -> bool:
    def program(one: Hook) -> tuple[object, ...]:
        return (
            one.dialect,
            one.command,
            one.args,
            one.shell,
            one.http,
            one.prompt,
            one.agent,
            one.env,
            one.working_dir,
            one.own,
            one.plugin,
            one.handler,
            one.workflow,
        )

    return known is not None and program(hook) == program(known)


def _concerns(layer: Layer, host: str, path: Path | None) -> Callable[[Event], bool]:
    if layer == "fleet":
        return lambda _: True
    if layer != "project" or path is None:
        return lambda event: event.host == host
    folder = path.resolve().parent

    @cache
    def is_here(cwd: str) -> bool:
        found = project_file(Path(cwd)) if cwd.startswith("/") else None
        return found is not None and found.resolve().parent == folder

    return lambda event: event.host == host and is_here(event.cwd)


def decision_of(parts: tuple[Part, ...]) -> Decision:
    """The strictest decision of the hooks; an `allow` of a project or a session is only an opinion."""
    decision: Decision = "abstain"
    for part in parts:
        is_opinion = part.decision == "allow" and part.layer in _OPINIONS_ONLY
        decision = strictest(decision, "abstain" if is_opinion else part.decision)
    return decision
