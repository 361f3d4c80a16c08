"""The engine: one event, its blocking hooks in order, one verdict (design, section 4)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from bus.events import STOPS, Event
from bus.hooks import LAYERS, Hook
from bus.runners import Outcome
from bus.verdicts import Decision, Part, Policy, Verdict, fallback_decision, strictest

Run = Callable[[Hook, Event, float], Awaitable[Outcome]]
"""Runs one hook within so many seconds; never raises for what the hook does."""

CONTEXT_BUDGET: Final = 10_000
"""Characters of injected context in all: above it Claude Code cuts silently (observed), so we cut and say so."""

TOGETHER: Final = frozenset({"claude", "ion"})
"""Dialects whose neighbouring hooks start together, as Claude Code starts them."""

_OPINIONS_ONLY: Final = frozenset({"project", "session"})
"""Layers whose `allow` counts as abstain: a cloned repository cannot switch off the user's own prompts."""


async def evaluate(
    event: Event, hooks: Sequence[Hook], run: Run, *, seconds: float, policy: Policy = "allow", version: str = "",
    layers: Sequence[str] = (), again: bool = False,
) -> Verdict:  # fmt: skip
    """The verdict of `hooks` (in order of layer, priority, position) on `event`, within `seconds`.

    Every hook sees the original event; the first deny ends the chain; the strictest decision wins. A hook that fails
    is answered for by its `on_failure`, else by `policy`. Rewrites are merged key by key and looked at again.
    `again` says that an evaluator died on this request, so hooks may run a second time.
    """
    start = time.monotonic()
    deadline = start + seconds
    tally = _Tally()
    for together in _groups(hooks):
        left = deadline - time.monotonic()
        ran = (
            await asyncio.gather(*(_run(hook, event, run, left, policy) for hook in together))
            if len(together) > 1
            else [await _run(together[0], event, run, left, policy)]
        )
        for hook, outcome, part in ran:
            tally.add(hook, outcome, part)
        if tally.decision == "deny":
            break
    if tally.rewrite and tally.decision != "deny":
        await _look_again(event, hooks, run, tally, deadline, policy)
    if again:
        tally.notes.append("an evaluator died while it ran these hooks: they may have run twice")
    verdict = tally.verdict(event, version, (time.monotonic() - start) * 1000)
    return msgspec.structs.replace(verdict, layers=tuple(layers), repeated=again)


class _Tally:
    """What has been said so far."""

    def __init__(self) -> None:
        self.decision: Decision = "abstain"
        self.reason = ""
        self.instead = ""
        self.contexts: list[str] = []
        self.rewrite: dict[str, Any] = {}
        self.rewriters: list[Hook] = []
        self.parts: list[Part] = []
        self.notes: list[str] = []

    def add(self, hook: Hook, outcome: Outcome, part: Part, *, again: bool = False) -> None:
        self.parts.append(part)
        decision = part.decision
        if decision == "allow" and (again or hook.layer in _OPINIONS_ONLY):
            decision = "abstain"
        if strictest(decision, self.decision) != self.decision:
            self.decision, self.reason, self.instead = decision, part.reason, outcome.instead
        if part.fallback:
            self.notes.append(f"{part.fallback}; its failure policy answered {part.decision}")
        if outcome.note:
            self.notes.append(outcome.note)
        if again:
            return
        self.contexts.extend(outcome.contexts)
        for key, value in (outcome.updated_input or {}).items():
            # Hooks run from the highest layer down, so whoever set a key first is never below the one who asks now.
            setter = next((one for one in self.rewriters if one.layer != hook.layer), None)
            if key in self.rewrite and setter is not None:
                self.notes.append(f"hook {hook.id!r} may not change {key!r}: a higher layer set it")
                continue
            self.rewrite[key] = value
        if outcome.updated_input:
            self.rewriters.append(hook)

    def verdict(self, event: Event, version: str, ms: float) -> Verdict:
        contexts, cut = _within_budget(self.contexts)
        if cut:
            self.notes.append(f"{cut} characters of context were cut: {CONTEXT_BUDGET} is the limit")
        deny = self.decision == "deny"
        return Verdict(
            decision=self.decision, event=event.id, reason=self.reason, instead=self.instead,
            contexts=contexts, updated_input=None if deny or not self.rewrite else self.rewrite,
            parts=tuple(self.parts), ms=round(ms, 3), version=version,
            notes=tuple(self.notes),
        )  # fmt: skip


def _groups(hooks: Sequence[Hook]) -> list[list[Hook]]:
    groups: list[list[Hook]] = []
    for together, run in groupby(hooks, key=lambda hook: hook.dialect in TOGETHER):
        if together:
            groups.append(list(run))
        else:
            groups.extend([hook] for hook in run)
    return groups


async def _run(hook: Hook, event: Event, run: Run, left: float, policy: Policy) -> tuple[Hook, Outcome, Part]:
    start = time.monotonic()
    if left <= 0:
        outcome = Outcome(failure=f"hook {hook.id!r} was not started: the budget is used up")
    else:
        outcome = await run(hook, event, min(hook.timeout, left))
    decision, reason = outcome.decision, outcome.reason
    if outcome.failure:
        # Stop-like events never fail closed: there a block makes the agent go on (design, section 3).
        own = "allow" if event.type in STOPS else hook.on_failure or policy
        decision = fallback_decision(own)
        reason = f"{outcome.failure}; its failure policy is {own}" if decision != "abstain" else ""
    if hook.observe and (decision != "abstain" or outcome.updated_input):
        note = f"observed only: hook {hook.id!r} would have said {decision}: {reason}"
        decision, reason, outcome = "abstain", "", Outcome(note=note)
    part = Part(
        hook=hook.id, decision=decision, layer=hook.layer, version=hook.version, reason=reason,
        ms=round((time.monotonic() - start) * 1000, 3), exit_code=outcome.exit_code, fallback=outcome.failure,
        origin=hook.origin, output=outcome.output,
    )  # fmt: skip
    return hook, outcome, part


async def _look_again(
    event: Event, hooks: Sequence[Hook], run: Run, tally: _Tally, deadline: float, policy: Policy
) -> None:
    """Show the changed event to every rule and to the hooks of the layers above the lowest that changed it."""
    lowest = max(LAYERS.index(hook.layer) for hook in tally.rewriters)
    changed = msgspec.structs.replace(event, input={**event.input, **tally.rewrite})
    for hook in hooks:
        if hook.kind != "rule" and LAYERS.index(hook.layer) >= lowest:
            continue
        left = deadline - time.monotonic()
        if left <= 0:
            keys = ", ".join(sorted(tally.rewrite))
            tally.rewrite.clear()
            tally.notes.append(f"the changed input ({keys}) was dropped: no time was left to look at it again")
            return
        _, outcome, part = await _run(hook, changed, run, left, policy)
        if part.decision in {"deny", "ask"}:
            tally.add(hook, outcome, part, again=True)
        if tally.decision == "deny":
            return


def _within_budget(contexts: Sequence[str]) -> tuple[tuple[str, ...], int]:
    kept: list[str] = []
    left, cut = CONTEXT_BUDGET, 0
    for text in contexts:
        if len(text) <= left:
            kept.append(text)
        else:
            cut += len(text) - left
            if left > 0:
                kept.append(text[:left])
        left = max(0, left - len(text))
    return tuple(kept), cut
