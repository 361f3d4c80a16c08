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
from bus.outcomes import NOTHING, Outcome
from bus.runners.per_file import calls
from bus.tally import OPINIONS_ONLY, Tally
from bus.tools import canonical_input, native_input
from bus.verdicts import Decision, Part, Policy, Verdict, fallback_decision
from bus.wire.codec import unreadable

log = logging.getLogger("fleethook.chain")

Run = Callable[[Hook, Event, float], Awaitable[Outcome]]
"""Runs one hook, for so many seconds at most. A failure of the hook is an outcome and not an exception.

Raises OverBudget if the hook needs more time than this process may give it.
"""

AskHost = Callable[[Event, float, Mapping[str, Any]], Awaitable[Verdict]]
"""Asks the event's host for the verdict of the hooks that only that machine has.

The arguments: the event, the seconds that the host may take, and the changes of the input so far.
"""

HooksFor = Callable[[Event], Awaitable[Sequence[Hook]]]
"""Finds the blocking hooks that fit an event, in order. They may differ after a change: a rule may fit only then."""

TOGETHER: Final = frozenset({"claude", "ion"})
"""Dialects whose hooks start together if they follow each other, as in Claude Code."""

_NO_CHANGES: Final[dict[str, Any]] = {
    "updated_input": None,
    "updated_output": None,
    "halt": "",
    "permissions": (),
    "interrupt": False,
}
"""Removes every change from an outcome whose changes do not count."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """One event, the hooks that decide on it, and their time budget."""

    event: Event
    hooks: Sequence[Hook]
    """Blocking hooks that fit the event, in order of layer, priority and position."""
    run: Run
    seconds: float
    """Budget of all hooks together. A hook that could not be started in time has failed."""
    policy: Policy = "allow"
    """The failure policy for hooks that declare none and whose dialect has none."""
    version: str = ""
    """The version of the hook sets in force, for the verdict."""
    layers: Sequence[str] = ()
    """The layers in force, for the verdict."""
    changes: Mapping[str, Any] = {}
    """Changes of the input that the layers above these hooks made."""
    hooks_for: HooksFor | None = None
    """Finds the hooks for a changed event. Default: those that fit the original one."""
    ask_host: AskHost | None = None
    """Asks the event's host to run the hooks of the lower layers; None if it has none."""
    notes: Sequence[str] = ()
    """Notes that go into the verdict."""
    is_rerun: bool = False
    """An evaluator died on this request, so hooks may run a second time."""


async def evaluate(evaluation: Evaluation) -> Verdict:
    """The verdict of the hooks on the event.

    Every hook sees the original input. The first deny ends the chain, except where an agent wants to stop: there all hooks
    run, and the agent goes on with all their reasons. The strictest decision wins. If a hook fails, its failure policy
    decides. Changes of the input are merged key by key, and then hooks look at the changed event again.
    """
    start = time.monotonic()
    deadline = start + evaluation.seconds
    tally = Tally(evaluation.event, evaluation.changes)
    tally.notes.extend(evaluation.notes)
    stopped = await _run_in_order(evaluation, tally, deadline)
    event, layers, version = tally.event, tuple(evaluation.layers), evaluation.version
    if evaluation.ask_host is not None and not tally.ended:
        below = await evaluation.ask_host(event, max(0.0, deadline - time.monotonic()), tally.rewrite)
        tally.add_verdict(below)
        layers = (*layers, *(layer for layer in below.layers if layer not in layers))
        version = f"{version} {below.version}" if below.version else version
    if tally.rewrite and tally.decision != "deny":
        await _judge_changed_event(evaluation, changed_event(event, tally.rewrite), tally, deadline)
    if stopped or tally.decision == "deny" or tally.updated_output is not None:
        await _redact_again(evaluation, tally, deadline)
    if evaluation.is_rerun:
        tally.notes.append("an evaluator died while it ran these hooks: they may have run twice")
    tally.conclude()
    contexts = tally.cut_contexts()  # which may add a note
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
        layers=layers,
        notes=tuple(tally.notes),
        waiting=tally.waiting,
        repeated=evaluation.is_rerun,
        charges=tuple(tally.charges),
    )


def needed_seconds(event: Event, hooks: Sequence[Hook]) -> float:
    """The sum of the hooks' timeouts. Of hooks that start together only the longest counts; rules do not count."""
    groups = ([_most_seconds(hook, event) for hook in group if hook.kind != "rule"] for group in _groups(hooks))
    return sum(max(group, default=0.0) for group in groups)


def _most_seconds(hook: Hook, event: Event) -> float:
    return hook.timeout if hook.dialect == NATIVE else hook.timeout * len(calls(hook, event))


def changed_event(event: Event, rewrite: Mapping[str, Any]) -> Event:
    """The event with the input that the agent would use after `rewrite`. Its keys may be canonical or the agent's own.

    Both spellings of a changed field change together: a rule that reads `path` sees what was written to `file_path`.
    """
    native = native_input(event.source, event.native_tool, rewrite, event.input)
    return msgspec.structs.replace(event, input=canonical_input(event.source, event.native_tool, native))


def _groups(hooks: Sequence[Hook]) -> list[list[Hook]]:
    """The hooks in order; those that start together are in one group."""
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


async def _run_in_order(evaluation: Evaluation, tally: Tally, deadline: float) -> bool:
    """Run the hooks until the chain ends; returns whether a failed hook ended it (`stop_on_failure`)."""
    for group in _groups(evaluation.hooks):
        event = tally.event
        if len(group) == 1:
            results = [await _run(evaluation, group[0], event, deadline)]
        else:
            results = await asyncio.gather(*(_run(evaluation, hook, event, deadline) for hook in group))
        stopped = False
        for hook, (outcome, part) in zip(group, results, strict=True):
            tally.add(hook, outcome, part)
            stopped = stopped or (hook.stop_on_failure and bool(outcome.failure))
        if stopped or tally.ended:
            return stopped
    return False


async def _run(evaluation: Evaluation, hook: Hook, event: Event, deadline: float) -> tuple[Outcome, Part]:
    start = time.monotonic()
    left = deadline - start
    if left <= 0:
        outcome = Outcome(failure=f"hook {hook.id!r} was not started: the budget is used up")
        log.warning("%s at event %s", outcome.failure, event.id or event.type)
    else:
        try:
            outcome = await evaluation.run(hook, event, min(_most_seconds(hook, event), left))
        except OverBudget:
            raise  # the caller moves this request to a process that may take longer
        except Exception as error:  # any exception of a library is a failure of this hook alone
            log.exception("hook %r broke its runner", hook.id)
            outcome = Outcome(failure=f"hook {hook.id!r} broke: {type(error).__name__}")
    if outcome is NOTHING:
        ms = round((time.monotonic() - start) * 1000, 3)
        return outcome, Part(hook=hook.id, decision="abstain", layer=hook.layer, version=hook.version, ms=ms)
    if outcome.updated_input or outcome.updated_output is not None or outcome.permissions:
        why = unreadable(outcome.updated_input, outcome.updated_output, *outcome.permissions)
        if why:  # nobody could read the verdict, so that what other hooks say would be lost
            log.warning("hook %r changed the call to what cannot be sent: %s", hook.id, why)
            outcome = Outcome(failure=f"hook {hook.id!r} changed the call to what cannot be sent: {why}")
    decision, reason = outcome.decision, outcome.reason
    if outcome.failure:
        # Stop-like events never fail closed: there a block makes the agent go on.
        declared = hook.on_failure or find_hooks(hook.dialect).policy
        policy = "allow" if event.type in STOPS else declared or evaluation.policy
        decision = fallback_decision(policy)
        reason = f"{outcome.failure}; its failure policy is {policy}" if decision != "abstain" else ""
        outcome = msgspec.structs.replace(outcome, contexts=(), **_NO_CHANGES)
    changes = outcome.updated_input or outcome.updated_output is not None or outcome.halt or outcome.contexts
    observed: Decision | None = None
    if hook.observe and (decision != "abstain" or changes):
        note = f"observed only: hook {hook.id!r} would have said {_observed_text(decision, reason, outcome)}"
        observed, decision, reason = decision, "abstain", ""
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
        hold=hook.hold if decision == "ask" else None,
        observed=observed,
        model=outcome.model,
        limit=outcome.limit,
        facts=outcome.facts,
    )
    return outcome, part


def _observed_text(decision: Decision, reason: str, outcome: Outcome) -> str:
    more = ["changed " + ", ".join(sorted(outcome.updated_input))] if outcome.updated_input else []
    more += ["changed the output"] if outcome.updated_output is not None else []
    more += [f"ended the agent's work ({outcome.halt})"] if outcome.halt else []
    more += ["given context"] if outcome.contexts else []
    return " and ".join([f"{decision}: {reason}" if reason else decision, *more])


async def _redact_again(evaluation: Evaluation, tally: Tally, deadline: float) -> None:
    """Run the redaction rules on the output once more.

    A deny may have ended the chain before a rule ran, or another hook may have changed the output after it.
    """
    if tally.event.output is None:
        return
    for hook in evaluation.hooks:
        if hook.rule is None or not hook.rule.redact:
            continue
        outcome, part = await _run(evaluation, hook, tally.event, deadline)
        if outcome.updated_output is not None or outcome.failure:
            tally.add(hook, outcome, part, again=True)


async def _judge_changed_event(evaluation: Evaluation, changed: Event, tally: Tally, deadline: float) -> None:
    """Show the changed event to every rule, and to the hooks of the layers above the lowest layer that changed it.

    An `allow` counts only if it is about the changed event: the hook made the only change itself, or allows the event now.
    """
    hooks = await evaluation.hooks_for(changed) if evaluation.hooks_for else evaluation.hooks
    changers = {hook.id: hook for hook in tally.setters.values()}
    lowest = max(LAYERS.index(hook.layer) for hook in changers.values())
    allowed = any(set(changers) == {hook.id} for hook in tally.allowers)
    for hook in hooks:
        if hook.kind != "rule" and LAYERS.index(hook.layer) >= lowest:
            continue
        if time.monotonic() >= deadline:
            tally.drop_rewrite("no time was left to check it")
            return
        outcome, part = await _run(evaluation, hook, changed, deadline)
        if outcome.failure and time.monotonic() >= deadline:
            tally.drop_rewrite(f"hook {hook.id!r} had no time to check it")
            return
        if part.decision in {"deny", "ask"} or outcome.failure or outcome.note or outcome.charge:
            tally.add(hook, outcome, part, again=True)
        if tally.decision == "deny":
            return
        allowed = allowed or (part.decision == "allow" and hook.layer not in OPINIONS_ONLY)
    if not allowed:
        tally.take_back_allow("an allow does not count, because another hook changed the input after it")
