"""Runs hooks of the kind `rule`: no process, no waiting."""

from __future__ import annotations

from bus.events import Event
from bus.hooks import Hook
from bus.matching.checker_messages import ItemAnswer, answer_rule
from bus.matching.disk import full_disk
from bus.matching.limits import limit_words, read_limit
from bus.matching.rule_fields import Rule, RuleDecision
from bus.outcomes import NOTHING, Outcome
from bus.secrets.redaction import redact_text, redact_whole
from bus.verdicts import Charge, LimitUse


class RuleRunner:
    """Judges an event by the hook's rule, in this thread and without a time limit."""

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:  # noqa: ARG002 - it never waits
        """The rule's decision if it fits, else abstain; never raises."""
        if hook.rule is None:
            return Outcome(failure=f"hook {hook.id!r} has no rule")
        return rule_outcome(hook, event, answer_rule(hook.id, hook.rule, event, full_disk()))


def rule_outcome(hook: Hook, event: Event, answer: ItemAnswer) -> Outcome:
    """A rule's outcome from its answer; a rule that could not be judged is a failure, and the failure policy decides."""
    rule = hook.rule
    if answer.failure or rule is None:
        return Outcome(failure=f"rule {hook.id!r}: {answer.failure or 'there is none'}")
    if not answer.fits:
        return NOTHING
    if rule.redact:
        return _redacted(event)
    if rule.limit:
        return _limited(hook, rule)
    if answer.doubt:
        named = f"it names `{answer.what}`, which rule {hook.id!r} looks for" if answer.what else f"rule {hook.id!r}"
        return decided(rule.decision, f"{answer.doubt} ({named})")
    reason = _reason(hook, rule)
    if answer.what:
        reason = f"{reason.rstrip('.')} (matched: `{_shown(answer.what)}`)"
    return decided(rule.decision, reason, rule.instead)


def decided(decision: RuleDecision, reason: str, instead: str = "") -> Outcome:
    """The outcome of a rule that decides; a warning lets the call go on, and the model and the user read it."""
    if decision == "warn":
        text = f"{reason.rstrip('.')}. {instead[:1].upper()}{instead[1:]}" if instead else reason
        return Outcome(reason=reason, contexts=(text,), note=text)
    return Outcome(decision=decision, reason=reason, instead=instead)


def _reason(hook: Hook, rule: Rule) -> str:
    return rule.reason or hook.description or f"rule {hook.id!r} decides {rule.decision}"


def _limited(hook: Hook, rule: Rule) -> Outcome:
    """The outcome of a rule with a limit: whether that is reached is only known where the call is counted, with its answer."""
    charge = Charge(
        hook=hook.id,
        layer=hook.layer,
        counter=counter_of(hook),
        limit=rule.limit,
        decision=rule.decision,
        reason=_reason(hook, rule),
        instead=rule.instead,
        hold=hook.hold,
        observe=hook.observe,
        on_failure=hook.on_failure or "allow",
    )
    return Outcome(limit=LimitUse(limit=limit_words(rule.limit), most=read_limit(rule.limit).most), charge=charge)


def counter_of(hook: Hook) -> str:
    """What identifies a rule for its counters: its layer and id; in a file of one machine also the file."""
    file = "" if hook.layer == "fleet" else hook.origin.rpartition(":")[0]
    return f"{hook.layer}\n{hook.id}\n{file}"


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
