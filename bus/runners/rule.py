"""Runs hooks of the kind `rule`: no process, no waiting."""

from __future__ import annotations

from bus.events import Event
from bus.hooks import Hook
from bus.matching.checker_messages import Answer, answer_rule
from bus.matching.disk import full_disk
from bus.outcomes import NOTHING, Outcome
from bus.secrets.redaction import redact_text, redact_whole


class RuleRunner:
    """Judges an event by the hook's rule, in this thread and without a time limit."""

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:  # noqa: ARG002 - it never waits
        """The rule's decision if it fits, else abstain; never raises."""
        if hook.rule is None:
            return Outcome(failure=f"hook {hook.id!r} has no rule")
        return rule_outcome(hook, event, answer_rule(hook.id, hook.rule, event, full_disk()))


def rule_outcome(hook: Hook, event: Event, answer: Answer) -> Outcome:
    """A rule's outcome from its answer; a rule that could not be judged is a failure, and the failure policy decides."""
    rule = hook.rule
    if answer.failure or rule is None:
        return Outcome(failure=f"rule {hook.id!r}: {answer.failure or 'there is none'}")
    if not answer.fits:
        return NOTHING
    if rule.redact:
        return _redacted(event)
    if answer.doubt:
        named = f"it names `{answer.what}`, which rule {hook.id!r} looks for" if answer.what else f"rule {hook.id!r}"
        return Outcome(decision=rule.decision, reason=f"{answer.doubt} ({named})")
    reason = rule.reason or hook.description or f"rule {hook.id!r} decides {rule.decision}"
    if answer.what:
        reason = f"{reason.rstrip('.')} (matched: `{_shown(answer.what)}`)"
    return Outcome(decision=rule.decision, reason=reason, instead=rule.instead)


def _shown(what: str) -> str:
    """The part of the event that matched, without secrets. Where it was cut, the last word goes: it may be half a token."""
    if what.endswith("…") and " " in what:
        what = f"{what.rpartition(' ')[0]} …"
    return redact_text(what)


def _redacted(event: Event) -> Outcome:
    """The output without its secrets; NOTHING if it has none."""
    clean = redact_whole(event.output)
    if clean == event.output:
        return NOTHING
    return Outcome(updated_output=clean, note="secrets in the output were replaced before the model read it")
