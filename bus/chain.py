"""The engine: one event, its blocking hooks in order, one verdict (design, section 4)."""

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
from bus.tools import canonical_input, native_input
from bus.verdicts import Decision, Part, Policy, Verdict, fallback_decision, strictest

log = logging.getLogger("fleethook.chain")

Run = Callable[[Hook, Event, float], Awaitable[Outcome]]
"""Runs one hook within so many seconds; never raises for what the hook does, OverBudget where it may not run here."""

Elsewhere = Callable[[Event, float, Mapping[str, Any]], Awaitable[Verdict]]
"""What the lower layers say of the event that only its own host has: within so many seconds, given the changes so far."""

Refit = Callable[[Event], Awaitable[Sequence[Hook]]]
"""The blocking hooks that fit an event, in order: a changed input may fit a rule that the original one did not."""

CONTEXT_BUDGET: Final = 10_000
"""Characters of injected context in all: above it Claude Code cuts silently (observed), so we cut and say so."""

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

_OPINIONS_ONLY: Final = frozenset({"project", "session"})
"""Layers whose `allow` counts as abstain: a cloned repository cannot switch off the user's own prompts."""


async def evaluate(
    event: Event, hooks: Sequence[Hook], run: Run, *, seconds: float, policy: Policy = "allow", version: str = "",
    layers: Sequence[str] = (), again: bool = False, refit: Refit | None = None,
    changes: Mapping[str, Any] | None = None, elsewhere: Elsewhere | None = None, notes: Sequence[str] = (),
) -> Verdict:  # fmt: skip
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
    tally = _Tally(event, changes or {})
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
        decision=tally.decision, event=event.id, reason=tally.reason, instead=tally.instead,
        contexts=contexts, updated_input=tally.rewrite if tally.rewrite and tally.decision != "deny" else None,
        updated_output=tally.updated_output, halt=tally.halt, permissions=tuple(tally.permissions),
        interrupt=tally.interrupt, parts=tuple(tally.parts),
        silent={place: rules for place, rules in tally.silent.items() if rules},
        ms=round((time.monotonic() - start) * 1000, 3),
        version=version, layers=tuple(layers), notes=tuple(tally.notes), waiting=tally.waiting, repeated=again,
    )  # fmt: skip


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


_ABOVE: Final = Hook(id="layers above", on=(), layer="fleet")
_BELOW: Final = Hook(id="layers below", on=(), layer="user")
"""Who set what where the hooks themselves are on another machine."""


class _Tally:
    """What has been said so far."""

    def __init__(self, event: Event, changes: Mapping[str, Any]) -> None:
        self.event = event
        """With the output as hooks have changed it so far: the next one reads that, as the model will."""
        self._output = event.output
        self.halt = ""
        self.permissions: list[dict[str, Any]] = []
        self.interrupt = False
        self.decision: Decision = "abstain"
        self.reason = ""
        self.instead = ""
        self.contexts: list[str] = []
        self.rewrite: dict[str, Any] = {}
        self.setters: dict[str, Hook] = {}
        """By field, whatever its spelling: who set it last."""
        self.allowers: list[Hook] = []
        self.parts: list[Part] = []
        self.silent: dict[str, dict[str, int]] = {}
        self.notes: list[str] = []
        self.waiting: tuple[str, ...] = ()
        if changes:
            self._merge(_ABOVE, changes)

    def add(self, hook: Hook, outcome: Outcome, part: Part, *, again: bool = False) -> None:
        """Count one outcome in; `again` for a second look, which may only deny or ask."""
        if outcome is NOTHING:
            self.silent.setdefault(part.place, {})[part.hook] = round(part.ms * 1000)
            return
        if again:  # it had nothing to say to the event as it was
            self.silent.get(part.place, {}).pop(part.hook, None)
        self.parts.append(part)
        refused = False if again or not outcome.updated_input else self._merge(hook, outcome.updated_input)
        decision = part.decision
        if decision == "allow" and (again or refused or hook.layer in _OPINIONS_ONLY):
            decision = "abstain"
        if decision == "allow":
            self.allowers.append(hook)
        self._decide(decision, part.reason, outcome.instead)
        if part.fallback:
            # A policy `allow` shows as abstain: nobody objected.
            policy = "allow" if part.decision == "abstain" else part.decision
            self.notes.append(f"{part.fallback}; its failure policy is {policy}")
        if outcome.note:
            self.notes.append(outcome.note)
        if not again:
            self.contexts.extend(outcome.contexts)
            self.halt = self.halt or outcome.halt
            self.interrupt = self.interrupt or outcome.interrupt
            self.permissions.extend(outcome.permissions if decision == "allow" else ())
        if outcome.updated_output is not None:
            self.change_output(outcome.updated_output)

    @property
    def ended(self) -> bool:
        """Whether nobody else needs to be asked: a deny is the last word, but where it makes the agent go on."""
        return self.decision == "deny" and self.event.type not in STOPS

    @property
    def updated_output(self) -> Any:  # noqa: ANN401 - anything that JSON can say
        """The output as it is now; None where nobody changed it."""
        return self.event.output if self.event.output is not self._output else None

    def change_output(self, output: object) -> None:
        """Take over a changed output."""
        if output != self.event.output:
            self.event = msgspec.structs.replace(self.event, output=output)

    def conclude(self) -> None:
        """Let a halt win over hooks that want a stopping agent to go on, and permissions go without their allow."""
        if self.halt and self.event.type in STOPS and self.decision == "deny":
            self.notes.append(f"the agent may stop: a hook said so ({self.halt}), although another wanted it to go on")
            self.decision, self.reason, self.instead = "abstain", "", ""
        if self.decision != "allow":
            self.permissions.clear()
        self.interrupt = self.interrupt and self.decision == "deny"

    def join(self, below: Verdict) -> None:
        """Count in what the layers below said together, on the event's own host."""
        self.halt = self.halt or below.halt
        self.permissions.extend(below.permissions)
        self.interrupt = self.interrupt or below.interrupt
        if below.updated_output is not None:
            self.change_output(below.updated_output)
        self.parts.extend(below.parts)
        for place, rules in below.silent.items():
            self.silent.setdefault(place, {}).update(rules)
        self.notes.extend(below.notes)
        self.waiting = below.waiting
        self.contexts.extend(below.contexts)
        changes = {
            k: v for k, v in (below.updated_input or {}).items() if k not in self.rewrite or self.rewrite[k] != v
        }
        refused = self._merge(_BELOW, changes)
        decision: Decision = "abstain" if below.decision == "allow" and refused else below.decision
        if decision == "allow":
            self.allowers.append(_BELOW)
        self._decide(decision, below.reason, below.instead)

    def _decide(self, decision: Decision, reason: str, instead: str) -> None:
        """Let a stricter decision win, and join what hooks want done before their agent stops: the model reads all of it."""
        if strictest(decision, self.decision) != self.decision:
            self.decision, self.reason, self.instead = decision, reason, instead
        elif decision == "deny" and self.event.type in STOPS:
            self.reason = _joined(self.reason, reason, "\n\n")
            self.instead = _joined(self.instead, instead, "; ")

    def _merge(self, hook: Hook, changes: Mapping[str, Any]) -> bool:
        """Take over what `hook` changes; whether any of it was refused."""
        refused = False
        for key, value in changes.items():
            # Hooks run from the highest layer down, so whoever set a field first is never below the one who asks now.
            field = next(iter(native_input(self.event.source, self.event.native_tool, {key: value}, {})), key)
            setter = self.setters.get(field)
            if setter is not None and setter.layer != hook.layer:
                self.notes.append(f"hook {hook.id!r} may not change {key!r}: a higher layer set it")
                refused = True
                continue
            self.rewrite[key] = value
            self.setters[field] = hook
        return refused

    def drop_rewrite(self, why: str) -> None:
        """Forget the changed input, and an `allow` with it: it was given for something else than the original."""
        self.notes.append(f"the changed input ({', '.join(sorted(self.rewrite))}) was dropped: {why}")
        self.rewrite.clear()
        self.take_back_allow("")

    def take_back_allow(self, why: str) -> None:
        """Let an `allow` count as abstain."""
        if self.decision == "allow":
            self.decision, self.reason = "abstain", ""
            if why:
                self.notes.append(why)

    def told(self) -> tuple[str, ...]:
        """The contexts, within their budget."""
        if not self.contexts:
            return ()
        contexts, cut = _within_budget(self.contexts)
        if cut:
            self.notes.append(f"{cut} characters of context were cut: {CONTEXT_BUDGET} is the limit")
        return contexts


def _joined(text: str, more: str, between: str) -> str:
    """Both texts, each once."""
    return between.join(dict.fromkeys(part for part in (*text.split(between), more) if part))


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
        # Stop-like events never fail closed: there a block makes the agent go on (design, section 3).
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
        hook=hook.id, decision=decision, layer=hook.layer, version=hook.version, reason=reason,
        ms=round((time.monotonic() - start) * 1000, 3), exit_code=outcome.exit_code, fallback=outcome.failure,
        origin=hook.origin, output=outcome.output,
    )  # fmt: skip
    return hook, outcome, part


def _said(decision: Decision, reason: str, outcome: Outcome) -> str:
    more = ["changed " + ", ".join(sorted(outcome.updated_input))] if outcome.updated_input else []
    more += ["changed the output"] if outcome.updated_output is not None else []
    more += [f"ended the agent's work ({outcome.halt})"] if outcome.halt else []
    more += ["given context"] if outcome.contexts else []
    return " and ".join([f"{decision}: {reason}" if reason else decision, *more])


async def _redact_again(
    hooks: Sequence[Hook], run: Run, tally: _Tally, deadline: float, policy: Policy, *, ended: bool
) -> None:
    """Show the output to redaction rules that a deny kept from it, or below which a hook has changed it."""
    if tally.event.output is None or not (ended or tally.updated_output is not None):
        return
    for hook in (hook for hook in hooks if hook.rule is not None and hook.rule.redact):
        _, outcome, part = await _run(hook, tally.event, run, deadline, policy)
        if outcome.updated_output is not None or outcome.failure:
            tally.add(hook, outcome, part, again=True)


async def _look_again(
    changed: Event, hooks: Sequence[Hook], run: Run, tally: _Tally, deadline: float, policy: Policy
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
        allowed = allowed or (part.decision == "allow" and hook.layer not in _OPINIONS_ONLY)
    if not allowed:
        tally.take_back_allow("an allow was for the input as it was before another hook changed it; it does not count")


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
