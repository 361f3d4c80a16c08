"""Whether any hook in force can stop a tool call; users are warned of a fleet without such a guard."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from bus.agents import find
from bus.errors import ConditionError, ConfigError, FleethookError
from bus.events import PRE_TOOL, SOURCES
from bus.hooks import Hook
from bus.hooksets.files_in_force import file_in_force
from bus.hooksets.in_force import HookSet
from bus.hooksets.layers import Layered
from bus.hooksets.published import current_version, load_version
from bus.installs.manifest import records
from bus.matching.conditions import compile_condition
from bus.matching.patterns import parse_pattern
from bus.system.directories import Directories, config_file
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys

PUBLISH: Final = "fleethook guards publish"
"""The command that puts the default packs in force for the whole fleet."""

NO_GUARD: Final = (
    "no guard is in force: nothing stops a destructive tool call; "
    f"`{PUBLISH}` switches the default packs on for the fleet"
)
FLEET_WITHOUT: Final = (
    "the fleet's published set has no guard: hosts whose own files have none are not guarded; "
    f"`{PUBLISH}` switches the default packs on for all"
)

_ITSELF: Final = "fleethook-itself_"
"""The prefix of the ids in the pack `fleethook-itself`, which protects only Fleethook."""


_HAS_FACT: Final = re.compile(r"\bhas\(\s*event\.\w+\s*\)")


def is_guard(hook: Hook, agent: str = "") -> bool:
    """Whether a hook can stop a tool call of this agent (empty: of any agent), and guards more than Fleethook itself."""
    if not hook.blocking or not hook.enabled or hook.observe or hook.id.startswith(_ITSELF):
        return False
    if hook.rule is not None and (hook.rule.decision not in {"deny", "ask"} or hook.rule.limit):
        return False
    types = [pattern.type for text in hook.on for pattern in parse_pattern(text)]
    return any(
        fnmatchcase(kind, pattern)
        for source in ((agent,) if agent else SOURCES)
        if _may_hold(hook.when, source)
        for kind in _before_tools(source)
        for pattern in types
    )


def has_guard(hooks: Iterable[Hook], agent: str = "") -> bool:
    """Whether any of the hooks is a guard of this agent (empty: of any agent)."""
    return any(is_guard(hook, agent) for hook in hooks)


def without_guard(hooks: Collection[Hook], agents: Iterable[str]) -> tuple[str, ...]:
    """The agents whose tool calls no hook can stop."""
    return tuple(agent for agent in agents if not has_guard(hooks, agent))


@lru_cache(64)
def _before_tools(agent: str) -> tuple[str, ...]:
    """The types of an agent's events before a tool call, and the agent's own names of these events."""
    try:
        capabilities = find(agent).capabilities
    except FleethookError:  # an agent without a dialect has only the canonical name
        return tuple(PRE_TOOL)
    return (*PRE_TOOL, *(f"{agent}:{native}" for native, can in capabilities.items() if can.type in PRE_TOOL))


@lru_cache(4096)
def _may_hold(condition: str, agent: str) -> bool:
    """Whether a `when:` can be true for some tool call of an agent.

    The condition is evaluated for an event that has only an agent and a type. CEL answers false only if no other fact
    could change that, as in `event.source == "codex" && …`; otherwise a missing fact is an error.
    """
    if not condition:
        return True
    try:
        asked = compile_condition(_HAS_FACT.sub("true", condition))
        return any(asked({"event": {"source": agent, "type": kind}}) for kind in PRE_TOOL)
    except (ConditionError, ConfigError):
        return True


def was_guarded(verdict: Verdict) -> bool:
    """Whether any hook contributed to a verdict, on any host."""
    if verdict.parts:
        return True
    for silent in verdict.silent.values():
        for name in silent:
            if not name.startswith(_ITSELF):
                return True
    return False


async def missing_guard(connections: Connections, keys: Keys, places: Directories, *, shared: bool) -> str:
    """A warning if the fleet has no guard, or if no guard judges an agent that is connected on this machine; else empty.

    If the server is not `shared`, this user's own file counts too. Raises FleethookError if the published set cannot be
    read.
    """
    version = await current_version(connections, keys)
    fleet = Layered("fleet", str(version), await load_version(connections, keys, version))
    agents = _connected(places)
    hooks = list(HookSet([fleet]).hooks.values())
    if not without_guard(hooks, agents or ("",)):
        return ""
    fleet_guarded = has_guard(hooks)
    user = config_file(places.config)
    try:
        file = file_in_force(user, "user", places.last_good).file if user is not None else None
    except ConfigError:  # other code reports this error
        file = None
    if file is not None:
        hooks += HookSet([Layered("user", "here", file)]).hooks.values()
    if not has_guard(hooks):
        return NO_GUARD
    if unguarded := without_guard(hooks, agents):
        return no_guard_for(unguarded)
    return FLEET_WITHOUT if shared and not fleet_guarded else ""


def no_guard_for(agents: Collection[str]) -> str:
    """The warning for agents that no guard judges, while guards for other agents are in force."""
    return (
        f"no guard judges the tool calls of {' and '.join(agents)}: the guards in force are for other agents; "
        f"`{PUBLISH}` switches the default packs on for every agent"
    )


def _connected(places: Directories) -> tuple[str, ...]:
    """The agents that `fleethook install` has connected on this machine; empty if its record cannot be read."""
    try:
        return tuple(sorted({record.agent for record in records(places.state).values() if record.agent}))
    except FleethookError:  # doctor reports a record that cannot be read
        return ()
