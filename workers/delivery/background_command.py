"""One attempt of a background command hook: runs the command and reads its result."""

from __future__ import annotations

import time
from typing import NamedTuple

from bus.events import Event
from bus.hookfiles.command_results import SHOWN, failure, hook_name, log_failure, output
from bus.hooks import Hook
from bus.hooksets.pins import ScriptChanged
from bus.runners.background import later_text, wakes
from bus.runners.command import run_command
from bus.runners.per_file import calls
from bus.system.processes import Finished
from workers.delivery.results import AttemptDetails, AttemptResult, Undeliverable


class CommandResult(NamedTuple):
    """The result of a command's run; `later` is the text that it wants to add to its session's context."""

    attempt: AttemptResult
    later: str = ""


async def run_hook(hook: Hook, event: Event) -> CommandResult:
    """Run a command once, or once for each file (see `runners.per_file`), within its timeout; stop at the first failure.

    Raises Undeliverable if its script is no longer the one that was trusted.
    """
    end = time.monotonic() + hook.timeout
    results: list[CommandResult] = []
    for call in calls(hook, event):
        left = end - time.monotonic()
        if left <= 0:
            reason = f"{hook_name(hook)}: its time was used up after {len(results)} files"
            log_failure(event, reason)
            return CommandResult(AttemptResult("retry", reason, schedule=hook.retry))
        try:
            results.append(_read_result(hook, await run_command(hook, call, left)))
        except ScriptChanged as error:
            raise Undeliverable(str(error)) from error
        if results[-1].attempt.outcome != "delivered":
            break
    last = results[-1].attempt
    printed = "\n".join(result.attempt.evidence.output for result in results if result.attempt.evidence.output)
    evidence = last.evidence._replace(output=printed[-SHOWN:])
    return CommandResult(
        last._replace(evidence=evidence), "\n".join(result.later for result in results if result.later)
    )


def _read_result(hook: Hook, done: Finished) -> CommandResult:
    reason = "" if wakes(hook, done) else failure(hook, done, hook.timeout)
    status = done.exit_code if done.exit_code is not None else -(done.signal or 0)
    result = AttemptResult(
        "retry" if reason else "delivered", reason, schedule=hook.retry, evidence=AttemptDetails(status, output(done))
    )
    return CommandResult(result, later_text(hook, done))
