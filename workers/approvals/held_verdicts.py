"""The verdicts of held calls, with their texts for the agent. A question without an answer never reads as a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from bus.verdicts import Approval, Part, Verdict, fallback_decision
from bus.verdicts import Policy as Default

_STRICTEST: Final[dict[Default, int]] = {"allow": 0, "ask": 1, "deny": 2}
_NO_PERSON: Final = "No person has refused this call."


def held_parts(verdict: Verdict) -> tuple[Part, ...]:
    """The parts of a verdict whose `ask` waits for a person; empty if it is not to be held."""
    if verdict.decision != "ask":
        return ()
    return tuple(part for part in verdict.parts if part.decision == "ask" and part.hold is not None)


def default_of(parts: Sequence[Part]) -> Default:
    """The strictest default of the hooks that ask."""
    return max((part.hold.default for part in parts if part.hold is not None), key=_STRICTEST.__getitem__)


def approved(verdict: Verdict, approval: Approval) -> Verdict:
    """The verdict after an approval: allow, or ask if another hook wants the agent itself to ask."""
    left = [part for part in verdict.parts if part.decision == "ask" and part.hold is None]
    late = " to an earlier call that was the same" if approval.ticket else ""
    reason = f"{approval.by} said yes{late}{_comment(approval)}"
    if left:
        return _with(verdict, approval, decision="ask", reason=f"{left[0].reason} ({reason})")
    return _with(verdict, approval, decision="allow", reason=reason, instead="")


def denied(verdict: Verdict, approval: Approval) -> Verdict:
    """The verdict after a person's refusal."""
    reason = f"{approval.by} said no to this call{_comment(approval)}. {verdict.reason}"
    return _with(verdict, approval, decision="deny", reason=reason)


def unanswered(verdict: Verdict, approval: Approval, why: str) -> Verdict:
    """The verdict without a person's answer, by the default of the hooks; `why` is a whole sentence."""
    default = default_of(held_parts(verdict))
    reason = f"{why} {_NO_PERSON} The default of the rule is {default}. {verdict.reason}"
    decision = fallback_decision(default)
    if decision == "abstain":
        kept = [part.reason for part in verdict.parts if part.decision == "ask" and part.hold is None]
        if kept:
            return _with(verdict, approval, decision="ask", reason=kept[0])
        return _with(verdict, approval, decision="abstain", reason="", instead="", notes=(*verdict.notes, reason))
    return _with(verdict, approval, decision=decision, reason=reason)


def still_waiting(verdict: Verdict, approval: Approval) -> Verdict:
    """The verdict if the agent's time ends before the question: a deny with a ticket."""
    reason = (
        f"Nobody has answered yet whether this call may run, and the agent can wait no longer. {_NO_PERSON} "
        f"The question {approval.question} goes on: within ten minutes of a yes, the same call passes once. {verdict.reason}"
    )
    return _with(
        verdict,
        approval,
        decision="deny",
        reason=reason,
        instead="go on with other work and try the same call again later",
    )


def provisional(verdict: Verdict, approval: Approval, *, question_goes_on: bool) -> Verdict:
    """The verdict that counts if no other one reaches the agent in time: its caller keeps it while it waits.

    Evaluators may be late and the server may go away, and then the failure policy must not let the call pass.
    """
    why = "No answer to the question about this call has reached the agent in time."
    if question_goes_on:
        reason = f"{why} {_NO_PERSON} {verdict.reason}"
        found = _with(verdict, approval, decision="deny", reason=reason, instead="try the same call again later")
    else:
        found = unanswered(verdict, approval, why)
    return msgspec.structs.replace(found, fallback="no answer came in time for a call that waits for a person")


def overtaken(verdict: Verdict, approval: Approval, newer: Verdict) -> Verdict:
    """The verdict if a rule now denies the call that a person approved."""
    overtaken_approval = msgspec.structs.replace(approval, state="overtaken")
    reason = f"The question was overtaken: {approval.by} said yes, and by now a rule denies the call. {newer.reason}"
    return msgspec.structs.replace(
        _with(verdict, overtaken_approval, decision="deny", reason=reason, instead=newer.instead),
        parts=(*verdict.parts, *(part for part in newer.parts if part.decision == "deny")),
        version=newer.version,
    )


def overtaken_by_rules(verdict: Verdict, approval: Approval) -> Verdict:
    """The verdict of a repeated request which the hooks decide by now, while its question waits."""
    if verdict.decision != "deny" or verdict.stop:
        return msgspec.structs.replace(verdict, approval=approval)
    reason = f"The question was overtaken: by now a rule denies the call. {verdict.reason}"
    return msgspec.structs.replace(verdict, approval=approval, reason=reason)


def _with(verdict: Verdict, approval: Approval, **changes: object) -> Verdict:
    if changes["decision"] == "deny":
        changes["updated_input"] = None
    return msgspec.structs.replace(verdict, approval=approval, **changes)


def _comment(approval: Approval) -> str:
    return f": {approval.comment}" if approval.comment else ""
