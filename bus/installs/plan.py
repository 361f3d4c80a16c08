"""Plans the changes of any agent's own files (`bus/installs`) for an install or uninstall, and shows them as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bus import installs
from bus.agents import find
from bus.events import EventType
from bus.installs import base
from bus.installs.base import InstalledCommand, InstallProblem, InstallScope, Program, Scope
from bus.installs.hook_command import Setup, chosen_events, closed_events, default_events
from bus.installs.http_checks import http_warnings
from bus.installs.http_hooks import require_usable
from bus.installs.manifest import FileChange, InstallPlan, read, real, record_events, records
from bus.secrets.redaction import redact_text

ALL: Final = "all"
"""As the events of an install: every event that may be subscribed."""

DEFAULT: Final = "default"
"""The same for the events that an install subscribes if none is named."""

RECORDED: Final = frozenset(
    {
        *(EventType.TOOL_PRE_EXECUTE, EventType.TOOL_POST_EXECUTE, EventType.TOOL_ERROR),
        *(EventType.SESSION_START, EventType.SESSION_END, EventType.SUBAGENT_START, EventType.SUBAGENT_STOP),
        *(EventType.USER_PROMPT_SUBMIT, EventType.USER_INTERRUPT, EventType.NOTIFICATION),
        *(EventType.AGENT_START, EventType.AGENT_END, EventType.AGENT_STOP, EventType.AGENT_ERROR, EventType.TURN_END),
        *(EventType.PERMISSION_REQUEST, EventType.PERMISSION_GRANTED, EventType.PERMISSION_DENIED),
    }
)
"""The types of announced events that the record of tool calls and sessions, coverage, the inbox and the pages read."""


def events_for(agent: str, names: Iterable[str] | None = None, heard: Collection[str] = ()) -> tuple[str, ...]:
    """The events that an install subscribes: the named ones (the agent's names or canonical types), else the default ones.

    `all` and `default` are names too, so `default,MessageDisplay` adds one event to the default ones. `heard` are the events
    that hooks in force name; they are default events too.
    """
    dialect = find(agent)
    quiet, never = base.quiet_events(agent), base.never_events(agent)
    chosen: dict[str, None] = {}
    for name in [DEFAULT] if names is None else names:
        if name in {ALL, DEFAULT}:
            chosen |= dict.fromkeys(default_events(dialect, never) if name == ALL else default_for(agent, heard))
            continue
        # Of a canonical type, only the default events: some agents have two names for one event.
        leave = () if name in dialect.capabilities else quiet
        chosen |= dict.fromkeys(chosen_events(dialect, [name], leave) or chosen_events(dialect, [name]))
    return tuple(chosen)


def default_for(agent: str, heard: Collection[str] = ()) -> tuple[str, ...]:
    """The default events: those whose answers count, those that the record and the pages need, and those in `heard`.

    An agent that trusts hooks by their content gets all that do not fire very often: each later one would have to be trusted.
    """
    dialect, whole = find(agent), installs.find(agent).asks_trust
    often = default_events(dialect, base.quiet_events(agent))
    return tuple(
        event
        for event in default_events(dialect, base.never_events(agent))
        if event in heard
        or (event in often and (whole or (can := dialect.capabilities[event]).waits or can.type in RECORDED))
    )


def reasons_of(
    agent: str, events: Collection[str], chosen: Collection[str], heard: Mapping[str, str]
) -> dict[str, list[str]]:
    """Why an install subscribes the events whose answers do not count, and why it leaves others out; by reason."""
    can = find(agent).capabilities
    plain = [event for event in events if not can[event].waits]
    if chosen:
        return {f"chosen by --events {','.join(chosen)}; `--events default` takes that back": list(events)}
    found: dict[str, list[str]] = {}
    for event in plain:
        why = "for the record" if can[event].type in RECORDED else "the hooks in force are not known"
        if installs.find(agent).asks_trust:
            why = "for the record, or to be trusted only once"
        elif why != "for the record" and heard.get(event):
            why = f"{heard[event]} listens to it"
        found.setdefault(why, []).append(event)
    rest = [event for event in default_events(find(agent), base.never_events(agent)) if event not in events]
    return found | {"left out, `--events all` adds them": rest}


def hearable(agent: str) -> tuple[str, ...]:
    """The events that an install subscribes if a hook in force names them: the first of several with one type."""
    dialect = find(agent)
    often = default_events(dialect, base.quiet_events(agent))
    types = {dialect.capabilities[event].type for event in often}
    rare = (event for event in default_events(dialect, base.never_events(agent)) if event not in often)
    return (*often, *(event for event in rare if dialect.capabilities[event].type not in types))


def announced(agent: str, events: Collection[str], later: Collection[str]) -> frozenset[str]:
    """Of the events that need no answer (`later`), those that the agent announces without waiting for their commands.

    It has to wait for the event that comes next, so that none is lost when it ends.
    """
    after = installs.find(agent).later
    return frozenset(name for name in events if name in later and after.get(name) in events)


def waits_again(agent: str, path: Path, events: Collection[str]) -> InstallPlan:
    """The change of a file after which the agent waits for our commands at these events; nothing else changes in it."""
    form, before = installs.find(agent).form, read(path)
    if before is None or not isinstance(form, base.AnnouncingFormat):
        return InstallPlan(agent, ())
    after = form.waiting(path, before, events)
    names = tuple(call.event for call in form.calls(path, after))
    change = FileChange(path, before, after, form.mode, ours=True, events=names)
    return InstallPlan(agent, (change,) if after != before else ())


def plan_install(agent: str, scope: Scope, where: InstallScope, setup: Setup) -> InstallPlan:
    """The changes of `install`. Other programs' hooks stay. Raises ConfigError with the place if a file cannot be read."""
    program = installs.find(agent)
    form = require_usable(program.label, program.http, setup.http) if setup.http is not None else None
    changes = []
    for path in map(real, program.form.files(installs.place(program, scope, where))):
        before = read(path)
        after = program.form.written(path, before, setup)
        if after != before:
            ours = before is not None and bool(program.form.calls(path, before))
            events = tuple(call.event for call in program.form.calls(path, after)) if after is not None else ()
            changes.append(FileChange(path, before, after, program.form.mode, ours, events))
    troubles = [trouble.what for trouble in program.troubles(where, scope)]
    # Other users of the repository may have an agent that is not on this machine.
    troubles += (trouble.what for trouble in other_readers(agent, scope, where, everybody=scope == "project"))
    if form is not None and setup.http is not None:
        closed = bool(closed_events(find(agent), setup))
        urls = [setup.http.url(program.name, event, closed=closed) for event in setup.events if event not in form.stay]
        troubles += http_warnings(program.label, form, setup.http, setup.events, closed=closed)
        troubles += (trouble.what for trouble in program.http_troubles(where, setup.http, urls))
    if scope == "project":
        troubles.append(
            "files of a project are shared with its repository, and the commands name paths of this machine"
        )
    return InstallPlan(program.name, tuple(changes), tuple(troubles), program.steps)


def plan_uninstall(agent: str, state: Path, *, where: InstallScope) -> InstallPlan:
    """The changes of `uninstall` in every file that an install has written, and in the agent's files here.

    A file that is unchanged since the install gets its old content back, or is deleted if the install created it. From a
    file that was changed since, only our entries are removed.
    """
    program, known = installs.find(agent), records(state)
    mine = [path for path, record in known.items() if record.agent == program.name]
    changes, warnings = [], []
    for path in dict.fromkeys([*mine, *(path for _, path in _files(program, where))]):
        current, record = read(path), known.get(path)
        if current is None or (record is None and not program.form.calls(path, current)):
            continue
        original = read(record.backup) if record is not None and record.backup is not None else None
        exact, created = record is not None and record.exact, record is not None and record.created
        untouched = record is not None and record.is_as_written(current)
        if exact and untouched and (created or original is not None):
            changes.append(FileChange(path, current, None if created else original))
            continue
        after = program.form.cleaned(path, current, original if exact else None, created=created)
        if after == current:
            continue
        copy = after is None and program.form.whole and not untouched
        what = "it goes, and a copy stays beside it" if copy else "only fleethook's own entries are removed"
        if not untouched:
            warnings.append(f"{path} was changed since the install: {what}")
        changes.append(FileChange(path, current, after, copy=copy))
    return InstallPlan(program.name, tuple(changes), tuple(warnings))


def installed(agent: str, where: InstallScope) -> Iterator[tuple[Scope, Path, tuple[InstalledCommand, ...]]]:
    """Our commands in an agent's files here; a file that cannot be read has none."""
    program = installs.find(agent)
    seen = set()
    for scope, path in _files(program, where):
        raw = read(path) if path not in seen else None
        seen.add(path)
        calls = program.form.calls(path, raw) if raw is not None else ()
        if calls:
            yield scope, path, calls


def chosen_before(agent: str, scope: Scope, state: Path, where: InstallScope) -> tuple[str, ...]:
    """What `--events` named at the last install that had it; empty: the default events."""
    program, known = installs.find(agent), records(state)
    files = map(real, program.form.files(installs.place(program, scope, where)))
    return next((tuple(known[path].chosen) for path in files if path in known), ())


def kept_events(agent: str, scope: Scope, state: Path, where: InstallScope) -> tuple[str, ...]:
    """The events of the last install into this scope's file, for an agent that trusts hooks by their content; else none.

    What is written there changes only if it is asked for: each change would have to be trusted again.
    """
    program, known = installs.find(agent), records(state)
    if not program.asks_trust:
        return ()
    for path in map(real, program.form.files(installs.place(program, scope, where))):
        raw = read(path)
        there = tuple(call.event for call in program.form.calls(path, raw)) if raw is not None else ()
        if there:
            return tuple(known[path].events) if path in known and known[path].events else there
    return ()


def accept_events(
    agent: str, scope: Scope, state: Path, where: InstallScope, chosen: Sequence[str] | None = None
) -> None:
    """Record the events in this scope's files as the chosen ones, and what `--events` named (None: nothing new)."""
    program = installs.find(agent)
    files = {path: read(path) for path in map(real, program.form.files(installs.place(program, scope, where)))}
    calls = {path: program.form.calls(path, raw) for path, raw in files.items() if raw is not None}
    record_events(state, {path: tuple(call.event for call in found) for path, found in calls.items()}, chosen)


def removed_events(agent: str, state: Path, where: InstallScope) -> dict[Path, tuple[str, ...]]:
    """The events that the last install wrote and that a person removed since, by file."""
    program, known = installs.find(agent), records(state)
    found = {}
    for _, path in _files(program, where):
        raw = read(path)
        there = {call.event for call in program.form.calls(path, raw)} if raw is not None else set()
        if path in known and (removed := tuple(event for event in known[path].events if event not in there)):
            found[path] = removed
    return found


def troubles(
    agent: str, scope: Scope, where: InstallScope, path: Path
) -> tuple[tuple[InstallProblem, ...], tuple[InstallProblem, ...]]:
    """What keeps hooks of this scope from running, and the hooks in this file that a person has not approved."""
    program = installs.find(agent)
    return tuple(program.troubles(where, scope)), tuple(program.trust(where, scope, path))


def other_readers(
    agent: str, scope: Scope, where: InstallScope, *, everybody: bool = False
) -> Iterator[InstallProblem]:
    """The other agents on this machine (or `everybody`) that run our commands in this agent's file, in its name."""
    program = installs.find(agent)
    for name, when in program.readers.get(scope, {}).items():
        other = installs.find(name)
        if everybody or installs.evidence(other, where):
            path = installs.place(program, scope, where)
            also = f"{other.label} runs the hooks in {path} too{', ' + when if when else ''}: its calls"
            what = f"{also} then count as {program.label}'s, and come twice where Fleethook is installed for both"
            wide = f"use `fleethook install {program.name} --scope user` and `fleethook install {name}`"
            fix = f"leave that off in {other.label}" if when else wide
            yield InstallProblem(what, fix, sure=not when)


def diff(plan: InstallPlan) -> str:
    """The plan as a unified diff with redacted secrets; empty if nothing would change."""
    lines: list[str] = []
    for change in plan.changes:
        old, new = ((raw or b"").decode("utf-8", "replace").splitlines() for raw in (change.before, change.after))
        names = [str(change.path) if raw is not None else "/dev/null" for raw in (change.before, change.after)]
        lines += difflib.unified_diff(old, new, names[0], names[1], lineterm="")
    return redact_text("\n".join(lines) + "\n") if lines else ""


def _files(program: Program, where: InstallScope) -> Iterator[tuple[Scope, Path]]:
    for scope, place in program.places.items():
        for path in program.form.files(place(where)):
            yield scope, real(path)
