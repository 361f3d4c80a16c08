"""Commands: run in the hook's dialect, in a safe environment, within their time.

Event data reaches a command as stdin and environment only; the command's text is what its author wrote.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Final

from bus.codec import read_json
from bus.config.pins import ScriptChanged, check_pins
from bus.dialects.hooking import find_hooks, find_rooted
from bus.environment import base_env, fit_env
from bus.errors import DecodeError
from bus.events import Event
from bus.hooks import Hook
from bus.processes import Detach, Finished, run_process
from bus.runners import Outcome
from bus.runners.calls import one_by_one
from bus.runners.results import hook_name, log_ending, plain

GRACE: Final = 0.25
"""Seconds from SIGTERM to SIGKILL where somebody waits for the verdict; in the background it is `run_process`'s own."""


MOST_BACKGROUND: Final = 64
"""Hooks of one process that go on in the background; those over it are waited for."""

_DETACHING: Final = frozenset({"claude", "ion"})

log = logging.getLogger("fleethook.command")


class CommandRunner:
    """Runs blocking hooks of kind `command`; `later` gets what one said that went on in the background."""

    def __init__(self, later: Callable[[Event, str], Awaitable[None]] | None = None) -> None:
        self._later = later
        self._background: set[asyncio.Task[None]] = set()

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """What the ending of the command means in the hook's dialect; of a call about several files, file by file."""
        dialect = find_hooks(hook.dialect)

        async def one(call: Event, seconds: float) -> Outcome:
            try:
                done = await self._run(hook, call, seconds)
                if done is None:
                    return Outcome(note=f"{hook_name(hook)} went on in the background (async)")
            except (TypeError, ValueError) as error:  # a value that JSON does not have, from a publisher's own event
                why = f"{hook_name(hook)} was not started: the event cannot be written as JSON ({error})"
                return Outcome(failure=why)
            except ScriptChanged as error:
                return Outcome(failure=str(error))
            return dialect.outcome(hook, call, done, seconds)

        return await one_by_one(hook, event, seconds, one)

    async def _run(self, hook: Hook, call: Event, seconds: float) -> Finished | None:
        """How the command ended; None where it said that it goes on in the background, for its own timeout at most."""
        if hook.dialect not in _DETACHING or len(self._background) >= MOST_BACKGROUND:
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
        later = asyncio.create_task(self._end(hook, call, task))
        self._background.add(later)
        later.add_done_callback(self._background.discard)
        return None

    async def _end(self, hook: Hook, call: Event, task: asyncio.Task[Finished]) -> None:
        try:
            done = await task
            text = spoken(done.stdout.partition(b"\n")[2])
            if text and call.session and self._later is not None:
                await self._later(call, text)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        except Exception:  # nobody waits for it: its failure is in the log alone
            log.exception("hook %r in the background", hook.id)


def background_seconds(line: bytes, timeout: float) -> float | None:
    """For how long a hook may go on whose first line is `{"async": true}`; None for any other line."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        said = read_json(line)
    except DecodeError:
        return None
    if not isinstance(said, dict) or said.get("async") is not True:
        return None
    given = said.get("asyncTimeout")
    if isinstance(given, bool) or not isinstance(given, (int, float)) or given <= 0:
        return timeout
    return min(timeout, given / 1000)


def spoken(raw: bytes) -> str:
    """What a hook printed in the background, as context for the model: of an object its fields for that, else all."""
    text = plain(raw).strip()
    if text.startswith("{"):
        try:
            said = read_json(text.encode())
        except DecodeError:
            return text
        if isinstance(said, dict):
            specific = said.get("hookSpecificOutput")
            inner = specific.get("additionalContext") if isinstance(specific, dict) else None
            found = (inner, said.get("systemMessage"))
            return "\n".join(part for part in found if isinstance(part, str) and part)
    return text


async def run_command(
    hook: Hook, event: Event, seconds: float, *, grace: float = 2.0, detach: Detach | None = None
) -> Finished:
    """Run the command of `hook` for `event`, blocking or in the background; TypeError or ValueError as `stdin` says.

    ScriptChanged where a trusted project's script is not the one that was trusted.
    """
    check_pins(hook)
    dialect = find_hooks(hook.dialect)
    done = await run_process(
        argv(hook), stdin=dialect.stdin(hook, event), env=command_env(hook, event),
        cwd=_directory(hook, event), seconds=seconds, grace=grace, one_stream=dialect.one_stream,
        detach=detach,
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
