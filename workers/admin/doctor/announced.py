"""Whether agents wait for the hook commands whose answers the hooks in force need: for `doctor`, `status` and installs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from bus.agents import find as find_dialect
from bus.config.settings import Settings
from bus.errors import FleethookError
from bus.hooksets.in_force import HookSet, Watcher
from bus.installs import find
from bus.installs.base import Scope, quiet_events
from bus.installs.hook_command import default_events
from bus.installs.plan import installed as installs_of
from bus.system.directories import Directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.admin.agent_setup import agent_only_url, installed, where_is
from workers.admin.doctor import INSTALL, Check
from workers.coverage.answers_needed import answers_needed, heard_events, sets_here
from workers.coverage.waiting import NotWaitedFor, is_watched

_NO_WORKER: Final = (
    "no `fleethook up` of yours runs, which sees when a hook needs an answer; install again once it does"
)
_AGENTS_ONLY: Final = "this machine has agents only, so nothing here sees when a hook needs an answer"
_UNKNOWN: Final = "the hooks in force are not known while the bus does not run; install again once it does"


Needed = dict[str, str]
"""By event: the hook that needs its answer, and why."""


async def sets_now(connections: Connections, keys: Keys, places: Directories) -> list[HookSet]:
    """The hook sets that are in force on this machine; raises FleethookError."""
    watcher = Watcher.here(connections, keys, places)
    await watcher.refresh(force=True)
    return sets_here(watcher, places.trust_file)


def unanswered_text(found: NotWaitedFor) -> str:
    """What `status` and `doctor` say about such a file."""
    reasons = ", ".join(f"{event} ({why})" for event, why in found.why.items())
    return f"{find(found.agent).label} does not wait for its hooks of {reasons}, by {found.path}"


def announced_checks(agent: str, found: Sequence[NotWaitedFor], cwd: Path) -> Iterator[Check]:
    """Which events the agent announces without waiting, and whether a hook in force needs an answer there."""
    wrong = [one for one in found if one.agent == agent]
    for one in wrong:
        fix = f"{INSTALL} {agent}; a worker `host` of this machine does it by itself within seconds"
        yield Check(id=f"{agent}-announced", status="fail", what=unanswered_text(one), fix=fix, agent=agent)
    names = dict.fromkeys(event for install in installed(agent, project=cwd) for event in install.later)
    if names and not wrong:
        text = f"{agent}: it does not wait at {', '.join(names)}, where no hook in force answers"
        brief = f"{len(names)} not waited for"
        yield Check(id=f"{agent}-announced", status="ok", what=text, agent=agent, brief=brief)


def sets_in_force(
    settings: Settings,
    places: Directories,
    run: Callable[[Callable[[Connections], Awaitable[list[HookSet]]]], list[HookSet]],
) -> list[HookSet] | None:
    """The hook sets that are in force on this machine; None if they cannot be known. `run` runs a function with connections."""
    if agent_only_url(settings, places):
        return None

    try:
        return run(lambda connections: sets_now(connections, Keys(settings.namespace), places))
    except FleethookError:
        return None


def announced_events(
    agent: str, scope: Scope, sets: list[HookSet] | None, settings: Settings, places: Directories
) -> tuple[tuple[str, ...], Needed]:
    """The events that an agent need not wait for, and for each other one that it could announce, why it waits."""
    able = tuple(find(agent).later)
    if not is_watched(places):
        needed = dict.fromkeys(able, _AGENTS_ONLY if agent_only_url(settings, places) else _NO_WORKER)
    elif sets is None:  # what is there stays as it is
        calls = [call for there, _, calls in installs_of(agent, where_is()) if there == scope for call in calls]
        known = {call.event for call in calls if call.later}
        needed = {event: _UNKNOWN for event in able if event not in known}
    else:
        needed = answers_needed(sets, agent, able)
    return tuple(name for name in able if name not in needed), needed


def heard_here(agent: str, scope: Scope, sets: list[HookSet] | None) -> dict[str, str]:
    """The events that hooks in force listen to, with one of them.

    If the hooks are not known: the events that are installed, or in a new install all that do not fire very often.
    """
    if sets is not None:
        return heard_events(sets, agent)
    calls = [call for there, _, calls in installs_of(agent, where_is()) if there == scope for call in calls]
    often = default_events(find_dialect(agent), quiet_events(agent))
    return dict.fromkeys([call.event for call in calls] or often, "")


def unheard_checks(agent: str, sets: list[HookSet], cwd: Path) -> Iterator[Check]:
    """Whether each event that a hook in force listens to is installed in the agent, where it has hooks of ours."""
    here = installed(agent, project=cwd)
    there = {event for install in here for event in install.commands}
    missing = {event: name for event, name in heard_events(sets, agent).items() if event not in there} if here else {}
    if missing:
        names = ", ".join(f"{event} ({name})" for event, name in missing.items())
        text = f"{agent}: events that hooks in force listen to are not installed: {names}"
        fix = f"{INSTALL} {agent} --events default"
        yield Check(id=f"{agent}-listening", status="warn", what=text, fix=fix, agent=agent)
