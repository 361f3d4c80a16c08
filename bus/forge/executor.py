"""Forge's executor: runs the hooks of a registry for an event, in this process or together with the bus's hooks (F-06)."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bus.agents.forge import DIALECT
from bus.errors import FleethookError
from bus.forge.events import HookEvent, canonical
from bus.forge.registry import Hook, HookRegistry
from bus.hooks import DEFAULT_TIMEOUT
from bus.sdk.scopes import Sender
from bus.secrets.redaction import redact_text
from bus.system.environment import base_env, fit_env
from bus.system.processes import Finished, run_process
from bus.tracing.spans import ambient
from bus.verdicts import Verdict

log = logging.getLogger("fleethook.forge")

MOST_RESULTS: Final = 100
"""The default for the most hooks that run for one event."""

_NOT_FOUND: Final = frozenset({126, 127})


@dataclass
class HookResult:
    """The result of one hook. `exit_code` is negative if it was killed or never ran; `duration` is in seconds."""

    hook: Hook
    exit_code: int
    stdout: str
    stderr: str
    duration: float
    timed_out: bool = False
    error: str | None = None
    verdict: Verdict | None = None
    """The bus's verdict, if this is the result of the bus's hooks."""

    @property
    def success(self) -> bool:
        """Whether it exited with 0, without a timeout or signal."""
        return self.exit_code == 0 and not self.timed_out and not self.error

    @property
    def should_continue(self) -> bool:
        """Whether it blocked nothing. A hook blocks with an exit code other than 0.

        A command that is not found (126, 127), a timeout and a crash are failures, and block nothing (F-11).
        """
        failed = self.timed_out or bool(self.error) or self.exit_code < 0 or self.exit_code in _NOT_FOUND
        return self.exit_code == 0 or failed


class HookBlockedError(FleethookError):
    """An error for programs to raise when a hook blocked their action."""

    def __init__(self, result: HookResult) -> None:
        self.result = result
        output = (result.stderr or result.stdout).strip()
        text = f"Operation blocked by hook '{result.hook.event_pattern}': exit code {result.exit_code}"
        super().__init__(f"{text} ({output})" if output else text)


class HookExecutor:
    """Runs the hooks of `registry` (default: the shared one); with `bus`, the fleet's hooks decide first.

    `default_timeout` in seconds is for hooks without a timeout; `working_dir` for hooks without a directory. A command
    gets the safe list of the environment and the variables in `env_pass`, not the whole environment.
    """

    MAX_RESULTS = MOST_RESULTS

    def __init__(
        self,
        registry: HookRegistry | None = None,
        default_timeout: float = DEFAULT_TIMEOUT,
        working_dir: str | os.PathLike[str] | None = None,
        *,
        bus: Sender | None = None,
        env_pass: Sequence[str] = (),
    ) -> None:
        self.registry = HookRegistry.get_instance() if registry is None else registry
        self.default_timeout = default_timeout
        self.working_dir = Path(working_dir) if working_dir is not None else Path.cwd()
        self.bus = bus
        self._env_pass = tuple(env_pass)

    async def execute_hooks(
        self, event: HookEvent, *, stop_on_failure: bool = True, max_results: int | None = None
    ) -> list[HookResult]:
        """The result of each hook, in the order of registration; never raises for a hook's failure.

        The first hook that blocks ends the chain, and so does one that fails, unless `stop_on_failure` is False. A
        command that is not found is logged and does not end the chain. The first result is the verdict of the bus's
        hooks, if they gave one.
        """
        results: list[HookResult] = []
        parent = os.environ.get("FLEETHOOK_PARENT", "")
        if self.bus is not None:
            parent, answer = await self._over_the_bus(self.bus, event)
            results += [answer] if answer is not None else []
            if answer is not None and not answer.should_continue:
                return results
        for hook in self.registry.get_hooks(event):
            if len(results) >= (max_results or self.MAX_RESULTS):
                log.warning("%s: only %d hooks were run", event.type, len(results))
                break
            result = await self._execute_hook(hook, event, parent=parent)
            results.append(result)
            if stop_on_failure and not result.success and result.exit_code not in _NOT_FOUND:
                break
        return results

    async def _execute_hook(self, hook: Hook, event: HookEvent, *, parent: str = "") -> HookResult:
        folder = _folder(self.working_dir, hook)
        seconds = self.default_timeout if hook.own_timeout is None else hook.own_timeout
        variables = event.to_env()
        aliases = {"EVENT_TYPE": "FORGE_EVENT", "TOOL_NAME": "FORGE_TOOL_NAME", "TOOL_ARGS": "FORGE_TOOL_ARGS"}
        env, _ = fit_env(
            {
                **base_env(self._env_pass),
                **variables,
                **{alias: variables[name] for alias, name in aliases.items() if name in variables},
                "FORGE_WORKING_DIR": folder,
                **hook.env,
                **({"FLEETHOOK_PARENT": parent} if parent else {}),
                **ambient().variables(),
            }
        )
        done = await run_process(
            hook.command, stdin=f"{event.to_json()}\n".encode(), env=env, cwd=folder, seconds=seconds
        )
        result = _result(hook, done, seconds)
        stderr = redact_text(result.stderr).strip()
        if stderr:
            log.warning("hook '%s' wrote: %s", hook.event_pattern, stderr)
        if not result.success:
            what = result.error or f"exit code {result.exit_code}"
            log.log(logging.ERROR if result.timed_out else logging.WARNING, "hook '%s': %s", hook.event_pattern, what)
        return result

    async def _over_the_bus(self, bus: Sender, event: HookEvent) -> tuple[str, HookResult | None]:
        """The event's id, and the verdict of the bus's hooks as a result of one Forge hook; None if they gave none."""
        asked = canonical(event, str(self.working_dir))
        if not DIALECT.capabilities[event.type.value].waits:
            try:
                return await bus.publish(asked), None
            except FleethookError as error:
                log.warning("%s could not be recorded: %s", event.type, error)
                return "", None
        start = time.monotonic()
        verdict = await bus.request(asked)
        answer = DIALECT.render(event.type.value, verdict, asked)
        if answer.exit_code == 0 and not (answer.stdout or verdict.parts or verdict.silent or verdict.fallback):
            return verdict.event, None
        hook = Hook(event.type.value, "fleethook", description="the hooks of the bus")
        result = HookResult(
            hook=hook,
            exit_code=answer.exit_code,
            stdout=answer.stdout.decode(),
            stderr=answer.stderr.decode(),
            duration=time.monotonic() - start,
            error=(verdict.fallback or None) if answer.exit_code == 0 else None,
            verdict=verdict,
        )
        return verdict.event, result


async def fire_event(
    event: HookEvent, *, executor: HookExecutor | None = None, stop_on_failure: bool = True
) -> list[HookResult]:
    """Run the hooks of an event, by default those of the shared registry."""
    return await (executor or HookExecutor()).execute_hooks(event, stop_on_failure=stop_on_failure)


def _folder(base: Path, hook: Hook) -> str:
    return os.path.normpath(os.path.join(base, os.path.expanduser(hook.working_dir or "")))


def _result(hook: Hook, done: Finished, seconds: float) -> HookResult:
    error = None
    if done.timed_out:
        error = f"Hook timed out after {seconds:g}s"
    elif done.spawn_error:
        error = f"Failed to execute hook: {done.spawn_error}"
    elif done.signal is not None:
        error = f"Hook was killed by signal {done.signal}"
    code = done.exit_code if done.exit_code is not None and not done.timed_out else -(done.signal or 1)
    return HookResult(
        hook=hook,
        exit_code=code,
        stdout=done.stdout.decode("utf-8", "replace"),
        stderr=done.stderr.decode("utf-8", "replace"),
        duration=done.ms / 1000,
        timed_out=done.timed_out,
        error=error,
    )
