"""Whether an agent's hooks are installed as they should be, and whether the agent will run them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bus.agents import find as find_dialect
from bus.agents.base import Capability
from bus.config.settings import Settings
from bus.errors import ConfigError, Unreachable
from bus.installs import evidence, find
from bus.installs.base import NAMES, InstallProblem, Program
from bus.installs.command import deadline_ms, granted_timeout, timeout_of
from bus.installs.plan import other_readers, removed_events, troubles
from bus.shim.answer_file import read_answer_file
from bus.system.directories import Directories
from workers.admin.agent_setup import (
    SHIM_URL,
    Installed,
    answers_for,
    installed,
    plan,
    state_of,
    where_is,
    within_grants,
)
from workers.admin.doctor import INSTALL, Check, Repair, State
from workers.runtime.wording import counted

VERSION_SECONDS: Final = 10.0


def agents_here(places: Directories, cwd: Path) -> tuple[str, ...]:
    """The agents to check: those that seem to be on this machine, and those with installed hooks."""
    where = where_is(project=cwd)
    return tuple(
        name
        for name in NAMES
        if evidence(find(name), where) or places.answer_file(name).exists() or installed(name, project=cwd)
    )


def agent_checks(agent: str, settings: Settings, places: Directories, cwd: Path) -> Iterator[Check]:
    """Check one agent: its program, its installed hooks, settings that stop hooks from running, and its answer file."""
    program = find(agent)
    version = _version(program)
    yield _program(program, version, cwd)
    here = installed(agent, project=cwd)
    if not here:
        yield from _not_installed(program, places, cwd)
        return
    for one in here:
        closed = ", fail-closed" if one.closed else ""
        text = f"{program.label}: {counted(len(one.commands), 'event')} in {one.path} ({one.scope}{closed})"
        brief = f"{counted(len(one.commands), 'event')} ({one.scope}{closed})"
        yield _check(agent, "installed", "ok", text, brief=brief)
        yield from _current(one, settings, places, cwd)
        yield from _timeouts(one, settings, places)
    yield from _removed(program, places, cwd)
    yield from _effective(program, here, cwd)
    for one in here:
        for trouble in other_readers(agent, one.scope, where_is(project=cwd)):
            state: State = "warn" if trouble.sure else "unknown"
            yield _check(agent, "readers", state, trouble.what, fix=trouble.fix)
    if program.closes_since and version and any(one.closed for one in here) and version < program.closes_since:
        since = ".".join(map(str, program.closes_since))
        text = f"{program.label} closes a gate after a timeout only since {since}; until then the tool call goes on"
        yield _check(agent, "closed", "warn", text, fix=f"use {program.label} {since} or newer")
    yield _answers(agent, settings, places, closed=any(one.closed for one in here))


def _not_installed(program: Program, places: Directories, cwd: Path) -> Iterator[Check]:
    """The finding that none of our hooks are in the agent's settings, or that their file can no longer be read."""
    agent, was_installed = program.name, places.answer_file(program.name).exists()
    text = f"{program.label}: no hooks of Fleethook in its settings"
    yield _check(agent, "installed", "warn", text, fix=f"{INSTALL} {agent}")
    reasons = list(program.troubles(where_is(project=cwd), "user")) if was_installed else []
    for trouble in reasons:
        yield _check(agent, "effective", "fail" if trouble.sure else "warn", trouble.what, fix=trouble.fix)
    if not reasons:
        try:
            plan(agent, "user", places, closed=False, project=cwd)
        except ConfigError as error:
            fix = f"correct the file, then `{INSTALL} {agent}`"
            yield _check(agent, "commands", "fail" if was_installed else "warn", _place_and_message(error), fix=fix)


def _effective(program: Program, here: tuple[Installed, ...], cwd: Path) -> Iterator[Check]:
    """Check for settings that disable hooks, and for hooks that the person still has to approve."""
    where, agent = where_is(project=cwd), program.name
    off: dict[InstallProblem, None] = {}
    untrusted: dict[InstallProblem, None] = {}
    for one in here:
        found = troubles(agent, one.scope, where, Path(one.path))
        off |= dict.fromkeys(found[0])
        untrusted |= dict.fromkeys(found[1])
    for trouble in off:
        state: State = "fail" if trouble.sure else "warn"
        yield _check(agent, "effective", state, trouble.what, fix=trouble.fix)
    if not off:
        yield _check(agent, "effective", "ok", f"{program.label}: no settings layer switches hooks off")
    for trouble in untrusted:
        yield _check(agent, "trust", "fail" if trouble.sure else "warn", trouble.what, fix=trouble.fix)
    if program.asks_trust and not untrusted:
        yield _check(agent, "trust", "ok", f"{program.label}: every hook of ours is trusted as it is", brief="trusted")


def _version(program: Program) -> tuple[int, ...]:
    """The version that the program prints; empty if it prints none or does not exist."""
    found = re.search(r"\d+(?:\.\d+)+", _said_version(program))  # "codex-cli 0.169.0", "2.1.330 (Claude Code)"
    return tuple(int(part) for part in found[0].split(".")[:3]) if found else ()


def _said_version(program: Program) -> str:
    found = next((path for name in program.binaries if (path := shutil.which(name))), None)
    if found is None:
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run(
            [found, "--version"],
            capture_output=True,
            timeout=VERSION_SECONDS,
            check=False,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if said.returncode == 0 and said.stdout.strip():
            return said.stdout.strip().splitlines()[0]
    return ""


def _program(program: Program, version: tuple[int, ...], cwd: Path) -> Check:
    found = evidence(program, where_is(project=cwd))
    if not found:
        text = f"{program.label} was not found: not on PATH, and no folder of it"
        return _check(program.name, "program", "unknown", text, fix=f"install {program.label}")
    if version:
        number = ".".join(map(str, version))
        return _check(program.name, "program", "ok", f"{program.label} {number} at {found}", brief=number)
    return _check(program.name, "program", "unknown", f"{program.label}: it does not say its version: {found}")


def _current(one: Installed, settings: Settings, places: Directories, cwd: Path) -> Iterator[Check]:
    fix = f"{INSTALL} {one.agent} --scope {one.scope}"
    events = tuple(name for name in one.commands if name in find_dialect(one.agent).capabilities)
    try:
        change = plan(
            one.agent, one.scope, places, closed=one.closed, events=events, project=cwd, budget=settings.budget
        )
    except ConfigError as error:
        yield _check(one.agent, "commands", "fail", _place_and_message(error), fix=f"correct the file, then `{fix}`")
        return
    if change.changes:
        text = f"{one.agent}: the hooks in {one.path} are not those that this fleethook writes"
        yield _check(one.agent, "commands", "warn", text, fix=fix, repair=True)
    else:
        yield _check(one.agent, "commands", "ok", f"{one.agent}: the hooks are those of this fleethook")


def _timeouts(one: Installed, settings: Settings, places: Directories) -> Iterator[Check]:
    """Whether the agent waits longer than the hook command takes; a number in the wrong unit shows here."""
    dialect, short, older = find_dialect(one.agent), [], []
    for event, seconds in one.seconds.items():
        can = dialect.capabilities.get(event)
        if can is None:
            continue
        given = f"{event} {_in_its_unit(can, seconds)}"
        if seconds * 1000 <= _longest_ms(one.agent, event, can, settings, places):
            short.append(given)
        elif seconds < granted_timeout(one.agent, can, settings.budget):
            older.append(given)
    if short:
        text = f"{one.agent}: {one.path} gives hooks less time than they take to answer: {_some(short)}"
    elif older:
        text = f"{one.agent}: {one.path} gives slow hooks less time than this fleethook's install does: {_some(older)}"
    elif one.seconds:
        text = f"{one.agent}: it gives every hook more time than that takes to answer"
    else:
        return
    status: State = "fail" if short else "warn" if older else "ok"
    fix = f"{INSTALL} {one.agent} --scope {one.scope}" if short or older else ""
    yield _check(one.agent, "timeouts", status, text, fix=fix, repair=bool(fix))


def _removed(program: Program, places: Directories, cwd: Path) -> Iterator[Check]:
    """Events that an install wrote and that were removed from the agent's settings since."""
    try:
        removed = removed_events(program.name, places.state, where_is(project=cwd))
    except ConfigError as error:
        yield _check(program.name, "events", "unknown", _place_and_message(error))
        return
    if not removed:
        return
    files = ", ".join(map(str, removed))
    names = _some([event for events in removed.values() for event in events])
    text = f"{program.label}: removed from {files} since the install: {names}"
    fix = f"`{INSTALL} {program.name}` adds them again; `--events` says which to install"
    yield _check(program.name, "events", "warn", text, fix=fix)


def _in_its_unit(can: Capability, seconds: float) -> str:
    if can.unit == "ms":
        return f"{round(seconds * 1000)} (it counts milliseconds)"
    return f"{round(seconds)} (it counts seconds)"


def _place_and_message(error: ConfigError) -> str:
    """What is wrong and where, without the error's hint, because a check has its own advice."""
    return str(error).removesuffix(f"; {error.hint}")


def _some(found: list[str]) -> str:
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _longest_ms(agent: str, event: str, can: Capability, settings: Settings, places: Directories) -> int:
    """The longest time that the hook command takes, by its answer file, else by the one that an install would write."""
    with contextlib.suppress(ConfigError):
        for line in read_answer_file(places.answer_file(agent)).events:
            if line.name == event:
                return max(line.deadline_ms, line.patience_ms)
    return deadline_ms(timeout_of(can, settings.budget), settings.budget)


def _answers(agent: str, settings: Settings, places: Directories, *, closed: bool) -> Check:
    path, fix = places.answer_file(agent), f"{INSTALL} {agent}"
    try:
        wanted = within_grants(answers_for(agent, settings, places, closed=closed)[0], places)
        state = state_of(path, wanted, known_server=not settings.redis_url or SHIM_URL in os.environ)
    except (ConfigError, Unreachable) as error:
        return _check(agent, "answers", "unknown", str(error))
    if state == "unchanged":
        return _check(agent, "answers", "ok", f"{agent}: {path} is up to date")
    if state == "new":
        text = f"{agent}: {path} is missing, so its hooks do nothing"
        return _check(agent, "answers", "fail", text, fix=fix, repair=True)
    text = f"{agent}: {path} is stale: server, namespace or deadlines differ"
    return _check(agent, "answers", "warn", text, fix=fix, repair=True)


def _check(
    agent: str, what: str, status: State, text: str, *, fix: str = "", repair: bool = False, brief: str = ""
) -> Check:
    kind: Repair = "install" if repair else ""
    return Check(id=f"{agent}-{what}", status=status, what=text, fix=fix, repair=kind, agent=agent, brief=brief)
