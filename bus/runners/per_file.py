"""Imported hooks and tool calls about several files (a patch, a read of many).

A hook that was written for another system knows calls with one path. It runs once per file, each time for a call about
that file alone, and the outcomes are combined. A native hook runs once and finds all files in `paths`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hookfiles.command_results import SHOWN, hook_name, log_failure
from bus.hooks import NATIVE, Hook
from bus.outcomes import Outcome
from bus.tools import single_files
from bus.verdicts import fallback_decision, strictest


def calls(hook: Hook, event: Event) -> tuple[Event, ...]:
    """The events that `hook` runs for: the event itself, or one per file that the hook applies to; never empty."""
    if hook.dialect == NATIVE or not isinstance(event.input.get("paths"), list):
        return (event,)
    dialect = find_hooks(hook.dialect)
    tool = "edit" if _is_edit_of_shell(event) and not dialect.applies(hook, _as_command(event)) else event.tool
    split = tuple(msgspec.structs.replace(event, input=fields) for fields in single_files(tool, event.input))
    return tuple(call for call in split if dialect.applies(hook, call)) or (event,)


def _is_edit_of_shell(event: Event) -> bool:
    """Whether it is a shell command that the agent runs as an edit (Codex's `apply_patch`)."""
    return event.tool == "bash" and isinstance(event.input.get("patch"), str)


def _as_command(event: Event) -> Event:
    """The same event as a command without its patch: a hook that does not fit this event is meant for edits."""
    plain = {name: value for name, value in event.input.items() if name not in ("patch", "path", "paths")}
    return msgspec.structs.replace(event, input=plain)


async def run_per_file(
    hook: Hook, event: Event, seconds: float, run: Callable[[Event, float], Awaitable[Outcome]]
) -> Outcome:
    """The outcomes of `run` for each file as one, within `seconds` in all; the first deny ends it."""
    found = calls(hook, event)
    if found == (event,):
        return await run(event, seconds)
    end = time.monotonic() + seconds
    outcomes: list[Outcome] = []
    for number, call in enumerate(found):
        left = end - time.monotonic()
        if left <= 0:
            late = f"{hook_name(hook)} saw {number} of {len(found)} files: the time was used up"
            log_failure(event, late)
            outcomes.append(Outcome(failure=late))
            break
        outcomes.append(_with_file(hook, call, await run(call, min(hook.timeout, left))))
        if outcomes[-1].decision == "deny":
            break
    return _combined(hook, outcomes)


def _with_file(hook: Hook, call: Event, outcome: Outcome) -> Outcome:
    """One run's outcome: its reason names the file, and its changed input is dropped."""
    path = call.input["path"]
    reason = outcome.reason
    if outcome.decision in ("deny", "ask") and path not in reason:
        reason = f"{reason} ({path})"
    failure = f"{outcome.failure} ({path})" if outcome.failure else ""
    if not outcome.updated_input or outcome.decision == "deny":
        return msgspec.structs.replace(outcome, reason=reason, failure=failure)
    # No agent lets a hook change a part of a call, and the hook's allow was only for the changed call.
    note = f"{hook_name(hook)} changed the input for {path}, one file of several: the change was dropped"
    return msgspec.structs.replace(
        outcome,
        reason=reason,
        failure=failure,
        updated_input=None,
        note="; ".join(filter(None, (outcome.note, note))),
        decision="abstain" if outcome.decision == "allow" else outcome.decision,
    )


def _combined(hook: Hook, outcomes: Sequence[Outcome]) -> Outcome:
    """The strictest outcome. It is an allow only if every file was allowed, and a failure only if nothing is stricter."""
    failed = next((outcome for outcome in outcomes if outcome.failure), None)
    deciding = next((outcome for outcome in outcomes if outcome.decision == "deny"), None) or next(
        (outcome for outcome in outcomes if outcome.decision == "ask"), None
    )
    if deciding is None and failed is None and all(outcome.decision == "allow" for outcome in outcomes):
        deciding = outcomes[0]
    codes = [outcome.exit_code for outcome in outcomes if outcome.exit_code is not None]
    notes = [outcome.note for outcome in outcomes if outcome.note]
    if failed is not None:
        policy = fallback_decision(hook.on_failure or find_hooks(hook.dialect).policy or "allow")
        if deciding is None or strictest(deciding.decision, policy) != deciding.decision:
            deciding = failed
        else:
            notes.append(failed.failure)
    texts = [text for outcome in outcomes for text in outcome.contexts]
    outputs = "\n".join(outcome.output for outcome in outcomes if outcome.output)
    return Outcome(
        decision=deciding.decision if deciding is not None and not deciding.failure else "abstain",
        reason=deciding.reason if deciding is not None else "",
        instead=deciding.instead if deciding is not None else "",
        failure=deciding.failure if deciding is not None else "",
        contexts=tuple(dict.fromkeys(texts)),
        note="; ".join(dict.fromkeys(notes)),
        output=outputs[-SHOWN:],
        exit_code=deciding.exit_code
        if deciding is not None
        else next((code for code in codes if code), next(iter(codes), None)),
    )
