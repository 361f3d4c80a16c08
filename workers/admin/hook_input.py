"""The input of a command hook for an event: stdin, environment, command line and directory, by the code that runs it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hooks import Hook
from bus.hooksets.in_force import HookSet
from bus.runners.command import argv, command_env, working_directory
from bus.runners.per_file import calls
from bus.system.environment import base_env
from bus.verdicts import Part, Verdict


class HookInput(NamedTuple):
    """One start of a command."""

    hook: Hook
    stdin: bytes
    env: dict[str, str]
    inherited: frozenset[str]
    """The variables whose values are those of this process; the worker that ran the hook may have had others."""
    argv: str | list[str]
    directory: str


def command_hooks(event: Event, verdict: Verdict | None, hooks: HookSet) -> list[Hook]:
    """The command hooks that fit the event: first the blocking ones, then the background ones."""
    fitting = (*hooks.blocking(event), *hooks.background(event, verdict))
    return list({hook.id: hook for hook in fitting if hook.kind == "command"}.values())


def hook_inputs(hook: Hook, event: Event, asked: int) -> list[HookInput]:
    """The input of each start of the command: one start, or one per file for hooks of other systems.

    `asked` is when the request was added (0: it was no request). Blocking hooks get this time, and background hooks the
    time at which the event was recorded afterwards. Raises TypeError or ValueError if the event cannot be written in the
    format of the hook's dialect.
    """
    if hook.blocking and asked:
        event = msgspec.structs.replace(event, time=asked)
    return [_input(hook, call) for call in calls(hook, event)]


def recorded_part(hook: Hook, verdict: Verdict | None) -> Part | None:
    """The part of the hook in the verdict; None if it has none, like background hooks."""
    parts = verdict.parts if verdict is not None else ()
    return next((part for part in parts if part.hook == hook.id), None)


def _input(hook: Hook, call: Event) -> HookInput:
    env = command_env(hook, call)
    hook_variables = {*hook.env, *find_hooks(hook.dialect).variables(hook, call)}
    inherited = frozenset(name for name in base_env(hook.env_pass) if name in env and name not in hook_variables)
    return HookInput(
        hook=hook,
        stdin=find_hooks(hook.dialect).stdin(hook, call),
        env=env,
        inherited=inherited,
        argv=argv(hook),
        directory=working_directory(hook, call),
    )
