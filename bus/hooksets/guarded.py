"""Whether any hook in force can stop a tool call; users are warned of a fleet without such a guard."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from bus.errors import ConfigError
from bus.events import PRE_TOOL
from bus.hooks import Hook
from bus.hooksets.files_in_force import file_in_force
from bus.hooksets.in_force import HookSet
from bus.hooksets.layers import Layered
from bus.hooksets.published import current_version, load_version
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
"""The prefix of ids in the pack that guards only Fleethook itself."""


def is_guard(hook: Hook) -> bool:
    """Whether a hook can stop a tool call before it runs, and guards more than Fleethook itself."""
    if not hook.blocking or not hook.enabled or hook.observe or hook.id.startswith(_ITSELF):
        return False
    if hook.rule is not None and hook.rule.decision not in {"deny", "ask"}:
        return False
    types = [pattern.type for text in hook.on for pattern in parse_pattern(text)]
    return any(fnmatchcase(kind, pattern) for kind in PRE_TOOL for pattern in types)


def has_guard(hooks: Iterable[Hook]) -> bool:
    """Whether any of the hooks is a guard."""
    return any(map(is_guard, hooks))


def was_guarded(verdict: Verdict) -> bool:
    """Whether any hook contributed to a verdict, on any host."""
    rules = (name for silent in verdict.silent.values() for name in silent)
    return bool(verdict.parts) or any(not name.startswith(_ITSELF) for name in rules)


async def missing_guard(connections: Connections, keys: Keys, places: Directories, *, shared: bool) -> str:
    """The warning for a fleet without a guard; empty where it has one.

    On a server that is not `shared` this user's own file counts too. Raises FleethookError where the published set cannot
    be read.
    """
    version = await current_version(connections, keys)
    fleet = Layered("fleet", str(version), await load_version(connections, keys, version))
    if has_guard(HookSet([fleet]).hooks.values()):
        return ""
    user = config_file(places.config)
    try:
        file = file_in_force(user, "user", places.last_good).file if user is not None else None
    except ConfigError:  # other code reports this error
        file = None
    if file is None or not has_guard(HookSet([Layered("user", "here", file)]).hooks.values()):
        return NO_GUARD
    return FLEET_WITHOUT if shared else ""
