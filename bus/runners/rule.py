"""Runs hooks of the kind `rule`: no process, no waiting."""

from __future__ import annotations

from bus.errors import FleethookError
from bus.events import Event
from bus.hooks import Hook
from bus.matching.rules import judge
from bus.redaction import redact_whole
from bus.runners import NOTHING, Outcome


class RuleRunner:
    """Judges an event by the hook's rule; a rule that cannot be judged is a failure, which the failure policy answers."""

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:  # noqa: ARG002  (it never waits)
        """The rule's decision where it fits, else abstain; never raises."""
        rule = hook.rule
        if rule is None:
            return Outcome(failure=f"hook {hook.id!r} has no rule")
        try:
            match = judge(rule, event)
        except FleethookError as error:
            return Outcome(failure=f"rule {hook.id!r}: {error}")
        except Exception as error:  # noqa: BLE001  (a library's surprise must not end the evaluator)
            return Outcome(failure=f"rule {hook.id!r} broke on this event: {type(error).__name__}")
        if match is None:
            return NOTHING
        if rule.redact:
            return _redacted(event)
        if match.doubt:
            named = f"it names `{match.what}`, which rule {hook.id!r} looks for"
            return Outcome(decision=rule.decision, reason=f"{match.doubt} ({named})")
        reason = rule.reason or hook.description or f"rule {hook.id!r} decides {rule.decision}"
        if match.what:
            reason = f"{reason.rstrip('.')} (matched: `{match.what}`)"
        return Outcome(decision=rule.decision, reason=reason, instead=rule.instead)


def _redacted(event: Event) -> Outcome:
    """The output without its secrets; nothing to say where it holds none."""
    clean = redact_whole(event.output)
    if clean == event.output:
        return NOTHING
    return Outcome(updated_output=clean, note="secrets in the output were replaced before the model read it")
