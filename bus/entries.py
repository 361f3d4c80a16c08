"""Our entries among the hooks of a settings file of Claude Code's shape: event -> [{matcher, hooks: [{command}]}]."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from bus.errors import ConfigError

MARK: Final = "# fleethook"
"""The end of every command that we install: that is how we know our own again, and nobody else's."""


def merged(settings: dict[str, Any], section: Mapping[str, list[dict[str, Any]]], file: str) -> dict[str, Any]:
    """The settings with exactly this section of ours; where ours stood it is replaced in place."""
    result = copy.deepcopy(settings)
    hooks = _hooks(result, file)
    for native in list(hooks):
        wanted, groups = list(section.get(native, ())), []
        for group in _groups(hooks, native, file):
            ours, rest = _parted(group)
            groups += [rest] if rest is not None else []
            if ours:
                groups += wanted
                wanted = []
        if groups or wanted or hooks[native] == []:
            hooks[native] = groups + wanted
        else:
            del hooks[native]
    for native, wanted in section.items():
        hooks.setdefault(native, wanted)
    return result if not hooks else {**result, "hooks": hooks}


def without(settings: dict[str, Any], kept: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The settings without ours; empty containers go too, unless they stood there before the install (`kept`)."""
    result = copy.deepcopy(settings)
    hooks, before = _hooks(result, file), kept.get("hooks")
    for native in list(hooks):
        parted = [_parted(group) for group in _groups(hooks, native, file)]
        if not any(ours for ours, _ in parted):
            continue
        hooks[native] = [rest for _, rest in parted if rest is not None]
        if not hooks[native] and not (isinstance(before, dict) and native in before):
            del hooks[native]
    if not hooks and settings.get("hooks") and before is None:
        del result["hooks"]
    return result


def _hooks(settings: Mapping[str, Any], file: str) -> dict[str, Any]:
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise ConfigError("`hooks` is not an object", file=file, path="hooks", hint="nothing was changed")
    return hooks


def _groups(hooks: Mapping[str, Any], native: str, file: str) -> list[Any]:
    groups = hooks[native]
    if not isinstance(groups, list):
        raise ConfigError(
            f"`hooks.{native}` is not a list", file=file, path=f"hooks.{native}", hint="nothing was changed"
        )
    return groups


def _is_ours(handler: object) -> bool:
    command = handler.get("command") if isinstance(handler, dict) else None
    return isinstance(command, str) and command.rstrip().endswith(MARK)


def _parted(group: object) -> tuple[bool, object]:
    """Whether a matcher group holds a hook of ours, and the group without it; None where nothing is left."""
    handlers = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(group, dict) or not isinstance(handlers, list) or not any(map(_is_ours, handlers)):
        return False, group
    others = [handler for handler in handlers if not _is_ours(handler)]
    return True, {**group, "hooks": others} if others else None
