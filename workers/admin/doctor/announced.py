"""Whether agents wait for the hook commands whose answers the hooks in force need: for `doctor`, `status` and installs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

from bus.config.settings import Settings
from bus.errors import FleethookError
from bus.hooksets.in_force import Watcher
from bus.installs import find
from bus.installs.base import Scope
from bus.installs.plan import installed as installs_of
from bus.system.directories import Directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.admin.agent_setup import agent_only_url, installed, where_is
from workers.admin.doctor import INSTALL, Check
from workers.coverage.answers_needed import answers_needed, sets_here
from workers.coverage.waiting import NotWaitedFor, is_watched, unanswered

_NO_WORKER: Final = (
    "no `fleethook up` of yours runs, which sees when a hook needs an answer; install again once it does"
)
_UNKNOWN: Final = "the hooks in force are not known while the bus does not run; install again once it does"


Needed = dict[str, str]
"""By event: the hook that needs its answer, and why."""


async def unanswered_here(connections: Connections, keys: Keys, places: Directories) -> tuple[NotWaitedFor, ...]:
    """The files in which an agent does not wait where a hook in force needs its answer; raises FleethookError."""
    watcher = Watcher.here(connections, keys, places)
    await watcher.refresh(force=True)
    return tuple(unanswered(sets_here(watcher, places.trust_file), places.state))


def unanswered_text(found: NotWaitedFor) -> str:
    """What `status` and `doctor` say about such a file."""
    reasons = ", ".join(f"{event} ({why})" for event, why in found.why.items())
    return f"{find(found.agent).label} does not wait for its hooks of {reasons}, by {found.path}"


def announced_checks(agent: str, found: tuple[NotWaitedFor, ...], cwd: Path) -> Iterator[Check]:
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


def announced_events(
    agent: str,
    scope: Scope,
    settings: Settings,
    places: Directories,
    run: Callable[[Callable[[Connections], Awaitable[Needed]]], Needed],
) -> tuple[tuple[str, ...], Needed]:
    """The events that an agent need not wait for, and for each other one that it could announce, why it waits.

    `run` runs a function with connections to the bus.
    """
    able = tuple(find(agent).later)
    if not able:
        return (), {}
    if agent_only_url(settings, places) or not is_watched(places):
        return (), dict.fromkeys(able, _NO_WORKER)

    async def work(connections: Connections) -> Needed:
        watcher = Watcher.here(connections, Keys(settings.namespace), places)
        await watcher.refresh(force=True)
        return answers_needed(sets_here(watcher, places.trust_file), agent, able)

    try:
        needed = run(work)
    except FleethookError:  # what is there stays as it is
        calls = [call for there, _, calls in installs_of(agent, where_is()) if there == scope for call in calls]
        known = {call.event for call in calls if call.later}
        needed = {event: _UNKNOWN for event in able if event not in known}
    return tuple(name for name in able if name not in needed), needed
