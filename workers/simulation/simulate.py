"""One event through hooks without side effects: the verdict, every hook's part, and what would have been started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.in_force import HookSet
from bus.lazy.conversions import converted
from bus.memory.replayed import ReplayedMemory, remembers
from bus.runners.model import model_name
from bus.secrets.redaction import redact, redact_text, redact_url
from bus.verdicts import Part, Policy, Verdict
from workers.admin.dry_run import Known, open_judge
from workers.admin.workflows.dry import DryWorkflows
from workers.records.hook_list import hook_record

AS_NOW: Final = "limits and facts of the session are as they are now, and nothing was counted"
AFTER_HISTORY: Final = "limits and facts of the session are those after the given events"
HISTORY_SECONDS: Final = 10.0
"""How long the verdict on one of the events before may take."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook starts outside of the verdict: a command, a request or a question to a model."""

    hook: str
    kind: Literal["command", "http", "plugin", "prompt", "agent", "webhook", "workflow"]
    target: str
    """The command, the plugin, the URL that gets the event, or the model that is asked; redacted."""
    when: Literal["before", "after"]
    """`before` the verdict, which waits for it, or in the background `after` it."""
    ran: bool = False


class Simulation(NamedTuple):
    """What the hooks would say to an event, and what they would start."""

    event: Event
    hooks: HookSet
    fitting: tuple[Hook, ...]
    """The blocking hooks that fit the event, in order."""
    verdict: Verdict
    effects: tuple[Effect, ...]

    @property
    def unknown(self) -> tuple[str, ...]:
        """The blocking hooks that were not run, so that the verdict is without their decisions."""
        return tuple(effect.hook for effect in self.effects if effect.when == "before" and not effect.ran)


async def simulate(
    event: Event,
    hooks: HookSet,
    *,
    run: bool,
    seconds: float,
    policy: Policy,
    workflows: DryWorkflows | None = None,
    known: Known | None = None,
) -> Simulation:
    """Judge an event; with `run`, blocking commands and http hooks are run too. Nothing is recorded or delivered.

    `workflows` has the states of the session's workflows, and `known` what limits and facts know; without them, the session
    is a new one.
    """
    flows = workflows or DryWorkflows()
    async with open_judge(hooks, effects=run, seconds=seconds, policy=policy, workflows=flows) as judge:
        fitting, verdict = await judge(event, known)
    if known is not None and any(map(remembers, fitting)):
        note = AFTER_HISTORY if isinstance(known, ReplayedMemory) else AS_NOW
        verdict = msgspec.structs.replace(verdict, notes=(*verdict.notes, note))
    # A hook after the first deny is not started, with or without `run`.
    taking_part = {part.hook: part for part in verdict.parts}
    effects = (*_flow_effects(flows), *_effects(event, hooks, fitting, taking_part, verdict, run=run))
    return Simulation(event, hooks, tuple(fitting), verdict, effects)


async def pass_through(
    history: Sequence[Event], hooks: HookSet, workflows: DryWorkflows, known: ReplayedMemory, *, policy: Policy
) -> None:
    """Let limits, facts and workflows know these events, one after the other; nothing is run."""
    seconds = HISTORY_SECONDS
    async with open_judge(hooks, effects=False, seconds=seconds, policy=policy, workflows=workflows) as judge:
        for event in history:
            workflows.begin(event)
            _, verdict = await judge(event, known)
            known.note(event, denied=verdict.decision == "deny")


def _effects(
    event: Event, hooks: HookSet, fitting: list[Hook], parts: dict[str, Part], verdict: Verdict, *, run: bool
) -> Iterator[Effect]:
    for hook in fitting:
        if hook.kind not in {"rule", "workflow"} and hook.id in parts:
            yield _effect(hook, hooks, "before", ran=run)
    for hook in (*hooks.background(event, verdict), *hooks.observers(event, verdict)):
        yield _effect(hook, hooks, "after")
    for endpoint in hooks.targets(event, verdict):
        yield Effect(hook=endpoint.id, kind="webhook", target=redact_url(endpoint.url), when="after")


def _flow_effects(workflows: DryWorkflows) -> Iterator[Effect]:
    """What workflows would start: they themselves were run, without effects."""
    for hook, texts in workflows.would.items():
        for text in texts:
            yield Effect(
                hook=hook, kind="workflow", target=text, when="after" if "afterwards" in text else "before", ran=True
            )


def _effect(hook: Hook, hooks: HookSet, when: Literal["before", "after"], *, ran: bool = False) -> Effect:
    prompt = hook.agent or hook.prompt
    if prompt is not None:
        server = hooks.model
        target = (
            f"{model_name(hook, prompt, server)} at {redact_url(server.url)}" if server else "no model is configured"
        )
        return Effect(hook=hook.id, kind="prompt" if hook.agent is None else "agent", target=target, when=when, ran=ran)
    if hook.kind == "plugin":
        return Effect(hook=hook.id, kind="plugin", target=hook.plugin, when=when, ran=ran)
    if hook.http is not None:
        return Effect(hook=hook.id, kind="http", target=redact_url(hook.http.url), when=when, ran=ran)
    if hook.handler is not None:
        name = f"{hook.plugin}.{hook.handler.method}" if hook.handler.method else hook.plugin
        return Effect(hook=hook.id, kind="plugin", target=name, when=when, ran=ran)
    line = " ".join((hook.command, *hook.args))
    return Effect(hook=hook.id, kind="command", target=redact_text(line), when=when, ran=ran)


def simulation_record(found: Simulation) -> dict[str, Any]:
    """A simulation as `--json` and MCP give it; secrets are redacted."""
    return {
        "event": redact(msgspec.to_builtins(found.event)),
        "verdict": redact({"decision": found.verdict.decision, **msgspec.to_builtins(found.verdict)}),
        "version": found.hooks.version,
        "matched": [hook_record(hook) for hook in found.fitting],
        "effects": [msgspec.to_builtins(effect) for effect in found.effects],
        "unknown": list(found.unknown),
    }


def redacted_verdict(verdict: Verdict) -> Verdict:
    """The verdict without secrets that a rule or hook quoted from the event."""
    return converted(redact(msgspec.to_builtins(verdict)), Verdict)
