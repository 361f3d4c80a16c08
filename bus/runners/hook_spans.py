"""The spans of hooks: `execute_hook` of OpenTelemetry's proposal for agents' hooks, and `fleethook.…` (docs/tracing.md)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hooks import Hook
from bus.outcomes import Outcome
from bus.tracing import spans
from bus.tracing.context import at_trace, trace_of

Run = Callable[[Hook, Event, float], Awaitable[Outcome]]
Attributes = dict[str, spans.Value]

_LATE: Final = ("timed out", "used up", "took too long", "(timeout)", "in time")
"""What a failure says whose reason is time."""


def event_attributes(event: Event) -> Attributes:
    """The attributes of every span about an event. Its input, output and data are in none."""
    return {
        "cloudevents.event_id": event.id,
        "cloudevents.event_source": f"/agents/{event.source}/{event.host}",
        "cloudevents.event_spec_version": "1.0",
        "cloudevents.event_type": f"dev.fleethook.{event.type.replace(':', '.')}",
        "gen_ai.agent.name": event.source,
        "gen_ai.conversation.id": event.session,
        "gen_ai.tool.name": event.native_tool or event.tool,
        "gen_ai.tool.call.id": event.call,
        "fleethook.agent.kind": event.source,
        "fleethook.hook.event": event.native or event.type,
    }


def hook_span(hook: Hook, event: Event, seconds: float, *, blocking: bool, began_ns: int | None = None) -> spans.Span:
    """The span of one run of a hook; hooks and requests below it get its context. `seconds` is how long it may run."""
    if not spans.is_on():
        return spans.Span(trace_of(event))
    policy = hook.on_failure or find_hooks(hook.dialect).policy or ""
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_hook",
        **event_attributes(event),
        "fleethook.handler.id": hook.id,
        "fleethook.handler.kind": hook.kind,
        "fleethook.handler.layer": hook.layer,
        "fleethook.blocking": blocking,
        "fleethook.deadline_ms": round(seconds * 1000),
        "fleethook.fail_mode": "closed" if policy in {"deny", "ask"} else "open" if policy else "",
    }
    if hook.kind == "rule":
        attributes |= {"fleethook.rule.id": hook.id, "fleethook.rule.version": hook.version}
    name = f"execute_hook {hook.id}"
    return spans.start(name, "internal", trace_of(event), attributes, event=event.id, began_ns=began_ns)


def traced(run: Run) -> Run:
    """`run` with a span for each hook; `run` itself without tracing. A rule gets a span only if it has something to say."""
    if not spans.is_on():
        return run

    async def run_in_span(hook: Hook, event: Event, seconds: float) -> Outcome:
        if hook.kind == "rule":
            began = time.time_ns()
            outcome = await run(hook, event, seconds)
            if outcome.decision != "abstain" or outcome.failure or outcome.updated_output is not None:
                with hook_span(hook, event, seconds, blocking=True, began_ns=began) as span:
                    note_outcome(span, outcome)
            return outcome
        with hook_span(hook, event, seconds, blocking=True) as span:
            outcome = await run(hook, at_trace(event, span.context), seconds)
            note_outcome(span, outcome)
        return outcome

    return run_in_span


def is_late(failure: str) -> bool:
    """Whether time is the reason of a failure."""
    return any(word in failure for word in _LATE)


def note_outcome(span: spans.Span, outcome: Outcome) -> None:
    """Add the outcome to the span of its hook."""
    late = is_late(outcome.failure)
    changed = outcome.updated_input or outcome.updated_output is not None
    verdict = "modify" if changed and outcome.decision in {"allow", "abstain"} else outcome.decision
    span.set({"fleethook.verdict": ("timeout" if late else "error") if outcome.failure else verdict})
    if outcome.model is not None:
        use = outcome.model
        span.set({"gen_ai.request.model": use.name, "fleethook.model.requests": use.requests})
        span.set({"gen_ai.usage.input_tokens": use.input_tokens, "gen_ai.usage.output_tokens": use.output_tokens})
    if outcome.exit_code is not None:
        span.set({"process.exit.code": outcome.exit_code})
    if outcome.failure:
        span.fail("timeout" if late else "hook_failed")
