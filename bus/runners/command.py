"""Runs commands as the hook's dialect defines, in a safe environment, within their time.

Event data reaches a command only by stdin and environment; the command's text is exactly what its author wrote.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import msgspec

from bus.events import Event
from bus.hookfiles import find_hooks, find_rooted
from bus.hookfiles.command_results import failure, hook_name, log_ending, log_failure
from bus.hooks import Hook
from bus.hooksets.pins import ScriptChanged, check_pins
from bus.outcomes import Outcome
from bus.runners.background import DETACHING, background_seconds, printed_text
from bus.runners.large_event import written
from bus.runners.per_file import run_per_file
from bus.system.environment import base_env, fit_env, was_cut
from bus.system.processes import Detach, Finished, run_process
from bus.tracing.context import trace_of

GRACE: Final = 0.25
"""Seconds from SIGTERM to SIGKILL if an agent waits for the verdict; in the background, the default of `run_process`."""


MOST_BACKGROUND: Final = 64
"""Hooks of one process that may run in the background; further ones are waited for."""

_CUT: Final = "did not see all of {}: the system takes at most 128 KB of one environment variable"

log = logging.getLogger("fleethook.command")


class CommandRunner:
    """Runs blocking hooks of kind `command`; `on_background_output` gets the output of one that ran in the background."""

    def __init__(self, on_background_output: Callable[[Event, str], Awaitable[None]] | None = None) -> None:
        self._on_background_output = on_background_output
        self.background: set[asyncio.Task[None]] = set()
        """The hooks that still run although their agents have their answers."""

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """The command's result as the hook's dialect reads it; a call about several files runs once per file."""
        dialect = find_hooks(hook.dialect)

        async def run_call(call: Event, seconds: float) -> Outcome:
            try:
                done = await self._run(hook, call, seconds)
                if done is None:
                    return Outcome(note=f"{hook_name(hook)} went on in the background (async)")
            except (TypeError, ValueError) as error:  # a publisher's event may hold a value that JSON lacks
                why = f"{hook_name(hook)} was not started: the event cannot be written as JSON ({error})"
                log_failure(call, why)
                return Outcome(failure=why)
            except ScriptChanged as error:
                log_failure(call, str(error))
                return Outcome(failure=str(error))
            outcome = dialect.outcome(hook, call, done, seconds)
            if done.variables_cut:  # the author of a guard does not know that it may not see all
                note = f"{hook_name(hook)} {_CUT.format(', '.join(done.variables_cut))}"
                outcome = msgspec.structs.replace(outcome, note="; ".join(filter(None, (outcome.note, note))))
            if outcome.failure and not failure(hook, done, seconds):  # it ended well, and its output cannot be used
                log_failure(call, outcome.failure)
            return outcome

        return await run_per_file(hook, event, seconds, run_call)

    async def end_background(self) -> None:
        """End the hooks that still run in the background, so that none outlives its worker; each is logged."""
        for task in (left := tuple(self.background)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _run(self, hook: Hook, call: Event, seconds: float) -> Finished | None:
        """How the command ended; None if it moved to the background, where its own timeout bounds it."""
        if hook.dialect not in DETACHING or len(self.background) >= MOST_BACKGROUND:
            return await run_command(hook, call, seconds, grace=GRACE)
        detach = Detach(lambda line: background_seconds(line, hook.timeout))
        task = asyncio.create_task(run_command(hook, call, seconds, grace=GRACE, detach=detach))
        freed = asyncio.create_task(detach.freed.wait())
        try:
            await asyncio.wait({task, freed}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            freed.cancel()
        if task.done():
            return task.result()
        ending = asyncio.create_task(self._end(hook, call, task))
        self.background.add(ending)
        ending.add_done_callback(self.background.discard)
        return None

    async def _end(self, hook: Hook, call: Event, task: asyncio.Task[Finished]) -> None:
        try:
            done = await task
            text = printed_text(done.stdout)
            if text and self._on_background_output is not None:
                await self._on_background_output(call, text)
        except asyncio.CancelledError:
            log.warning("%s was still in the background when this worker stopped: it is ended", hook_name(hook))
            task.cancel()
            await asyncio.wait([task])
            raise
        except Exception:  # no caller is left: its failure is in the log alone
            log.exception("hook %r in the background", hook.id)


async def run_command(
    hook: Hook, event: Event, seconds: float, *, grace: float = 2.0, detach: Detach | None = None
) -> Finished:
    """Run the command of `hook` for `event`, blocking or in the background; raises what the dialect's `stdin` raises.

    ScriptChanged if a trusted project's script has changed since it was trusted.
    """
    directory = working_directory(hook, event)
    check_pins(hook, directory)
    dialect = find_hooks(hook.dialect)
    env = command_env(hook, event)
    stdin = await written(event, lambda: dialect.stdin(hook, event))
    done = await run_process(
        argv(hook),
        stdin=stdin,
        env=env,
        cwd=directory,
        seconds=seconds,
        grace=grace,
        one_stream=dialect.one_stream,
        detach=detach,
    )
    log_ending(hook, event, done, seconds)
    if cut := tuple(name for name in env.get("FLEETHOOK_CUT", "").split(",") if was_cut(env.get(name, ""))):
        log.warning("%s at event %s %s", hook_name(hook), event.id or event.type, _CUT.format(", ".join(cut)))
        done = done if stdin else replace(done, variables_cut=cut)  # stdin has all of them
    return done


def argv(hook: Hook) -> str | list[str]:
    """The process to start: a program with arguments, or a text for a shell (`/bin/sh` unless the hook names another)."""
    if hook.args:
        return [hook.command, *hook.args]
    return [hook.shell, "-c", hook.command] if hook.shell else hook.command


def command_env(hook: Hook, event: Event) -> dict[str, str]:
    """The environment of a command: safe list, `env_pass`, the dialect's variables, the hook's `env`, and FLEETHOOK_*.

    Values too large for the OS are cut and marked, and FLEETHOOK_CUT lists their names.
    """
    env, cut = fit_env(
        {
            **base_env(hook.env_pass),
            **find_hooks(hook.dialect).variables(hook, event),
            **hook.env,
            "FLEETHOOK_EVENT": event.type,
            "FLEETHOOK_EVENT_ID": event.id,
            "FLEETHOOK_PARENT": event.id,
            "FLEETHOOK_TOOL": event.tool,
            "FLEETHOOK_SESSION": event.session,
            "FLEETHOOK_CWD": event.cwd,
            "FLEETHOOK_SOURCE": event.source,
            "FLEETHOOK_HOOK": hook.id,
            "FLEETHOOK_NATIVE_EVENT": event.native,
            "FLEETHOOK_NATIVE_TOOL": event.native_tool,
            **trace_of(event).variables(),
        }
    )
    if cut:
        env["FLEETHOOK_CUT"] = ",".join(cut)
    return env


def working_directory(hook: Hook, event: Event) -> str:
    """The dialect's directory, else the hook's (relative to the event's directory), else the event's, else home."""
    rooted = find_rooted(hook.dialect)
    if rooted is not None and (directory := rooted.directory(hook, event)):
        return directory
    base = event.cwd if os.path.isabs(event.cwd) and os.path.isdir(event.cwd) else os.path.expanduser("~")
    return os.path.join(base, os.path.expanduser(hook.working_dir)) if hook.working_dir else base
