"""The outcomes of one event's hooks so far, combined into one verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from bus.events import STOPS, Event
from bus.hooks import Hook
from bus.outcomes import NOTHING, Outcome
from bus.tools import native_input
from bus.verdicts import Charge, Decision, Part, Verdict, strictest

CONTEXT_BUDGET: Final = 10_000
"""The most characters of all contexts together: Claude Code cuts more without a message (observed), so we cut and say so."""


OPINIONS_ONLY: Final = frozenset({"project", "session"})
"""Layers whose `allow` counts as abstain: a cloned repository cannot switch off the user's own prompts."""


_ABOVE: Final = Hook(id="layers above", on=(), layer="fleet")


_BELOW: Final = Hook(id="layers below", on=(), layer="user")
"""These two represent the hooks that another machine runs."""


class Tally:
    """The outcomes so far."""

    def __init__(self, event: Event, changes: Mapping[str, Any]) -> None:
        self.event = event
        """The event with its output as changed so far: the next hook reads that output, as the model will."""
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
        """The hook that set each field last, whatever the spelling of the field."""
        self.allowers: list[Hook] = []
        self.parts: list[Part] = []
        self.silent: dict[str, dict[str, int]] = {}
        self.notes: list[str] = []
        self.waiting: tuple[str, ...] = ()
        self.charges: list[Charge] = []
        """The limits that the call counts for, each once."""
        if changes:
            self._merge(_ABOVE, changes)

    def add(self, hook: Hook, outcome: Outcome, part: Part, *, again: bool = False) -> None:
        """Add one outcome; `again` marks a second look, which may only deny or ask."""
        if outcome is NOTHING:
            self.silent.setdefault(part.place, {})[part.hook] = round(part.ms * 1000)
            return
        if again:  # it was silent on the original event
            self.silent.get(part.place, {}).pop(part.hook, None)
        if outcome.charge is not None:
            if any(charge.counter == outcome.charge.counter for charge in self.charges):
                return  # the second look at the same call
            self.charges.append(outcome.charge)
        self.parts.append(part)
        refused = False if again or not outcome.updated_input else self._merge(hook, outcome.updated_input)
        decision = part.decision
        if decision == "allow" and (again or refused or hook.layer in OPINIONS_ONLY):
            decision = "abstain"
        if decision == "allow":
            self.allowers.append(hook)
        self._decide(decision, part.reason, outcome.instead)
        if part.fallback:
            # A failure policy `allow` gives the decision abstain.
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
        """Whether a deny ended the chain; at stop events all hooks run, because a deny makes the agent go on."""
        return self.decision == "deny" and self.event.type not in STOPS

    @property
    def updated_output(self) -> Any:
        """The output as it is now; None if no hook changed it."""
        return self.event.output if self.event.output is not self._output else None

    def change_output(self, output: object) -> None:
        """Set the changed output."""
        if output != self.event.output:
            self.event = msgspec.structs.replace(self.event, output=output)

    def conclude(self) -> None:
        """Apply what depends on all outcomes: a halt overrules a hook that denies a stop; permissions need an allow."""
        if self.halt and self.event.type in STOPS and self.decision == "deny":
            self.notes.append(f"the agent may stop: a hook said so ({self.halt}), although another wanted it to go on")
            self.decision, self.reason, self.instead = "abstain", "", ""
        if self.decision != "allow":
            self.permissions.clear()
        self.interrupt = self.interrupt and self.decision == "deny"

    def add_verdict(self, below: Verdict) -> None:
        """Add the verdict of the layers below, from the event's own host."""
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
        self.charges.extend(below.charges)
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
        """Keep the stricter decision. At stop events join the reasons of all denying hooks, because the model reads them."""
        if strictest(decision, self.decision) != self.decision:
            self.decision, self.reason, self.instead = decision, reason, instead
        elif decision == "deny" and self.event.type in STOPS:
            self.reason = _joined(self.reason, reason, "\n\n")
            self.instead = _joined(self.instead, instead, "; ")

    def _merge(self, hook: Hook, changes: Mapping[str, Any]) -> bool:
        """Merge the changes of `hook`; returns whether any was refused."""
        refused = False
        for key, value in changes.items():
            # Hooks run from the highest layer down, so the hook that set a field first is never in a lower layer.
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
        """Drop the changed input and an `allow`, which was for the changed input and not for the original."""
        self.notes.append(f"the changed input ({', '.join(sorted(self.rewrite))}) was dropped: {why}")
        self.rewrite.clear()
        self.take_back_allow("")

    def take_back_allow(self, why: str) -> None:
        """Turn an `allow` into abstain."""
        if self.decision == "allow":
            self.decision, self.reason = "abstain", ""
            if why:
                self.notes.append(why)

    def cut_contexts(self) -> tuple[str, ...]:
        """The contexts, cut to their budget; notes what was cut."""
        if not self.contexts:
            return ()
        contexts, cut = _within_budget(self.contexts)
        if cut:
            self.notes.append(f"{cut} characters of context were cut: {CONTEXT_BUDGET} is the limit")
        return contexts


def _joined(text: str, more: str, between: str) -> str:
    """Both texts joined, each part once."""
    return between.join(dict.fromkeys(part for part in (*text.split(between), more) if part))


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
