"""Which events of an agent need an answer by the hooks in force, so that the agent has to wait for their hook commands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from bus.agents import find
from bus.errors import FleethookError
from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.in_force import HookSet, Watcher
from bus.hooksets.trust import listed
from bus.installs.base import quiet_events
from bus.installs.hook_command import default_events
from bus.installs.plan import hearable
from bus.matching.conditions import compile_condition
from bus.matching.limits import read_limit
from bus.matching.patterns import parse_pattern


def answers_needed(found: Iterable[HookSet], agent: str, events: Collection[str]) -> dict[str, str]:
    """Of these events of an agent, those that have to be waited for, each with the hook that needs it and why.

    Where it cannot be known before an event comes, the answer counts as needed: a `when:` may hold, a plugin may answer.
    """
    sets, needed = list(found), dict[str, str]()
    for one in sets:
        for hook in one.hooks.values():
            why = _orders(hook)
            for event in events if why else _answered(hook, agent, events):
                needed.setdefault(event, f"{hook.id} {why or 'may answer it'}")
    return needed


def heard_events(found: Iterable[HookSet], agent: str) -> dict[str, str]:
    """The events of an agent that hooks and endpoints in force listen to, each with the name of one of them.

    Of the events that fire very often, only those count that one of them names, and not those that only a `*` fits.
    """
    often, heard = set(default_events(find(agent), quiet_events(agent))), dict[str, str]()
    capabilities, able = find(agent).capabilities, hearable(agent)
    for one in found:
        entries = [(hook.id, hook.on) for hook in one.hooks.values() if hook.enabled]
        for name, patterns in [*entries, *((one.id, one.events) for one in one.endpoints.values() if one.enabled)]:
            types = [pattern for text in patterns for pattern in parse_pattern(text)]
            for event in able:
                names = (capabilities[event].type, f"{agent}:{event}")
                if any(
                    fnmatchcase(each, kind.type) and (kind.exact or event in often) for each in names for kind in types
                ):
                    heard.setdefault(event, name)
    return heard


def sets_here(watcher: Watcher, trust_file: Path) -> list[HookSet]:
    """Every set that is in force on this host: outside of projects, and in the folder of each trusted project file."""
    try:
        folders = [str(Path(entry.path).parent) for entry in listed(trust_file)]
    except FleethookError:  # doctor reports it; nothing that cannot be read is trusted
        folders = []
    return [
        watcher.for_event(Event(type="", host=watcher.host, cwd=folder)) for folder in dict.fromkeys(["", *folders])
    ]


def _answered(hook: Hook, agent: str, events: Collection[str]) -> Iterator[str]:
    """The events that the hook judges: an announced event is judged by no hook."""
    if not hook.blocking or not hook.enabled:
        return
    capabilities = find(agent).capabilities
    types = [pattern.type for text in hook.on for pattern in parse_pattern(text)]
    for event in events:
        names = (capabilities[event].type, f"{agent}:{event}")
        if any(fnmatchcase(name, kind) for name in names for kind in types):
            yield event


def _orders(hook: Hook) -> str:
    """Why a hook needs each event of a session before the next one; empty if it does not."""
    if not hook.enabled:
        return ""
    if hook.workflow is not None:
        return "is a workflow, which sees a session's events in their order"
    if hook.handler is not None and not hook.handler.method:
        return "is a plugin, whose handlers are known only to its process"
    if hook.when and _reads_session(hook.when):
        return "reads facts of the session"
    if hook.rule is not None and hook.rule.limit and read_limit(hook.rule.limit).unit != "calls":
        return "counts what a session has used"
    return ""


@lru_cache(4096)
def _reads_session(condition: str) -> bool:
    try:
        return compile_condition(condition).uses_session
    except FleethookError:  # a condition that cannot be read counts as true, and needs nothing to be known
        return False
