"""Checks whether an agent's hooks are installed correctly, and whether the agent will run them."""

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
from bus.installs.hook_command import deadline_ms, granted_timeout, timeout_of
from bus.installs.plan import chosen_before, other_readers, removed_events, troubles
from bus.shim import native
from bus.shim.answer_file import read_answer_file
from bus.system.directories import Directories
from workers.admin.agent_setup import (
    SHIM_URL,
    Installed,
    answers_for,
    installed,
    plan,
    plan_again,
    state_of,
    where_is,
    within_grants,
)
from workers.admin.doctor import INSTALL, Check, Repair, State
from workers.admin.doctor.http_hooks import http_checks
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
    for install in here:
        closed = ", fail-closed" if install.closed else ""
        by_http = f", {len(install.urls)} by http" if install.urls else ""
        named = ",".join(_chosen(install, places, cwd))
        by_choice = f", chosen by --events {named}" if named else ""
        events, how = counted(len(install.commands), "event"), f"{install.scope}{closed}{by_http}{by_choice}"
        text, brief = f"{program.label}: {events} in {install.path} ({how})", f"{events} ({how})"
        yield _check(agent, "installed", "ok", text, brief=brief)
        yield from _current(install, settings, places, cwd)
        yield from _timeouts(install, settings, places)
        yield from http_checks(install, cwd)
        yield from _native(install, settings)
    yield from _removed(program, places, cwd)
    yield from _effective(program, here, cwd)
    for install in here:
        for trouble in other_readers(agent, install.scope, where_is(project=cwd)):
            state: State = "warn" if trouble.sure else "unknown"
            yield _check(agent, "readers", state, trouble.what, fix=trouble.fix)
    if program.closes_since and version and any(install.closed for install in here) and version < program.closes_since:
        since = ".".join(map(str, program.closes_since))
        text = f"{program.label} closes a gate after a timeout only since {since}; until then the tool call goes on"
        yield _check(agent, "closed", "warn", text, fix=f"use {program.label} {since} or newer")
    fix = f"{INSTALL} {agent}{here[0].option}"
    yield _answers(agent, settings, places, fix, closed=any(install.closed for install in here))


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
    """Check for settings that disable hooks, and for hooks that the user still has to approve in the agent."""
    where, agent = where_is(project=cwd), program.name
    disabling: dict[InstallProblem, None] = {}
    untrusted: dict[InstallProblem, None] = {}
    for install in here:
        found = troubles(agent, install.scope, where, Path(install.path))
        disabling |= dict.fromkeys(found[0])
        untrusted |= dict.fromkeys(found[1])
    for trouble in disabling:
        state: State = "fail" if trouble.sure else "warn"
        yield _check(agent, "effective", state, trouble.what, fix=trouble.fix)
    if not disabling:
        yield _check(agent, "effective", "ok", f"{program.label}: no settings layer switches hooks off")
    for trouble in untrusted:
        yield _check(agent, "trust", "fail" if trouble.sure else "warn", trouble.what, fix=trouble.fix)
    if program.asks_trust and not untrusted:
        yield _check(agent, "trust", "ok", f"{program.label}: every hook of ours is trusted as it is", brief="trusted")


def _version(program: Program) -> tuple[int, ...]:
    """The version that the program prints; empty if it prints none or does not exist."""
    # "codex-cli 0.169.0", "2.1.330 (Claude Code)", perhaps below a warning
    found = next((match for line in _said_version(program) if (match := re.search(r"\d+(?:\.\d+)+", line))), None)
    return tuple(int(part) for part in found[0].split(".")[:3]) if found else ()


def _said_version(program: Program) -> list[str]:
    """The lines that the program prints for --version."""
    found = next((path for name in program.binaries if (path := shutil.which(name))), None)
    if found is None:
        return []
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        run = subprocess.run(
            [found, "--version"],
            capture_output=True,
            timeout=VERSION_SECONDS,
            check=False,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if run.returncode == 0:
            return run.stdout.splitlines()
    return []


def _program(program: Program, version: tuple[int, ...], cwd: Path) -> Check:
    found = evidence(program, where_is(project=cwd))
    if not found:
        text = f"{program.label} was not found: not on PATH, and no folder of it"
        return _check(program.name, "program", "unknown", text, fix=f"install {program.label}")
    if version:
        number = ".".join(map(str, version))
        return _check(program.name, "program", "ok", f"{program.label} {number} at {found}", brief=number)
    return _check(program.name, "program", "unknown", f"{program.label}: it does not say its version: {found}")


def _current(install: Installed, settings: Settings, places: Directories, cwd: Path) -> Iterator[Check]:
    fix = f"{INSTALL} {install.agent} --scope {install.scope}{install.option}"
    try:
        change = plan_again(install, settings, places, cwd)
    except ConfigError as error:
        yield _check(
            install.agent, "commands", "fail", _place_and_message(error), fix=f"correct the file, then `{fix}`"
        )
        return
    if change.changes:
        text = f"{install.agent}: the hooks in {install.path} are not those that this fleethook writes"
        yield _check(install.agent, "commands", "warn", text, fix=fix, repair=True)
    else:
        yield _check(install.agent, "commands", "ok", f"{install.agent}: the hooks are those of this fleethook")


def _timeouts(install: Installed, settings: Settings, places: Directories) -> Iterator[Check]:
    """Check whether the agent waits longer than the hook command may take; this also finds a timeout in the wrong unit."""
    dialect, short, older = find_dialect(install.agent), [], []
    for event, seconds in install.seconds.items():
        can = dialect.capabilities.get(event)
        if can is None:
            continue
        event_time = f"{event} {_in_its_unit(can, seconds)}"
        if seconds * 1000 <= _longest_ms(install.agent, event, can, settings, places):
            short.append(event_time)
        elif seconds < granted_timeout(install.agent, can, settings.budget):
            older.append(event_time)
    if short:
        text = f"{install.agent}: {install.path} gives hooks less time than they take to answer: {_some(short)}"
    elif older:
        text = f"{install.agent}: {install.path} gives slow hooks less time than this fleethook's install does: {_some(older)}"
    elif install.seconds:
        text = f"{install.agent}: it gives every hook more time than that takes to answer"
    else:
        return
    status: State = "fail" if short else "warn" if older else "ok"
    fix = f"{INSTALL} {install.agent} --scope {install.scope}{install.option}" if short or older else ""
    yield _check(install.agent, "timeouts", status, text, fix=fix, repair=bool(fix))


def _native(install: Installed, settings: Settings) -> Iterator[Check]:
    """Which hook command the agent runs: the native one, or the one in Python."""
    agent, path = install.agent, install.native
    fix = f"{INSTALL} {agent} --scope {install.scope}{install.option}"
    if not any(install.commands.values()):
        return
    if not path:
        why = "its plugin starts it so" if agent == "opencode" else "it was installed so"
        why = why if settings.native_hook else "the setting native_hook is 0"
        yield _check(agent, "native", "ok", f"{agent}: hook commands run in Python ({why})", brief="Python")
    elif native.is_current(path):
        yield _check(agent, "native", "ok", f"{agent}: hook commands run natively by {path}", brief="native")
    elif os.access(path, os.X_OK):
        text = f"{agent}: the native hook command {path} is not that of this fleethook, or does not run here"
        yield _check(agent, "native", "warn", text, fix=fix)
    else:
        text = f"{agent}: the native hook command {path} is gone, so hook commands run in Python"
        yield _check(agent, "native", "warn", text, fix=fix)


def _chosen(install: Installed, places: Directories, cwd: Path) -> tuple[str, ...]:
    """What `--events` named at an install; empty for the default events, or if that cannot be read."""
    with contextlib.suppress(ConfigError):
        return chosen_before(install.agent, install.scope, places.state, where_is(project=cwd))
    return ()


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
    """The error's place and message without its hint, because a check has its own advice."""
    return str(error).removesuffix(f"; {error.hint}")


def _some(found: list[str]) -> str:
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _longest_ms(agent: str, event: str, can: Capability, settings: Settings, places: Directories) -> int:
    """The longest time that the hook command may take, by its answer file, else by the file that an install would write."""
    with contextlib.suppress(ConfigError):
        for line in read_answer_file(places.answer_file(agent)).events:
            if line.name == event:
                return max(line.deadline_ms, line.patience_ms)
    return deadline_ms(timeout_of(can, settings.budget), settings.budget)


def _answers(agent: str, settings: Settings, places: Directories, fix: str, *, closed: bool) -> Check:
    path = places.answer_file(agent)
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
