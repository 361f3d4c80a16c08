"""What the model is told about a held call. A missing answer is never reported as a person's no (X-03)."""

from __future__ import annotations

import msgspec
import pytest

from bus.verdicts import Approval, ApprovalState, Hold, Part, Policy, Verdict
from workers.approvals import held_verdicts

pytestmark = pytest.mark.req("X-03")

HELD = Part(hook="deploys", decision="ask", hold=Hold(default="deny"))
PLAIN = Part(hook="plain", decision="ask", reason="The agent asks")
ASKED = Verdict(decision="ask", reason="Deploys need a person.", parts=(HELD,), updated_input={"command": "x"})


def answered(state: ApprovalState, **more: object) -> Approval:
    """An approval in this state."""
    return msgspec.structs.replace(Approval(question="e1", state=state), **more)


def holding(*defaults: Policy) -> Verdict:
    """A verdict whose rules have these defaults."""
    parts = [Part(hook=f"h{n}", decision="ask", hold=Hold(default=one)) for n, one in enumerate(defaults)]
    return msgspec.structs.replace(ASKED, parts=tuple(parts))


def test_only_an_ask_is_held() -> None:
    assert held_verdicts.held_parts(ASKED) == (HELD,)
    assert held_verdicts.held_parts(msgspec.structs.replace(ASKED, decision="deny")) == ()
    assert held_verdicts.held_parts(msgspec.structs.replace(ASKED, parts=(PLAIN,))) == ()


@pytest.mark.parametrize(
    ("defaults", "decision"),
    [(("allow",), "abstain"), (("ask",), "ask"), (("allow", "ask"), "ask"), (("ask", "deny", "allow"), "deny")],
)
def test_the_strictest_default_counts(defaults: tuple[Policy, ...], decision: str) -> None:
    verdict = held_verdicts.unanswered(holding(*defaults), answered("timed_out"), "Nobody answered within 5 s.")
    assert verdict.decision == decision
    told = verdict.reason or verdict.notes[-1]
    assert told.startswith("Nobody answered within 5 s. No person has refused this call.")


def test_what_counts_if_no_answer_comes_is_a_deny_while_the_question_goes_on() -> None:
    verdict = held_verdicts.provisional(holding("allow"), answered("waiting"), question_goes_on=True)
    assert (verdict.decision, verdict.updated_input) == ("deny", None)
    assert "No person has refused this call." in verdict.reason
    assert verdict.fallback
    ended = held_verdicts.provisional(holding("ask"), answered("waiting"), question_goes_on=False)
    assert ended.decision == "ask", "the default of the rule: the question ends when the agent's time does"
    assert ended.fallback


def test_a_yes_allows_with_the_changed_input() -> None:
    verdict = held_verdicts.approved(ASKED, answered("approved", by="ana", comment="go"))
    assert (verdict.decision, verdict.updated_input) == ("allow", {"command": "x"})
    assert verdict.reason == "ana said yes: go"


def test_a_yes_leaves_the_ask_of_another_hook() -> None:
    verdict = held_verdicts.approved(
        msgspec.structs.replace(ASKED, parts=(HELD, PLAIN)), answered("approved", by="ana", ticket=True)
    )
    assert verdict.decision == "ask"
    assert verdict.reason == "The agent asks (ana said yes to an earlier call that was the same)"


def test_a_no_names_the_person_and_drops_the_changes() -> None:
    verdict = held_verdicts.denied(ASKED, answered("denied", by="ana"))
    assert (verdict.decision, verdict.updated_input) == ("deny", None)
    assert verdict.reason.startswith("ana said no to this call.")


def test_a_question_that_goes_on_is_no_refusal() -> None:
    verdict = held_verdicts.still_waiting(ASKED, answered("waiting"))
    assert verdict.decision == "deny"
    assert "No person has refused this call." in verdict.reason
    assert "the same call passes once" in verdict.reason


def test_a_newer_deny_says_so() -> None:
    newer = Verdict(decision="deny", reason="It is over.", parts=(Part(hook="no", decision="deny"),))
    verdict = held_verdicts.overtaken(ASKED, answered("approved", by="ana"), newer)
    assert verdict.approval is not None
    assert (verdict.decision, verdict.approval.state, verdict.parts[-1].hook) == ("deny", "overtaken", "no")
    again = held_verdicts.overtaken_by_rules(newer, answered("overtaken"))
    assert again.reason == "The question was overtaken: by now a rule denies the call. It is over."
    gone = held_verdicts.overtaken_by_rules(Verdict(decision="abstain"), answered("overtaken"))
    assert (gone.decision, gone.reason) == ("abstain", "")
