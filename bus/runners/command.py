"""Commands: run in the hook's dialect, in a safe environment, within their time.

Event data reaches a command as stdin and environment only; the command's text is what its author wrote.
"""

from __future__ import annotations

import os
from typing import Final

from bus.config.pins import ScriptChanged, check_pins
from bus.dialects.hooking import find_hooks, find_rooted
from bus.environment import base_env, fit_env
from bus.events import Event
from bus.hooks import Hook
from bus.processes import Finished, run_process
from bus.runners import Outcome
from bus.runners.calls import one_by_one
from bus.runners.results import hook_name, log_ending

GRACE: Final = 0.25
"""Seconds from SIGTERM to SIGKILL where somebody waits for the verdict; in the background it is `run_process`'s own."""


class CommandRunner:
    """Runs blocking hooks of kind `command`."""

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """What the ending of the command means in the hook's dialect; of a call about several files, file by file."""
        dialect = find_hooks(hook.dialect)

        async def one(call: Event, seconds: float) -> Outcome:
            try:
                done = await run_command(hook, call, seconds, grace=GRACE)
            except (TypeError, ValueError) as error:  # a value that JSON does not have, from a publisher's own event
                why = f"{hook_name(hook)} was not started: the event cannot be written as JSON ({error})"
                return Outcome(failure=why)
            except ScriptChanged as error:
                return Outcome(failure=str(error))
            return dialect.outcome(hook, call, done, seconds)

        return await one_by_one(hook, event, seconds, one)


async def run_command(hook: Hook, event: Event, seconds: float, *, grace: float = 2.0) -> Finished:
    """Run the command of `hook` for `event`, blocking or in the background; TypeError or ValueError as `stdin` says.

    ScriptChanged where a trusted project's script is not the one that was trusted.
    """
    check_pins(hook)
    dialect = find_hooks(hook.dialect)
    done = await run_process(
        argv(hook), stdin=dialect.stdin(hook, event), env=command_env(hook, event),
        cwd=_directory(hook, event), seconds=seconds, grace=grace, one_stream=dialect.one_stream,
    )  # fmt: skip
    log_ending(hook, event, done, seconds)
    return done


def argv(hook: Hook) -> str | list[str]:
    """The command as it is started: a program with arguments, or a text for a shell (`/bin/sh` unless it names one)."""
    if hook.args:
        return [hook.command, *hook.args]
    return [hook.shell, "-c", hook.command] if hook.shell else hook.command


def command_env(hook: Hook, event: Event) -> dict[str, str]:
    """The environment of a command: the safe list, `env_pass`, its dialect's, its own, and the event's FLEETHOOK_*.

    Values too large for the OS are cut and marked, and their names stand in FLEETHOOK_CUT.
    """
    env, cut = fit_env({
        **base_env(hook.env_pass), **find_hooks(hook.dialect).variables(hook, event), **hook.env,
        "FLEETHOOK_EVENT": event.type, "FLEETHOOK_EVENT_ID": event.id, "FLEETHOOK_PARENT": event.id,
        "FLEETHOOK_TOOL": event.tool, "FLEETHOOK_SESSION": event.session, "FLEETHOOK_CWD": event.cwd,
        "FLEETHOOK_SOURCE": event.source, "FLEETHOOK_HOOK": hook.id,
        "FLEETHOOK_NATIVE_EVENT": event.native, "FLEETHOOK_NATIVE_TOOL": event.native_tool,
    })  # fmt: skip
    if cut:
        env["FLEETHOOK_CUT"] = ",".join(cut)
    return env


def _directory(hook: Hook, event: Event) -> str:
    """Where the dialect says, else the hook's own directory (relative to the event's), else the event's, else home."""
    rooted = find_rooted(hook.dialect)
    if rooted is not None and (own := rooted.directory(hook, event)):
        return own
    base = event.cwd if os.path.isabs(event.cwd) and os.path.isdir(event.cwd) else os.path.expanduser("~")
    return os.path.join(base, os.path.expanduser(hook.working_dir)) if hook.working_dir else base
