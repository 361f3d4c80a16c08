"""The engine: one event, its blocking hooks in order, one verdict (docs/architecture.md, "Verdicts")."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from bus.errors import OverBudget
from bus.events import STOPS, Event
from bus.hookfiles import find_hooks
from bus.hooks import LAYERS, NATIVE, Hook
from bus.outcomes import Outcome
from bus.runners.per_file import calls
from bus.tally import OPINIONS_ONLY, Tally
from bus.tools import canonical_input, native_input
from bus.verdicts import Decision, Part, Policy, Verdict, fallback_decision

log = logging.getLogger("fleethook.chain")

Run = Callable[[Hook, Event, float], Awaitable[Outcome]]
"""Runs one hook within so many seconds; never raises for what the hook does, OverBudget where it may not run here."""

Elsewhere = Callable[[Event, float, Mapping[str, Any]], Awaitable[Verdict]]
"""What the lower layers say of the event that only its own host has: within so many seconds, given the changes so far."""

Refit = Callable[[Event], Awaitable[Sequence[Hook]]]
"""The blocking hooks that fit an event, in order: a changed input may fit a rule that the original one did not."""


TOGETHER: Final = frozenset({"claude", "ion"})
"""Dialects whose neighbouring hooks start together, as Claude Code starts them."""

_NO_CHANGES: Final[dict[str, Any]] = {
    "updated_input": None,
    "updated_output": None,
    "halt": "",
    "permissions": (),
    "interrupt": False,
}
"""What is left of an outcome that does not count."""


async def evaluate(
    event: Event,
    hooks: Sequence[Hook],
    run: Run,
    *,
    seconds: float,
    policy: Policy = "allow",
    version: str = "",
    layers: Sequence[str] = (),
    again: bool = False,
    refit: Refit | None = None,
    changes: Mapping[str, Any] | None = None,
    elsewhere: Elsewhere | None = None,
    notes: Sequence[str] = (),
) -> Verdict:
    """The verdict of `hooks` (in order of layer, priority, position) on `event`, within `seconds`.

    Every hook sees the original event; the first deny ends the chain, but where an agent wants to stop: there all hooks
    run, and the agent goes on with all their reasons. The strictest decision wins. A hook that fails is answered for by
    its `on_failure`, else by `policy`. Rewrites are merged key by key and looked at again, by the hooks that `refit`
    finds for the changed event (default: those that fit the original one).
    `again` says that an evaluator died on this request, so hooks may run a second time. `changes` are those that the
    layers above these hooks made already; `elsewhere` asks for the part of the layers below them. `notes` go into the verdict.
    """
    start = time.monotonic()
    deadline = start + seconds
    tally = Tally(event, changes or {})
    tally.notes.extend(notes)
    stopped = False
    for together in _groups(hooks):
        if len(together) == 1:
            ran = [await _run(together[0], event, run, deadline, policy)]
        else:
            ran = await asyncio.gather(*(_run(hook, event, run, deadline, policy) for hook in together))
        for hook, outcome, part in ran:
            tally.add(hook, outcome, part)
            event = tally.event
            stopped = stopped or (hook.stop_on_failure and bool(outcome.failure))
        if stopped or tally.ended:
            break
    if elsewhere is not None and not tally.ended:
        below = await elsewhere(event, max(0.0, deadline - time.monotonic()), tally.rewrite)
        tally.join(below)
        layers = (*layers, *(layer for layer in below.layers if layer not in layers))
        version = f"{version} {below.version}" if below.version else version
    if tally.rewrite and tally.decision != "deny":
        changed = changed_event(event, tally.rewrite)
        await _look_again(changed, await refit(changed) if refit else hooks, run, tally, deadline, policy)
    await _redact_again(hooks, run, tally, deadline, policy, ended=stopped or tally.decision == "deny")
    if again:
        tally.notes.append("an evaluator died while it ran these hooks: they may have run twice")
    tally.conclude()
    contexts = tally.told()  # which may add a note
    return Verdict(
        decision=tally.decision,
        event=event.id,
        reason=tally.reason,
        instead=tally.instead,
        contexts=contexts,
        updated_input=tally.rewrite if tally.rewrite and tally.decision != "deny" else None,
        updated_output=tally.updated_output,
        halt=tally.halt,
        permissions=tuple(tally.permissions),
        interrupt=tally.interrupt,
        parts=tuple(tally.parts),
        silent={place: rules for place, rules in tally.silent.items() if rules},
        ms=round((time.monotonic() - start) * 1000, 3),
        version=version,
        layers=tuple(layers),
        notes=tuple(tally.notes),
        waiting=tally.waiting,
        repeated=again,
    )


def needed_seconds(event: Event, hooks: Sequence[Hook]) -> float:
    """How long these hooks may take together by what they declare, rules excepted: those that start together count once."""
    groups = ([_most(hook, event) for hook in group if hook.kind != "rule"] for group in _groups(hooks))
    return sum(max(group, default=0.0) for group in groups)


def _most(hook: Hook, event: Event) -> float:
    return hook.timeout if hook.dialect == NATIVE else hook.timeout * len(calls(hook, event))


def changed_event(event: Event, rewrite: Mapping[str, Any]) -> Event:
    """The event as the agent would carry it out after `rewrite`, whose keys may be canonical or the agent's own.

    Both spellings of a changed field change together: a rule that reads `path` sees what was written to `file_path`.
    """
    own = native_input(event.source, event.native_tool, rewrite, event.input)
    return msgspec.structs.replace(event, input=canonical_input(event.source, event.native_tool, own))


def _groups(hooks: Sequence[Hook]) -> list[list[Hook]]:
    groups: list[list[Hook]] = []
    before = ""
    for hook in hooks:
        # A layer's deny ends the chain before a hook of a lower layer starts.
        together = hook.layer if hook.dialect in TOGETHER else ""
        if together and together == before:
            groups[-1].append(hook)
        else:
            groups.append([hook])
        before = together
    return groups


async def _run(hook: Hook, event: Event, run: Run, deadline: float, policy: Policy) -> tuple[Hook, Outcome, Part]:
    start = time.monotonic()
    left = deadline - start
    if left <= 0:
        outcome = Outcome(failure=f"hook {hook.id!r} was not started: the budget is used up")
        log.warning("%s at event %s", outcome.failure, event.id or event.type)
    else:
        try:
            outcome = await run(hook, event, min(_most(hook, event), left))
        except OverBudget:
            raise  # the caller has to take this request to where it may take longer
        except Exception as error:  # whatever a library throws is a failure of this hook, and of no other
            log.exception("hook %r broke its runner", hook.id)
            outcome = Outcome(failure=f"hook {hook.id!r} broke: {type(error).__name__}")
    decision, reason = outcome.decision, outcome.reason
    if outcome.failure:
        # A block of a stop makes the agent go on, so such events never fail closed (docs/architecture.md, "Time and failure").
        own = "allow" if event.type in STOPS else hook.on_failure or find_hooks(hook.dialect).policy or policy
        decision = fallback_decision(own)
        reason = f"{outcome.failure}; its failure policy is {own}" if decision != "abstain" else ""
        outcome = msgspec.structs.replace(outcome, contexts=(), **_NO_CHANGES)
    changes = outcome.updated_input or outcome.updated_output is not None or outcome.halt or outcome.contexts
    if hook.observe and (decision != "abstain" or changes):
        note = f"observed only: hook {hook.id!r} would have said {_said(decision, reason, outcome)}"
        decision, reason = "abstain", ""
        outcome = msgspec.structs.replace(outcome, contexts=(), instead="", note=note, **_NO_CHANGES)
    part = Part(
        hook=hook.id,
        decision=decision,
        layer=hook.layer,
        version=hook.version,
        reason=reason,
        ms=round((time.monotonic() - start) * 1000, 3),
        exit_code=outcome.exit_code,
        fallback=outcome.failure,
        origin=hook.origin,
        output=outcome.output,
    )
    return hook, outcome, part


def _said(decision: Decision, reason: str, outcome: Outcome) -> str:
    more = ["changed " + ", ".join(sorted(outcome.updated_input))] if outcome.updated_input else []
    more += ["changed the output"] if outcome.updated_output is not None else []
    more += [f"ended the agent's work ({outcome.halt})"] if outcome.halt else []
    more += ["given context"] if outcome.contexts else []
    return " and ".join([f"{decision}: {reason}" if reason else decision, *more])


async def _redact_again(
    hooks: Sequence[Hook], run: Run, tally: Tally, deadline: float, policy: Policy, *, ended: bool
) -> None:
    """Show the output to redaction rules that a deny kept from it, or below which a hook has changed it."""
    if tally.event.output is None or not (ended or tally.updated_output is not None):
        return
    for hook in (hook for hook in hooks if hook.rule is not None and hook.rule.redact):
        _, outcome, part = await _run(hook, tally.event, run, deadline, policy)
        if outcome.updated_output is not None or outcome.failure:
            tally.add(hook, outcome, part, again=True)


async def _look_again(
    changed: Event, hooks: Sequence[Hook], run: Run, tally: Tally, deadline: float, policy: Policy
) -> None:
    """Show the changed event to every rule and to the hooks of the layers above the lowest that changed it.

    An `allow` stands only where one who gave it knew the changed event: the only one who changed it, or who says it now.
    """
    changers = {hook.id: hook for hook in tally.setters.values()}
    lowest = max(LAYERS.index(hook.layer) for hook in changers.values())
    allowed = any(set(changers) == {hook.id} for hook in tally.allowers)
    for hook in hooks:
        if hook.kind != "rule" and LAYERS.index(hook.layer) >= lowest:
            continue
        if time.monotonic() >= deadline:
            tally.drop_rewrite("no time was left to look at it again")
            return
        _, outcome, part = await _run(hook, changed, run, deadline, policy)
        if outcome.failure and time.monotonic() >= deadline:
            tally.drop_rewrite(f"hook {hook.id!r} had no time to look at it again")
            return
        if part.decision in {"deny", "ask"} or outcome.failure or outcome.note:
            tally.add(hook, outcome, part, again=True)
        if tally.decision == "deny":
            return
        allowed = allowed or (part.decision == "allow" and hook.layer not in OPINIONS_ONLY)
    if not allowed:
        tally.take_back_allow("an allow was for the input as it was before another hook changed it; it does not count")
