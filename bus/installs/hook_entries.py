"""Adds and removes our entries in an agent's file: event -> [{matcher, hooks: [{command}]}], or event -> [{command}]."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bus.errors import ConfigError
from bus.installs.hook_command import is_ours
from bus.installs.http_hooks import read_handler

_COMMANDS: Final = ("command", "bash")


def merged(settings: dict[str, Any], section: Mapping[str, list[dict[str, Any]]], file: str) -> dict[str, Any]:
    """The settings with exactly these entries of ours; earlier ones are replaced in place."""
    result = copy.deepcopy(settings)
    hooks = _hooks(result, file)
    for native in list(hooks):
        if native not in section and not isinstance(hooks[native], list):
            continue  # some agents keep switches beside their events
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
    """The settings without our entries, and without empty containers, unless these existed before the install (`kept`)."""
    result = copy.deepcopy(settings)
    hooks, before = _hooks(result, file), kept.get("hooks")
    for native in list(hooks):
        if not isinstance(hooks[native], list):
            continue
        parted = [_parted(group) for group in hooks[native]]
        if not any(ours for ours, _ in parted):
            continue
        hooks[native] = [rest for _, rest in parted if rest is not None]
        if not hooks[native] and not (isinstance(before, dict) and native in before):
            del hooks[native]
    if not hooks and settings.get("hooks") and before is None:
        del result["hooks"]
    return result


def handlers(settings: Mapping[str, Any]) -> Iterator[tuple[str, int, int, dict[str, Any]]]:
    """Every handler with its event, the number of its group and its number in the group; skips other values."""
    hooks = settings.get("hooks")
    for native, groups in hooks.items() if isinstance(hooks, dict) else ():
        for place, group in enumerate(groups if isinstance(groups, list) else ()):
            if not isinstance(group, dict):
                continue
            inner = group.get("hooks")
            for number, handler in enumerate(inner if isinstance(inner, list) else [group]):
                if isinstance(handler, dict):
                    yield native, place, number, handler


def command_of(handler: Mapping[str, Any]) -> str:
    """Our command in a handler; empty if the handler is not ours."""
    return next((handler[name] for name in _COMMANDS if is_ours(handler.get(name))), "")


def _is_ours(handler: Mapping[str, Any]) -> bool:
    return bool(command_of(handler)) or read_handler(handler) is not None


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


def _parted(group: object) -> tuple[bool, object]:
    """Whether an entry is or has a hook of ours, and the entry without it; None if nothing is left."""
    if not isinstance(group, dict):
        return False, group
    inner = group.get("hooks")
    if not isinstance(inner, list):
        return (True, None) if _is_ours(group) else (False, group)
    others = [handler for handler in inner if not (isinstance(handler, dict) and _is_ours(handler))]
    if len(others) == len(inner):
        return False, group
    return True, {**group, "hooks": others} if others else None
