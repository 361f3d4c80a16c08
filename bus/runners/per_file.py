"""One tool call that names several files (a patch, a reading of many) as the calls that another system's author knows.

Imported hooks look at one path. They run once a file, each time for a call about that file alone, and what the runs say
becomes one outcome. Our own hooks have all files in `paths` and run once.
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
    """The event as `hook` runs for it: itself, or one event a file that the hook asks for; never empty."""
    if hook.dialect == NATIVE or not isinstance(event.input.get("paths"), list):
        return (event,)
    dialect = find_hooks(hook.dialect)
    tool = "edit" if _is_edit_of_shell(event) and not dialect.applies(hook, _as_command(event)) else event.tool
    split = tuple(msgspec.structs.replace(event, input=one) for one in single_files(tool, event.input))
    return tuple(one for one in split if dialect.applies(hook, one)) or (event,)


def _is_edit_of_shell(event: Event) -> bool:
    """Whether it is a shell command that its agent carries out as an edit (Codex's `apply_patch`)."""
    return event.tool == "bash" and isinstance(event.input.get("patch"), str)


def _as_command(event: Event) -> Event:
    """The same as nothing but a command: a hook that does not fit that was meant for edits."""
    plain = {name: value for name, value in event.input.items() if name not in ("patch", "path", "paths")}
    return msgspec.structs.replace(event, input=plain)


async def one_by_one(
    hook: Hook, event: Event, seconds: float, run: Callable[[Event, float], Awaitable[Outcome]]
) -> Outcome:
    """What `run` says of each file, as one outcome within `seconds` in all; the first deny ends it."""
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
        outcomes.append(_about(hook, call, await run(call, min(hook.timeout, left))))
        if outcomes[-1].decision == "deny":
            break
    return _combined(hook, outcomes)


def _about(hook: Hook, call: Event, said: Outcome) -> Outcome:
    """One run's outcome: its reason names the file, and its changed input is dropped."""
    path = call.input["path"]
    reason = f"{said.reason} ({path})" if said.decision in ("deny", "ask") and path not in said.reason else said.reason
    failure = f"{said.failure} ({path})" if said.failure else ""
    if not said.updated_input or said.decision == "deny":
        return msgspec.structs.replace(said, reason=reason, failure=failure)
    # No agent has a form for a part of a call, and an allow was given for the changed one.
    note = f"{hook_name(hook)} changed the input for {path}, one file of several: the change was dropped"
    return msgspec.structs.replace(
        said,
        reason=reason,
        failure=failure,
        updated_input=None,
        note="; ".join(filter(None, (said.note, note))),
        decision="abstain" if said.decision == "allow" else said.decision,
    )


def _combined(hook: Hook, outcomes: Sequence[Outcome]) -> Outcome:
    """The strictest of them; an allow only where every file was allowed, and a failure where nothing outweighs it."""
    failed = next((one for one in outcomes if one.failure), None)
    said = next((one for one in outcomes if one.decision == "deny"), None) or next(
        (one for one in outcomes if one.decision == "ask"), None
    )
    if said is None and failed is None and all(one.decision == "allow" for one in outcomes):
        said = outcomes[0]
    codes = [one.exit_code for one in outcomes if one.exit_code is not None]
    notes = [one.note for one in outcomes if one.note]
    if failed is not None:
        policy = fallback_decision(hook.on_failure or find_hooks(hook.dialect).policy or "allow")
        if said is None or strictest(said.decision, policy) != said.decision:
            said = failed
        else:
            notes.append(failed.failure)
    texts = [text for one in outcomes for text in one.contexts]
    outputs = "\n".join(one.output for one in outcomes if one.output)
    return Outcome(
        decision=said.decision if said is not None and not said.failure else "abstain",
        reason=said.reason if said is not None else "",
        instead=said.instead if said is not None else "",
        failure=said.failure if said is not None else "",
        contexts=tuple(dict.fromkeys(texts)),
        note="; ".join(dict.fromkeys(notes)),
        output=outputs[-SHOWN:],
        exit_code=said.exit_code
        if said is not None
        else next((code for code in codes if code), next(iter(codes), None)),
    )
