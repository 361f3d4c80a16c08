"""What a command hook reads for an event: stdin, environment, command line and directory, by the functions that run it."""

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
    """The command hooks that the event meets: those that the agent waits for, then those in the background."""
    fitting = (*hooks.blocking(event), *hooks.background(event, verdict))
    return list({hook.id: hook for hook in fitting if hook.kind == "command"}.values())


def hook_inputs(hook: Hook, event: Event, asked: int) -> list[HookInput]:
    """One for each time that the command is started: once, or once per file for hooks of other systems.

    `asked` is when the request was added (0: it was no request): hooks that an agent waits for get that time, and those in the
    background the time of the event that was recorded afterwards. TypeError or ValueError where the event cannot be
    written as the hook's dialect wants it.
    """
    if hook.blocking and asked:
        event = msgspec.structs.replace(event, time=asked)
    return [_input(hook, call) for call in calls(hook, event)]


def recorded_part(hook: Hook, verdict: Verdict | None) -> Part | None:
    """What the verdict says of the hook; None if it has no part in it, as hooks in the background."""
    parts = verdict.parts if verdict is not None else ()
    return next((part for part in parts if part.hook == hook.id), None)


def _input(hook: Hook, call: Event) -> HookInput:
    env = command_env(hook, call)
    own = {*hook.env, *find_hooks(hook.dialect).variables(hook, call)}
    inherited = frozenset(name for name in base_env(hook.env_pass) if name in env and name not in own)
    return HookInput(
        hook=hook,
        stdin=find_hooks(hook.dialect).stdin(hook, call),
        env=env,
        inherited=inherited,
        argv=argv(hook),
        directory=working_directory(hook, call),
    )
